//! Descriptors that never make the host wait: reading what is there, writing what fits.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::task::{Wake, Waker};

use belljar_core::limits::{
    MAX_BEGUN_CALLS, MAX_REQUEST_BYTES, MAX_RESPONSE_BYTES, MAX_WAITING_BYTES,
};
use rustix::event::EventfdFlags;
use rustix::io::Errno;

/// Read at once; what a pipe holds.
const CHUNK_BYTES: usize = 64 * 1024;

/// The largest request and all answers that tools may have ready for a guest.
const MAX_UNREAD_BYTES: usize = MAX_REQUEST_BYTES + MAX_WAITING_BYTES;

/// More messages than a guest may have calls outstanding.
const MAX_UNREAD_LINES: usize = 2 * MAX_BEGUN_CALLS;

/// What can be read without waiting.
pub(super) enum Got<'a> {
    Bytes(&'a [u8]),
    Nothing,
    End,
}

/// The end of a pipe that the host reads.
pub(super) struct Stream {
    fd: Option<OwnedFd>,
    chunk: Box<[u8]>,
}

impl Stream {
    pub(super) fn new(fd: OwnedFd) -> rustix::io::Result<Self> {
        rustix::io::ioctl_fionbio(&fd, true)?;
        Ok(Self { fd: Some(fd), chunk: vec![0; CHUNK_BYTES].into() })
    }

    /// `None` once it has ended.
    pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.fd.as_ref().map(AsFd::as_fd)
    }

    pub(super) fn read(&mut self) -> Got<'_> {
        let Some(fd) = &self.fd else { return Got::End };
        loop {
            match rustix::io::read(fd, &mut *self.chunk) {
                Ok(len @ 1..) => return Got::Bytes(&self.chunk[..len]),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Got::Nothing,
                Ok(0) | Err(_) => {
                    self.fd = None;
                    return Got::End;
                }
            }
        }
    }
}

/// The host's end of the protocol: lines in, lines out.
pub(crate) struct Lines<S> {
    socket: S,
    /// Read, and not yet a whole line.
    begun: Vec<u8>,
    whole: VecDeque<Vec<u8>>,
    /// To be written, how much that is, and how much of the first is written.
    waiting: VecDeque<Vec<u8>>,
    unread_bytes: usize,
    written: usize,
}

/// Why a channel is of no use any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Broken {
    /// The other side has closed it.
    Closed,
    /// A line was longer than any message may be.
    TooLong,
    /// The other side asks and asks and does not read the answers.
    NotRead,
}

impl<S: Read + Write> Lines<S> {
    /// The socket has to be one that does not block.
    pub(crate) fn new(socket: S) -> Self {
        let (whole, waiting) = (VecDeque::new(), VecDeque::new());
        Self { socket, begun: Vec::new(), whole, waiting, unread_bytes: 0, written: 0 }
    }

    pub(crate) const fn socket(&self) -> &S {
        &self.socket
    }

    pub(crate) fn wants_to_write(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Whether there are lines that were read and not yet given out.
    pub(super) fn has_more(&self) -> bool {
        !self.whole.is_empty()
    }

    pub(crate) fn send(&mut self, line: Vec<u8>) -> Result<(), Broken> {
        self.unread_bytes += line.len();
        self.waiting.push_back(line);
        self.write()?;
        let too_many = self.waiting.len() > MAX_UNREAD_LINES;
        let unread = too_many || self.unread_bytes > MAX_UNREAD_BYTES;
        if unread { Err(Broken::NotRead) } else { Ok(()) }
    }

    /// Writes what fits.
    pub(crate) fn write(&mut self) -> Result<(), Broken> {
        while let Some(line) = self.waiting.front() {
            match self.socket.write(&line[self.written..]) {
                Ok(0) => return Err(Broken::Closed),
                Ok(len) if self.written + len == line.len() => {
                    self.unread_bytes -= line.len();
                    self.waiting.pop_front();
                    self.written = 0;
                }
                Ok(len) => self.written += len,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(_) => return Err(Broken::Closed),
            }
        }
        Ok(())
    }

    /// The next whole line, read as far as there is one. `None` when it has not come yet.
    pub(crate) fn next(&mut self) -> Result<Option<Vec<u8>>, Broken> {
        if let Some(line) = self.whole.pop_front() {
            return Ok(Some(line));
        }
        let mut chunk = [0; 16 * 1024];
        loop {
            match self.socket.read(&mut chunk) {
                Ok(0) => return Err(Broken::Closed),
                Ok(len) => {
                    self.take(&chunk[..len])?;
                    if let Some(line) = self.whole.pop_front() {
                        return Ok(Some(line));
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(_) => return Err(Broken::Closed),
            }
        }
    }

    fn take(&mut self, bytes: &[u8]) -> Result<(), Broken> {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.begun.extend_from_slice(piece);
            if piece.ends_with(b"\n") {
                self.whole.push_back(std::mem::take(&mut self.begun));
            }
        }
        if self.begun.len() > MAX_RESPONSE_BYTES { Err(Broken::TooLong) } else { Ok(()) }
    }
}

/// Wakes a thread that waits for descriptors.
pub(super) struct Bell(OwnedFd);

impl Bell {
    pub(super) fn new() -> rustix::io::Result<Arc<Self>> {
        let flags = EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC;
        Ok(Arc::new(Self(rustix::event::eventfd(0, flags)?)))
    }

    pub(super) fn waker(self: &Arc<Self>) -> Waker {
        Waker::from(Arc::clone(self))
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    pub(super) fn silence(&self) {
        // It rings or it does not; either way it is silent now.
        let _ = rustix::io::read(&self.0, &mut [0; 8]);
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // A bell that rings already need not ring louder.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }
}

impl std::fmt::Debug for Bell {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Bell({})", self.0.as_raw_fd())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    fn pair() -> (Lines<UnixStream>, UnixStream) {
        let (near, far) = UnixStream::pair().unwrap();
        near.set_nonblocking(true).unwrap();
        (Lines::new(near), far)
    }

    #[test]
    fn lines_come_whole_however_they_were_written() {
        let (mut lines, mut far) = pair();
        assert_eq!(lines.next(), Ok(None));
        far.write_all(b"one\ntwo\nth").unwrap();
        assert_eq!(lines.next(), Ok(Some(b"one\n".to_vec())));
        assert_eq!(lines.next(), Ok(Some(b"two\n".to_vec())));
        assert_eq!(lines.next(), Ok(None));
        far.write_all(b"ree\n").unwrap();
        assert_eq!(lines.next(), Ok(Some(b"three\n".to_vec())));
        drop(far);
        assert_eq!(lines.next(), Err(Broken::Closed));
    }

    #[test]
    fn a_line_without_end_breaks_the_channel() {
        let (mut lines, mut far) = pair();
        let writer = std::thread::spawn(move || {
            let chunk = vec![b'x'; 1024 * 1024];
            while far.write_all(&chunk).is_ok() {}
        });
        let broken = loop {
            match lines.next() {
                Ok(_) => std::thread::yield_now(),
                Err(broken) => break broken,
            }
        };
        assert_eq!(broken, Broken::TooLong);
        drop(lines);
        writer.join().unwrap();
    }

    #[test]
    fn answers_that_nobody_reads_are_not_kept_without_end() {
        let (mut lines, _far) = pair();
        let line = vec![b'x'; 8 * 1024 * 1024];
        let most = MAX_UNREAD_BYTES / line.len() + 2;
        let sent = (0..most).take_while(|_| lines.send(line.clone()).is_ok()).count();
        assert!(sent < most && sent * line.len() + line.len() >= MAX_UNREAD_BYTES, "{sent}");
    }

    #[test]
    fn writing_to_somebody_who_does_not_read_does_not_wait() {
        let (mut lines, far) = pair();
        for _ in 0..100 {
            lines.send(vec![b'x'; 64 * 1024]).unwrap();
        }
        assert!(lines.wants_to_write());
        drop(far);
        assert_eq!(lines.write(), Err(Broken::Closed));
    }
}
