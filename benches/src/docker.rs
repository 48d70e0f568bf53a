//! The docker backend: a container for one program, against the engine's own client, and a second
//! program that finds a container ready.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use belljar::{
    Backend, DockerSettings, ExecutionPolicy, Preset, SandboxConfig, SandboxError, create_sandbox,
};

use crate::timing::{succeed, told};
use crate::{BenchError, Report, Row, Settings};

const HELLO: &str = "print('hello')";
const WHAT: &str = "docker: fresh, start included";
const SECOND: &str = "docker: second program of a sandbox";
const CELL: &str = "docker: cell of a session";

/// Names the image, as it does for `belljar run`.
const VARIABLE: &str = "DOCKER_IMAGE";

/// Long enough for a container to be started in reserve and its interpreter loaded.
const PAUSE: Duration = Duration::from_millis(2500);

/// Adds its rows; says so where there is no engine or no image.
pub fn measure(settings: &Settings, report: &mut Report) -> Result<(), BenchError> {
    let mut docker = DockerSettings::default();
    if let Ok(image) = std::env::var(VARIABLE) {
        docker.image = image;
    }
    let workspace = tempfile::tempdir()?;
    belljar::docker::hand_over(workspace.path())?;
    let config = SandboxConfig {
        policy: ExecutionPolicy::preset(Preset::Agent),
        backend: Backend::Docker,
        workspace: Some(workspace.path().to_owned()),
        home: Some(settings.home.clone()),
        docker,
        ..SandboxConfig::default()
    };
    match create_sandbox(&config).and_then(|mut sandbox| sandbox.execute(HELLO)) {
        Ok(_) => {}
        Err(SandboxError::BackendUnavailable { reason, .. }) => {
            report.skip(WHAT, reason);
            return Ok(());
        }
        Err(error) => return Err(error.into()),
    }
    let rounds = if settings.quick { 3 } else { 10 };
    let fresh = told(rounds, || {
        let start = Instant::now();
        succeed(create_sandbox(&config)?.execute(HELLO)?)?;
        Ok(start.elapsed())
    })?;
    let mut sandbox = create_sandbox(&config)?;
    succeed(sandbox.execute(HELLO)?)?;
    let second = told(rounds, || {
        std::thread::sleep(PAUSE);
        let start = Instant::now();
        succeed(sandbox.execute(HELLO)?)?;
        Ok(start.elapsed())
    })?;
    drop(sandbox);
    let mut session = create_sandbox(&config)?;
    session.initialize(serde_json::Value::Null)?;
    let cell = told(10 * rounds, || {
        let start = Instant::now();
        succeed(session.execute(HELLO)?)?;
        Ok(start.elapsed())
    })?;
    let client = told(rounds, || run_by_client(&config.docker.image));
    if let Err(why) = &client {
        report.skip(&format!("{WHAT}, against docker run"), why);
    }
    for (what, measured) in [(WHAT, fresh), (SECOND, second), (CELL, cell)] {
        let row = Row::new(what, measured.p50(), "ms").p99(measured.p99());
        report.push(match &client {
            Ok(client) => row.against("docker run", client.p50()),
            Err(_) => row,
        });
    }
    Ok(())
}

/// The same program by the engine's own client.
fn run_by_client(image: &str) -> Result<Duration, BenchError> {
    let start = Instant::now();
    let status = Command::new("docker")
        .args(["run", "--rm", "--network", "none", image, "python3", "-c", HELLO])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()?;
    if !status.success() {
        return Err(BenchError::Program(format!("docker run: {status}")));
    }
    Ok(start.elapsed())
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
        measure(&settings, &mut report).expect("measured");
        assert!(!report.rows.is_empty() || !report.skipped.is_empty());
        println!("{report}");
    }
}
