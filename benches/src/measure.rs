//! The measurements themselves.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use belljar::CancelHandle;
use belljar::RuntimeType;
use belljar::core::{GuestImage, ToolLimits};
use belljar::{ExecutionPolicy, Preset, PythonSandbox, Sandbox, SandboxConfig, SandboxError};
use belljar_wasm::{Cell, Grant, Interpreter, Limits, Live, Missing, Setup, Surroundings};

use crate::compare::{Native, time_process};
use crate::timing::{Times, private_bytes, sample, succeed};
use crate::{BenchError, Row, Settings};

const HELLO: &str = "print('hello')";
const KERNELS: &str = include_str!("kernels.py");
const MEBIBYTE: f64 = 1024.0 * 1024.0;

pub struct Bench<'a> {
    settings: &'a Settings,
    guest: Arc<Interpreter>,
}

impl<'a> Bench<'a> {
    pub fn new(settings: &'a Settings) -> Result<Self, BenchError> {
        let (cache, missing) = (settings.home.cache(), Missing::Compile(&|_| {}));
        let guest = Interpreter::load(RuntimeType::Python, GuestImage::Plain, &cache, missing)?;
        Ok(Self { settings, guest: Arc::new(guest) })
    }

    fn rounds(&self, full: usize) -> usize {
        if self.settings.quick { (full / 10).max(5) } else { full }
    }

    fn sandbox(&self, workspace: PathBuf) -> Result<PythonSandbox, SandboxError> {
        PythonSandbox::from_config(&SandboxConfig {
            policy: ExecutionPolicy::preset(Preset::Agent),
            workspace: Some(workspace),
            home: Some(self.settings.home.clone()),
            ..SandboxConfig::default()
        })
    }

    /// A library call that runs `print('hello')` in a sandbox of its own, against `python3 -c`.
    pub fn fresh_start(&self, native: Option<&Native>) -> Result<Row, BenchError> {
        let workspace = tempfile::tempdir()?;
        let mut sandbox = self.sandbox(workspace.path().to_owned())?;
        let times = sample(self.rounds(2000), || succeed(sandbox.execute(HELLO)?))?;
        let row = Row::new("fresh sandbox, print('hello')", times.p50(), "ms").p99(times.p99());
        Ok(match native {
            Some(native) => row.against("python3 -c", self.native_start(native)?),
            None => row,
        })
    }

    fn native_start(&self, native: &Native) -> Result<f64, BenchError> {
        let mut times = Times::default();
        for _ in 0..self.rounds(30) {
            times.push(native.run_once(HELLO)?);
        }
        Ok(times.p50())
    }

    /// The whole `belljar run` process, against `python3 -c`.
    pub fn whole_process(&self, native: Option<&Native>) -> Result<Option<Row>, BenchError> {
        let Some(program) = &self.settings.program else { return Ok(None) };
        let mut times = Times::default();
        for _ in 0..self.rounds(50) {
            let mut command = Command::new(program);
            command.args(["run", "-c", HELLO]).env("BELLJAR_HOME", self.settings.home.root());
            times.push(time_process(&mut command)?);
        }
        let row = Row::new("whole process, belljar run -c", times.p50(), "ms").p99(times.p99());
        Ok(Some(match native {
            Some(native) => row.against("python3 -c", self.native_start(native)?),
            None => row,
        }))
    }

    /// One more cell in an interpreter that already runs.
    pub fn live_cell(&self) -> Result<Row, BenchError> {
        let mut instance = self.instance()?;
        run_cell(&mut instance, HELLO, Some(&surroundings()))?;
        let times = sample(self.rounds(2000), || run_cell(&mut instance, HELLO, None))?;
        Ok(Row::new("live cell, print('hello')", times.p50(), "ms").p99(times.p99()))
    }

    /// Fresh sandboxes per second, on one thread and on all cores.
    pub fn throughput(&self) -> Result<[Row; 2], BenchError> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let one = self.sandboxes_per_second(1)?;
        let all = self.sandboxes_per_second(cores)?;
        Ok([
            Row::new("fresh sandboxes, one thread", one, "/s"),
            Row::new(format!("fresh sandboxes, {cores} threads"), all, "/s")
                .against("one thread", one),
        ])
    }

    fn sandboxes_per_second(&self, threads: usize) -> Result<f64, BenchError> {
        let duration = Duration::from_millis(if self.settings.quick { 200 } else { 2000 });
        let (count, stop) = (AtomicU64::new(0), AtomicBool::new(false));
        let work = || -> Result<(), BenchError> {
            let workspace = tempfile::tempdir()?;
            let mut sandbox = self.sandbox(workspace.path().to_owned())?;
            while !stop.load(Ordering::Relaxed) {
                succeed(sandbox.execute(HELLO)?)?;
                count.fetch_add(1, Ordering::Relaxed);
            }
            Ok(())
        };
        let elapsed = std::thread::scope(|scope| {
            let start = Instant::now();
            let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
            std::thread::sleep(duration);
            stop.store(true, Ordering::Relaxed);
            let elapsed = start.elapsed();
            for worker in workers {
                worker
                    .join()
                    .unwrap_or_else(|_| Err(BenchError::Program("a thread died".into())))?;
            }
            Ok::<_, BenchError>(elapsed)
        })?;
        Ok(count.load(Ordering::Relaxed) as f64 / elapsed.as_secs_f64())
    }

    /// Memory that a live sandbox holds for itself after `print('hello')`.
    pub fn private_memory(&self) -> Result<Row, BenchError> {
        const SANDBOXES: usize = 64;
        let mut live = Vec::with_capacity(SANDBOXES);
        run_cell(&mut self.instance()?, HELLO, Some(&surroundings()))?;
        let before = private_bytes()?;
        for _ in 0..SANDBOXES {
            let mut instance = self.instance()?;
            run_cell(&mut instance, HELLO, Some(&surroundings()))?;
            live.push(instance);
        }
        let each = (private_bytes()? - before) / SANDBOXES as f64;
        Ok(Row::new("private memory of a fresh sandbox after hello", each / MEBIBYTE, "MiB"))
    }

    /// One small write in a workspace with few and with many files.
    pub fn workspaces(&self) -> Result<[Row; 2], BenchError> {
        let few = self.write_among(10)?;
        let many = self.write_among(10_000)?;
        Ok([
            Row::new("one write, workspace of 10 files", few, "ms"),
            Row::new("one write, workspace of 10 000 files", many, "ms").against("10 files", few),
        ])
    }

    fn write_among(&self, files: usize) -> Result<f64, BenchError> {
        let workspace = tempfile::tempdir()?;
        for index in 0..files {
            std::fs::write(workspace.path().join(format!("file{index}")), "contents")?;
        }
        let mut sandbox = self.sandbox(workspace.path().to_owned())?;
        let code = "with open('file3', 'a') as f: f.write('x')";
        let times = sample(self.rounds(500), || {
            let result = sandbox.execute(code)?;
            if result.files_modified != ["file3"] {
                return Err(BenchError::Program(format!(
                    "wrong delta: {:?}",
                    result.files_modified
                )));
            }
            succeed(result)
        })?;
        Ok(times.p50())
    }

    /// Interpreter work, metered, against the native interpreter; the last row is the geometric mean.
    pub fn kernels(&self, native: Option<&Native>) -> Result<Vec<Row>, BenchError> {
        let workspace = tempfile::tempdir()?;
        let result = self.sandbox(workspace.path().to_owned())?.execute(KERNELS)?;
        let ours = parse_kernels(&result.stdout)?;
        let theirs = match native {
            Some(native) => parse_kernels(&native.output_of(KERNELS)?)?,
            None => BTreeMap::new(),
        };
        let mut rows = Vec::new();
        let (mut logarithms, mut compared) = (0.0, 0.0);
        for (name, seconds) in &ours {
            let mut row = Row::new(format!("kernel: {name}"), seconds * 1000.0, "ms");
            if let Some(native) = theirs.get(name) {
                row = row.against("python3", native * 1000.0);
                logarithms += (seconds / native).ln();
                compared += 1.0;
            }
            rows.push(row);
        }
        if compared > 0.0 {
            let mean = f64::exp(logarithms / compared);
            rows.push(Row::new("kernels, geometric mean", mean, "x").against("python3", 1.0));
        }
        Ok(rows)
    }

    fn instance(&self) -> Result<Live, BenchError> {
        Ok(self.guest.live(Setup {
            grant: Grant::default(),
            host: None,
            tool_limits: ToolLimits { calls: 0, bytes: 0 },
            memory_bytes: 128 << 20,
            cancel: CancelHandle::default(),
        })?)
    }
}

fn surroundings() -> Surroundings {
    Surroundings {
        env: BTreeMap::new(),
        workspace: "/app".to_owned(),
        path: Vec::new(),
        argv: vec![String::new()],
        tools: Vec::new(),
        tool_docs: BTreeMap::new(),
        renewed: false,
    }
}

fn run_cell(
    instance: &mut Live,
    code: &str,
    surroundings: Option<&Surroundings>,
) -> Result<(), BenchError> {
    let cell = Cell { code, filename: "<cell>", value: true, drain: false, surroundings };
    let limits = Limits { fuel: 1 << 40, timeout: Duration::from_secs(30) };
    let ran = instance.execute(cell, limits)?;
    instance.take_traces()?;
    match ran.answer {
        Some(answer) if answer.error.is_none() => Ok(()),
        _ => Err(BenchError::Program("a cell did not succeed".to_owned())),
    }
}

fn parse_kernels(text: &str) -> Result<BTreeMap<String, f64>, BenchError> {
    serde_json::from_str(text.trim()).map_err(|error| BenchError::Program(error.to_string()))
}
