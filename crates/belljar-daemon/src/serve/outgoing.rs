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
        match protocol::response(id, Ok(result)) {
            // Nobody would read it, and the next answer should still be found.
            Ok(line) if line.len() > MAX_MESSAGE_BYTES => {
                let problem = "the answer is longer than any message may be; ask for less output";
                self.refuse(id, &RpcError::new(FAILED, problem));
            }
            Ok(line) => self.send(&line),
            Err(error) => {
                let problem = format!("the answer cannot be written as JSON: {error}");
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

    pub(super) fn request(&self, id: &Id, method: &str, params: &impl Serialize) {
        self.write(protocol::request(id, method, params));
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
