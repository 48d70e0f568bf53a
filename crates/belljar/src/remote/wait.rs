//! Waiting for a stream and for a bell at once. Only Unix can wait for both like this.

use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::local::Stream;

/// Rung by any thread to wake the one that waits for a stream.
#[derive(Debug)]
pub(super) struct Bell {
    heard: PipeReader,
    rope: PipeWriter,
    /// Was rung and not heard yet: the pipe never holds more than one byte.
    rung: AtomicBool,
}

/// Why there is no more to wait for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Woken {
    /// Something can be read, or the stream has ended.
    Readable,
    /// The bell was rung, or the time is over.
    Otherwise,
}

impl Bell {
    pub(super) fn new() -> io::Result<Self> {
        let (heard, rope) = io::pipe()?;
        Ok(Self { heard, rope, rung: AtomicBool::new(false) })
    }

    pub(super) fn ring(&self) {
        if !self.rung.swap(true, Ordering::AcqRel) {
            // Both ends are ours.
            let _ = (&self.rope).write(&[0]);
        }
    }

    /// Waits until `until`. Whoever has waited looks at what the bell may have been rung for.
    pub(super) fn wait_for(&self, stream: &Stream, until: Instant) -> io::Result<Woken> {
        let Stream::UdSocket(socket) = stream;
        let mut both = [
            PollFd::new(socket, PollFlags::IN),
            PollFd::from_borrowed_fd(self.heard.as_fd(), PollFlags::IN),
        ];
        let time = Timespec::try_from(until.saturating_duration_since(Instant::now())).ok();
        match poll(&mut both, time.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let [stream, bell] = both.map(|it| !it.revents().is_empty());
        if bell {
            (&self.heard).read_exact(&mut [0])?;
            self.rung.store(false, Ordering::Release);
        }
        Ok(if stream { Woken::Readable } else { Woken::Otherwise })
    }
}
