//! Where time and randomness come from: the system, or a fixed start when runs must repeat.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rand_chacha::ChaCha12Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use serde::{Deserialize, Serialize};

use super::errno::{Errno, Result};

/// Deterministic runs begin at 2000-01-01T00:00:00Z.
const FIXED_START_NS: u64 = 946_684_800_000_000_000;

/// No session is away for longer than a century, whatever its file says.
const LONGEST_AWAY_NS: u64 = 100 * 366 * 24 * 3600 * 1_000_000_000;

/// Every look at a deterministic clock moves it on by this much, so that loops waiting for time to
/// pass come to an end.
const FIXED_STEP_NS: u64 = 1_000;

#[derive(Clone)]
pub enum Clock {
    /// What a guest measures begins at `earlier_ns`: a session that was saved goes on from there.
    System {
        started: Instant,
        earlier_ns: u64,
    },
    Fixed {
        elapsed_ns: u64,
    },
}

/// A clock as it is saved with a session.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum SavedClock {
    /// When it was, by both clocks of the guest.
    System {
        measured_ns: u64,
        unix_ns: u64,
    },
    Fixed {
        elapsed_ns: u64,
    },
}

impl Clock {
    pub fn new(deterministic: bool) -> Clock {
        if deterministic {
            Clock::Fixed { elapsed_ns: 0 }
        } else {
            Clock::System { started: Instant::now(), earlier_ns: 0 }
        }
    }

    pub fn save(&self) -> SavedClock {
        match self {
            Clock::System { started, earlier_ns } => SavedClock::System {
                measured_ns: earlier_ns.saturating_add(nanos(started.elapsed())),
                unix_ns: unix_ns(),
            },
            Clock::Fixed { elapsed_ns } => SavedClock::Fixed { elapsed_ns: *elapsed_ns },
        }
    }

    /// A clock that goes on where the saved one was. The time in between has passed for the guest
    /// too: what was to happen in a minute is due when the session comes back after a day.
    pub fn restore(saved: SavedClock, deterministic: bool) -> Clock {
        match (saved, deterministic) {
            (SavedClock::System { measured_ns, unix_ns: then }, false) => {
                let away = unix_ns().saturating_sub(then).min(LONGEST_AWAY_NS);
                let earlier_ns = measured_ns.saturating_add(away).min(LONGEST_AWAY_NS);
                Clock::System { started: Instant::now(), earlier_ns }
            }
            (SavedClock::Fixed { elapsed_ns }, true) => Clock::Fixed { elapsed_ns },
            (SavedClock::Fixed { .. }, false) | (SavedClock::System { .. }, true) => {
                Clock::new(deterministic)
            }
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
            Clock::System { started, earlier_ns } if !of_day => {
                Ok(earlier_ns.saturating_add(nanos(started.elapsed())))
            }
            Clock::System { .. } => Ok(unix_ns()),
            Clock::Fixed { elapsed_ns } => {
                *elapsed_ns = elapsed_ns.saturating_add(FIXED_STEP_NS);
                Ok(if of_day { FIXED_START_NS.saturating_add(*elapsed_ns) } else { *elapsed_ns })
            }
        }
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

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

fn unix_ns() -> u64 {
    nanos(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}

#[derive(Clone)]
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

    /// How far a seeded sequence has come.
    pub fn save(&self) -> u64 {
        match self {
            Random::System => 0,
            Random::Seeded(generator) => {
                u64::try_from(generator.get_word_pos()).unwrap_or(u64::MAX)
            }
        }
    }

    pub fn restore(position: u64, deterministic: bool) -> Random {
        let mut random = Random::new(deterministic);
        if let Random::Seeded(generator) = &mut random {
            generator.set_word_pos(position.into());
        }
        random
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
