//! What Belljar costs, as ratios against the same work done by what this machine has.
//!
//! `belljar bench` and `cargo bench --workspace` both print [`Report`]. Nothing here asserts: machines are
//! noisy, and a number only means something next to another one from the same run.

mod compare;
#[cfg(target_os = "linux")]
mod daemon;
mod data;
#[cfg(target_os = "linux")]
mod docker;
#[cfg(target_os = "linux")]
mod e2b;
mod measure;
#[cfg(target_os = "linux")]
mod native;
#[cfg(target_os = "linux")]
mod pyodide;
mod report;
mod sessions;
#[cfg(target_os = "linux")]
mod soak;
mod timing;

use std::path::{Path, PathBuf};

use belljar::{Home, SandboxError};

pub use report::{Report, Row};
#[cfg(target_os = "linux")]
pub use soak::{Soak, soak};

/// How much to measure.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Fewer repetitions, for a first impression.
    pub quick: bool,
    /// The `belljar` program, to measure whole processes; without it that row is left out.
    pub program: Option<PathBuf>,
    /// Belljar's directory.
    pub home: Home,
}

/// What stops a measurement.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// The sandbox could not be made.
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    /// The engine could not be used.
    #[error(transparent)]
    Engine(#[from] belljar_wasm::EngineError),
    /// Measured code did not do what it should.
    #[error("a measured program failed: {0}")]
    Program(String),
    /// The system failed.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

/// The release build of the command-line program, if there is one.
#[must_use]
pub fn release_program() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent()?;
    Some(root.join("target/release/belljar")).filter(|path| path.is_file())
}

/// Restores a session that awaits a tool, answers and runs it to its end, in a process that has not
/// done anything yet. Gives the milliseconds it took.
///
/// # Errors
/// When it cannot be resumed.
pub fn resume_once(settings: &Settings, snapshot: &Path) -> Result<f64, BenchError> {
    sessions::Sessions::new(settings).resume_once(snapshot)
}

/// Measures everything, telling `progress` what comes next.
///
/// # Errors
/// When something to be measured does not work at all.
pub fn run(settings: &Settings, progress: &dyn Fn(&str)) -> Result<Report, BenchError> {
    let native = compare::Native::find();
    let bench = measure::Bench::new(settings)?;
    let mut report = Report::new(native.as_ref().map(compare::Native::describe));
    progress("fresh sandbox");
    report.push(bench.fresh_start(native.as_ref())?);
    progress("whole process");
    report.extend(bench.whole_process(native.as_ref())?);
    progress("live cell");
    report.push(bench.live_cell()?);
    progress("throughput");
    report.extend(bench.throughput()?);
    progress("memory");
    report.push(bench.private_memory()?);
    let sessions = sessions::Sessions::new(settings);
    progress("sessions");
    report.push(sessions.live_cell()?);
    report.push(sessions.tool_round_trip()?);
    report.push(sessions.idle_memory()?);
    report.push(sessions.cancel()?);
    progress("forks");
    report.extend(sessions.forks()?);
    progress("snapshots");
    report.extend(sessions.snapshots()?);
    progress("JavaScript");
    report.extend(sessions.javascript()?);
    #[cfg(target_os = "linux")]
    {
        progress("native");
        native::measure(settings, native.as_ref(), &mut report)?;
        progress("Pyodide");
        pyodide::measure(settings, &mut report)?;
        progress("Docker");
        docker::measure(settings, &mut report)?;
        progress("the daemon");
        daemon::measure(settings, &mut report)?;
        progress("E2B's clients");
        e2b::measure(settings, native.as_ref(), &mut report)?;
    }
    progress("numpy and pandas");
    data::measure(settings, &mut report)?;
    progress("processor");
    report.extend(bench.kernels(native.as_ref())?);
    // Last: for some seconds after so many files were removed, ext4 makes new ones slowly.
    progress("workspaces");
    report.extend(bench.workspaces()?);
    Ok(report)
}
