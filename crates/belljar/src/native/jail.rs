//! From a launch plan to a jail, and from a jail to something that can be spoken to.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use belljar_core::limits::MAX_OPEN_FILES;
use belljar_core::{Backend, ResolvedPolicy, SandboxError, Survives};
use belljar_jail::{Descriptors, JailError, JailPlan, Jailed, Limits, Link, WORKSPACE};
use rustix::pipe::PipeFlags;

use super::PACKAGES;
use crate::plan::{LaunchPlan, SITE_PACKAGES_DIR};
use crate::process::launch::{Ancestor, Ended, Launched, Process};

/// Programs a jailed one may find without naming their folder.
const SEARCH_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Memory of a policy that sets no limit: the jail always has one.
const MEMORY_BYTES: u64 = 4 * 1024 * 1024 * 1024;

/// Processes of a policy that sets no limit.
const PROCESSES: u64 = 64;

/// What fits in `/tmp`, unless the memory limit is smaller: it is memory.
const TMP_BYTES: u64 = 64 * 1024 * 1024;

/// How often a process that should end is looked at.
const INTERVAL: Duration = Duration::from_micros(500);

/// A jail for a program that sees the directories of the plan and the system's own.
pub(crate) fn plan(plan: &LaunchPlan, program: &Path) -> JailPlan {
    let mut jail = JailPlan::new(program);
    jail.with_system();
    jail.workspace = Some(plan.workspace.clone());
    let workspace = plan.policy.guest_mount_path();
    if workspace != WORKSPACE {
        jail.links.push(Link { inside: workspace.into(), to: WORKSPACE.into() });
    }
    let packages = format!("{workspace}/{SITE_PACKAGES_DIR}");
    for mount in plan.mounts.iter().skip(1) {
        let inside = if mount.guest == packages { PACKAGES } else { &mount.guest };
        jail.read_at(&mount.host, inside);
    }
    let env = [("PATH", SEARCH_PATH), ("HOME", WORKSPACE), ("LANG", "C.UTF-8"), ("TMPDIR", "/tmp")];
    jail.env = env.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    // Each thread that allocates would reserve 64 MiB of addresses, which may be what is counted.
    jail.env.insert("MALLOC_ARENA_MAX".to_owned(), "1".to_owned());
    jail.limits = limits(&plan.policy);
    jail
}

/// What a policy allows, in the jail's terms.
pub(crate) fn limits(policy: &ResolvedPolicy) -> Limits {
    let memory_bytes = policy.memory_bytes().unwrap_or(MEMORY_BYTES);
    let processes = policy.max_processes().unwrap_or(PROCESSES);
    Limits {
        memory_bytes,
        max_processes: u32::try_from(processes).unwrap_or(u32::MAX),
        max_open_files: MAX_OPEN_FILES as u64,
        max_file_bytes: policy.workspace_max_bytes().unwrap_or(u64::MAX),
        tmp_bytes: TMP_BYTES.min(memory_bytes),
        ..Limits::default()
    }
}

/// Lets a directory be read, unless one that holds it already is.
pub(crate) fn read_once(jail: &mut JailPlan, directory: &Path) {
    if !jail.mounts.iter().any(|mount| directory.starts_with(&mount.inside)) {
        jail.read(directory);
    }
}

/// Where added packages are found, if there are any.
pub(crate) fn packages(jail: &JailPlan) -> Vec<String> {
    let mounted = jail.mounts.iter().any(|mount| mount.inside == Path::new(PACKAGES));
    mounted.then(|| PACKAGES.to_owned()).into_iter().collect()
}

/// Starts the plan's program.
pub(crate) fn spawn(plan: &JailPlan, backend: Backend) -> Result<Launched, SandboxError> {
    let broken = |error: io::Error| SandboxError::Internal {
        problem: format!("no descriptors for a process: {error}"),
        survives: Survives::NothingWasRun,
    };
    let (protocol, theirs) = UnixStream::pair().map_err(broken)?;
    let (stdout, user_stdout) = pipe().map_err(broken)?;
    let (stderr, user_stderr) = pipe().map_err(broken)?;
    let protocol_in = OwnedFd::from(theirs);
    let protocol_out = protocol_in.as_fd().try_clone_to_owned().map_err(broken)?;
    let descriptors = Descriptors { protocol_in, protocol_out, user_stdout, user_stderr };
    let jailed = Jailed::spawn(plan, descriptors).map_err(|error| failure(&error, backend))?;
    Ok(Launched {
        protocol: protocol.into(),
        stdout,
        stderr,
        process: Box::new(JailedProcess(jailed)),
    })
}

pub(super) fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?)
}

/// What a jail that cannot be had means to the caller.
pub(crate) fn failure(error: &JailError, backend: Backend) -> SandboxError {
    SandboxError::BackendUnavailable {
        backend,
        reason: error.to_string(),
        hint: Some(
            "use the wasm backend, which needs nothing of the system; `belljar doctor` tells more"
                .to_owned(),
        ),
    }
}

/// In a jail the first process is ours, and no call of the kernel makes another one.
pub(super) fn ancestor(jail: &Jailed) -> Option<Ancestor> {
    jail.ancestor().map(|pid| Ancestor { pid, owns_first: true })
}

struct JailedProcess(Jailed);

impl Process for JailedProcess {
    fn interrupt(&mut self) {
        // Fails only when it has ended, which is noticed elsewhere.
        let _ = self.0.interrupt();
    }

    fn end(&mut self) -> Ended {
        self.0.kill();
        self.0.wait().map_or(Ended::Unknown, ended)
    }

    fn wait(&mut self, patience: Duration) -> Option<Ended> {
        let until = Instant::now() + patience;
        loop {
            match self.0.try_wait() {
                Ok(Some(how)) => return Some(ended(how)),
                Ok(None) if Instant::now() < until => std::thread::sleep(INTERVAL),
                Ok(None) => return None,
                Err(_) => return Some(Ended::Unknown),
            }
        }
    }

    fn ancestor(&self) -> Option<Ancestor> {
        ancestor(&self.0)
    }

    fn layers(&self) -> Vec<String> {
        self.0.layers().iter().map(|layer| layer.name().to_owned()).collect()
    }

    fn peak_memory_bytes(&mut self) -> Option<u64> {
        self.0.peak_memory_bytes()
    }
}

fn ended(how: belljar_jail::Ended) -> Ended {
    match how {
        belljar_jail::Ended::Exited(code) => Ended::Exited(code),
        belljar_jail::Ended::Signalled(signal) => Ended::Signalled(signal),
        belljar_jail::Ended::OutOfMemory => Ended::OutOfMemory,
        belljar_jail::Ended::Killed => Ended::Unknown,
    }
}
