//! A daemon of a test's own, and clients of it.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

/// How long anything may take here.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Where all tests of the workspace keep their compiled guests.
pub fn cache() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap().join("test-home/cache")
}

/// Directories of a daemon. Removed at the end.
pub struct Place(TempDir);

impl Place {
    pub fn new() -> Self {
        Self(tempfile::Builder::new().prefix("belljar-daemon-").tempdir().unwrap())
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    pub fn home(&self) -> PathBuf {
        self.path().join("home")
    }

    pub fn socket(&self) -> PathBuf {
        self.path().join("run/daemon.sock")
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_belljar"));
        command
            .arg("daemon")
            .args(args)
            .env("BELLJAR_HOME", self.home())
            .env("BELLJAR_SOCKET", self.socket())
            .env_remove("BELLJAR_HTTP_TOKEN")
            .stdin(Stdio::null());
        command
    }

    /// `belljar daemon start` with two workers and the tests' compiled guests.
    pub fn start(&self, args: &[&str]) -> Command {
        let mut command = self.command(&["start", "--cache"]);
        command.arg(cache()).args(args);
        if !args.contains(&"--workers") {
            command.args(["--workers", "2"]);
        }
        command
    }

    pub fn belljar(&self, args: &[&str]) -> (i32, String, String) {
        outcome(&self.command(args).output().unwrap())
    }

    pub fn client(&self) -> Client {
        Client::connect(&self.socket())
    }
}

pub fn outcome(output: &Output) -> (i32, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap_or(-1), text(&output.stdout), text(&output.stderr))
}

/// A daemon in the foreground of a test; killed at the end.
pub struct Daemon {
    pub place: Place,
    pub child: Child,
}

impl Daemon {
    pub fn new(args: &[&str]) -> Self {
        Self::at(Place::new(), args)
    }

    pub fn at(place: Place, args: &[&str]) -> Self {
        let command = place.start(&[&["--foreground"], args].concat());
        Self::started(place, command)
    }

    pub fn started(place: Place, mut command: Command) -> Self {
        let child = command.spawn().unwrap();
        let daemon = Self { place, child };
        wait_for("the daemon", || daemon.is_ready());
        daemon
    }

    fn is_ready(&self) -> bool {
        UnixStream::connect(self.place.socket()).is_ok()
            && self.status()["workers"].as_array().unwrap().iter().all(|it| it["pid"].is_u64())
    }

    pub fn client(&self) -> Client {
        self.place.client()
    }

    pub fn status(&self) -> Value {
        self.client().ask("status", Value::Null)
    }

    pub fn workers(&self) -> Vec<i32> {
        let status = self.status();
        let workers = status["workers"].as_array().unwrap();
        workers.iter().filter_map(|it| it["pid"].as_i64()).map(|pid| pid as i32).collect()
    }

    /// The worker in which the only sandbox lives.
    pub fn worker_with_sandbox(&self) -> i32 {
        let status = self.status();
        let workers = status["workers"].as_array().unwrap();
        let with = workers.iter().find(|it| it["sandboxes"].as_u64() > Some(0)).unwrap();
        with["pid"].as_i64().unwrap() as i32
    }

    /// Kills the daemon as nothing else could, and gives back its place.
    pub fn kill(mut self) -> Place {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        let place = std::mem::replace(&mut self.place, Place::new());
        drop(self);
        place
    }

    pub fn wait(&mut self) -> i32 {
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code().unwrap_or(-1);
            }
            assert!(Instant::now() < until, "the daemon does not end");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = std::fs::read_to_string(self.place.home().join("daemon/log"));
            let log = log.unwrap_or_default();
            let lines: Vec<&str> = log.lines().collect();
            eprintln!(
                "the daemon's log ends:\n{}",
                lines[lines.len().saturating_sub(20)..].join("\n")
            );
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn signal(pid: i32, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    // It may have ended just now.
    let _ = rustix::process::kill_process(pid, signal);
}

/// Whether a process is there and more than an entry in a table.
pub fn lives(pid: i32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| !stat.rsplit(')').next().unwrap_or_default().starts_with(" Z"))
}

#[track_caller]
pub fn wait_for(what: &str, condition: impl Fn() -> bool) -> Duration {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < PATIENCE, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
    begun.elapsed()
}

pub struct Client {
    pub input: BufReader<UnixStream>,
    pub output: UnixStream,
    last: u64,
    pub told: Vec<Value>,
}

impl Client {
    pub fn connect(path: &Path) -> Self {
        let output = UnixStream::connect(path).unwrap();
        output.set_read_timeout(Some(PATIENCE)).unwrap();
        let input = BufReader::new(output.try_clone().unwrap());
        Self { input, output, last: 0, told: Vec::new() }
    }

    pub fn write(&mut self, line: &str) {
        writeln!(self.output, "{line}").unwrap();
    }

    pub fn send(&mut self, method: &str, params: Value) -> u64 {
        self.last += 1;
        let id = self.last;
        self.write(
            &json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string(),
        );
        id
    }

    /// The next message; `None` when the connection has ended.
    pub fn hear(&mut self) -> Option<Value> {
        let mut line = String::new();
        match self.input.read_line(&mut line) {
            Ok(0) => None,
            Ok(_) => Some(serde_json::from_str(&line).unwrap()),
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => None,
            Err(error) => panic!("{error}"),
        }
    }

    /// The answer to a request; everything else that comes before is kept.
    pub fn answer(&mut self, id: u64) -> Value {
        loop {
            let message = self.hear().expect("the daemon has closed the connection");
            if message.get("method").is_none() && message["id"] == json!(id) {
                return message;
            }
            self.told.push(message);
        }
    }

    pub fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params);
        let answer = self.answer(id);
        assert!(answer.get("error").is_none(), "{method}: {answer}");
        answer["result"].clone()
    }

    pub fn refused(&mut self, method: &str, params: Value) -> (i64, String) {
        let id = self.send(method, params);
        let answer = self.answer(id);
        let error = answer.get("error").unwrap_or_else(|| panic!("{answer}"));
        (error["code"].as_i64().unwrap(), error["message"].as_str().unwrap().to_owned())
    }

    pub fn create(&mut self, params: Value) -> u64 {
        self.ask("create", params)["sandbox"].as_u64().unwrap()
    }

    pub fn session(&mut self, name: &str) -> u64 {
        self.create(json!({"session": name}))
    }

    pub fn execute(&mut self, sandbox: u64, code: &str) -> Value {
        self.ask("execute", json!({"sandbox": sandbox, "code": code}))
    }

    /// What the code printed, which must have run to its end.
    pub fn prints(&mut self, sandbox: u64, code: &str) -> String {
        let result = self.execute(sandbox, code);
        assert_eq!(result["status"], "ok", "{result}");
        result["stdout"].as_str().unwrap().to_owned()
    }
}
