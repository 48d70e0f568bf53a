//! Starting a worker: in a jail, or without one where somebody asked for that.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::directories::{clear, make_way};
use super::limits::Limits;

/// Where a worker's directory and the cache of compiled guests are in its jail.
#[cfg(target_os = "linux")]
const INSIDE: &str = "/app";
#[cfg(target_os = "linux")]
const CACHE_INSIDE: &str = "/belljar/cache";
#[cfg(target_os = "linux")]
const PROGRAM_INSIDE: &str = "/belljar/belljar";

/// Temporary directories of a worker, in its own directory: in memory they would count as its own.
const TMP: &str = "tmp";

/// Packages in a worker's directory.
const PACKAGES: &str = "packages";

/// Threads that are no sandbox's: they run tools, or compile.
#[cfg(target_os = "linux")]
const OTHER_THREADS: usize = 2048;

/// The least memory a worker gets.
#[cfg(target_os = "linux")]
const LEAST_MEMORY: u64 = 256 * 1024 * 1024;

/// How often a process that should end is looked at.
const INTERVAL: Duration = Duration::from_millis(5);

/// What every worker is started with.
#[derive(Debug, Clone)]
pub(super) struct Launch {
    /// Belljar itself.
    pub(super) program: PathBuf,
    /// Compiled guests.
    pub(super) cache: PathBuf,
    /// Python packages for guests.
    pub(super) packages: PathBuf,
    pub(super) confined: bool,
    pub(super) workers: usize,
    pub(super) limits: Limits,
}

/// A worker that was started.
pub(super) struct Started {
    pub(super) process: Process,
    pub(super) protocol: UnixStream,
    /// What it has to say when it fails.
    pub(super) errors: OwnedFd,
    pub(super) layers: Vec<String>,
}

pub(super) enum Process {
    #[cfg(target_os = "linux")]
    Jailed(belljar_jail::Jailed),
    Plain(Child),
}

impl Launch {
    /// Starts a worker in its directory. Takes milliseconds, and blocks.
    pub(super) fn start(&self, directory: &Path) -> io::Result<Started> {
        let aside = make_way(directory, TMP, PACKAGES)?;
        // It may be a great deal, and nobody has to wait for it; what is left goes with the next
        // start of the daemon.
        if !aside.is_empty() {
            let clearing = std::thread::Builder::new().name("belljar-clear".to_owned());
            drop(clearing.spawn(move || aside.iter().for_each(|folder| clear(folder)))?);
        }
        let (protocol, theirs) = UnixStream::pair()?;
        let (errors, their_errors) = io::pipe()?;
        let (process, layers) = if self.confined {
            self.jailed(directory, theirs, their_errors.into())?
        } else {
            (self.plain(directory, theirs, their_errors.into())?, Vec::new())
        };
        Ok(Started { process, protocol, errors: errors.into(), layers })
    }

    fn plain(
        &self,
        directory: &Path,
        protocol: UnixStream,
        errors: OwnedFd,
    ) -> io::Result<Process> {
        let child = Command::new(&self.program)
            .args(["daemon", "worker", "--unconfined", "--home"])
            .arg(directory)
            .arg("--cache")
            .arg(&self.cache)
            .env_clear()
            .env("HOME", directory)
            .env("TMPDIR", directory.join(TMP))
            .env("LANG", "C.UTF-8")
            .current_dir(directory)
            .stdin(Stdio::from(OwnedFd::from(protocol)))
            .stdout(Stdio::null())
            .stderr(Stdio::from(errors))
            .spawn()?;
        Ok(Process::Plain(child))
    }

    #[cfg(not(target_os = "linux"))]
    fn jailed(&self, _: &Path, _: UnixStream, _: OwnedFd) -> io::Result<(Process, Vec<String>)> {
        Err(io::Error::other("there are no jails on this system"))
    }

    #[cfg(target_os = "linux")]
    fn jailed(
        &self,
        directory: &Path,
        protocol: UnixStream,
        errors: OwnedFd,
    ) -> io::Result<(Process, Vec<String>)> {
        use belljar_jail::{Descriptors, Jailed};
        let protocol_out = OwnedFd::from(protocol.try_clone()?);
        let nowhere = std::fs::File::options().write(true).open("/dev/null")?;
        let descriptors = Descriptors {
            protocol_in: protocol.into(),
            protocol_out,
            user_stdout: nowhere.into(),
            user_stderr: errors,
        };
        let jailed = Jailed::spawn(&self.plan(directory), descriptors).map_err(io::Error::other)?;
        let layers = jailed.layers().iter().map(|layer| layer.name().to_owned()).collect();
        Ok((Process::Jailed(jailed), layers))
    }

    /// A worker sees its own directory, compiled guests, packages, and the system's libraries.
    #[cfg(target_os = "linux")]
    fn plan(&self, directory: &Path) -> belljar_jail::JailPlan {
        use belljar_jail::{JailPlan, Limits as JailLimits, MemoryRule};
        let mut plan = JailPlan::new(PROGRAM_INSIDE);
        plan.with_system();
        plan.seals = true;
        plan.workspace = Some(directory.to_owned());
        plan.read_at(&self.program, PROGRAM_INSIDE);
        plan.read_at(&self.cache, CACHE_INSIDE);
        if self.packages.is_dir() {
            plan.read_at(&self.packages, Path::new(INSIDE).join(PACKAGES));
        }
        plan.args = ["daemon", "worker", "--home", INSIDE, "--cache", CACHE_INSIDE]
            .map(str::to_owned)
            .into();
        let tmp = format!("{INSIDE}/{TMP}");
        let env = [("HOME", INSIDE), ("TMPDIR", &tmp), ("LANG", "C.UTF-8")];
        plan.env = env.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let threads = self.limits.sandboxes.saturating_mul(2).saturating_add(OTHER_THREADS);
        plan.limits = JailLimits {
            memory_bytes: self.memory_of_each(),
            memory_rule: MemoryRule::Group,
            max_processes: u32::try_from(threads).unwrap_or(u32::MAX),
            max_open_files: 64 * 1024,
            // Policies limit what guests write; the states of all sessions are one file of memory.
            max_file_bytes: u64::MAX,
            ..JailLimits::default()
        };
        plan
    }

    #[cfg(target_os = "linux")]
    fn memory_of_each(&self) -> u64 {
        let all = match self.limits.memory_bytes {
            0 => memory_of_machine() / 4 * 3,
            bytes => bytes,
        };
        let workers = u64::try_from(self.workers).unwrap_or(u64::MAX).max(1);
        (all / workers).max(LEAST_MEMORY)
    }
}

#[cfg(target_os = "linux")]
fn memory_of_machine() -> u64 {
    /// Enough for some hundred sandboxes.
    const UNKNOWN: u64 = 4 * 1024 * 1024 * 1024;
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kibibytes = total.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse().ok());
    kibibytes.map_or(UNKNOWN, |kibibytes: u64| kibibytes.saturating_mul(1024))
}

impl Process {
    /// The worker's own process, as this machine numbers it.
    pub(super) fn pid(&self) -> Option<u32> {
        match self {
            // The helper watches the jail's first process, which watches the worker.
            #[cfg(target_os = "linux")]
            Self::Jailed(jailed) => child_of(child_of(jailed.ancestor()?)?),
            Self::Plain(child) => Some(child.id()),
        }
    }

    /// Waits for it to end by itself, then ends it. Blocks.
    pub(super) fn end(mut self, patience: Duration) {
        let until = Instant::now() + patience;
        while Instant::now() < until && !self.has_ended() {
            std::thread::sleep(INTERVAL);
        }
        match &mut self {
            #[cfg(target_os = "linux")]
            Self::Jailed(jailed) => {
                jailed.kill();
                // A jail whose end the system does not tell is ended when it is dropped.
                let _ = jailed.wait();
            }
            Self::Plain(child) => {
                // Fails when it has ended.
                let _ = child.kill();
                let _ = child.wait();
            }
        }
    }

    fn has_ended(&mut self) -> bool {
        match self {
            #[cfg(target_os = "linux")]
            Self::Jailed(jailed) => !matches!(jailed.try_wait(), Ok(None)),
            Self::Plain(child) => !matches!(child.try_wait(), Ok(None)),
        }
    }
}

#[cfg(target_os = "linux")]
fn child_of(pid: u32) -> Option<u32> {
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok()?;
    children.split_whitespace().next()?.parse().ok()
}

/// Why workers cannot be confined here, if so.
pub(super) fn no_jail() -> Option<String> {
    let (works, detail, hint) = belljar::jail_report();
    (!works).then(|| match hint {
        Some(hint) => format!("{detail} ({hint})"),
        None => detail,
    })
}
