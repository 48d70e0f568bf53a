//! One client's connection to its sandboxes, which are nobody else's.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use belljar::core::protocol::methods::{Line, STDERR, STDOUT, SandboxId};
use serde_json::value::RawValue;
use tokio::net::UnixStream;
use tokio::sync::OwnedSemaphorePermit;

use crate::client::{Client, Peer};

pub(crate) struct Connection {
    pub(crate) client: Client,
    listeners: Listeners,
    /// The client's place among all clients, free again when it has gone.
    _place: OwnedSemaphorePermit,
}

/// Where something was printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Printed {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// Told every line at once, while nothing else is heard: it must not wait.
pub(crate) type Listener = Arc<dyn Fn(Printed, String) + Send + Sync>;

impl Connection {
    pub(super) fn new(stream: UnixStream, place: OwnedSemaphorePermit) -> Self {
        let listeners = Listeners::default();
        let client = Client::connect(stream, listeners.clone());
        Self { client, listeners, _place: place }
    }

    /// Has somebody told what a sandbox prints, from now on until what this gives is dropped.
    pub(super) fn listen(&self, sandbox: SandboxId, listener: Listener) -> Listening<'_> {
        self.listeners.known().insert(sandbox, listener);
        Listening { listeners: &self.listeners, sandbox }
    }
}

/// Somebody listens.
pub(super) struct Listening<'a> {
    listeners: &'a Listeners,
    sandbox: SandboxId,
}

impl Drop for Listening<'_> {
    fn drop(&mut self) {
        self.listeners.known().remove(&self.sandbox);
    }
}

/// Who wants to know what which sandbox prints.
#[derive(Clone, Default)]
struct Listeners(Arc<Mutex<HashMap<SandboxId, Listener>>>);

impl Listeners {
    fn known(&self) -> MutexGuard<'_, HashMap<SandboxId, Listener>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Peer for Listeners {
    fn told(&self, method: &str, params: &RawValue) {
        let printed = match method {
            STDOUT => Printed::Stdout,
            STDERR => Printed::Stderr,
            _ => return,
        };
        if self.known().is_empty() {
            return;
        }
        let Ok(Line { sandbox, text }) = serde_json::from_str(params.get()) else { return };
        let listener = self.known().get(&sandbox).cloned();
        if let Some(listener) = listener {
            listener(printed, text);
        }
    }
}
