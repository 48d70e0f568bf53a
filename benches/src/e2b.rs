//! What E2B's own Python package sees of a daemon, against what whoever has no sandbox would run.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde::Deserialize;

use crate::compare::Native;
use crate::daemon::Daemon;
use crate::timing::told;
use crate::{BenchError, Report, Row, Settings};

const WHAT: &str = "e2b: create and first run_code";
const SCRIPT: &str = include_str!("../e2b/bench.py");
const HELLO: &str = "print('hello')";
const KEY: &str = "e2b_00000000000000000000000000000000bench000";
/// Which Python has E2B's package, if not the first on the search path.
const VARIABLE: &str = "BELLJAR_BENCH_E2B_PYTHON";
/// How long a daemon may take until it says where it is.
const STARTING: Duration = Duration::from_secs(60);

#[derive(Deserialize)]
struct Told {
    first_run_ms: f64,
    sandboxes_per_second: f64,
    fork_ms: f64,
}

/// Adds its rows; says so where there is no package, or nothing to serve it with.
pub fn measure(
    settings: &Settings,
    native: Option<&Native>,
    report: &mut Report,
) -> Result<(), BenchError> {
    let python = std::env::var(VARIABLE).unwrap_or_else(|_| "python3".to_owned());
    let Some(program) = &settings.program else {
        report.skip(WHAT, "there is no program to serve it with");
        return Ok(());
    };
    if let Err(why) = output(Command::new(&python).args(["-c", "import e2b_code_interpreter"])) {
        let last = why.trim().lines().last().unwrap_or_default();
        report.skip(WHAT, format!("{python}: {last}; {VARIABLE} names another one"));
        return Ok(());
    }
    let place = tempfile::tempdir()?;
    let (args, env) = (["--http", "0", "--e2b"], [("E2B_API_KEY", KEY)]);
    let daemon = match Daemon::start_with(program, place.path(), settings, &args, &env) {
        Ok(daemon) => daemon,
        Err(why) => {
            report.skip(WHAT, why);
            return Ok(());
        }
    };
    let url = daemon_url(program, &daemon).map_err(BenchError::Program)?;
    let times = if settings.quick { "10" } else { "100" };
    let said = output(Command::new(&python).args(["-c", SCRIPT, &url, KEY, times, "--json"]))
        .map_err(BenchError::Program)?;
    let told: Told = serde_json::from_str(said.trim())
        .map_err(|error| BenchError::Program(format!("{error}: {said}")))?;
    let python = native.map(|native| start_of(native, settings)).transpose()?;
    let mut row = |what: &str, value: f64, unit, other: Option<f64>| {
        let row = Row::new(what, value, unit);
        report.push(match other {
            Some(other) => row.against("python3 -c", other),
            None => row,
        });
    };
    row(WHAT, told.first_run_ms, "ms", python);
    row("e2b: sandboxes, 8 at once", told.sandboxes_per_second, "/s", python.map(|ms| 1000.0 / ms));
    row("e2b: fork of a sandbox with state", told.fork_ms, "ms", python);
    Ok(())
}

/// The median of starting an interpreter.
fn start_of(native: &Native, settings: &Settings) -> Result<f64, BenchError> {
    let rounds = if settings.quick { 5 } else { 50 };
    Ok(told(rounds, || native.run_once(HELLO))?.p50())
}

/// Where it is served over HTTP.
fn daemon_url(program: &Path, daemon: &Daemon) -> Result<String, String> {
    let until = Instant::now() + STARTING;
    loop {
        let mut command = Command::new(program);
        command.args(["daemon", "status", "--json"]).env("BELLJAR_SOCKET", daemon.socket());
        let status: serde_json::Value =
            serde_json::from_str(&output(&mut command)?).map_err(|error| error.to_string())?;
        match status["http"].as_str() {
            Some(url) => return Ok(url.to_owned()),
            None if Instant::now() > until => return Err("it is not served over HTTP".to_owned()),
            None => std::thread::sleep(Duration::from_millis(50)),
        }
    }
}

fn output(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| error.to_string())?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
}

#[cfg(test)]
mod tests {
    use belljar::Home;

    use super::*;

    #[test]
    fn there_is_a_reason_why_not() {
        let home = tempfile::tempdir().expect("a home");
        let settings = Settings { quick: true, program: None, home: Home::at(home.path()) };
        let mut report = Report::new(None);
        measure(&settings, None, &mut report).expect("measured");
        assert_eq!(report.skipped, [format!("{WHAT}: there is no program to serve it with")]);
    }
}
