//! The native backend: CPython of this machine in a jail, against the same one without, and in a
//! bubblewrap.

use std::time::{Duration, Instant};

use belljar::{
    AgentSettings, AgentTool, Backend, ExecutionPolicy, Preset, RuntimeType, Sandbox,
    SandboxConfig, SandboxError, create_sandbox,
};

use crate::compare::Native;
use crate::timing::{Times, succeed, told};
use crate::{BenchError, Report, Row, Settings};

const HELLO: &str = "print('hello')";
const WHAT: &str = "native: fresh, jailed";

/// Long enough for a spare interpreter to be made.
const PAUSE: Duration = Duration::from_millis(30);

/// Adds its rows; says so where there is nothing to measure or to compare with.
pub fn measure(
    settings: &Settings,
    native: Option<&Native>,
    report: &mut Report,
) -> Result<(), BenchError> {
    let Some(native) = native else {
        report.skip(WHAT, "there is no python3");
        return Ok(());
    };
    let workspace = tempfile::tempdir()?;
    let config = SandboxConfig {
        policy: ExecutionPolicy::preset(Preset::Agent),
        backend: Backend::Native,
        workspace: Some(workspace.path().to_owned()),
        home: Some(settings.home.clone()),
        ..SandboxConfig::default()
    };
    let mut sandbox = match warm(&config) {
        Ok(sandbox) => sandbox,
        Err(SandboxError::BackendUnavailable { reason, .. }) => {
            report.skip(WHAT, reason);
            return Ok(());
        }
        Err(error) => return Err(error.into()),
    };
    let rounds = if settings.quick { 10 } else { 100 };
    let mut at_once = |pause: Duration| timed(rounds, pause, || succeed(sandbox.execute(HELLO)?));
    let spare = at_once(PAUSE)?;
    let hurried = at_once(Duration::ZERO)?;
    // A sandbox's first interpreter has no zygote.
    let alone = told(rounds / 2, || {
        let mut sandbox = create_sandbox(&config)?;
        let start = Instant::now();
        succeed(sandbox.execute(HELLO)?)?;
        Ok(start.elapsed())
    })?;
    let tool = tool(settings)?;
    let called = timed(rounds / 2, Duration::ZERO, || {
        succeed(tool.execute(HELLO, RuntimeType::Python, None)?)
    })?;
    let bare = told(rounds / 2, || native.run_once(HELLO))?;
    let rows = [
        (WHAT.to_owned(), spare),
        (format!("{WHAT}, one right after another"), hurried),
        (format!("{WHAT}, first of its sandbox"), alone),
        ("native: a call of the agent's tool".to_owned(), called),
    ];
    let bubblewrap = told(rounds / 2, || native.run_in_bubblewrap(HELLO));
    if let Err(why) = &bubblewrap {
        report.skip(&format!("{WHAT}, against bwrap"), why);
    }
    for (what, times) in rows {
        let row = Row::new(what, times.p50(), "ms").p99(times.p99());
        report.push(row.clone().against("python3 -c", bare.p50()));
        if let Ok(bubblewrap) = &bubblewrap {
            report.push(row.against("bwrap python3 -c", bubblewrap.p50()));
        }
    }
    Ok(())
}

/// What an agent calls: every call makes a sandbox and a directory, and removes both.
fn tool(settings: &Settings) -> Result<AgentTool, SandboxError> {
    let mut agent = AgentSettings::from_variables([("SANDBOX_STORE_CODE", "never")])?;
    agent.home = Some(settings.home.clone());
    Ok(AgentTool::new(agent))
}

/// A sandbox that has its zygote.
fn warm(config: &SandboxConfig) -> Result<Box<dyn Sandbox>, SandboxError> {
    let mut sandbox = create_sandbox(config)?;
    for _ in 0..3 {
        sandbox.execute(HELLO)?;
    }
    Ok(sandbox)
}

fn timed(
    rounds: usize,
    pause: Duration,
    mut work: impl FnMut() -> Result<(), BenchError>,
) -> Result<Times, BenchError> {
    told(rounds, || {
        std::thread::sleep(pause);
        let start = Instant::now();
        work()?;
        Ok(start.elapsed())
    })
}

#[cfg(test)]
mod tests {
    use belljar::Home;

    use super::*;

    #[test]
    fn there_are_rows_or_a_reason_why_not() {
        let home = tempfile::tempdir().expect("a home");
        let settings = Settings { quick: true, program: None, home: Home::at(home.path()) };
        let mut report = Report::new(None);
        measure(&settings, Native::find().as_ref(), &mut report).expect("measured");
        assert!(!report.rows.is_empty() || !report.skipped.is_empty());
        println!("{report}");
    }
}
