//! Who waits for what of a connection, and what a line of the daemon's means for them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use belljar_core::limits::MAX_LINE_BYTES;
use belljar_core::protocol::methods::{CALL_DROPPED, DropParams, Line, STDERR, STDOUT, SandboxId};
use belljar_core::protocol::{Id, Message, RpcError};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::mailbox::{Event, Mailbox};

/// A line that was printed, as text: the server cuts bytes, and each that is no text becomes three.
const MAX_PRINTED_BYTES: usize = 4 * MAX_LINE_BYTES;

#[derive(Default)]
pub(super) struct Routes(Mutex<Waiting>);

#[derive(Default)]
pub(super) struct Waiting {
    /// By the request that waits for its answer.
    pub(super) answers: HashMap<u64, Arc<Mailbox>>,
    /// By the sandbox that runs something.
    pub(super) sandboxes: HashMap<SandboxId, Arc<Mailbox>>,
    /// What the daemon refused without saying which request it meant.
    pub(super) complaint: Option<RpcError>,
    /// Set once nothing can come any more.
    pub(super) lost: Option<String>,
}

/// Something for somebody.
pub(super) struct Letter {
    pub(super) mailbox: Arc<Mailbox>,
    pub(super) event: Event,
    pub(super) bytes: usize,
}

/// A line that makes no sense. A daemon says none.
#[derive(Debug)]
pub(super) struct Nonsense;

/// The one thing every question of the daemon says.
#[derive(Deserialize)]
struct About {
    sandbox: SandboxId,
}

impl Routes {
    /// Nothing panics while holding the lock; if it did, the value would still be whole.
    pub(super) fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The first reason counts.
    pub(super) fn lose(&self, why: &str) {
        let mut waiting = self.lock();
        let why = waiting.lost.get_or_insert_with(|| why.to_owned()).clone();
        for mailbox in waiting.answers.values() {
            mailbox.lose(&why);
        }
    }

    /// Lets somebody read who waits, and is not this one.
    pub(super) fn let_another_read(&self, than: Option<&Mailbox>) {
        let waiting = self.lock();
        let mut all = waiting.answers.values();
        let other = |mailbox: &&Arc<Mailbox>| than.is_none_or(|it| !std::ptr::eq(&***mailbox, it));
        if let Some(other) = all.find(other) {
            other.let_read();
        }
    }

    /// What a line says, and to whom.
    pub(super) fn sort(&self, line: &[u8]) -> Result<Vec<Letter>, Nonsense> {
        let bytes = line.len();
        match Message::parse(line) {
            Ok(Message::Response { id: Id::Number(id), outcome }) => {
                Ok(self.answered(id, outcome, bytes))
            }
            Ok(Message::Response { .. }) => Ok(Vec::new()),
            Ok(Message::Request { id, method, params }) => {
                let about = serde_json::from_str::<About>(params.get()).ok();
                // Whoever runs nothing has nothing to be asked.
                let mailbox = about.and_then(|about| self.sandbox(about.sandbox));
                Ok(letter(mailbox, Event::Asked { id, method, params }, bytes))
            }
            Ok(Message::Notification { method, params }) => self.told(&method, &params, bytes),
            Ok(Message::Complaint(error)) => Ok(self.complained(error, bytes)),
            Err(error) => match Message::addressee(line) {
                Some(Id::Number(id)) => Ok(self.answered(id, Err(error), bytes)),
                _ => Err(Nonsense),
            },
        }
    }

    /// An answer to what nobody asks is nobody's.
    fn answered(
        &self,
        id: u64,
        outcome: Result<Box<RawValue>, RpcError>,
        bytes: usize,
    ) -> Vec<Letter> {
        letter(self.lock().answers.remove(&id), Event::Answer(outcome), bytes)
    }

    /// Something was refused, and it is not said what. Where one request waits it is that one.
    fn complained(&self, error: RpcError, bytes: usize) -> Vec<Letter> {
        let mut waiting = self.lock();
        waiting.complaint = Some(error.clone());
        let mut ids = waiting.answers.keys().copied();
        let only = ids.next().filter(|_| ids.next().is_none());
        drop(waiting);
        only.map(|id| self.answered(id, Err(error), bytes)).unwrap_or_default()
    }

    fn told(&self, method: &str, params: &RawValue, bytes: usize) -> Result<Vec<Letter>, Nonsense> {
        match method {
            STDOUT | STDERR => match serde_json::from_str::<Line>(params.get()) {
                Ok(line) if line.text.len() <= MAX_PRINTED_BYTES => {
                    let printed = Event::Printed { stderr: method == STDERR, text: line.text };
                    Ok(letter(self.sandbox(line.sandbox), printed, bytes))
                }
                _ => Err(Nonsense),
            },
            CALL_DROPPED => {
                let DropParams { id } = serde_json::from_str(params.get()).map_err(|_| Nonsense)?;
                // It does not say whose; the others do not know the number.
                let all: Vec<_> = self.lock().sandboxes.values().cloned().collect();
                let told = |mailbox| Letter { mailbox, event: Event::Dropped { id }, bytes };
                Ok(all.into_iter().map(told).collect())
            }
            // What a later version tells is not for us.
            _ => Ok(Vec::new()),
        }
    }

    fn sandbox(&self, sandbox: SandboxId) -> Option<Arc<Mailbox>> {
        self.lock().sandboxes.get(&sandbox).cloned()
    }
}

fn letter(mailbox: Option<Arc<Mailbox>>, event: Event, bytes: usize) -> Vec<Letter> {
    mailbox.map(|mailbox| Letter { mailbox, event, bytes }).into_iter().collect()
}
