//! One client's own server of the protocol, in this process: its sandboxes are nobody else's.

use std::collections::HashMap;
use std::io;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use belljar::core::protocol::methods::{Line, STDERR, STDOUT, SandboxId};
use serde_json::value::RawValue;
use tokio::sync::{OwnedSemaphorePermit, mpsc};

use super::limits::{MAX_PROGRESS_BYTES, MAX_WAITING_LINES};
use crate::client::{Client, Peer};
use crate::serve::{Offer, serve};

pub(super) struct Connection {
    pub(super) client: Client,
    lines: Listeners,
    /// The client's place among all clients, free again when it has gone.
    _place: OwnedSemaphorePermit,
}

impl Connection {
    /// Starts a server on a thread, which ends after this connection has ended.
    pub(super) fn open(
        offer: Offer,
        place: OwnedSemaphorePermit,
    ) -> io::Result<(Self, JoinHandle<()>)> {
        let (ours, theirs) = UnixStream::pair()?;
        let input = theirs.try_clone()?;
        let server = std::thread::Builder::new().name("mcp-client".to_owned()).spawn(move || {
            if let Err(error) = serve(input, theirs, offer) {
                tracing::warn!(target: "belljar", %error, "the sandboxes of a client have ended");
            }
        })?;
        ours.set_nonblocking(true)?;
        let lines = Listeners::default();
        let client = Client::connect(tokio::net::UnixStream::from_std(ours)?, lines.clone());
        Ok((Self { client, lines, _place: place }, server))
    }

    /// What a sandbox prints, from now on until the receiver is dropped. What comes too quickly is
    /// left out.
    pub(super) fn listen(&self, sandbox: SandboxId) -> mpsc::Receiver<String> {
        let (sender, lines) = mpsc::channel(MAX_WAITING_LINES);
        self.lines.known().insert(sandbox, sender);
        lines
    }
}

/// Who wants to know what which sandbox prints.
#[derive(Clone, Default)]
struct Listeners(Arc<Mutex<HashMap<SandboxId, mpsc::Sender<String>>>>);

impl Listeners {
    fn known(&self) -> MutexGuard<'_, HashMap<SandboxId, mpsc::Sender<String>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Peer for Listeners {
    fn told(&self, method: &str, params: &RawValue) {
        if method != STDOUT && method != STDERR {
            return;
        }
        let mut known = self.known();
        if known.is_empty() {
            return;
        }
        let Ok(Line { sandbox, mut text }) = serde_json::from_str(params.get()) else { return };
        let Some(listener) = known.get(&sandbox) else { return };
        text.truncate(text.floor_char_boundary(MAX_PROGRESS_BYTES));
        if let Err(mpsc::error::TrySendError::Closed(_)) = listener.try_send(text) {
            known.remove(&sandbox);
        }
    }
}
