//! The socket: where it is, who may have it, and what becomes of one that was left behind.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use belljar::remote::local::name_of;
use interprocess::local_socket::ListenerOptions;
use interprocess::local_socket::traits::Listener as _;
use interprocess::os::unix::local_socket::ListenerOptionsExt;
use interprocess::os::unix::uds_local_socket::Listener;

use super::errors::DaemonError;

/// Something that only one daemon has.
#[derive(Debug)]
pub(super) struct Lock {
    _file: File,
}

impl Lock {
    /// Takes a lock that the system gives back whatever becomes of this process.
    pub(super) fn take(path: &Path) -> Result<Self, DaemonError> {
        let failed = |error: io::Error| place(path, &error.to_string());
        let mut options = OpenOptions::new();
        let file = options.write(true).create(true).truncate(false).mode(0o600).open(path);
        let file = file.map_err(failed)?;
        match file.try_lock() {
            Ok(()) => Ok(Self { _file: file }),
            Err(TryLockError::WouldBlock) => Err(DaemonError::Running { path: path.to_owned() }),
            Err(TryLockError::Error(error)) => Err(failed(error)),
        }
    }
}

/// The socket of a running daemon.
pub(super) struct Socket {
    path: PathBuf,
    /// Which file it was; none when a service manager made it.
    identity: Option<(u64, u64)>,
    _lock: Option<Lock>,
}

impl Socket {
    /// A socket that a service manager has opened for us, or a new one at `path`.
    pub(super) fn open(path: &Path) -> Result<(Self, Listener), DaemonError> {
        let given = listenfd::ListenFd::from_env().take_unix_listener(0);
        if let Some(listener) =
            given.map_err(DaemonError::system("take over the socket of the service manager"))?
        {
            let socket = Self { path: path.to_owned(), identity: None, _lock: None };
            return Ok((socket, listener.into()));
        }
        let directory = path.parent().unwrap_or(Path::new("/"));
        private_directory(directory)?;
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(".lock");
        let lock = Lock::take(&directory.join(name))?;
        let listener = bind(path)?;
        let identity = identity(path);
        Ok((Self { path: path.to_owned(), identity, _lock: Some(lock) }, listener))
    }

    /// A new listener, when somebody has removed the socket from its place.
    pub(super) fn renewed(&mut self) -> Option<Listener> {
        if self.identity.is_none() || identity(&self.path) == self.identity {
            return None;
        }
        let listener = bind(&self.path).ok()?;
        self.identity = identity(&self.path);
        Some(listener)
    }

    /// Nobody is to find it any more.
    pub(super) fn remove(&self) {
        if self.identity.is_some() && identity(&self.path) == self.identity {
            // Somebody else was quicker.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Whoever holds the lock may replace what another daemon has left behind.
fn bind(path: &Path) -> Result<Listener, DaemonError> {
    let failed = |error: io::Error| place(path, &error.to_string());
    match std::fs::symlink_metadata(path) {
        Ok(found) if found.file_type().is_socket() => {
            std::fs::remove_file(path).map_err(failed)?;
        }
        Ok(_) => return Err(place(path, "there is something else than a socket")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(failed(error)),
    }
    let name = name_of(path).map_err(failed)?;
    // It is never there with another mode; and whoever removes it looks first whether it is ours.
    let options = ListenerOptions::new().name(name).mode(0o600).reclaim_name(false);
    Listener::from_options(options).map_err(failed)
}

/// Makes a directory for this user only. One that is there has to be this user's, and closed for
/// writing to others.
pub(super) fn private_directory(path: &Path) -> Result<(), DaemonError> {
    let failed = |error: io::Error| place(path, &error.to_string());
    DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(failed)?;
    let found = std::fs::metadata(path).map_err(failed)?;
    let me = rustix::process::geteuid().as_raw();
    if found.uid() != me {
        return Err(place(path, &format!("it belongs to user {}, not to {me}", found.uid())));
    }
    let mode = found.mode() & 0o777;
    if mode & 0o022 != 0 {
        return Err(place(path, &format!("others may write to it (mode {mode:o})")));
    }
    Ok(())
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    let found = std::fs::symlink_metadata(path).ok()?;
    Some((found.dev(), found.ino()))
}

fn place(path: &Path, problem: &str) -> DaemonError {
    DaemonError::Place { path: path.to_owned(), problem: problem.to_owned() }
}
