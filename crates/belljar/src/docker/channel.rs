//! What host and container speak through: named pipes in a directory that the container sees
//! read-only. They lose their names before any code of the user's runs.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::{CWD, FileType, Mode, OFlags};
use tempfile::TempDir;

use crate::process::wire::Wire;

/// Where the container finds the pipes.
pub(super) const INSIDE: &str = "/run/belljar";

/// Waits for its pipes, says so, and becomes the program it is given. Ends with 127 where there is
/// no such program. The first argument bounds the memory of a process, in KiB.
pub(super) const BOOT: &str = r#"limit=$1; shift
command -v "$1" >/dev/null 2>&1 || exit 127
ulimit -d "$limit" || exit 126
cd /run/belljar || exit 125
exec 0</dev/null 1>stdout 2>stderr 3<in 4>out
cd /
echo ready >&4
exec "$@""#;

/// What is said when the pipes are open.
const READY: &[u8] = b"ready\n";

/// How often a container that is not ready is looked at.
const INTERVAL: Duration = Duration::from_millis(50);

/// The host's ends, opened before the container is started.
pub(super) struct Channel {
    folder: TempDir,
    stdout: File,
    stderr: File,
    from_driver: File,
    /// Open for reading too, so that neither side waits for the other to open it.
    both_ways: File,
}

/// The host's ends when the container has opened its own.
pub(super) struct Opened {
    pub(super) protocol: Wire,
    pub(super) stdout: OwnedFd,
    pub(super) stderr: OwnedFd,
}

/// Why a container did not become ready.
pub(super) enum NotReady<E> {
    Ended(E),
    Late,
    Broken(io::Error),
}

impl Channel {
    pub(super) fn new() -> io::Result<Self> {
        // Nobody but us gets here, so that the pipes themselves can be open to the container's
        // user, who may be another.
        let private: Permissions = PermissionsExt::from_mode(0o700);
        let folder = tempfile::Builder::new().prefix("belljar-").permissions(private).tempdir()?;
        let pipes = pipes(folder.path());
        fs::create_dir(&pipes)?;
        fs::set_permissions(&pipes, Permissions::from_mode(0o755))?;
        let open = |name: &str, write: bool| {
            let path = pipes.join(name);
            rustix::fs::mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)?;
            fs::set_permissions(&path, Permissions::from_mode(0o666))?;
            let flags = (OFlags::NONBLOCK | OFlags::CLOEXEC).bits().cast_signed();
            OpenOptions::new().read(true).write(write).custom_flags(flags).open(path)
        };
        let (stdout, stderr) = (open("stdout", false)?, open("stderr", false)?);
        let (from_driver, both_ways) = (open("out", false)?, open("in", true)?);
        Ok(Self { folder, stdout, stderr, from_driver, both_ways })
    }

    /// A name that no other channel on this machine has.
    pub(super) fn name(&self) -> String {
        self.folder.path().file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// What is mounted.
    pub(super) fn host_folder(&self) -> PathBuf {
        pipes(self.folder.path())
    }

    /// Waits until the container has opened its ends. `ended` is asked now and then.
    pub(super) fn open<E>(
        mut self,
        patience: Duration,
        mut ended: impl FnMut() -> Option<E>,
    ) -> Result<Opened, NotReady<E>> {
        let until = Instant::now() + patience;
        let mut said = Vec::new();
        while said != READY {
            let mut byte = [0];
            match self.from_driver.read(&mut byte) {
                Ok(1) if READY.get(said.len()) == byte.first() => said.extend(byte),
                Ok(1) => return Err(NotReady::Broken(io::Error::other("it says something else"))),
                // Nobody has opened it yet, or nobody has it open any more.
                Ok(_) => self.wait(until, &mut ended)?,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.wait(until, &mut ended)?;
                }
                Err(error) => return Err(NotReady::Broken(error)),
            }
        }
        // Only a descriptor that cannot read notices that nobody reads any more.
        let flags = OFlags::NONBLOCK.bits().cast_signed();
        let path = pipes(self.folder.path()).join("in");
        let to_driver = OpenOptions::new().write(true).custom_flags(flags).open(path);
        drop(self.both_ways);
        Ok(Opened {
            protocol: Wire::Pipes {
                from_driver: self.from_driver,
                to_driver: to_driver.map_err(NotReady::Broken)?,
            },
            stdout: self.stdout.into(),
            stderr: self.stderr.into(),
        })
    }

    fn wait<E>(
        &self,
        until: Instant,
        ended: &mut impl FnMut() -> Option<E>,
    ) -> Result<(), NotReady<E>> {
        let started = Instant::now();
        let mut fds = [PollFd::new(&self.from_driver, PollFlags::IN)];
        // A pipe that was never opened is silent; one that was closed again rings at once.
        let _ = rustix::event::poll(&mut fds, Timespec::try_from(INTERVAL).ok().as_ref());
        let closed = fds.iter().any(|fd| fd.revents() == PollFlags::HUP);
        if closed || started.elapsed() >= INTERVAL {
            if let Some(end) = ended() {
                return Err(NotReady::Ended(end));
            }
            if closed {
                std::thread::sleep(INTERVAL);
            }
        }
        if Instant::now() >= until { Err(NotReady::Late) } else { Ok(()) }
    }
}

fn pipes(folder: &Path) -> PathBuf {
    folder.join("pipes")
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::process::{Command, Stdio};

    use super::*;

    /// The boot script, run here instead of in a container.
    fn boot(channel: &Channel, arguments: &[&str]) -> std::process::Child {
        let script = BOOT.replace(INSIDE, &channel.host_folder().display().to_string());
        Command::new("/bin/sh")
            .args(["-c", &script, "belljar"])
            .args(arguments)
            .stdin(Stdio::null())
            .spawn()
            .unwrap()
    }

    fn text(fd: OwnedFd) -> String {
        let mut file = File::from(fd);
        rustix::io::ioctl_fionbio(&file, false).unwrap();
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn a_program_is_spoken_to_and_its_output_read() {
        let channel = Channel::new().unwrap();
        let folder = channel.host_folder();
        let code = "read line <&3; echo \"heard $line\" >&4; echo printed; echo error >&2";
        let mut child = boot(&channel, &["unlimited", "sh", "-c", code]);
        let opened = channel.open(Duration::from_secs(10), || None::<()>);
        let Ok(Opened { mut protocol, stdout, stderr }) = opened else { panic!("not ready") };
        assert!(!folder.exists(), "nothing is left to be found");
        protocol.write_all(b"hello\n").unwrap();
        assert!(child.wait().unwrap().success());
        let mut heard = [0; 12];
        protocol.read_exact(&mut heard).unwrap();
        assert_eq!(
            (&heard, &*text(stdout), &*text(stderr)),
            (b"heard hello\n", "printed\n", "error\n")
        );
        assert_eq!(protocol.read(&mut heard).unwrap(), 0, "it has hung up");
    }

    #[test]
    fn a_program_that_is_not_there_ends_before_it_is_ready() {
        let channel = Channel::new().unwrap();
        let mut child = boot(&channel, &["unlimited", "no-such-program"]);
        let opened = channel
            .open(Duration::from_secs(10), || child.try_wait().unwrap().and_then(|end| end.code()));
        assert!(matches!(opened, Err(NotReady::Ended(127))));
    }

    #[test]
    fn what_never_opens_its_ends_is_given_up() {
        let channel = Channel::new().unwrap();
        let opened = channel.open(Duration::from_millis(120), || None::<()>);
        assert!(matches!(opened, Err(NotReady::Late)));
    }
}
