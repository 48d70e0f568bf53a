//! Where time and randomness come from: the system, or a fixed start when runs must repeat.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use rand_chacha::ChaCha12Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use super::errno::{Errno, Result};

/// Deterministic runs begin at 2000-01-01T00:00:00Z.
const FIXED_START_NS: u64 = 946_684_800_000_000_000;

/// Every look at a deterministic clock moves it on by this much, so that loops waiting for time to
/// pass come to an end.
const FIXED_STEP_NS: u64 = 1_000;

pub enum Clock {
    System { started: Instant },
    Fixed { elapsed_ns: u64 },
}

impl Clock {
    pub fn new(deterministic: bool) -> Clock {
        if deterministic {
            Clock::Fixed { elapsed_ns: 0 }
        } else {
            Clock::System { started: Instant::now() }
        }
    }

    /// Nanoseconds of WASI's clock `id`: 0 is the time of day, the others only measure.
    pub fn now(&mut self, id: u32) -> Result<u64> {
        let of_day = match id {
            0 => true,
            1..=3 => false,
            _ => return Err(Errno::INVAL),
        };
        match self {
            Clock::System { started } if !of_day => u64::try_from(started.elapsed().as_nanos()),
            Clock::System { .. } => {
                let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                u64::try_from(since.as_nanos())
            }
            Clock::Fixed { elapsed_ns } => {
                *elapsed_ns = elapsed_ns.saturating_add(FIXED_STEP_NS);
                Ok(if of_day { FIXED_START_NS.saturating_add(*elapsed_ns) } else { *elapsed_ns })
            }
        }
        .map_err(|_| Errno::OVERFLOW)
    }

    /// Lets a deterministic clock pass a wait at once; `false` means that the wait must be real.
    pub fn skip(&mut self, ns: u64) -> bool {
        match self {
            Clock::System { .. } => false,
            Clock::Fixed { elapsed_ns } => {
                *elapsed_ns = elapsed_ns.saturating_add(ns);
                true
            }
        }
    }
}

pub enum Random {
    System,
    Seeded(Box<ChaCha12Rng>),
}

impl Random {
    pub fn new(deterministic: bool) -> Random {
        if deterministic {
            Random::Seeded(Box::new(ChaCha12Rng::seed_from_u64(0)))
        } else {
            Random::System
        }
    }

    pub fn fill(&mut self, bytes: &mut [u8]) -> Result<()> {
        match self {
            Random::System => getrandom::fill(bytes).map_err(|_| Errno::IO),
            Random::Seeded(generator) => {
                generator.fill_bytes(bytes);
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deterministic_sources_repeat_and_the_clock_moves() {
        let look = || {
            let (mut clock, mut random) = (Clock::new(true), Random::new(true));
            let mut bytes = [0; 8];
            random.fill(&mut bytes).unwrap();
            (clock.now(0), clock.now(0), clock.now(1), bytes)
        };
        assert_eq!(look(), look());
        assert!(look().1.unwrap() > look().0.unwrap());
    }

    #[test]
    fn unknown_clocks_are_refused() {
        assert_eq!(Clock::new(false).now(4), Err(Errno::INVAL));
    }
}
