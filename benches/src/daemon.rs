//! What the way through the daemon costs, and how much it serves at once.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Barrier;
use std::time::{Duration, Instant};

use belljar::{
    Backend, ExecutionPolicy, Preset, Sandbox, SandboxConfig, create_sandbox, remote::available,
};
use serde_json::Value;

use crate::timing::{Times, sample_both, succeed};
use crate::{BenchError, Report, Row, Settings};

const WHAT: &str = "daemon: fresh";
const HELLO: &str = "print('hello')";

/// How long it may take to start.
const STARTING: Duration = Duration::from_secs(60);

/// Programs that use it at the same time.
const CLIENTS: [usize; 3] = [1, 8, 64];

/// Adds its rows; says so where there is none to measure.
pub fn measure(settings: &Settings, report: &mut Report) -> Result<(), BenchError> {
    let Some(program) = &settings.program else {
        report.skip(WHAT, "there is no program to start it with");
        return Ok(());
    };
    let place = tempfile::tempdir()?;
    let daemon = match Daemon::start(program, place.path(), settings) {
        Ok(daemon) => daemon,
        Err(why) => {
            report.skip(WHAT, why);
            return Ok(());
        }
    };
    let workspace = place.path().join("workspace");
    std::fs::create_dir(&workspace)?;
    let inside = SandboxConfig {
        policy: ExecutionPolicy::preset(Preset::Agent),
        workspace: Some(workspace),
        home: Some(settings.home.clone()),
        ..SandboxConfig::default()
    };
    let through = SandboxConfig { workspace: None, ..daemon.config(&inside) };
    let rounds = if settings.quick { 200 } else { 1000 };
    let sandbox = |config: &SandboxConfig, session: bool| -> Result<_, BenchError> {
        let mut sandbox = create_sandbox(config)?;
        if session {
            sandbox.initialize(Value::Null)?;
        }
        Ok(sandbox)
    };
    for (what, added, session) in [
        (WHAT, "daemon: added to a fresh one", false),
        ("daemon: one more cell of a session", "daemon: added to one cell", true),
    ] {
        let (mut own, mut asked) = (sandbox(&inside, session)?, sandbox(&through, session)?);
        let [own, asked] = sample_both(
            rounds,
            || succeed(own.execute(HELLO)?),
            || succeed(asked.execute(HELLO)?),
        )?;
        let row = Row::new(what, asked.p50(), "ms").p99(asked.p99());
        report.push(row.against("in process", own.p50()));
        report.push(Row::new(added, asked.p50() - own.p50(), "ms"));
    }
    for clients in CLIENTS {
        let (rate, latency) = together(&through, clients, rounds * 2)?;
        let what = format!("daemon: fresh, {clients} clients at once");
        report.push(Row::new(what.clone(), latency.p50(), "ms").p99(latency.p99()));
        report.push(Row::new(format!("{what}, together"), rate, "/s"));
    }
    Ok(())
}

/// Executions a second of so many clients, and how long each took.
fn together(
    config: &SandboxConfig,
    clients: usize,
    executions: usize,
) -> Result<(f64, Times), BenchError> {
    let sandboxes: Result<Vec<Box<dyn Sandbox>>, _> =
        (0..clients).map(|_| create_sandbox(config)).collect();
    let (begin, each) = (Barrier::new(clients + 1), executions.div_ceil(clients));
    let mut all = Times::default();
    let elapsed = std::thread::scope(|scope| -> Result<f64, BenchError> {
        let running: Vec<_> = sandboxes?
            .into_iter()
            .map(|mut sandbox| {
                let begin = &begin;
                scope.spawn(move || -> Result<Vec<Duration>, BenchError> {
                    let first = sandbox.execute(HELLO).map_err(BenchError::from).and_then(succeed);
                    begin.wait();
                    first?;
                    (0..each)
                        .map(|_| {
                            let start = Instant::now();
                            succeed(sandbox.execute(HELLO)?)?;
                            Ok(start.elapsed())
                        })
                        .collect()
                })
            })
            .collect();
        begin.wait();
        let start = Instant::now();
        for client in running {
            let died = |_| BenchError::Program("a thread died".to_owned());
            client.join().map_err(died)??.into_iter().for_each(|time| all.push(time));
        }
        Ok(start.elapsed().as_secs_f64())
    })?;
    Ok(((each * clients) as f64 / elapsed, all))
}

/// A daemon of the bench's own. Dropping it ends it, and its workers with it.
pub(crate) struct Daemon {
    child: Child,
    socket: std::path::PathBuf,
}

impl Daemon {
    /// The error says why there is none.
    pub(crate) fn start(program: &Path, place: &Path, settings: &Settings) -> Result<Self, String> {
        Self::start_with(program, place, settings, &[], &[])
    }

    /// The same with more arguments and variables.
    pub(crate) fn start_with(
        program: &Path,
        place: &Path,
        settings: &Settings,
        args: &[&str],
        env: &[(&str, &str)],
    ) -> Result<Self, String> {
        let socket = place.join("run/daemon.sock");
        let child = Command::new(program)
            .args(["daemon", "start", "--foreground", "--cache"])
            .arg(settings.home.cache())
            .args(args)
            .envs(env.iter().copied())
            .env("BELLJAR_HOME", place.join("home"))
            .env("BELLJAR_SOCKET", &socket)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| error.to_string())?;
        let mut daemon = Self { child, socket };
        let until = Instant::now() + STARTING;
        loop {
            match available(&daemon.socket) {
                Ok(_) => return Ok(daemon),
                Err(error) if Instant::now() > until => return Err(error.to_string()),
                Err(_) => {}
            }
            if let Ok(Some(status)) = daemon.child.try_wait() {
                return Err(format!("it ended at once: {status}"));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The same through this daemon.
    pub(crate) fn config(&self, like: &SandboxConfig) -> SandboxConfig {
        let socket = Some(self.socket.clone());
        SandboxConfig { backend: Backend::Daemon, socket, ..like.clone() }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // Its workers die with it.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
