//! Where the daemon listens, and whether it is ours.

use std::ffi::OsString;
use std::path::PathBuf;

use belljar_core::{Backend, SandboxError};

/// The variable that moves the daemon's socket.
pub const SOCKET_VARIABLE: &str = "BELLJAR_SOCKET";

/// Where a daemon listens on Windows. This version has no client for it.
pub const WINDOWS_PIPE: &str = r"\\.\pipe\rlm-daemon";

/// The socket as the process's environment names it: `$BELLJAR_SOCKET`, else `~/.rlm/daemon.sock`.
///
/// # Errors
/// When the variable is not an absolute path, or is unset and there is no home directory.
pub fn socket_path() -> Result<PathBuf, SandboxError> {
    from_values(std::env::var_os(SOCKET_VARIABLE), std::env::home_dir())
}

fn from_values(
    variable: Option<OsString>,
    user_home: Option<PathBuf>,
) -> Result<PathBuf, SandboxError> {
    let hint = Some(format!("set {SOCKET_VARIABLE} to an absolute path"));
    match variable.filter(|value| !value.is_empty()).map(PathBuf::from) {
        Some(path) if path.is_absolute() => Ok(path),
        Some(path) => {
            let reason = format!("its socket {} is not an absolute path", path.display());
            Err(unavailable(reason, hint))
        }
        None if cfg!(windows) => Ok(PathBuf::from(WINDOWS_PIPE)),
        None => match user_home.filter(|path| path.is_absolute()) {
            Some(home) => Ok(home.join(".rlm").join("daemon.sock")),
            None => Err(unavailable("there is no home directory to find it in".to_owned(), hint)),
        },
    }
}

fn unavailable(reason: String, hint: Option<String>) -> SandboxError {
    SandboxError::BackendUnavailable { backend: Backend::Daemon, reason, hint }
}

#[cfg(unix)]
pub use unix::available;
#[cfg(unix)]
pub(super) use unix::connect;
#[cfg(all(target_os = "linux", feature = "docker"))]
pub(crate) use unix::stream_to;

#[cfg(unix)]
mod unix {
    use std::io;
    use std::os::unix::fs::{FileTypeExt, MetadataExt};
    use std::os::unix::net::UnixStream;
    use std::path::Path;
    use std::time::Duration;

    use belljar_core::SandboxError;
    use belljar_core::protocol::methods::Hello;
    use rustix::process::geteuid;

    use super::unavailable;
    use crate::remote::connection::Connection;

    /// How long a daemon may take to take a connection, or a message.
    const PATIENCE: Duration = Duration::from_secs(10);

    /// Who answers at a socket, if it is a daemon of this user and of this version.
    ///
    /// # Errors
    /// Why there is none that could be used.
    pub fn available(socket: &Path) -> Result<Hello, SandboxError> {
        Connection::open(socket).map(|(_, hello)| hello)
    }

    /// A connection to whoever listens there, if that is this user.
    pub(in crate::remote) fn connect(socket: &Path) -> Result<UnixStream, SandboxError> {
        check_owner(socket)?;
        let stream = stream_to(socket, PATIENCE).map_err(|error| {
            let shown = socket.display();
            match error.kind() {
                io::ErrorKind::ConnectionRefused => unavailable(
                    format!("nobody listens at {shown}; the daemon that did has ended"),
                    start_it(),
                ),
                io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => unavailable(
                    format!("whoever listens at {shown} does not take connections"),
                    Some("`belljar daemon stop`, then `belljar daemon start`".to_owned()),
                ),
                _ => unavailable(format!("{shown}: {error}"), start_it()),
            }
        })?;
        check_peer(&stream, socket)?;
        Ok(stream)
    }

    /// A socket is as trustworthy as whoever can put one there.
    fn check_owner(socket: &Path) -> Result<(), SandboxError> {
        let shown = socket.display();
        let looked = |path: &Path, found: io::Result<std::fs::Metadata>| {
            found.map_err(|error| match error.kind() {
                io::ErrorKind::NotFound => {
                    unavailable(format!("none runs: there is no {shown}"), start_it())
                }
                _ => unavailable(format!("{}: {error}", path.display()), None),
            })
        };
        let folder = socket.parent().unwrap_or(Path::new("/"));
        let (here, above) =
            (looked(socket, socket.symlink_metadata())?, looked(folder, folder.metadata())?);
        if !here.file_type().is_socket() {
            return Err(unavailable(format!("{shown} is no socket"), None));
        }
        let own = geteuid().as_raw();
        if here.uid() != own || above.uid() != own {
            let reason = format!("{shown}, or the directory it is in, belongs to another user");
            return Err(unavailable(reason, None));
        }
        if above.mode() & 0o022 != 0 {
            let reason = format!("others may write to {}", folder.display());
            let hint = format!("chmod 700 {}", folder.display());
            return Err(unavailable(reason, Some(hint)));
        }
        Ok(())
    }

    /// The file may be ours, and another user behind it.
    #[cfg(target_os = "linux")]
    fn check_peer(stream: &UnixStream, socket: &Path) -> Result<(), SandboxError> {
        let peer = rustix::net::sockopt::socket_peercred(stream);
        if peer.is_ok_and(|peer| peer.uid == geteuid()) {
            return Ok(());
        }
        let reason = format!("whoever listens at {} is another user", socket.display());
        Err(unavailable(reason, None))
    }

    #[cfg(not(target_os = "linux"))]
    fn check_peer(_: &UnixStream, _: &Path) -> Result<(), SandboxError> {
        Ok(())
    }

    /// A listener whose queue is full makes whoever connects wait, which is why the time is set
    /// before. The same time holds for every message that is sent.
    #[cfg(target_os = "linux")]
    pub(crate) fn stream_to(socket: &Path, patience: Duration) -> io::Result<UnixStream> {
        use rustix::net::sockopt::{Timeout, set_socket_timeout};
        use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
        let address = SocketAddrUnix::new(socket)?;
        let (family, kind) = (AddressFamily::UNIX, SocketType::STREAM);
        let stream = rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC, None)?;
        set_socket_timeout(&stream, Timeout::Send, Some(patience))?;
        rustix::net::connect(&stream, &address)?;
        Ok(UnixStream::from(stream))
    }

    #[cfg(not(target_os = "linux"))]
    fn stream_to(socket: &Path, patience: Duration) -> io::Result<UnixStream> {
        let stream = UnixStream::connect(socket)?;
        stream.set_write_timeout(Some(patience))?;
        Ok(stream)
    }

    fn start_it() -> Option<String> {
        Some("start it with `belljar daemon start`".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn located(variable: Option<&str>, home: Option<&str>) -> Result<PathBuf, String> {
        from_values(variable.map(OsString::from), home.map(PathBuf::from))
            .map_err(|error| error.to_string())
    }

    #[test]
    fn the_variable_wins_over_the_home_directory() {
        assert_eq!(located(Some("/x/s"), Some("/home/u")), Ok("/x/s".into()));
        assert_eq!(located(None, Some("/home/u")), Ok("/home/u/.rlm/daemon.sock".into()));
        assert_eq!(located(Some(""), Some("/home/u")), Ok("/home/u/.rlm/daemon.sock".into()));
    }

    #[test]
    fn a_relative_or_missing_directory_is_refused() {
        insta::assert_snapshot!(
            located(Some("here"), Some("/home/u")).unwrap_err(),
            @"the daemon backend cannot be used: its socket here is not an absolute path; nothing was run"
        );
        assert!(located(None, None).is_err());
    }
}
