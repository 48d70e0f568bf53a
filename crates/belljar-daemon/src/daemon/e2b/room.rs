//! How much may still be written to a sandbox's disk by uploads, of which several may come at once:
//! each takes what it writes before it writes it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long a measure is good while nobody writes.
const MEASURED_FOR: Duration = Duration::from_secs(2);

/// The room that a sandbox's uploads share.
#[derive(Default)]
pub(super) struct Room(Mutex<State>);

#[derive(Default)]
struct State {
    /// What was used when it was measured, and when that was.
    measured: Option<(Instant, u64)>,
    /// What uploads have taken since.
    taken: u64,
    uploads: usize,
}

/// An upload's part in it.
pub(super) struct Writing {
    room: Arc<Room>,
    most: u64,
}

impl Room {
    /// Begins an upload; `None` when it has to be measured first. What was measured counts unless
    /// others write already: then theirs goes on.
    pub(super) fn enter(self: &Arc<Self>, measured: Option<u64>, most: u64) -> Option<Writing> {
        let mut state = self.state();
        if state.used().is_none() {
            (state.measured, state.taken) = (Some((Instant::now(), measured?)), 0);
        }
        state.uploads += 1;
        Some(Writing { room: Arc::clone(self), most })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// While somebody writes, what was measured then and taken since is all that is sure.
    fn used(&self) -> Option<u64> {
        let (at, bytes) = self.measured?;
        let fresh = self.uploads > 0 || at.elapsed() < MEASURED_FOR;
        fresh.then(|| bytes.saturating_add(self.taken))
    }
}

impl Writing {
    /// Takes so many bytes, if there are.
    pub(super) fn take(&self, bytes: u64) -> bool {
        let mut state = self.room.state();
        let used = state.used().unwrap_or(u64::MAX);
        let fits = used.saturating_add(bytes) <= self.most;
        if fits {
            state.taken = state.taken.saturating_add(bytes);
        }
        fits
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        let mut state = self.room.state();
        state.uploads -= 1;
        if state.uploads == 0 {
            // What was written may have taken the place of something.
            state.measured = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uploads_at_the_same_time_share_what_is_left_and_one_alone_has_it() {
        let room = Arc::new(Room::default());
        assert!(room.enter(None, 100).is_none());
        let one = room.enter(Some(40), 100).unwrap();
        // Another measure, of when the first had begun to write, does not undo what it took.
        assert!(one.take(40));
        let other = room.enter(Some(40), 100).unwrap();
        assert!(!other.take(30) && other.take(20) && !one.take(1));
        drop((one, other));
        assert!(room.enter(None, 100).is_none());
        let alone = room.enter(Some(40), 100).unwrap();
        assert!(alone.take(60) && !alone.take(1));
    }

    #[test]
    fn what_cannot_be_measured_is_full() {
        let room = Arc::new(Room::default());
        assert!(!room.enter(Some(u64::MAX), 100).unwrap().take(1));
    }
}
