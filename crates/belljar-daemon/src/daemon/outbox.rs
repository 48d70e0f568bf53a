//! What goes out on a socket, from any task and without waiting. What the other side does not read
//! is kept up to a bound.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use rustix::net::{Shutdown, shutdown};
use tokio::net::UnixStream;
use tokio::sync::Notify;

use super::budget::{Budget, Held};

pub(super) struct Outbox {
    stream: Arc<UnixStream>,
    max_bytes: usize,
    state: Mutex<State>,
    /// There is something to write, or nothing ever again.
    changed: Notify,
}

struct State {
    queue: VecDeque<Vec<u8>>,
    /// What was written of the first.
    written: usize,
    bytes: usize,
    held: Held,
    closed: bool,
    /// When the other side took something last.
    taken: Instant,
}

/// Why a line was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unsent {
    /// Too much waits already; nothing more is taken from now on.
    Full,
    /// Nobody is there any more.
    Closed,
}

impl Outbox {
    pub(super) fn new(stream: Arc<UnixStream>, max_bytes: usize, budget: &Arc<Budget>) -> Self {
        let state = State {
            queue: VecDeque::new(),
            written: 0,
            bytes: 0,
            held: budget.hold(),
            closed: false,
            taken: Instant::now(),
        };
        Self { stream, max_bytes, state: Mutex::new(state), changed: Notify::new() }
    }

    /// Writes as much as the socket takes now; [`Outbox::run`] writes the rest.
    pub(super) fn push(&self, line: Vec<u8>) -> Result<(), Unsent> {
        let mut state = self.state();
        if state.closed {
            return Err(Unsent::Closed);
        }
        state.bytes += line.len();
        let room = state.held.more(line.len());
        state.queue.push_back(line);
        // A queue is somebody's who waits for the socket.
        if state.queue.len() == 1 {
            match self.write(&mut state) {
                Ok(()) => {}
                Err(_) => {
                    self.end(&mut state);
                    return Err(Unsent::Closed);
                }
            }
        }
        if state.bytes > self.max_bytes || (!room && !state.queue.is_empty()) {
            self.end(&mut state);
            return Err(Unsent::Full);
        }
        if !state.queue.is_empty() {
            self.changed.notify_one();
        }
        Ok(())
    }

    /// The same unless half of what may wait already does: then the line is given back, and whoever
    /// else uses the socket goes on.
    pub(super) fn offer(&self, line: Vec<u8>) -> Result<Result<(), Vec<u8>>, Unsent> {
        let waiting = self.state().bytes;
        if waiting > 0 && waiting + line.len() > self.max_bytes / 2 {
            return Ok(Err(line));
        }
        self.push(line).map(Ok)
    }

    /// When the other side took something last.
    pub(super) fn taken(&self) -> Instant {
        self.state().taken
    }

    /// Writes what could not be written at once, until the end.
    pub(super) async fn run(&self) {
        loop {
            self.changed.notified().await;
            loop {
                {
                    let mut state = self.state();
                    if state.closed {
                        return;
                    }
                    if self.write(&mut state).is_err() {
                        self.end(&mut state);
                        return;
                    }
                    if state.queue.is_empty() {
                        break;
                    }
                }
                tokio::select! {
                    ready = self.stream.writable() => if ready.is_err() { return },
                    () = self.changed.notified() => {}
                }
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.state().queue.is_empty()
    }

    /// Nothing more is said, and nothing heard.
    pub(super) fn close(&self) {
        self.end(&mut self.state());
    }

    /// Nothing more is said; the other side sees the end and may still answer.
    pub(super) fn finish(&self) {
        // Fails when the other side is gone.
        let _ = shutdown(&*self.stream, Shutdown::Write);
    }

    fn end(&self, state: &mut State) {
        state.closed = true;
        state.queue.clear();
        state.held.less(state.bytes);
        state.bytes = 0;
        let _ = shutdown(&*self.stream, Shutdown::Both);
        self.changed.notify_one();
    }

    fn write(&self, state: &mut State) -> io::Result<()> {
        while let Some(line) = state.queue.front() {
            let rest = line.get(state.written..).unwrap_or_default();
            let written = self.stream.try_write(rest);
            if written.is_ok() {
                state.taken = Instant::now();
            }
            match written {
                Ok(written) if written == rest.len() => {
                    let bytes = line.len();
                    state.bytes = state.bytes.saturating_sub(bytes);
                    state.held.less(bytes);
                    state.written = 0;
                    state.queue.pop_front();
                }
                Ok(written) => state.written += written,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;

    use super::*;

    #[tokio::test]
    async fn what_is_offered_beyond_half_is_given_back_and_the_rest_arrives() {
        let (near, mut far) = UnixStream::pair().unwrap();
        let outbox = Outbox::new(Arc::new(near), 8_000_000, &Budget::new(8_000_000));
        let line = || vec![b'x'; 3_000_000];
        assert_eq!(outbox.offer(line()), Ok(Ok(())));
        assert_eq!(outbox.offer(line()), Ok(Err(line())));
        assert_eq!(outbox.push(b"small".to_vec()), Ok(()));
        let before = outbox.taken();
        let mut read = vec![0; 3_000_005];
        tokio::select! {
            () = outbox.run() => panic!("it was closed"),
            read = far.read_exact(&mut read) => drop(read.unwrap()),
        }
        assert!(read.ends_with(b"small") && outbox.taken() > before);
        assert_eq!(outbox.offer(line()), Ok(Ok(())));
        // The twin: what is pushed beyond all bounds ends it.
        assert_eq!(outbox.push(vec![b'x'; 9_000_000]), Err(Unsent::Full));
        assert_eq!(outbox.offer(line()), Err(Unsent::Closed));
    }
}
