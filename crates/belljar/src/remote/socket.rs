//! Where the daemon listens, and whether it is ours.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use belljar_core::{Backend, SandboxError};

/// The variable that moves the daemon's socket.
pub const SOCKET_VARIABLE: &str = "BELLJAR_SOCKET";

/// Where a daemon listens on Windows.
pub const WINDOWS_PIPE: &str = r"\\.\pipe\rlm-daemon";

/// What every pipe of a Windows machine is called.
const PIPES: &str = r"\\.\pipe\";

/// What a daemon's socket is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A file.
    Unix,
    /// A named pipe, of which no file system knows.
    Pipe,
}

/// The socket as the process's environment names it: `$BELLJAR_SOCKET`, else `~/.rlm/daemon.sock`,
/// or [`WINDOWS_PIPE`] where the system is Windows.
///
/// # Errors
/// When the variable is not an absolute path (the name of a pipe), or is unset and there is no home
/// directory.
pub fn socket_path() -> Result<PathBuf, SandboxError> {
    let kind = if cfg!(windows) { Kind::Pipe } else { Kind::Unix };
    from_values(kind, std::env::var_os(SOCKET_VARIABLE), std::env::home_dir())
}

fn from_values(
    kind: Kind,
    variable: Option<OsString>,
    user_home: Option<PathBuf>,
) -> Result<PathBuf, SandboxError> {
    let named = variable.filter(|value| !value.is_empty()).map(PathBuf::from);
    match kind {
        Kind::Unix => unix_socket(named, user_home),
        Kind::Pipe => pipe(named),
    }
}

fn unix_socket(named: Option<PathBuf>, home: Option<PathBuf>) -> Result<PathBuf, SandboxError> {
    let hint = Some(format!("set {SOCKET_VARIABLE} to an absolute path"));
    match named {
        Some(path) if path.is_absolute() => Ok(path),
        Some(path) => {
            let reason = format!("its socket {} is not an absolute path", path.display());
            Err(unavailable(reason, hint))
        }
        None => match home.filter(|path| path.is_absolute()) {
            Some(home) => Ok(home.join(".rlm").join("daemon.sock")),
            None => Err(unavailable("there is no home directory to find it in".to_owned(), hint)),
        },
    }
}

fn pipe(named: Option<PathBuf>) -> Result<PathBuf, SandboxError> {
    let is_pipe = |path: &Path| {
        // Names of pipes are the same in whatever case.
        let name = path.to_str().unwrap_or_default();
        name.get(..PIPES.len()).is_some_and(|start| start.eq_ignore_ascii_case(PIPES))
            && name.len() > PIPES.len()
    };
    match named {
        None => Ok(PathBuf::from(WINDOWS_PIPE)),
        Some(path) if is_pipe(&path) => Ok(path),
        Some(path) => Err(unavailable(
            format!("its socket {} is not the name of a pipe", path.display()),
            Some(format!(r"set {SOCKET_VARIABLE} to {PIPES}NAME")),
        )),
    }
}

fn unavailable(reason: String, hint: Option<String>) -> SandboxError {
    SandboxError::BackendUnavailable { backend: Backend::Daemon, reason, hint }
}

#[cfg(unix)]
pub use unix::available;
#[cfg(unix)]
pub(super) use unix::connect;

#[cfg(unix)]
mod unix {
    use std::io;
    use std::os::unix::fs::{FileTypeExt, MetadataExt};
    use std::path::Path;
    use std::time::Duration;

    use belljar_core::SandboxError;
    use belljar_core::protocol::methods::Hello;
    use interprocess::local_socket::traits::Stream as _;
    use rustix::process::geteuid;

    use super::unavailable;
    use crate::remote::connection::Connection;
    use crate::remote::local::{self, Stream};

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
    pub(in crate::remote) fn connect(socket: &Path) -> Result<Stream, SandboxError> {
        check_owner(socket)?;
        let stream = patient(socket).map_err(|error| {
            let shown = socket.display();
            match error.kind() {
                io::ErrorKind::ConnectionRefused => unavailable(
                    format!("nobody listens at {shown}; the daemon that did has ended"),
                    start_it(),
                ),
                io::ErrorKind::TimedOut => unavailable(
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
    fn check_peer(stream: &Stream, socket: &Path) -> Result<(), SandboxError> {
        if local::is_of_this_user(stream).is_ok_and(|same| same) {
            return Ok(());
        }
        let reason = format!("whoever listens at {} is another user", socket.display());
        Err(unavailable(reason, None))
    }

    /// The same time holds for the connection and for every message that is sent.
    fn patient(socket: &Path) -> io::Result<Stream> {
        let stream = local::connect(socket, PATIENCE)?;
        stream.set_send_timeout(Some(PATIENCE))?;
        Ok(stream)
    }

    fn start_it() -> Option<String> {
        Some("start it with `belljar daemon start`".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn located(kind: Kind, variable: Option<&str>, home: Option<&str>) -> Result<PathBuf, String> {
        from_values(kind, variable.map(OsString::from), home.map(PathBuf::from))
            .map_err(|error| error.to_string())
    }

    #[test]
    fn the_variable_wins_over_the_home_directory() {
        let located = |variable, home| located(Kind::Unix, variable, home);
        assert_eq!(located(Some("/x/s"), Some("/home/u")), Ok("/x/s".into()));
        assert_eq!(located(None, Some("/home/u")), Ok("/home/u/.rlm/daemon.sock".into()));
        assert_eq!(located(Some(""), Some("/home/u")), Ok("/home/u/.rlm/daemon.sock".into()));
    }

    #[test]
    fn a_relative_or_missing_directory_is_refused() {
        insta::assert_snapshot!(
            located(Kind::Unix, Some("here"), Some("/home/u")).unwrap_err(),
            @"the daemon backend cannot be used: its socket here is not an absolute path; nothing was run"
        );
        assert!(located(Kind::Unix, None, None).is_err());
    }

    #[test]
    fn on_windows_it_is_a_pipe_whatever_the_home_directory() {
        let located = |variable| located(Kind::Pipe, variable, Some(r"C:\Users\u"));
        assert_eq!(located(None), Ok(WINDOWS_PIPE.into()));
        assert_eq!(located(Some("")), Ok(WINDOWS_PIPE.into()));
        assert_eq!(located(Some(r"\\.\PIPE\mine")), Ok(r"\\.\PIPE\mine".into()));
        for other in [r"\\.\pipe\", r"C:\daemon.sock", "/x/s", r"\\server\pipe\x"] {
            assert!(located(Some(other)).is_err(), "{other}");
        }
        insta::assert_snapshot!(
            located(Some("/x/s")).unwrap_err(),
            @"the daemon backend cannot be used: its socket /x/s is not the name of a pipe; nothing was run"
        );
    }

    #[cfg(unix)]
    #[test]
    fn a_listener_whose_queue_is_full_is_given_time_and_then_given_up() {
        use crate::remote::local::connect;
        use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, bind, listen, socket};
        use std::time::Duration;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let listener = socket(AddressFamily::UNIX, SocketType::STREAM, None).unwrap();
        bind(&listener, &SocketAddrUnix::new(&path).unwrap()).unwrap();
        listen(&listener, 0).unwrap();
        let first = connect(&path, Duration::ZERO).unwrap();
        let full = connect(&path, Duration::from_millis(20)).unwrap_err();
        assert_eq!(full.kind(), std::io::ErrorKind::TimedOut);
        // The twin: when somebody is taken from the queue there is room in time.
        let taking = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(20));
            rustix::net::accept(&listener).map(|taken| (taken, listener)).unwrap()
        });
        connect(&path, Duration::from_secs(20)).unwrap();
        drop((first, taking.join().unwrap()));
    }
}
