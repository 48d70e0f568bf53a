//! What comes in on a connection, read by whoever waits for some of it.

use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, Read};
use std::sync::Arc;

use belljar_core::limits::MAX_MESSAGE_BYTES;

use super::local::Stream;
use super::routes::{Letter, Nonsense, Routes};

pub(super) struct Input {
    from: BufReader<Shared>,
    /// What is there of the next line.
    line: Vec<u8>,
    /// What was read and could not be brought yet: too much waits for whom it is.
    held: VecDeque<Letter>,
}

struct Shared(Arc<Stream>);

impl Read for Shared {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        (&*self.0).read(buffer)
    }
}

impl Input {
    pub(super) fn new(stream: &Arc<Stream>) -> Self {
        Self {
            from: BufReader::with_capacity(64 * 1024, Shared(Arc::clone(stream))),
            line: Vec::new(),
            held: VecDeque::new(),
        }
    }

    /// Brings one line of what is there already; `false` when there is no whole one. The error says
    /// why nothing more can come.
    pub(super) fn bring_line(&mut self, routes: &Routes) -> Result<bool, String> {
        let part = self.from.buffer();
        let end = part.iter().position(|byte| *byte == b'\n');
        let used = end.map_or(part.len(), |end| end + 1);
        self.line.extend_from_slice(part.get(..used).unwrap_or_default());
        self.from.consume(used);
        if self.line.len() > MAX_MESSAGE_BYTES {
            return Err("its message has no end".to_owned());
        }
        if end.is_none() {
            return Ok(false);
        }
        let line = std::mem::take(&mut self.line);
        let letters = routes
            .sort(&line)
            .map_err(|Nonsense| "it says what is no message of the protocol".to_owned())?;
        self.held.extend(letters);
        self.bring_held();
        Ok(true)
    }

    /// Brings what could not be brought before; `false` when it still cannot be.
    pub(super) fn bring_held(&mut self) -> bool {
        while let Some(Letter { mailbox, event, bytes }) = self.held.pop_front() {
            if let Err(event) = mailbox.put(event, bytes) {
                self.held.push_front(Letter { mailbox, event, bytes });
                return false;
            }
        }
        true
    }

    /// Reads what the stream has. The error says why nothing more can come.
    pub(super) fn fill(&mut self, routes: &Routes) -> Result<(), String> {
        loop {
            match self.from.fill_buf() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(format!("it cannot be read from ({error})")),
                Ok([_, ..]) => return Ok(()),
                Ok([]) if !self.line.is_empty() => {
                    return Err("it ended in the middle of a message".to_owned());
                }
                Ok([]) => {
                    return Err(match &routes.lock().complaint {
                        Some(error) => format!("the daemon has closed it: {error}"),
                        None => "the daemon has closed it".to_owned(),
                    });
                }
            }
        }
    }
}
