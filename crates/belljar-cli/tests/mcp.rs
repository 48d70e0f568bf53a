//! `belljar mcp` with clients nobody here wrote, and with clients that mean no good.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test stops where it fails")]

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

const PYTHON_PACKAGE: &str = "mcp==2.3.0";
const NPM_PACKAGE: &str = "@modelcontextprotocol/sdk@1.32.2";
const TOKEN: &str = "a-token-for-these-tests";

/// Nothing here should take longer, even on a busy machine.
const LONG: Duration = Duration::from_secs(60);

fn build_dir() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap().to_owned()
}

fn belljar(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_belljar"));
    command.args(args).env("BELLJAR_HOME", build_dir().join("test-home"));
    for name in ["SANDBOX_TYPE", "SANDBOX_PRESET", "BELLJAR_HTTP_TOKEN"] {
        command.env_remove(name);
    }
    command
}

/// Says that a test did not run, past the harness, which hides what passing tests print.
fn skipped(test: &str, reason: &str) {
    let line = format!("\nSKIPPED: {test}: {reason}\n");
    let _ = std::io::stderr().write_all(line.as_bytes());
}

fn done(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (said, complaint) = (text(&output.stdout), text(&output.stderr));
    if output.status.success() { Ok(said) } else { Err(format!("{command:?}: {said}{complaint}")) }
}

/// The Python client, installed once per build directory; or why there is none.
fn python_client() -> Result<PathBuf, String> {
    static MADE: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let make = || {
        let venv = build_dir().join("test-venv-mcp");
        let python = venv.join("bin/python");
        let version = PYTHON_PACKAGE.rsplit('=').next().unwrap();
        let check =
            format!("import importlib.metadata as m; assert m.version('mcp') == '{version}'");
        if done(Command::new(&python).args(["-c", &check])).is_err() {
            done(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&venv))?;
            let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
            done(Command::new(&python).args(pip).arg(PYTHON_PACKAGE))?;
        }
        Ok(python)
    };
    MADE.get_or_init(make).clone()
}

/// The TypeScript SDK, likewise.
fn typescript_client() -> Result<PathBuf, String> {
    static MADE: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let make = || {
        let prefix = build_dir().join("test-npm-mcp");
        let sdk = prefix.join("node_modules/@modelcontextprotocol/sdk");
        if !sdk.join("dist/esm/client/index.js").is_file() {
            fs::create_dir_all(&prefix).map_err(|error| error.to_string())?;
            let npm = ["install", "--no-audit", "--no-fund", "--no-save", "--prefix"];
            done(Command::new("npm").args(npm).arg(&prefix).arg(NPM_PACKAGE))?;
        }
        Ok(sdk)
    };
    MADE.get_or_init(make).clone()
}

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/mcp").join(name)
}

/// Runs one of the scripts, which checks everything itself.
fn python(test: &str, args: &[&str]) {
    let python = match python_client() {
        Ok(python) => python,
        Err(reason) => return skipped(test, &reason),
    };
    let mut client = Command::new(python);
    client.arg(script("client.py")).args(args);
    run_client(client);
}

fn typescript(test: &str, args: &[&str]) {
    let sdk = match typescript_client() {
        Ok(sdk) => sdk,
        Err(reason) => return skipped(test, &reason),
    };
    let mut client = Command::new("node");
    client.arg(script("client.mjs")).arg(sdk).args(args);
    run_client(client);
}

fn run_client(mut client: Command) {
    client.env("BELLJAR_HOME", build_dir().join("test-home"));
    match done(&mut client) {
        Ok(said) => assert!(said.lines().count() >= 5, "{said}"),
        Err(problem) => panic!("{problem}"),
    }
}

/// A server over HTTP, ended at the end.
struct HttpServer {
    child: Child,
    url: String,
}

impl HttpServer {
    fn start(more: &[&str]) -> Self {
        let args = [&["mcp", "--http", "0"], more].concat();
        let mut child = belljar(&args)
            .env("BELLJAR_HTTP_TOKEN", TOKEN)
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = String::new();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        stderr.read_line(&mut said).unwrap();
        let url = said.trim().strip_prefix("listening on ").unwrap_or_else(|| panic!("{said}"));
        let url = url.to_owned();
        // What is said later is nobody's business, and must not fill the pipe.
        std::thread::spawn(move || std::io::copy(&mut stderr, &mut std::io::sink()));
        Self { child, url }
    }

    fn address(&self) -> &str {
        self.url.strip_prefix("http://").unwrap().strip_suffix("/mcp").unwrap()
    }

    /// The status and the text of an answer to a request with these headers.
    fn post(&self, headers: &[(&str, &str)], body: &str) -> (u16, String) {
        let mut all = vec![
            ("Host", self.address()),
            ("Content-Type", "application/json"),
            ("Accept", "application/json, text/event-stream"),
            ("Connection", "close"),
        ];
        all.retain(|(name, _)| !headers.iter().any(|(other, _)| other == name));
        all.extend(headers);
        let mut request = String::from("POST /mcp HTTP/1.1\r\n");
        for (name, value) in all {
            request.push_str(&format!("{name}: {value}\r\n"));
        }
        request.push_str(&format!("Content-Length: {}\r\n\r\n", body.len()));
        let mut stream = TcpStream::connect(self.address()).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        // A server that has refused does not read on.
        let _ = stream.write_all(body.as_bytes());
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok());
        (status.unwrap_or_else(|| panic!("no answer: {answer:?}")), answer)
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn initialize() -> String {
    let params = json!({
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    });
    json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}).to_string()
}

/// A client that writes lines itself.
struct Raw {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Raw {
    fn start() -> Self {
        let mut child = belljar(&["mcp"])
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

fn wait(child: &mut Child) -> i32 {
    let begun = Instant::now();
    while begun.elapsed() < LONG {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code().unwrap_or(-1);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("it does not end")
}

#[test]
fn the_python_client_over_stdio() {
    let program = env!("CARGO_BIN_EXE_belljar");
    python("the_python_client_over_stdio", &["stdio", program, "auto"]);
}

#[test]
fn the_python_client_over_stdio_with_a_handshake() {
    let program = env!("CARGO_BIN_EXE_belljar");
    python("the_python_client_over_stdio_with_a_handshake", &["stdio", program, "legacy"]);
}

#[test]
fn the_python_client_over_http() {
    let server = HttpServer::start(&[]);
    python("the_python_client_over_http", &["http", &server.url, TOKEN]);
}

#[test]
fn the_typescript_client_over_stdio() {
    let program = env!("CARGO_BIN_EXE_belljar");
    typescript("the_typescript_client_over_stdio", &["stdio", program]);
}

#[test]
fn the_typescript_client_over_http() {
    let server = HttpServer::start(&[]);
    typescript("the_typescript_client_over_http", &["http", &server.url, TOKEN]);
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
        let mut child = belljar(&["mcp"])
            .env("TMPDIR", temporary.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut client = Raw { input: child.stdin.take(), output, child };
        client.say(&initialize());
        client.hear();
        client.say(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string());
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
fn without_the_token_nobody_is_heard() {
    let server = HttpServer::start(&[]);
    let refused: [&[(&str, &str)]; 5] = [
        &[],
        &[("Authorization", "Bearer ")],
        &[("Authorization", "Bearer a-token-for-these-test")],
        &[("Authorization", "Bearer a-token-for-these-testS")],
        &[("Authorization", "Basic a-token-for-these-tests")],
    ];
    for headers in refused {
        let (status, answer) = server.post(headers, &initialize());
        assert_eq!(status, 401, "{headers:?}");
        assert!(answer.to_lowercase().contains("www-authenticate: bearer"), "{answer}");
        assert!(!answer.contains("belljar"), "{answer}");
    }
    let (status, answer) =
        server.post(&[("Authorization", "Bearer a-token-for-these-tests")], &initialize());
    assert_eq!(status, 200, "{answer}");
}

const BEARER: (&str, &str) = ("Authorization", "Bearer a-token-for-these-tests");

#[test]
fn pages_in_browsers_are_refused_unless_they_are_named() {
    let server = HttpServer::start(&[
        "--allow-origin",
        "https://good.example:443",
        "--allow-host",
        "jar.example",
    ]);
    let status = |headers: &[(&str, &str)]| server.post(headers, &initialize()).0;
    assert_eq!(status(&[BEARER, ("Origin", "https://evil.example")]), 403);
    assert_eq!(status(&[BEARER, ("Origin", "http://localhost:3000")]), 403);
    assert_eq!(status(&[BEARER, ("Origin", "null")]), 403);
    assert_eq!(status(&[BEARER, ("Origin", "https://good.example")]), 200);
    // A name of somebody else's that leads here.
    assert_eq!(status(&[BEARER, ("Host", "evil.example")]), 403);
    assert_eq!(status(&[BEARER, ("Host", "evil.example:80")]), 403);
    assert_eq!(status(&[BEARER, ("Host", "jar.example")]), 200);
    assert_eq!(status(&[BEARER, ("Host", "localhost")]), 200);
    let strict = HttpServer::start(&[]);
    assert_eq!(strict.post(&[BEARER, ("Origin", "https://good.example")], &initialize()).0, 403);
    assert_eq!(strict.post(&[BEARER, ("Host", "jar.example")], &initialize()).0, 403);
}

#[test]
fn bad_requests_get_a_bad_answer_and_the_next_a_good_one() {
    let server = HttpServer::start(&[]);
    let status = |headers: &[(&str, &str)], body: &str| server.post(headers, body).0;
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).to_string();
    let in_session = |id| [BEARER, ("Mcp-Session-Id", id)];
    assert_eq!(status(&in_session("nobody-s"), &call), 404);
    assert!((400..500).contains(&status(&[BEARER], &call)), "no session");
    assert!((400..500).contains(&status(&[BEARER], "{")));
    assert!((400..500).contains(&status(&[BEARER, ("Content-Type", "text/plain")], &initialize())));
    let long = format!("{}{}", initialize(), " ".repeat(25 << 20));
    assert_eq!(status(&[BEARER], &long), 413);
    assert_eq!(status(&[BEARER], &initialize()), 200);
}

#[test]
fn a_token_is_made_up_and_shown_once_and_a_bad_one_refused() {
    let mut child = belljar(&["mcp", "--http", "0"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let token = lines.next().unwrap().unwrap();
    assert_eq!(token.strip_prefix("token: ").unwrap().len(), 64, "{token}");
    assert!(lines.next().unwrap().unwrap().starts_with("listening on http://127.0.0.1:"));
    done(Command::new("kill").arg(child.id().to_string())).unwrap();
    assert_eq!(wait(&mut child), 0);
    assert!(lines.next().is_none());
    let mut stdout = String::new();
    child.stdout.take().unwrap().read_to_string(&mut stdout).unwrap();
    assert_eq!(stdout, "");
    for (bad, why) in
        [("", "shorter"), ("short", "shorter"), ("with spaces in between it", "header")]
    {
        let output =
            belljar(&["mcp", "--http", "0"]).env("BELLJAR_HTTP_TOKEN", bad).output().unwrap();
        let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(125), "{complaint}");
        assert!(complaint.contains(why) && !complaint.contains("in between"), "{complaint}");
    }
}
