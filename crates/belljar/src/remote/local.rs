//! Local streams: a Unix socket, or a named pipe where the system is Windows. `interprocess` has both
//! behind one type; what only Unix has stands in [`unix`].

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use interprocess::ConnectWaitMode;
pub use interprocess::local_socket::Stream;
use interprocess::local_socket::prelude::*;
use interprocess::local_socket::{ConnectOptions, GenericFilePath, Name};

/// How long to wait before somebody whose queue is full is tried again.
const AGAIN: Duration = Duration::from_millis(5);

/// What `interprocess` calls whoever listens at a path: a socket's, or a pipe's (`\\.\pipe\…`).
///
/// # Errors
/// When the system has no such names.
pub fn name_of(path: &Path) -> io::Result<Name<'_>> {
    path.to_fs_name::<GenericFilePath>()
}

/// A connection to whoever listens there. A listener whose queue is full is given that long.
///
/// # Errors
/// When nobody listens, or nobody takes the connection in time ([`io::ErrorKind::TimedOut`]).
pub fn connect(path: &Path, patience: Duration) -> io::Result<Stream> {
    let until = Instant::now() + patience;
    // Neither system waits by itself for as long as we want.
    let mode = if cfg!(windows) { ConnectWaitMode::Unbounded } else { ConnectWaitMode::Deferred };
    loop {
        let options = ConnectOptions::new().name(name_of(path)?).wait_mode(mode);
        let connected = options.connect_sync().and_then(|stream| {
            // Without a peer it is one that Linux has put off, and will not come back to.
            let taken = is_taken(&stream);
            taken.then_some(stream).ok_or_else(|| io::ErrorKind::WouldBlock.into())
        });
        match connected {
            Err(error) if is_full(&error) && Instant::now() < until => std::thread::sleep(AGAIN),
            Err(error) if is_full(&error) => return Err(io::ErrorKind::TimedOut.into()),
            Err(error) => return Err(error),
            Ok(stream) => {
                stream.set_nonblocking(false)?;
                return Ok(stream);
            }
        }
    }
}

/// Linux says so of a queue, Windows of a pipe whose ends are all in use.
fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::ResourceBusy)
}

#[cfg(unix)]
use unix::is_taken;
#[cfg(unix)]
pub use unix::{hang_up, is_of_this_user};

/// What Windows does otherwise: there a pipe's own rules say who may open it, and an end that is
/// dropped is closed.
#[cfg(unix)]
mod unix {
    use std::net::Shutdown;

    use interprocess::local_socket::traits::StreamCommon;
    use rustix::process::geteuid;

    use super::{Stream, io};

    /// Whether the other side runs as the same user.
    ///
    /// # Errors
    /// When the system does not tell.
    pub fn is_of_this_user(stream: &impl StreamCommon) -> io::Result<bool> {
        Ok(stream.peer_creds()?.euid() == Some(geteuid().as_raw()))
    }

    /// Ends a connection for everybody who has it, on both sides.
    pub fn hang_up(stream: &Stream) {
        let Stream::UdSocket(socket) = stream;
        // Fails when the other side has.
        let _ = socket.inner().shutdown(Shutdown::Both);
    }

    pub(super) fn is_taken(stream: &Stream) -> bool {
        let Stream::UdSocket(socket) = stream;
        socket.inner().peer_addr().is_ok()
    }
}

#[cfg(windows)]
fn is_taken(_: &Stream) -> bool {
    true
}
