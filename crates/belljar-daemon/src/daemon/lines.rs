//! Lines of a stream that many wait for, of bounded length and bounded patience.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader, ReadBuf};
use tokio::net::UnixStream;
use tokio::time::{Instant, timeout_at};

use super::budget::Budget;
use crate::gathered::{Ended, Gathered};

/// Read at once.
const BUFFER_BYTES: usize = 64 * 1024;

/// Of a line so much may be there, whatever others have: enough for most.
const OWN_BYTES: usize = 1024 * 1024;

pub(super) struct Lines<R> {
    input: BufReader<R>,
    budget: Arc<Budget>,
}

/// What was read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Heard {
    /// A line that is not empty, without its end.
    Line(Vec<u8>),
    /// One that was too long; all of it is gone.
    TooLong,
    /// One for which there was no room beside all the others; its beginning is there.
    NoRoom { beginning: Vec<u8> },
    /// It took too long.
    Silence,
    /// There are no more.
    End,
}

/// How long to wait. `None` is forever.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Patience {
    /// For a line to begin.
    pub(super) first: Option<Duration>,
    /// For the rest of it.
    pub(super) rest: Option<Duration>,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    pub(super) fn new(input: R, budget: Arc<Budget>) -> Self {
        Self { input: BufReader::with_capacity(BUFFER_BYTES, input), budget }
    }

    pub(super) async fn next(&mut self, patience: Patience) -> io::Result<Heard> {
        let begin = patience.first.map(|first| Instant::now() + first);
        loop {
            let mut line = Gathered::default();
            let mut held = self.budget.hold();
            let mut gathered = 0;
            let mut until = begin;
            loop {
                let part = match until {
                    None => self.input.fill_buf().await?,
                    Some(until) => match timeout_at(until, self.input.fill_buf()).await {
                        Ok(part) => part?,
                        Err(_) => return Ok(Heard::Silence),
                    },
                };
                if part.is_empty() {
                    return Ok(Heard::End);
                }
                let (used, ended) = line.take(part, |bytes| {
                    gathered += bytes;
                    gathered <= OWN_BYTES || held.more(bytes)
                });
                self.input.consume(used);
                if ended {
                    break;
                }
                if until == begin {
                    until = patience.rest.map(|rest| Instant::now() + rest);
                }
            }
            match line.end() {
                Ended::Line(line) => return Ok(Heard::Line(line)),
                Ended::TooLong => return Ok(Heard::TooLong),
                Ended::Refused { beginning } => return Ok(Heard::NoRoom { beginning }),
                Ended::Empty => {}
            }
        }
    }
}

/// A shared stream, read.
pub(super) struct Reading<'a>(pub(super) &'a UnixStream);

impl AsyncRead for Reading<'_> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            match self.0.poll_read_ready(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Ready(Ok(())) => {}
            }
            match self.0.try_read(buffer.initialize_unfilled()) {
                Ok(read) => {
                    buffer.advance(read);
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}
