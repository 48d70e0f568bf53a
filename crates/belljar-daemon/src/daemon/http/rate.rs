//! How many requests a client may make: so many a second, and as many at once.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

pub(in crate::daemon) struct Rate {
    per_second: f64,
    state: Mutex<State>,
}

struct State {
    left: f64,
    at: Instant,
}

impl Rate {
    pub(in crate::daemon) fn new(per_second: f64) -> Self {
        let state = State { left: per_second.max(1.0), at: Instant::now() };
        Self { per_second, state: Mutex::new(state) }
    }

    /// Takes one, or says how long to wait for it.
    pub(in crate::daemon) fn take(&self) -> Result<(), Duration> {
        self.take_at(Instant::now())
    }

    fn take_at(&self, now: Instant) -> Result<(), Duration> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let passed = now.saturating_duration_since(state.at).as_secs_f64();
        state.left = passed.mul_add(self.per_second, state.left).min(self.per_second.max(1.0));
        state.at = now;
        if state.left < 1.0 {
            let wait = (1.0 - state.left) / self.per_second;
            return Err(Duration::try_from_secs_f64(wait).unwrap_or(Duration::MAX));
        }
        state.left -= 1.0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_at_once_and_then_so_many_a_second() {
        let rate = Rate::new(2.0);
        let begun = Instant::now();
        let at = |seconds: f64| rate.take_at(begun + Duration::from_secs_f64(seconds));
        assert!(at(1.0).is_ok() && at(1.0).is_ok());
        assert!(at(1.0).is_err_and(|wait| wait <= Duration::from_millis(500)));
        assert!(at(1.5).is_ok() && at(1.5).is_err());
        assert!(at(99.0).is_ok() && at(99.0).is_ok() && at(99.0).is_err());
        // A clock that goes back gives nothing.
        assert!(at(0.0).is_err());
    }
}
