//! WASI preview 1 for one guest: the mounts it was given, capped output, a ledger of what it did.
//!
//! Path resolution is cap-std's. The rest is Belljar's own instead of a wrapper around
//! wasmtime-wasi, because quotas, exact file deltas, virtual files and descriptors that can be
//! saved with a session all need the descriptor table itself.

mod errno;
mod files;
mod ledger;
mod linker;
mod paths;
mod poll;
mod saved;
mod sources;
mod table;
mod view;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use belljar_core::text::CappedBytes;
use belljar_host::{LineSink, Output};
use cap_std::fs::Dir;

use ledger::Ledger;
pub use ledger::{Delta, Quota};
pub use linker::add_to_linker;
pub use saved::{SavedWasi, Undo};
use sources::{Clock, Random};
use table::{Descriptor, OpenDir, Table};
pub use table::{Mount, Overlay};

/// Ends the guest from inside a host call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Abort {
    #[error("the guest exited with code {0}")]
    Exit(i32),
    #[error("the guest wrote far more output than it may")]
    OutputFlood,
}

/// What a guest is given.
pub struct Grant {
    /// The directories it sees. There are no others.
    pub mounts: Vec<Mount>,
    /// A file that exists only for it.
    pub overlay: Option<Overlay>,
    /// Arguments of a command; our own guests get theirs from the driver.
    pub args: Vec<String>,
    /// Environment of a command; likewise.
    pub env: Vec<(String, String)>,
    /// Output kept.
    pub stdout_max_bytes: u64,
    /// Error output kept.
    pub stderr_max_bytes: u64,
    /// What it may add to its workspace.
    pub quota: Quota,
    /// Fixed clock and seeded randomness.
    pub deterministic: bool,
    /// Files have neither numbers nor dates: what is made of them is the same wherever they are.
    pub undated_files: bool,
    /// Told each line of stdout while the guest runs.
    pub on_stdout: Option<LineSink>,
    /// Told each line of stderr.
    pub on_stderr: Option<LineSink>,
}

/// Nothing: no directory, no arguments, no environment, no room for files; a mebibyte of output.
impl Default for Grant {
    fn default() -> Grant {
        Grant {
            mounts: Vec::new(),
            overlay: None,
            args: Vec::new(),
            env: Vec::new(),
            stdout_max_bytes: 1 << 20,
            stderr_max_bytes: 1 << 20,
            quota: Quota { bytes: 0, files: 0 },
            deterministic: false,
            undated_files: false,
            on_stdout: None,
            on_stderr: None,
        }
    }
}

pub struct Wasi {
    table: Table,
    mounts: Vec<Mount>,
    overlay: Option<Overlay>,
    args: Vec<String>,
    env: Vec<String>,
    stdout: Output,
    stderr: Output,
    deterministic: bool,
    undated_files: bool,
    ledger: Ledger,
    clock: Clock,
    random: Random,
    denials: Denials,
}

/// Attempts to reach outside, counted; the first is kept for the log.
#[derive(Clone, Debug, Default)]
pub struct Denials {
    /// How many.
    pub count: u64,
    /// The path of the first, in the guest's words.
    pub first: Option<String>,
}

impl Denials {
    fn note(&mut self, path: &Path) {
        self.count += 1;
        if self.first.is_none() {
            self.first = Some(path.to_string_lossy().into_owned());
        }
    }
}

/// What one execution left behind.
pub struct Traces {
    /// What it wrote to stdout.
    pub stdout: CappedBytes,
    /// What it wrote to stderr.
    pub stderr: CappedBytes,
    /// The files it changed.
    pub delta: Delta,
    /// Whether it wanted to add more than it may.
    pub quota_exceeded: bool,
    /// What it was not given.
    pub denials: Denials,
}

impl Wasi {
    pub fn new(grant: Grant) -> Wasi {
        let preopened = grant.mounts.iter().enumerate().map(|(index, mount)| {
            Descriptor::Dir(OpenDir {
                dir: Arc::clone(&mount.dir),
                mount: index,
                path: Path::new("").to_path_buf(),
                preopened_as: Some(mount.guest_path.clone()),
                listing: Vec::new(),
            })
        });
        let standard = [
            Descriptor::Stdin,
            Descriptor::Stdout,
            Descriptor::Stderr,
            Descriptor::Root { preopened: true },
        ];
        Wasi {
            table: Table::new(standard.into_iter().chain(preopened)),
            mounts: grant.mounts,
            overlay: grant.overlay,
            args: grant.args,
            env: grant.env.into_iter().map(|(name, value)| format!("{name}={value}")).collect(),
            stdout: Output::new(grant.stdout_max_bytes, grant.on_stdout),
            stderr: Output::new(grant.stderr_max_bytes, grant.on_stderr),
            deterministic: grant.deterministic,
            undated_files: grant.undated_files,
            ledger: Ledger::new(grant.quota),
            clock: Clock::new(grant.deterministic),
            random: Random::new(grant.deterministic),
            denials: Denials::default(),
        }
    }

    /// Takes what has gathered since the last call.
    pub fn take_traces(&mut self) -> Traces {
        let traces = Traces {
            stdout: self.stdout.take(),
            stderr: self.stderr.take(),
            delta: self.ledger.delta(),
            quota_exceeded: self.ledger.exceeded(),
            denials: std::mem::take(&mut self.denials),
        };
        self.ledger.restart_delta();
        self.ledger.clear_exceeded();
        traces
    }

    /// The guest has waited for something else than its clock.
    pub fn pass_time(&mut self, seconds: Option<f64>) {
        let waited = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        if let Some(waited) = waited {
            self.clock.skip(u64::try_from(waited.as_nanos()).unwrap_or(u64::MAX));
        }
    }

    pub fn fill_random(&mut self, bytes: &mut [u8]) -> std::io::Result<()> {
        self.random.fill(bytes).map_err(|_| std::io::Error::other("the system has no randomness"))
    }
}

/// Opens a directory of the host to be mounted.
pub fn open_directory(path: &Path) -> std::io::Result<Arc<Dir>> {
    Ok(Arc::new(Dir::open_ambient_dir(path, cap_std::ambient_authority())?))
}
