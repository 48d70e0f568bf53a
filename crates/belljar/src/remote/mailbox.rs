//! What has come for one call and is not yet looked at. When too much waits, whoever brings more
//! waits as well, and with it the daemon.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Wake, Waker};
use std::time::Instant;

use belljar_core::limits::MAX_MESSAGE_BYTES;
use belljar_core::protocol::{Id, RpcError};
use serde_json::value::RawValue;

/// Messages that wait, beside what they weigh.
const MAX_WAITING: usize = 1024;

/// Something the daemon said about a call.
#[derive(Debug)]
pub(super) enum Event {
    /// What came of it.
    Answer(Result<Box<RawValue>, RpcError>),
    /// It wants something of the caller.
    Asked { id: Id, method: String, params: Box<RawValue> },
    /// It does not want that any more.
    Dropped { id: u64 },
    /// Something was printed.
    Printed { stderr: bool, text: String },
}

/// What somebody who waits gets.
#[derive(Debug)]
pub(super) enum Next {
    Event(Event),
    /// Somebody has rung, or the time is over: everything is to be looked at.
    Nothing,
    /// Nothing will come any more.
    Lost(String),
}

#[derive(Default)]
pub(super) struct Mailbox {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    events: VecDeque<(Event, usize)>,
    bytes: usize,
    rung: bool,
    lost: Option<String>,
    closed: bool,
}

impl Mailbox {
    /// Rings when it is woken.
    pub(super) fn waker(self: &Arc<Self>) -> Waker {
        Waker::from(Arc::clone(self))
    }

    /// Waits while too much is there already; drops it when nobody looks any more.
    pub(super) fn put(&self, event: Event, bytes: usize) {
        let is_full = |state: &mut State| {
            let full = state.bytes + bytes > MAX_MESSAGE_BYTES || state.events.len() >= MAX_WAITING;
            full && !state.events.is_empty() && !state.closed
        };
        let waited = self.changed.wait_while(self.state(), is_full);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner);
        if !state.closed {
            state.bytes += bytes;
            state.events.push_back((event, bytes));
            self.changed.notify_all();
        }
    }

    /// Nothing comes any more; what is there can still be had.
    pub(super) fn lose(&self, why: &str) {
        self.state().lost = Some(why.to_owned());
        self.changed.notify_all();
    }

    /// Nobody looks any more.
    pub(super) fn close(&self) {
        let mut state = self.state();
        state.closed = true;
        state.events.clear();
        self.changed.notify_all();
    }

    pub(super) fn next(&self, until: Instant) -> Next {
        let time = until.saturating_duration_since(Instant::now());
        let is_idle =
            |state: &mut State| state.events.is_empty() && !state.rung && state.lost.is_none();
        let waited = self.changed.wait_timeout_while(self.state(), time, is_idle);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if let Some((event, bytes)) = state.events.pop_front() {
            state.bytes -= bytes;
            self.changed.notify_all();
            return Next::Event(event);
        }
        if let Some(why) = &state.lost {
            return Next::Lost(why.clone());
        }
        state.rung = false;
        Next::Nothing
    }

    /// Nothing panics while holding the lock; if it did, the value would still be whole.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wake for Mailbox {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.state().rung = true;
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn printed(text: &str) -> Event {
        Event::Printed { stderr: false, text: text.to_owned() }
    }

    #[test]
    fn events_come_in_order_and_before_the_end() {
        let mailbox = Mailbox::default();
        mailbox.put(printed("a"), 1);
        mailbox.put(printed("b"), 1);
        mailbox.lose("closed");
        let now = Instant::now();
        for expected in ["a", "b"] {
            let Next::Event(Event::Printed { text, .. }) = mailbox.next(now) else { panic!() };
            assert_eq!(text, expected);
        }
        assert!(matches!(mailbox.next(now), Next::Lost(why) if why == "closed"));
    }

    #[test]
    fn a_bell_is_heard_once() {
        let mailbox = Arc::new(Mailbox::default());
        mailbox.waker().wake();
        assert!(matches!(mailbox.next(Instant::now() + Duration::from_secs(60)), Next::Nothing));
        let start = Instant::now();
        assert!(matches!(mailbox.next(start + Duration::from_millis(20)), Next::Nothing));
        assert!(start.elapsed() >= Duration::from_millis(20));
    }

    #[test]
    fn whoever_brings_too_much_waits_until_somebody_looks_or_nobody_will() {
        let mailbox = Arc::new(Mailbox::default());
        let bringing = Arc::clone(&mailbox);
        let thread = std::thread::spawn(move || {
            for _ in 0..4 {
                bringing.put(printed("x"), MAX_MESSAGE_BYTES);
            }
        });
        std::thread::sleep(Duration::from_millis(20));
        assert_eq!(mailbox.state().events.len(), 1);
        assert!(matches!(mailbox.next(Instant::now()), Next::Event(_)));
        mailbox.close();
        thread.join().unwrap();
        assert_eq!(mailbox.state().events.len(), 0);
    }
}
