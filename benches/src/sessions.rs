//! What sessions cost: cells, tools, forks, snapshots, and the other language.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use belljar::{
    ExecutionPolicy, Files, JavaScriptSandbox, PolicyLayer, Preset, PythonSandbox, Sandbox,
    SandboxConfig, Snapshot, Status, ToolAnswer, Tools,
};
use serde_json::{Value, json};

use crate::compare::time_process;
use crate::timing::{Times, private_bytes, sample, succeed};
use crate::{BenchError, Row, Settings};

const MEGABYTE: usize = 1_000_000;

pub struct Sessions<'a> {
    settings: &'a Settings,
}

impl<'a> Sessions<'a> {
    pub fn new(settings: &'a Settings) -> Self {
        Self { settings }
    }

    fn rounds(&self, full: usize) -> usize {
        if self.settings.quick { (full / 10).max(5) } else { full }
    }

    fn config(&self, workspace: &Path) -> Result<SandboxConfig, BenchError> {
        let tools = Tools::new().deferred("approve")?;
        let tools = tools.with("echo", |request| Ok(request.call.args.clone().into()))?;
        Ok(SandboxConfig {
            policy: ExecutionPolicy::build(
                Preset::Agent,
                [PolicyLayer::new().max_tool_calls(1_000_000)],
            )
            .map_err(belljar::SandboxError::from)?,
            workspace: Some(workspace.to_owned()),
            home: Some(self.settings.home.clone()),
            tools,
            ..SandboxConfig::default()
        })
    }

    fn session(&self, workspace: &Path) -> Result<PythonSandbox, BenchError> {
        let mut sandbox = PythonSandbox::from_config(&self.config(workspace)?)?;
        sandbox.initialize(Value::Null)?;
        Ok(sandbox)
    }

    /// One more cell of a session, with the checkpoint it could be rolled back to.
    pub fn live_cell(&self) -> Result<Row, BenchError> {
        let workspace = tempfile::tempdir()?;
        let mut session = self.session(workspace.path())?;
        let times = sample(self.rounds(2000), || succeed(session.execute("print('hello')")?))?;
        Ok(Row::new("session: one more cell, checkpoint included", times.p50(), "ms")
            .p99(times.p99()))
    }

    /// From the guest to a function of the host and back.
    pub fn tool_round_trip(&self) -> Result<Row, BenchError> {
        const CALLS: usize = 100;
        let workspace = tempfile::tempdir()?;
        let mut session = self.session(workspace.path())?;
        let code = format!("for i in range({CALLS}): echo(i)");
        let times = sample(self.rounds(100), || succeed(session.execute(&code)?))?;
        Ok(Row::new("session: one call of a tool", times.p50() / CALLS as f64, "ms"))
    }

    /// What a session holds while nobody uses it.
    pub fn idle_memory(&self) -> Result<Row, BenchError> {
        const SESSIONS: usize = 64;
        let workspace = tempfile::tempdir()?;
        let code = "import json, re\nx = [json.dumps({'a': i}) for i in range(100)]";
        succeed(self.session(workspace.path())?.execute(code)?)?;
        let before = private_bytes()?;
        let mut sessions = Vec::with_capacity(SESSIONS);
        for _ in 0..SESSIONS {
            let mut session = self.session(workspace.path())?;
            succeed(session.execute(code)?)?;
            sessions.push(session);
        }
        let each = (private_bytes()? - before) / SESSIONS as f64;
        Ok(Row::new("session: private memory while idle", each / (1024.0 * 1024.0), "MiB"))
    }

    /// From the wish to stop a busy cell to its result, the session alive.
    pub fn cancel(&self) -> Result<Row, BenchError> {
        let workspace = tempfile::tempdir()?;
        let mut session = self.session(workspace.path())?;
        let mut times = Times::default();
        for _ in 0..self.rounds(50) {
            let handle = session.cancel_handle();
            let canceller = std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(5));
                let asked = Instant::now();
                handle.cancel();
                asked
            });
            let result = session.execute("while True: pass")?;
            let ended = Instant::now();
            let asked =
                canceller.join().map_err(|_| BenchError::Program("a thread died".to_owned()))?;
            if result.status() != Status::Cancelled {
                return Err(BenchError::Program(result.stderr));
            }
            times.push(ended - asked);
        }
        Ok(Row::new("session: from cancel to result", times.p50(), "ms").p99(times.p99()))
    }

    /// Forks of sessions that changed different amounts of memory. Like a fresh sandbox, a fork
    /// takes the memory and the empty directory of one that is gone where it can; a row of its own
    /// shows what it costs when all are kept.
    pub fn forks(&self) -> Result<Vec<Row>, BenchError> {
        let mut rows = Vec::new();
        for megabytes in [1, 10, 30] {
            let workspace = tempfile::tempdir()?;
            let mut session = self.session(workspace.path())?;
            let code = format!("big = b'x' * {}", megabytes * MEGABYTE);
            succeed(session.execute(&code)?)?;
            let times = self.fork_times(&mut session, None)?;
            rows.push(
                Row::new(format!("fork, {megabytes} MB changed"), times.p50(), "ms")
                    .p99(times.p99())
                    .against("making a directory", self.directory_times()?.p50()),
            );
            if megabytes == 30 {
                let mut fork = session.fork()?;
                succeed(fork.execute("more = b'y' * 1_000_000")?)?;
                let times = self.fork_times(&mut *fork, None)?;
                let name = "fork of a fork, 30 MB and 1 MB changed";
                rows.push(Row::new(name, times.p50(), "ms").p99(times.p99()));
                let times = self.fork_times(&mut session, Some(Vec::new()))?;
                let name = "fork, 30 MB changed, all forks kept alive";
                rows.push(Row::new(name, times.p50(), "ms").p99(times.p99()));
            }
        }
        Ok(rows)
    }

    /// What a fork pays when no empty directory is left for it. That is the file system's affair,
    /// and varies more than everything else a fork does.
    fn directory_times(&self) -> Result<Times, BenchError> {
        let mut times = Times::default();
        let mut kept = Vec::new();
        for _ in 0..self.rounds(200) {
            let start = Instant::now();
            kept.push(tempfile::tempdir()?);
            times.push(start.elapsed());
        }
        Ok(times)
    }

    /// Times of `fork` alone; each fork then runs a cell, and is kept where somebody keeps it.
    fn fork_times(
        &self,
        session: &mut dyn Sandbox,
        mut kept: Option<Vec<Box<dyn Sandbox>>>,
    ) -> Result<Times, BenchError> {
        let mut times = Times::default();
        for round in 0..self.rounds(200) + 3 {
            let start = Instant::now();
            let mut fork = session.fork()?;
            let elapsed = start.elapsed();
            if round >= 3 {
                times.push(elapsed);
            }
            succeed(fork.execute("pass")?)?;
            if let Some(kept) = &mut kept {
                kept.push(fork);
            }
        }
        Ok(times)
    }

    /// A session that awaits a tool: saved to a file, brought back, resumed.
    pub fn snapshots(&self) -> Result<Vec<Row>, BenchError> {
        let workspace = tempfile::tempdir()?;
        let mut session = self.session(workspace.path())?;
        let waiting = session.execute("answer = await approve('?')\nprint(answer)")?;
        if waiting.status() != Status::Suspended {
            return Err(BenchError::Program(waiting.stderr));
        }
        let elsewhere = tempfile::tempdir()?;
        let file = elsewhere.path().join("waiting.belljar");
        let save =
            sample(self.rounds(100), || Ok(session.snapshot(Files::Without)?.write(&file)?))?;
        let bytes = std::fs::metadata(&file)?.len() as f64;
        let mut restored = PythonSandbox::from_config(&self.config(workspace.path())?)?;
        let restore = sample(self.rounds(100), || {
            restored.restore(&Snapshot::read(&file, &self.settings.home)?)?;
            Ok(())
        })?;
        let resume = sample(self.rounds(100), || {
            restored.restore(&Snapshot::read(&file, &self.settings.home)?)?;
            let id = restored.pending_calls().first().map_or(0, |call| call.id);
            succeed(restored.resume(vec![ToolAnswer { id, outcome: Ok(json!("yes")) }])?)
        })?;
        let mut rows = vec![
            Row::new("save a session that awaits a tool", save.p50(), "ms").p99(save.p99()),
            Row::new("size of that file", bytes / (1024.0 * 1024.0), "MiB"),
            Row::new("restore it", restore.p50(), "ms").p99(restore.p99()),
            Row::new("restore it, answer, run to the end", resume.p50(), "ms").p99(resume.p99()),
        ];
        rows.extend(self.resume_in_a_new_process(&file)?);
        rows.extend(self.resume_by_command()?);
        Ok(rows)
    }

    pub fn resume_once(&self, file: &Path) -> Result<f64, BenchError> {
        let workspace = tempfile::tempdir()?;
        let start = Instant::now();
        let mut session = PythonSandbox::from_config(&self.config(workspace.path())?)?;
        session.restore(&Snapshot::read(file, &self.settings.home)?)?;
        let id = session.pending_calls().first().map_or(0, |call| call.id);
        succeed(session.resume(vec![ToolAnswer { id, outcome: Ok(json!("yes")) }])?)?;
        Ok(start.elapsed().as_secs_f64() * 1000.0)
    }

    /// What a process that has just started pays: finding the interpreter included.
    fn resume_in_a_new_process(&self, file: &Path) -> Result<Option<Row>, BenchError> {
        let Some(program) = &self.settings.program else { return Ok(None) };
        let mut times = Times::default();
        for _ in 0..self.rounds(30) {
            let mut command = Command::new(program);
            command.args(["bench", "--resume"]).arg(file);
            let output = command.env("BELLJAR_HOME", self.settings.home.root()).output()?;
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            // The session's own line comes first.
            let time = text.lines().last().and_then(|line| line.trim().parse::<f64>().ok());
            let time = time.ok_or(BenchError::Program(text))?;
            times.push(Duration::from_secs_f64(time / 1000.0));
        }
        let name = "resume in a new process: load, restore, answer, run to the end";
        Ok(Some(Row::new(name, times.p50(), "ms").p99(times.p99())))
    }

    /// The whole `belljar session resume` process, which saves the session again and waits for the
    /// disk, against starting `belljar` for nothing.
    fn resume_by_command(&self) -> Result<Option<Row>, BenchError> {
        let Some(program) = &self.settings.program else { return Ok(None) };
        let home = self.settings.home.root();
        let (mut times, mut starts) = (Times::default(), Times::default());
        for round in 0..self.rounds(30) {
            let id = format!("bench-{}-{round}", std::process::id());
            let command = |arguments: &[&str]| {
                let mut command = Command::new(program);
                command.args(arguments).env("BELLJAR_HOME", home);
                command
            };
            let code = "print(await approve('?'))";
            // Suspended, so its exit code is not zero.
            command(&["run", "--session", &id, "--defer", "approve", "-c", code]).output()?;
            let resume = ["session", "resume", &id, "--answer", "1=true"];
            let resumed = time_process(&mut command(&resume));
            command(&["session", "rm", &id]).output()?;
            times.push(resumed?);
            starts.push(time_process(&mut command(&["--version"]))?);
        }
        let row = Row::new("whole `session resume`, saved to disk again", times.p50(), "ms");
        Ok(Some(row.p99(times.p99()).against("belljar --version", starts.p50())))
    }

    /// A fresh JavaScript sandbox against `node -e`.
    pub fn javascript(&self) -> Result<Vec<Row>, BenchError> {
        let workspace = tempfile::tempdir()?;
        let mut sandbox = JavaScriptSandbox::from_config(&self.config(workspace.path())?)?;
        let code = "console.log('hello')";
        let times = sample(self.rounds(2000), || succeed(sandbox.execute(code)?))?;
        let row = Row::new("fresh JavaScript sandbox, console.log('hello')", times.p50(), "ms");
        let row = row.p99(times.p99());
        let node = self.node_start(code);
        sandbox.initialize(Value::Null)?;
        let live = sample(self.rounds(2000), || succeed(sandbox.execute(code)?))?;
        Ok(vec![
            match node {
                Some(time) => row.against("node -e", time),
                None => row,
            },
            Row::new("JavaScript session: one more cell", live.p50(), "ms").p99(live.p99()),
        ])
    }

    /// `None` where there is no Node.
    fn node_start(&self, code: &str) -> Option<f64> {
        let mut times = Times::default();
        for _ in 0..self.rounds(30) {
            times.push(time_process(Command::new("node").args(["-e", code])).ok()?);
        }
        Some(times.p50())
    }
}
