//! What the server asks its client for while code runs: tools, and lines for `input()`.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use belljar::ToolFailure;
use belljar_core::protocol::methods::{CALL_DROPPED, DropParams};
use belljar_core::protocol::{FAILED, Id, RpcError};
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::outgoing::Outgoing;

/// How often somebody who waits looks whether the answer is still wanted.
const LOOK: Duration = Duration::from_millis(20);

type Outcome = Result<Box<RawValue>, RpcError>;

pub(super) struct Calls {
    out: Outgoing,
    last: AtomicU64,
    /// `None` once the client is gone.
    waiting: Mutex<Option<HashMap<u64, Sender<Outcome>>>>,
}

impl Calls {
    pub(super) fn new(out: Outgoing) -> Self {
        Self { out, last: AtomicU64::new(0), waiting: Mutex::new(Some(HashMap::new())) }
    }

    /// Asks, and waits for the answer as long as it is wanted.
    pub(super) fn ask(
        &self,
        method: &str,
        params: &impl Serialize,
        unwanted: impl Fn() -> bool,
    ) -> Result<Value, ToolFailure> {
        let gone = || ToolFailure::new("the client is gone");
        let number = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let (sender, answer) = mpsc::channel();
        self.waiting().as_mut().ok_or_else(gone)?.insert(number, sender);
        if let Err(problem) = self.out.request(&Id::Number(number), method, params) {
            self.answered(
                &Id::Number(number),
                Err(RpcError::new(FAILED, format!("the call {problem}"))),
            );
        }
        loop {
            match answer.recv_timeout(LOOK) {
                Ok(outcome) => return told(outcome),
                Err(RecvTimeoutError::Disconnected) => return Err(gone()),
                Err(RecvTimeoutError::Timeout) if unwanted() => {
                    if let Some(waiting) = self.waiting().as_mut() {
                        waiting.remove(&number);
                    }
                    self.out.tell(CALL_DROPPED, &DropParams { id: number });
                    return Err(ToolFailure::new("nobody waits for it any more"));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    /// An answer has come. One that nobody waits for is nobody's.
    pub(super) fn answered(&self, id: &Id, outcome: Outcome) {
        let Id::Number(number) = id else { return };
        let waiting = self.waiting().as_mut().and_then(|waiting| waiting.remove(number));
        if let Some(sender) = waiting {
            // Whoever waited may have given up at this moment.
            let _ = sender.send(outcome);
        }
    }

    /// The client is gone: nobody gets an answer any more.
    pub(super) fn close(&self) {
        *self.waiting() = None;
    }

    fn waiting(&self) -> MutexGuard<'_, Option<HashMap<u64, Sender<Outcome>>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn told(outcome: Outcome) -> Result<Value, ToolFailure> {
    match outcome {
        Ok(value) => serde_json::from_str(value.get())
            .map_err(|error| ToolFailure::new(format!("the answer makes no sense: {error}"))),
        Err(error) => {
            let name = error.data.as_ref().and_then(|data| data.get("name"));
            let name = name.and_then(|name| serde_json::from_value(name.clone()).ok());
            Err(ToolFailure {
                name: name.unwrap_or(belljar_core::tools::FailureName::ToolError),
                message: error.message,
            })
        }
    }
}
