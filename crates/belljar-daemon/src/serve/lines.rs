//! Lines of a stream, of bounded length.

use std::io::{self, BufRead, BufReader};

use crate::gathered::{Ended, Gathered};

pub(super) struct Lines<R> {
    input: BufReader<R>,
}

impl<R: io::Read> Lines<R> {
    pub(super) fn new(input: R) -> Self {
        Self { input: BufReader::with_capacity(64 * 1024, input) }
    }

    /// The next line; `None` when there are no more. What has no end when the stream ends is no
    /// line.
    pub(super) fn next(&mut self) -> io::Result<Option<Ended>> {
        let mut line = Gathered::default();
        loop {
            let part = match self.input.fill_buf() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                other => other?,
            };
            if part.is_empty() {
                return Ok(None);
            }
            let (used, ended) = line.take(part, |_| true);
            self.input.consume(used);
            if ended {
                return Ok(Some(line.end()));
            }
        }
    }
}
