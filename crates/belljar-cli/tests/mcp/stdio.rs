//! Clients on standard input that mean no good, or end in the middle.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::{belljar, done, initialize, wait};

/// A client that writes lines itself.
struct Raw {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Raw {
    fn start() -> Self {
        Self::begin(&mut belljar(&["mcp"]))
    }

    fn begin(program: &mut Command) -> Self {
        let mut child = program
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut raw = Self { input: child.stdin.take(), output, child };
        raw.say(&initialize());
        assert_eq!(raw.hear()["result"]["serverInfo"]["name"], "belljar");
        raw.say(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string());
        raw
    }

    fn say(&mut self, line: &str) {
        let input = self.input.as_mut().unwrap();
        input.write_all(format!("{line}\n").as_bytes()).unwrap();
        input.flush().unwrap();
    }

    fn hear(&mut self) -> Value {
        let mut line = String::new();
        assert!(self.output.read_line(&mut line).unwrap() > 0, "the server is gone");
        serde_json::from_str(&line).unwrap_or_else(|_| panic!("no JSON: {line}"))
    }

    fn call(&mut self, id: u64, tool: &str, arguments: Value) -> Value {
        self.ask(id, tool, &arguments);
        loop {
            let message = self.hear();
            if message["id"] == json!(id) {
                return message;
            }
        }
    }

    fn ask(&mut self, id: u64, tool: &str, arguments: &Value) {
        let params = json!({"name": tool, "arguments": arguments});
        let call = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params});
        self.say(&call.to_string());
    }

    /// Closes the input, and waits for the end.
    fn end(mut self) -> i32 {
        self.input = None;
        wait(&mut self.child)
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn nonsense_on_stdin_ends_nothing() {
    let mut client = Raw::start();
    client.say("{");
    client.say("no JSON at all \u{0}");
    client.say("[1, 2]");
    client.say(r#"{"jsonrpc": "2.0", "id": 5}"#);
    client.say(&format!("{}1{}", "[".repeat(10_000), "]".repeat(10_000)));
    client.say(r#"{"jsonrpc": "2.0", "id": 6, "method": "no/such/method"}"#);
    let answer = client.call(7, "run_python_code", json!({"code": "print(1)"}));
    assert_eq!(answer["result"]["structuredContent"]["output"], "1\n");
    assert_eq!(client.end(), 0);
}

#[test]
fn a_line_without_an_end_is_not_kept() {
    let mut client = Raw::start();
    let part = vec![b'x'; 1 << 20];
    for _ in 0..200 {
        client.input.as_mut().unwrap().write_all(&part).unwrap();
    }
    client.say("");
    let answer = client.call(1, "run_python_code", json!({"code": "print(2)"}));
    assert_eq!(answer["result"]["structuredContent"]["output"], "2\n");
    let status = fs::read_to_string(format!("/proc/{}/status", client.child.id())).unwrap();
    let peak = status.lines().find(|line| line.starts_with("VmHWM")).unwrap();
    let peak: u64 = peak.split_whitespace().nth(1).unwrap().parse().unwrap();
    assert!(peak < 400 * 1024, "{peak} KiB for a line of 200 MiB");
}

#[test]
fn an_end_in_the_middle_of_something_leaves_nothing_behind() {
    let temporary = tempfile::tempdir().unwrap();
    for ending in ["input", "signal"] {
        let mut client = Raw::begin(belljar(&["mcp"]).env("TMPDIR", temporary.path()));
        client.call(1, "create_session", json!({"session_id": "s"}));
        client.ask(2, "execute_code", &json!({"session_id": "s", "code": "while True: pass"}));
        std::thread::sleep(Duration::from_millis(500));
        assert!(fs::read_dir(temporary.path()).unwrap().count() > 0, "a workspace");
        let begun = Instant::now();
        if ending == "signal" {
            done(Command::new("kill").arg(client.child.id().to_string())).unwrap();
            assert_eq!(wait(&mut client.child), 0, "{ending}");
        } else {
            assert_eq!(client.end(), 0, "{ending}");
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
        let left: Vec<_> = fs::read_dir(temporary.path()).unwrap().collect();
        assert!(left.is_empty(), "{ending}: {left:?}");
    }
}

#[test]
fn run_python_code_follows_the_settings_of_the_agents_tool() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = belljar(&["mcp"]);
    command
        .env("SANDBOX_ARTIFACTS_DIR", dir.path())
        .env("SANDBOX_BLOCK_DANGEROUS_IMPORTS", "yes")
        .env("SANDBOX_MAX_OUTPUT_KB", "1");
    let mut client = Raw::begin(&mut command);
    let mut run = |id: u64, code: &str| {
        let answer = client.call(id, "run_python_code", json!({"code": code}));
        let result = answer["result"].clone();
        (result["isError"] == json!(true), result["structuredContent"]["output"].to_string())
    };
    let (failed, said) = run(1, "import subprocess");
    assert!(failed && said.contains("subprocess"), "{said}");
    let (failed, said) = run(2, "print('x' * 5000)");
    assert!(!failed && said.len() < 2000, "{said}");
    let (failed, said) = run(3, "import math; print(math.sqrt(9))");
    assert_eq!((failed, said.as_str()), (false, "\"3.0\\n\""));
    // What failed is kept, as `belljar tool run-python` keeps it.
    let kept = fs::read_dir(dir.path().join("executions")).unwrap().count();
    assert!(kept >= 1, "nothing is kept");
    assert_eq!(client.end(), 0);
    let mut wrong = belljar(&["mcp"]);
    let output = wrong.env("SANDBOX_MAX_OUTPUT_KB", "many").output().unwrap();
    assert_eq!(output.status.code(), Some(125));
}
