//! The pyodide backend: its first start, which keeps the memory of the booted interpreter, and
//! later ones.

use std::time::{Duration, Instant};

use belljar::{
    Backend, ExecutionPolicy, Home, Preset, SandboxConfig, SandboxError, create_sandbox,
};

use crate::timing::{Times, succeed};
use crate::{BenchError, Report, Row, Settings};

const WHAT: &str = "pyodide: fresh, jailed";

/// Names the folder Pyodide is in, as it does for `belljar run`.
const VARIABLE: &str = "BELLJAR_PYODIDE";

/// Adds its rows; says so where there is no Pyodide.
pub fn measure(settings: &Settings, report: &mut Report) -> Result<(), BenchError> {
    let Ok(folder) = std::env::var(VARIABLE) else {
        report.skip(WHAT, format!("{VARIABLE} names no folder"));
        return Ok(());
    };
    let workspace = tempfile::tempdir()?;
    // A directory of its own, so that the first start is one.
    let home = tempfile::tempdir()?;
    let config = SandboxConfig {
        policy: ExecutionPolicy::preset(Preset::Agent),
        backend: Backend::Pyodide,
        index_url: vec![folder],
        workspace: Some(workspace.path().to_owned()),
        home: Some(Home::at(home.path())),
        ..SandboxConfig::default()
    };
    let first = match start(&config) {
        Ok(first) => first.as_secs_f64() * 1000.0,
        Err(BenchError::Sandbox(SandboxError::BackendUnavailable { reason, .. })) => {
            report.skip(WHAT, reason);
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    let mut later = Times::default();
    for _ in 0..if settings.quick { 3 } else { 10 } {
        later.push(start(&config)?);
    }
    report.push(Row::new(format!("{WHAT}, the first ever"), first, "ms"));
    report.push(Row::new(WHAT, later.p50(), "ms").p99(later.p99()).against("the first", first));
    Ok(())
}

fn start(config: &SandboxConfig) -> Result<Duration, BenchError> {
    let start = Instant::now();
    succeed(create_sandbox(config)?.execute("print('hello')")?)?;
    Ok(start.elapsed())
}
