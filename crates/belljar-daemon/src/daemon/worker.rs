//! A worker as the supervisor sees it: requests go to it, and what it says goes to whom it concerns.
//!
//! A worker runs foreign code and may be anybody's by now: what it says is checked as a guest's
//! words are, and reaches only clients whose sandboxes live in it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use belljar_core::limits::MAX_MESSAGE_BYTES;
use belljar_core::protocol::methods::{
    CALL_DROPPED, CANCEL, DropParams, INPUT, STDERR, STDOUT, SandboxId, SandboxParams, TOOL_CALL,
};
use belljar_core::protocol::{self, FAILED, INVALID_REQUEST, Id, Message, RpcError};
use serde::Serialize;
use serde_json::value::RawValue;
use tokio::net::UnixStream;
use tokio::sync::oneshot;

use super::budget::Budget;
use super::client::Client;
use super::errors::busy;
use super::fields;
use super::outbox::Outbox;
use super::seat::Seat;

/// Bytes towards a worker that it has not read. From half of them on requests are refused.
const MAX_UNREAD_BYTES: usize = 1024 * 1024 * 1024;

pub(super) type Answer = Result<Box<RawValue>, RpcError>;

/// The worker is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Lost;

pub(super) struct Worker {
    pub(super) number: usize,
    pub(super) pid: Option<u32>,
    pub(super) started: Instant,
    /// Executions that run in it.
    pub(super) running: AtomicUsize,
    /// Sandboxes that live in it or are about to.
    pub(super) load: AtomicUsize,
    pub(super) outbox: Outbox,
    lost: AtomicBool,
    /// When it said something last.
    heard: Mutex<Instant>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    last: u64,
    /// Who waits for which answer.
    pending: HashMap<u64, oneshot::Sender<Answer>>,
    seats: HashMap<SandboxId, Arc<Seat>>,
    /// What it has asked of clients, by its own number: who, and the number there.
    asked: HashMap<u64, (Arc<Client>, u64)>,
}

impl Worker {
    pub(super) fn new(number: usize, pid: Option<u32>, stream: Arc<UnixStream>) -> Self {
        Self {
            number,
            pid,
            started: Instant::now(),
            running: AtomicUsize::new(0),
            load: AtomicUsize::new(0),
            outbox: Outbox::new(stream, MAX_UNREAD_BYTES, &Budget::new(MAX_UNREAD_BYTES)),
            lost: AtomicBool::new(false),
            heard: Mutex::new(Instant::now()),
            state: Mutex::default(),
        }
    }

    /// Asks for something; the answer comes later, or never when the worker is lost.
    pub(super) fn send(
        &self,
        method: &str,
        params: &impl Serialize,
    ) -> Result<oneshot::Receiver<Answer>, Lost> {
        let (sender, answer) = oneshot::channel();
        let id = {
            let mut state = self.state();
            // Looked at under the lock, so that nobody waits who is not told.
            if self.is_lost() {
                return Err(Lost);
            }
            state.last += 1;
            let id = state.last;
            state.pending.insert(id, sender);
            id
        };
        let line = protocol::request(&Id::Number(id), method, params).map_err(|_| Lost)?;
        let refused = match is_taken(&line) {
            true => self
                .outbox
                .offer(line)
                .map_err(|_| Lost)?
                .err()
                .map(|_| busy("too many bytes wait for the worker")),
            false => Some(RpcError::new(INVALID_REQUEST, "the message is too long or too heavy")),
        };
        if let Some(error) = refused
            && let Some(sender) = self.state().pending.remove(&id)
        {
            // Whoever asked is still here.
            let _ = sender.send(Err(error));
        }
        Ok(answer)
    }

    pub(super) async fn call(&self, method: &str, params: &impl Serialize) -> Result<Answer, Lost> {
        self.send(method, params)?.await.map_err(|_| Lost)
    }

    /// Stops what runs in a sandbox.
    pub(super) fn cancel(&self, sandbox: SandboxId) {
        // A worker that is lost has stopped everything.
        drop(self.send(CANCEL, &SandboxParams { sandbox }));
    }

    /// What a sandbox says from now on is this seat's.
    pub(super) fn seat(&self, sandbox: SandboxId, seat: Arc<Seat>) {
        self.state().seats.insert(sandbox, seat);
    }

    pub(super) fn unseat(&self, sandbox: SandboxId) {
        self.state().seats.remove(&sandbox);
    }

    pub(super) fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Acquire)
    }

    /// Nobody gets an answer any more, and everybody who waits hears of it.
    pub(super) fn lose(&self) {
        let state = {
            let mut state = self.state();
            self.lost.store(true, Ordering::Release);
            std::mem::take(&mut *state)
        };
        self.outbox.close();
        for (client, id) in state.asked.into_values() {
            client.drop_call(id);
        }
    }

    /// A client has answered.
    pub(super) fn answered(&self, id: u64, outcome: Result<&RawValue, &RpcError>) {
        self.state().asked.remove(&id);
        let id = Id::Number(id);
        let line = protocol::response(&id, outcome.as_ref().map_err(|error| *error));
        // A worker that is lost needs no answers.
        let sent = match line {
            Ok(line) if is_taken(&line) => self.outbox.offer(line),
            Ok(line) => Ok(Err(line)),
            Err(_) => Ok(Err(Vec::new())),
        };
        if let Ok(Err(_)) = sent {
            let error = RpcError::new(FAILED, "the answer is too long, or too many wait");
            if let Ok(line) = protocol::response::<()>(&id, Err(&error)) {
                let _ = self.outbox.push(line);
            }
        }
    }

    /// When it last showed that it lives: it took something, or said something.
    pub(super) fn last_sign(&self) -> Instant {
        let heard = *self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        heard.max(self.outbox.taken())
    }

    /// Takes in a line. The error says why it makes no sense; a worker of ours sends no such line.
    pub(super) fn hear(self: &Arc<Self>, line: &[u8]) -> Result<(), String> {
        *self.heard.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        let message = match Message::parse(line) {
            Ok(message) => message,
            Err(error) => match Message::addressee(line) {
                Some(id) => Message::Response { id, outcome: Err(unreadable(&error)) },
                None => return Err(error.message),
            },
        };
        match message {
            Message::Response { id: Id::Number(id), outcome } => {
                let waiting = self.state().pending.remove(&id);
                if let Some(waiting) = waiting {
                    // Whoever waited may have gone.
                    let _ = waiting.send(outcome);
                }
                Ok(())
            }
            Message::Response { id: Id::Text(_), .. } => Err("an answer to nothing".to_owned()),
            Message::Complaint(error) => Err(format!("it complains: {error}")),
            Message::Request { id: Id::Number(id), method, params }
                if [TOOL_CALL, INPUT].contains(&method.as_str()) =>
            {
                self.relay(id, &method, &params);
                Ok(())
            }
            Message::Notification { method, params } if method == CALL_DROPPED => {
                let dropped: DropParams =
                    serde_json::from_str(params.get()).map_err(|error| error.to_string())?;
                let asked = self.state().asked.remove(&dropped.id);
                if let Some((client, id)) = asked {
                    client.drop_call(id);
                }
                Ok(())
            }
            Message::Notification { method, params }
                if [STDOUT, STDERR].contains(&method.as_str()) =>
            {
                if let Some((seat, params)) = self.concerned(&params) {
                    seat.client.tell(&method, &params);
                }
                Ok(())
            }
            Message::Request { method, .. } | Message::Notification { method, .. } => {
                Err(format!("there is no {method:?}"))
            }
        }
    }

    /// Whom something concerns, in that one's numbers.
    fn concerned(&self, params: &RawValue) -> Option<(Arc<Seat>, Box<RawValue>)> {
        let sandbox = fields::number(params, "sandbox").ok()?;
        let seat = self.state().seats.get(&sandbox).cloned()?;
        let params = fields::exchanged(params, &[("sandbox", seat.number)]).ok()?;
        Some((seat, params))
    }

    fn relay(self: &Arc<Self>, id: u64, method: &str, params: &RawValue) {
        let Some((seat, params)) = self.concerned(params) else {
            return self.answered(id, Err(&RpcError::new(FAILED, "there is nobody to ask")));
        };
        match seat.client.expect_answer(self, id) {
            Some(theirs) => {
                self.state().asked.insert(id, (Arc::clone(&seat.client), theirs));
                seat.client.request(theirs, method, &params);
                if seat.client.is_gone() {
                    self.state().asked.remove(&id);
                }
            }
            None => self.answered(
                id,
                Err(&RpcError::new(FAILED, "the client has too many calls to answer, or is gone")),
            ),
        }
    }

    pub(super) fn sandboxes(&self) -> usize {
        self.state().seats.len()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a worker takes such a line: renumbered it may be longer than what the client sent.
fn is_taken(line: &[u8]) -> bool {
    line.len() <= MAX_MESSAGE_BYTES && protocol::check_weight(line).is_ok()
}

/// An answer that cannot be passed on. A worker of ours sends none.
fn unreadable(error: &RpcError) -> RpcError {
    let problem = format!("the worker's answer makes no sense ({error}); the code may have run");
    RpcError::new(FAILED, problem)
}
