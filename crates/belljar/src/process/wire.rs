//! What the host and a driver speak through: a socket, or a pair of pipes where no socket can be
//! handed over.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use rustix::event::{PollFd, PollFlags, Timespec};

/// The host's end of the connection to a driver.
#[derive(Debug)]
pub(crate) enum Wire {
    Socket(UnixStream),
    #[cfg_attr(not(feature = "docker"), expect(dead_code, reason = "only containers have them"))]
    Pipes {
        from_driver: File,
        to_driver: File,
    },
}

impl Wire {
    pub(super) fn set_nonblocking(&self) -> io::Result<()> {
        rustix::io::ioctl_fionbio(self.reading(), true)?;
        Ok(rustix::io::ioctl_fionbio(self.writing(), true)?)
    }

    /// Whether the driver has hung up. What it said before can still be read.
    #[cfg_attr(not(feature = "docker"), expect(dead_code, reason = "only spare containers wait"))]
    pub(crate) fn is_closed(&self) -> bool {
        let mut fds = [PollFd::from_borrowed_fd(self.reading(), PollFlags::IN)];
        let asked = rustix::event::poll(&mut fds, Some(&Timespec::default()));
        asked.is_err() || fds.iter().any(|fd| fd.revents().contains(PollFlags::HUP))
    }

    /// Readable when the driver has said something.
    pub(super) fn reading(&self) -> BorrowedFd<'_> {
        match self {
            Self::Socket(socket) => socket.as_fd(),
            Self::Pipes { from_driver, .. } => from_driver.as_fd(),
        }
    }

    /// Writable when the driver has read something.
    pub(super) fn writing(&self) -> BorrowedFd<'_> {
        match self {
            Self::Socket(socket) => socket.as_fd(),
            Self::Pipes { to_driver, .. } => to_driver.as_fd(),
        }
    }
}

impl From<UnixStream> for Wire {
    fn from(socket: UnixStream) -> Self {
        Self::Socket(socket)
    }
}

impl Read for Wire {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Socket(socket) => socket.read(buffer),
            Self::Pipes { from_driver, .. } => from_driver.read(buffer),
        }
    }
}

impl Write for Wire {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Socket(socket) => socket.write(bytes),
            Self::Pipes { to_driver, .. } => to_driver.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
