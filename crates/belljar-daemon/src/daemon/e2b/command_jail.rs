//! The jail of a sandbox's commands: what it sees, how much it may use, and how it is ended.

use std::io;
use std::path::Path;
use std::sync::Arc;

use tokio::net::UnixStream;

#[cfg(not(target_os = "linux"))]
pub(super) use elsewhere::{Held, end, start};
#[cfg(target_os = "linux")]
pub(super) use linux::{Held, end, start};

#[cfg(target_os = "linux")]
mod linux {
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream as StdStream;

    use belljar_jail::{Descriptors, JailPlan, Jailed, Limits as JailLimits, MemoryRule};

    use super::super::super::limits::Limits;
    use super::super::place::{HOME, Root, TMP};
    use super::{Arc, Path, UnixStream, io};

    const PROGRAM: &str = "/belljar/belljar";
    /// What fits in `/dev/shm`.
    const SHARED_BYTES: u64 = 64 * 1024 * 1024;
    const OPEN_FILES: u64 = 4096;

    /// A jail that runs.
    pub(in super::super) struct Held(Jailed);

    impl Held {
        pub(in super::super) fn memory_bytes(&self) -> u64 {
            self.0.peak_memory_bytes().unwrap_or(0)
        }

        /// What its processes hold of files that were removed; `None` when that cannot be known.
        pub(in super::super) fn removed_bytes(&self, root: &Root, most: u64) -> Option<u64> {
            belljar::removed_bytes(&self.0, root, most)
        }
    }

    /// Ends it, and waits until it has ended.
    pub(in super::super) async fn end(held: Arc<Held>) {
        let ended = tokio::task::spawn_blocking(move || {
            held.0.kill();
            // One whose end the system does not tell is ended when it is dropped.
            let _ = held.0.wait();
        });
        if ended.await.is_err() {
            tracing::error!("a jail was not ended in order");
        }
    }

    pub(in super::super) fn start(
        program: &Path,
        root: &Path,
        limits: &Limits,
    ) -> io::Result<(Held, UnixStream)> {
        let (ours, theirs) = StdStream::pair()?;
        let nowhere = || std::fs::File::options().write(true).open("/dev/null");
        let descriptors = Descriptors {
            protocol_out: OwnedFd::from(theirs.try_clone()?),
            protocol_in: theirs.into(),
            user_stdout: nowhere()?.into(),
            user_stderr: nowhere()?.into(),
        };
        let plan = plan(program, root, limits);
        let jailed = Jailed::spawn(&plan, descriptors).map_err(io::Error::other)?;
        ours.set_nonblocking(true)?;
        Ok((Held(jailed), UnixStream::from_std(ours)?))
    }

    /// It sees the sandbox's home and temporary files, and the system's programs.
    fn plan(program: &Path, root: &Path, limits: &Limits) -> JailPlan {
        let mut plan = JailPlan::new(PROGRAM);
        plan.workspace = Some(root.join(&HOME[1..]));
        plan.workspace_inside = HOME.into();
        plan.directory = HOME.into();
        plan.terminals = true;
        plan.with_system();
        plan.read_at(program, PROGRAM);
        plan.write_at(root.join(&TMP[1..]), TMP);
        plan.args = ["daemon", "agent"].map(str::to_owned).into();
        plan.env.insert("LANG".to_owned(), "C.UTF-8".to_owned());
        plan.limits = JailLimits {
            memory_bytes: limits.e2b_command_memory_bytes,
            memory_rule: MemoryRule::Group,
            // The agent's threads are some as well.
            max_processes: limits.e2b_processes.saturating_mul(4),
            max_open_files: OPEN_FILES,
            max_file_bytes: limits.e2b_disk_bytes,
            tmp_bytes: SHARED_BYTES,
            ..JailLimits::default()
        };
        plan
    }
}

#[cfg(not(target_os = "linux"))]
mod elsewhere {
    use super::super::super::limits::Limits;
    use super::super::place::Root;
    use super::{Arc, Path, UnixStream, io};

    pub(in super::super) struct Held;

    impl Held {
        pub(in super::super) fn memory_bytes(&self) -> u64 {
            0
        }

        pub(in super::super) fn removed_bytes(&self, _: &Root, _: u64) -> Option<u64> {
            None
        }
    }

    pub(in super::super) async fn end(_: Arc<Held>) {}

    pub(in super::super) fn start(
        _: &Path,
        _: &Path,
        _: &Limits,
    ) -> io::Result<(Held, UnixStream)> {
        Err(io::Error::other("there are no jails on this system"))
    }
}
