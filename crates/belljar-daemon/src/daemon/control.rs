//! Asking a running daemon something, from a program that has nothing else to do meanwhile.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use belljar::remote::local::{self, Stream};
use belljar_core::limits::MAX_MESSAGE_BYTES;
use belljar_core::protocol::{self, Id, Message};
use interprocess::local_socket::traits::Stream as _;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::errors::DaemonError;

/// A connection to a daemon.
#[derive(Debug)]
pub struct Control {
    path: PathBuf,
    stream: BufReader<Stream>,
}

impl Control {
    /// Connects. Answers have to come within `patience`.
    ///
    /// # Errors
    /// When nobody listens there.
    pub fn connect(path: &Path, patience: Duration) -> Result<Self, DaemonError> {
        let connect = || -> io::Result<Stream> {
            let stream = local::connect(path, patience)?;
            stream.set_recv_timeout(Some(patience))?;
            stream.set_send_timeout(Some(patience))?;
            Ok(stream)
        };
        match connect() {
            Ok(stream) => Ok(Self { path: path.to_owned(), stream: BufReader::new(stream) }),
            Err(error) => Err(silent(path, &error.to_string())),
        }
    }

    /// Asks one thing and waits for the answer.
    ///
    /// # Errors
    /// When none comes, or it is a refusal.
    pub fn ask<T: DeserializeOwned>(
        &mut self,
        method: &str,
        params: &impl Serialize,
    ) -> Result<T, DaemonError> {
        let failed = |path: &Path, problem: String| silent(path, &problem);
        let line = protocol::request(&Id::Number(1), method, params)
            .map_err(|error| failed(&self.path, error.to_string()))?;
        let mut answer = Vec::new();
        let limit = u64::try_from(MAX_MESSAGE_BYTES).unwrap_or(u64::MAX);
        self.stream
            .get_mut()
            .write_all(&line)
            .and_then(|()| (&mut self.stream).take(limit).read_until(b'\n', &mut answer))
            .map_err(|error| failed(&self.path, error.to_string()))?;
        if answer.is_empty() {
            return Err(silent(&self.path, "it closed the connection"));
        }
        match Message::parse(&answer) {
            Ok(Message::Response { outcome: Ok(result), .. }) => serde_json::from_str(result.get())
                .map_err(|error| failed(&self.path, error.to_string())),
            Ok(Message::Response { outcome: Err(error), .. } | Message::Complaint(error))
            | Err(error) => Err(silent(&self.path, &error.message)),
            Ok(Message::Request { .. } | Message::Notification { .. }) => {
                Err(silent(&self.path, "it asks instead of answering"))
            }
        }
    }

    /// Waits until the daemon closes the connection, which it does when it ends.
    ///
    /// # Errors
    /// When it takes longer than `patience`.
    pub fn wait_for_end(&mut self, patience: Duration) -> Result<(), DaemonError> {
        let mut wait = || -> io::Result<()> {
            self.stream.get_ref().set_recv_timeout(Some(patience))?;
            io::copy(&mut self.stream, &mut io::sink()).map(drop)
        };
        match wait() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                Err(silent(&self.path, "it has not ended in time"))
            }
            Ok(()) | Err(_) => Ok(()),
        }
    }
}

fn silent(path: &Path, problem: &str) -> DaemonError {
    DaemonError::Silent { path: path.to_owned(), problem: problem.to_owned() }
}
