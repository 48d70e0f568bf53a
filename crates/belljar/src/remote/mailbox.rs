//! What has come for one call and is not yet looked at. When too much waits, nothing more is read,
//! and the daemon waits as well.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Wake, Waker};
use std::time::Instant;

use belljar_core::limits::MAX_MESSAGE_BYTES;
use belljar_core::protocol::{Id, RpcError};
use serde_json::value::RawValue;

use super::wait::Bell;

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
    /// Nobody reads any more; whoever has this mailbox may.
    may_read: bool,
    /// Set while whoever has this mailbox reads, and cannot wait for `changed`.
    bell: Option<Arc<Bell>>,
    lost: Option<String>,
    closed: bool,
}

impl State {
    fn is_idle(&self) -> bool {
        self.events.is_empty() && !self.rung && self.lost.is_none()
    }
}

impl Mailbox {
    /// Rings when it is woken.
    pub(super) fn waker(self: &Arc<Self>) -> Waker {
        Waker::from(Arc::clone(self))
    }

    /// Gives it back while too much is there already; drops it when nobody looks any more.
    pub(super) fn put(&self, event: Event, bytes: usize) -> Result<(), Event> {
        let mut state = self.state();
        let full = state.bytes + bytes > MAX_MESSAGE_BYTES || state.events.len() >= MAX_WAITING;
        if full && !state.events.is_empty() && !state.closed {
            return Err(event);
        }
        if !state.closed {
            state.bytes += bytes;
            state.events.push_back((event, bytes));
            self.changed.notify_all();
        }
        Ok(())
    }

    /// Nothing comes any more; what is there can still be had.
    pub(super) fn lose(&self, why: &str) {
        let mut state = self.state();
        state.lost = Some(why.to_owned());
        self.tell(&state);
    }

    /// Nobody looks any more.
    pub(super) fn close(&self) {
        let mut state = self.state();
        state.closed = true;
        state.events.clear();
    }

    /// Whoever waits here may read: nobody else does.
    pub(super) fn let_read(&self) {
        self.state().may_read = true;
        self.changed.notify_all();
    }

    /// Whoever has this mailbox reads from now on, or does not any more.
    pub(super) fn reads(&self, bell: Option<&Arc<Bell>>) {
        self.state().bell = bell.cloned();
    }

    /// Whether there is nothing to look at.
    pub(super) fn is_idle(&self) -> bool {
        self.state().is_idle()
    }

    /// What there is to look at.
    pub(super) fn take(&self) -> Option<Next> {
        let mut state = self.state();
        state.may_read = false;
        if let Some((event, bytes)) = state.events.pop_front() {
            state.bytes -= bytes;
            return Some(Next::Event(event));
        }
        if let Some(why) = &state.lost {
            return Some(Next::Lost(why.clone()));
        }
        std::mem::take(&mut state.rung).then_some(Next::Nothing)
    }

    /// Waits until there is something to look at or to do.
    pub(super) fn wait(&self, until: Instant) {
        let time = until.saturating_duration_since(Instant::now());
        let nothing = |state: &mut State| state.is_idle() && !state.may_read;
        drop(self.changed.wait_timeout_while(self.state(), time, nothing));
    }

    fn tell(&self, state: &State) {
        self.changed.notify_all();
        if let Some(bell) = &state.bell {
            bell.ring();
        }
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
        let mut state = self.state();
        state.rung = true;
        self.tell(&state);
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
        mailbox.put(printed("a"), 1).unwrap();
        mailbox.put(printed("b"), 1).unwrap();
        mailbox.lose("closed");
        for expected in ["a", "b"] {
            let Some(Next::Event(Event::Printed { text, .. })) = mailbox.take() else { panic!() };
            assert_eq!(text, expected);
        }
        assert!(matches!(mailbox.take(), Some(Next::Lost(why)) if why == "closed"));
    }

    #[test]
    fn a_bell_is_heard_once() {
        let mailbox = Arc::new(Mailbox::default());
        mailbox.waker().wake();
        mailbox.wait(Instant::now() + Duration::from_secs(60));
        assert!(matches!(mailbox.take(), Some(Next::Nothing)));
        assert!(mailbox.take().is_none());
        let start = Instant::now();
        mailbox.wait(start + Duration::from_millis(20));
        assert!(start.elapsed() >= Duration::from_millis(20));
    }

    #[test]
    fn whoever_may_read_does_not_sleep() {
        let mailbox = Mailbox::default();
        mailbox.let_read();
        mailbox.wait(Instant::now() + Duration::from_secs(60));
        assert!(mailbox.take().is_none());
        assert!(!mailbox.state().may_read);
    }

    #[test]
    fn too_much_is_given_back_until_somebody_looks_or_nobody_will() {
        let mailbox = Mailbox::default();
        let bring = || mailbox.put(printed("x"), MAX_MESSAGE_BYTES);
        assert!(bring().is_ok());
        assert!(bring().is_err());
        assert!(matches!(mailbox.take(), Some(Next::Event(_))));
        assert!(bring().is_ok());
        mailbox.close();
        assert!(bring().is_ok());
        assert_eq!(mailbox.state().events.len(), 0);
    }
}
