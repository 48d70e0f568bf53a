//! The host's own memory and descriptors, before and after.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};
use std::time::{Duration, Instant};

use belljar::SandboxResult;

use crate::jar::Jar;

/// What may be left in the host after an attack: what a recycled slot keeps, caches of the allocator
/// and the result. The bombs are far larger.
const TOLERANCE_BYTES: u64 = 12 * 1024 * 1024;

/// The same for sessions: several at once leave several slots, and buffers for what is captured.
const SESSIONS_TOLERANCE_BYTES: u64 = 40 * 1024 * 1024;

/// How long other threads may take to finish tidying up, before what they hold counts as a leak. A
/// leak stays for ever, so only a failing test waits as long as this.
const PATIENCE: Duration = Duration::from_secs(60);

/// Touches what the host opens once and keeps.
const WARM_UP_CODE: &str = "import os
try: import missing
except ImportError: pass
open('f', 'w').close(); os.listdir('.'); os.symlink('f', 'l'); os.utime('l'); os.rename('f', 'g')";

/// While it is held, no other thread measures the host.
#[derive(Debug)]
pub struct Alone(Option<MutexGuard<'static, ()>>);

thread_local! {
    static IS_ALONE: Cell<bool> = const { Cell::new(false) };
}

/// Attacks run one at a time, so that one's memory is not taken for another's. A thread that has
/// this may ask for it again.
///
/// Whatever a test opens or fills before its attack belongs after this: what it holds while it waits
/// for its turn looks like a leak of whoever has the turn, and stays until that one gives up.
#[must_use]
pub fn exclusive() -> Alone {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    if IS_ALONE.replace(true) {
        return Alone(None);
    }
    Alone(Some(ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)))
}

impl Drop for Alone {
    fn drop(&mut self) {
        if self.0.take().is_some() {
            IS_ALONE.set(false);
        }
    }
}

/// Runs hostile code and checks that the host is afterwards as large as before and still answers.
#[must_use]
pub fn attack(jar: &Jar, code: &str) -> SandboxResult {
    watched(jar, code, TOLERANCE_BYTES, || jar.run(code))
}

/// Does something with hostile sessions in a jar, and checks the same when they are gone.
pub fn attacked<T>(jar: &Jar, what: &str, body: impl FnOnce() -> T) -> T {
    watched(jar, what, SESSIONS_TOLERANCE_BYTES, body)
}

fn watched<T>(jar: &Jar, what: &str, tolerance_bytes: u64, body: impl FnOnce() -> T) -> T {
    static WARM_UP: Once = Once::new();
    let _guard = exclusive();
    WARM_UP.call_once(warm_up);
    let before = Usage::of(Some(jar.workspace()));
    let result = body();
    before.assert_no_growth(tolerance_bytes, what);
    let still = Jar::new().run("print('still here')");
    assert_eq!(still.stdout, "still here\n", "the host no longer works after {what}");
    result
}

fn warm_up() {
    give_large_blocks_back();
    drop(Jar::new().run(WARM_UP_CODE));
}

/// Large blocks go back to the system at once. What the allocator would keep of them, in case more
/// are wanted, looks like a leak.
pub(crate) fn give_large_blocks_back() {
    const LARGE_BYTES: libc::c_int = 256 * 1024;
    // SAFETY: sets a number of the allocator's and touches nothing else.
    unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE_BYTES) };
}

/// Runs what is allowed: the twin of an attack.
#[must_use]
pub fn permitted(jar: &Jar, code: &str) -> SandboxResult {
    let _guard = exclusive();
    jar.run(code)
}

/// What this process has of the machine.
#[derive(Debug, Clone)]
pub struct Usage {
    private_bytes: u64,
    descriptors: Vec<PathBuf>,
    /// The workspace whose descriptors count, if it still exists.
    workspace: Option<PathBuf>,
}

impl Usage {
    /// As it is now.
    #[must_use]
    pub fn now() -> Self {
        Self::of(None)
    }

    /// As it is now, as far as it concerns this workspace.
    pub(crate) fn of(workspace: Option<&Path>) -> Self {
        Self {
            private_bytes: private_bytes(),
            descriptors: descriptors(workspace),
            workspace: workspace.map(Path::to_owned),
        }
    }

    /// Memory in RAM that is this process's alone.
    #[must_use]
    pub fn private_bytes(&self) -> u64 {
        self.private_bytes
    }

    /// Checks that the process has not grown since.
    ///
    /// # Panics
    /// When it has, and keeps what it has for some time.
    #[track_caller]
    pub fn assert_no_growth(&self, tolerance_bytes: u64, because_of: &str) {
        let start = Instant::now();
        loop {
            let now = Self::of(self.workspace.as_deref());
            let fits = now.private_bytes <= self.private_bytes + tolerance_bytes
                && now.descriptors.len() <= self.descriptors.len();
            if fits {
                return;
            }
            let patient = start.elapsed() < PATIENCE;
            assert!(patient, "the host grew from {self:?} to {now:?} by {because_of}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Memory in RAM that is this process's alone. Pages of the shared image do not count: every slot
/// maps the same ones. Unnamed files count as often as they are there, mapped or not.
fn private_bytes() -> u64 {
    const PAGE_BYTES: u64 = 4096;
    // The allocator keeps what was freed for a while; only what is still held counts.
    // SAFETY: returns free memory of the allocator's to the system and touches nothing else.
    unsafe { libc::malloc_trim(0) };
    let statm = fs::read_to_string("/proc/self/statm").expect("statm");
    let pages: Vec<u64> =
        statm.split_whitespace().map(|field| field.parse().expect("a number")).collect();
    (pages[1] - pages[2]) * PAGE_BYTES + unnamed_files_bytes()
}

/// Memory in files without a name, where sessions keep what they have written.
fn unnamed_files_bytes() -> u64 {
    const BLOCK_BYTES: u64 = 512;
    let unnamed = |path: &PathBuf| {
        fs::read_link(path).is_ok_and(|target| target.to_string_lossy().starts_with("/memfd:"))
    };
    let files: BTreeMap<u64, u64> = fs::read_dir("/proc/self/fd")
        .expect("the descriptors")
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(unnamed)
        .filter_map(|path| fs::metadata(path).ok())
        .map(|file| (file.ino(), file.blocks() * BLOCK_BYTES))
        .collect();
    files.values().sum()
}

/// Descriptors of this process. Other tests make and remove workspaces meanwhile; descriptors of
/// theirs count only when their files are gone.
fn descriptors(workspace: Option<&Path>) -> Vec<PathBuf> {
    let elsewhere = |target: &Path| {
        target.starts_with(std::env::temp_dir())
            && !workspace.is_some_and(|own| target.starts_with(own))
            && !target.to_string_lossy().ends_with(" (deleted)")
    };
    fs::read_dir("/proc/self/fd")
        .expect("the descriptors")
        .filter_map(|entry| fs::read_link(entry.ok()?.path()).ok())
        .filter(|target| !elsewhere(target))
        .collect()
}
