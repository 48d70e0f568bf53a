//! What goes to the client, a line at a time from any thread. A client that does not read makes
//! whoever writes wait.

use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};

use belljar_core::limits::MAX_MESSAGE_BYTES;
use belljar_core::protocol::{self, FAILED, Id, RpcError};
use serde::Serialize;

#[derive(Clone)]
pub(super) struct Outgoing(Arc<Mutex<Box<dyn Write + Send>>>);

impl Outgoing {
    pub(super) fn new(output: impl Write + Send + 'static) -> Self {
        Self(Arc::new(Mutex::new(Box::new(output))))
    }

    pub(super) fn answer(&self, id: &Id, result: &impl Serialize) {
        match checked(protocol::response(id, Ok(result))) {
            Ok(line) => self.send(&line),
            Err(problem) => {
                let problem = format!("the answer {problem}");
                self.refuse(id, &RpcError::new(FAILED, problem));
            }
        }
    }

    pub(super) fn refuse(&self, id: &Id, error: &RpcError) {
        self.write(protocol::response::<()>(id, Err(error)));
    }

    pub(super) fn complain(&self, error: &RpcError) {
        self.write(protocol::complaint(error));
    }

    /// The error says why it cannot be sent.
    pub(super) fn request(
        &self,
        id: &Id,
        method: &str,
        params: &impl Serialize,
    ) -> Result<(), String> {
        checked(protocol::request(id, method, params)).map(|line| self.send(&line))
    }

    pub(super) fn tell(&self, method: &str, params: &impl Serialize) {
        self.write(protocol::notification(method, params));
    }

    fn write(&self, line: serde_json::Result<Vec<u8>>) {
        // What we make ourselves can always be written.
        if let Ok(line) = line {
            self.send(&line);
        }
    }

    fn send(&self, line: &[u8]) {
        let mut output = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // A client that is gone is noticed where it is read from.
        let _ = output.write_all(line).and_then(|()| output.flush());
    }
}

/// A line that whoever gets it takes. They would end the connection over any other, and with it
/// everything in it.
fn checked(line: serde_json::Result<Vec<u8>>) -> Result<Vec<u8>, String> {
    let line = line.map_err(|error| format!("cannot be written as JSON: {error}"))?;
    if line.len() > MAX_MESSAGE_BYTES {
        return Err("is longer than any message may be".to_owned());
    }
    match protocol::check_weight(&line) {
        Ok(()) => Ok(line),
        Err(_) => Err("would take too much memory, or nests too deeply".to_owned()),
    }
}
