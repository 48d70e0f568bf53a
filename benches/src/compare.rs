//! The native interpreter that sandboxes are compared with.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::BenchError;

/// A `python3` of this machine.
pub struct Native {
    executable: PathBuf,
    version: String,
}

impl Native {
    /// Asks `python3` what it really is: the name on the search path may be a wrapper script, and
    /// comparing with that would flatter us.
    pub fn find() -> Option<Native> {
        let script = "import sys; print(sys.executable); print(sys.version.split()[0])";
        let output = Command::new("python3").args(["-c", script]).output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        let (executable, version) = text.trim_end().split_once('\n')?;
        Some(Native { executable: executable.into(), version: version.to_owned() })
    }

    pub fn describe(&self) -> String {
        self.version.clone()
    }

    /// The time of one whole `python3 -c`.
    pub fn run_once(&self, code: &str) -> Result<Duration, BenchError> {
        time_process(Command::new(&self.executable).args(["-c", code]))
    }

    /// The same in a bubblewrap with no network and a read-only system.
    pub fn run_in_bubblewrap(&self, code: &str) -> Result<Duration, BenchError> {
        let mut bubblewrap = Command::new("bwrap");
        bubblewrap.args(["--unshare-all", "--die-with-parent", "--ro-bind", "/usr", "/usr"]);
        for top in ["/bin", "/lib", "/lib64"] {
            bubblewrap.args(["--ro-bind-try", top, top]);
        }
        // A Python that is not the system's, with its libraries.
        if let Some(prefix) = self.executable.ancestors().nth(2).filter(|p| !p.starts_with("/usr"))
        {
            bubblewrap.arg("--ro-bind").args([prefix, prefix]);
        }
        bubblewrap.args(["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"]);
        time_process(bubblewrap.arg(&self.executable).args(["-c", code]))
    }

    pub fn output_of(&self, code: &str) -> Result<String, BenchError> {
        let output = Command::new(&self.executable).args(["-c", code]).output()?;
        if !output.status.success() {
            return Err(BenchError::Program(String::from_utf8_lossy(&output.stderr).into_owned()));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

/// The time from start to end of a process that must succeed.
pub fn time_process(command: &mut Command) -> Result<Duration, BenchError> {
    let start = Instant::now();
    let output = command.output()?;
    let elapsed = start.elapsed();
    if !output.status.success() {
        return Err(BenchError::Program(String::from_utf8_lossy(&output.stderr).into_owned()));
    }
    Ok(elapsed)
}
