//! E2B's own packages, from their registries, against a daemon of the test's own; and clients that
//! mean no good.

#![cfg(target_os = "linux")]
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test stops where it fails"
)]

mod attacks;
mod backend;
mod bounds;
mod client;
mod official_clients;
mod proxy;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

const KEY: &str = "e2b_0123456789abcdef0123456789abcdef01234567";
const OTHER_KEY: &str = "e2b_89abcdef0123456789abcdef0123456789abcdef";

/// Nothing here should take longer, even on a busy machine.
const LONG: Duration = Duration::from_secs(120);

fn build_dir() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap().to_owned()
}

/// A daemon that serves E2B's clients; killed at the end.
struct Server {
    place: TempDir,
    child: Child,
    address: String,
}

impl Server {
    fn new(args: &[&str]) -> Self {
        Self::at(tempfile::Builder::new().prefix("belljar-e2b-").tempdir().unwrap(), args)
    }

    fn at(place: TempDir, args: &[&str]) -> Self {
        let child = command(place.path(), &["start", "--foreground", "--http", "0", "--e2b"])
            .args(["--workers", "2", "--cache"])
            .arg(build_dir().join("test-home/cache"))
            .args(args)
            .spawn()
            .unwrap();
        let mut server = Self { place, child, address: String::new() };
        let begun = Instant::now();
        while server.address.is_empty() {
            assert!(begun.elapsed() < LONG, "the daemon does not start");
            std::thread::sleep(Duration::from_millis(50));
            let said = command(server.place.path(), &["status", "--json"]).output().unwrap();
            let status: Value = serde_json::from_slice(&said.stdout).unwrap_or_default();
            let ready = |worker: &Value| worker["pid"].is_u64();
            let workers = status["workers"].as_array();
            if workers.is_some_and(|workers| workers.iter().all(ready)) {
                let address = status["http"].as_str().unwrap_or_default();
                server.address = address.trim_start_matches("http://").to_owned();
            }
        }
        server
    }

    /// Another daemon in the place of this one, which is killed as nothing else could.
    fn restarted(mut self) -> Self {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        let place = std::mem::replace(&mut self.place, tempfile::tempdir().unwrap());
        drop(self);
        Self::at(place, &[])
    }

    fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    fn belljar(&self, args: &[&str]) -> String {
        let output = command(self.place.path(), args).output().unwrap();
        assert!(output.status.success(), "{args:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// A request as it is written, and its whole answer.
    fn raw(&self, request: &[u8]) -> (u16, Vec<u8>) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        stream.write_all(request).unwrap();
        let mut answer = Vec::new();
        // A server that has said why may close before everything was sent.
        let _ = stream.read_to_end(&mut answer);
        let text = String::from_utf8_lossy(&answer);
        let status = text.split(' ').nth(1).and_then(|it| it.parse().ok()).unwrap_or(0);
        (status, answer)
    }

    /// A request with headers and a body.
    fn ask(&self, line: &str, headers: &[(&str, &str)], body: &[u8]) -> (u16, String) {
        let mut request = format!("{line} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n");
        for (name, value) in headers {
            request.push_str(&format!("{name}: {value}\r\n"));
        }
        request.push_str(&format!("Content-Length: {}\r\n\r\n", body.len()));
        let (status, answer) = self.raw(&[request.as_bytes(), body].concat());
        let text = String::from_utf8_lossy(&answer).into_owned();
        let body = text.split_once("\r\n\r\n").map(|(_, body)| body.to_owned());
        (status, body.unwrap_or_default())
    }

    /// A new sandbox: its name and its token.
    fn sandbox(&self, key: &str) -> (String, String) {
        let body = br#"{"templateID":"base","timeout":300}"#;
        let (status, made) = self.ask("POST /v2/sandboxes", &[("X-API-KEY", key)], body);
        assert_eq!(status, 201, "{made}");
        let made: Value = serde_json::from_str(&made).unwrap();
        let text = |name: &str| made[name].as_str().unwrap().to_owned();
        (text("sandboxID"), text("envdAccessToken"))
    }

    /// Processes of this machine that have to do with this daemon, beside itself.
    fn processes(&self) -> usize {
        let pid = self.child.id();
        descendants(pid).len()
    }

    fn home(&self) -> PathBuf {
        self.place.path().join("home")
    }
}

fn descendants(pid: u32) -> Vec<u32> {
    let mut all = Vec::new();
    let mut waiting = vec![pid];
    while let Some(pid) = waiting.pop() {
        let threads = std::fs::read_dir(format!("/proc/{pid}/task"));
        for thread in threads.into_iter().flatten().flatten() {
            let text = std::fs::read_to_string(thread.path().join("children")).unwrap_or_default();
            let children: Vec<u32> = text.split_whitespace().flat_map(str::parse).collect();
            all.extend(&children);
            waiting.extend(children);
        }
    }
    all
}

impl Drop for Server {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = std::fs::read_to_string(self.place.path().join("home/daemon/log"));
            let log = log.unwrap_or_default();
            let tail: Vec<&str> = log.lines().rev().take(20).collect();
            eprintln!("{}", tail.into_iter().rev().collect::<Vec<_>>().join("\n"));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn command(place: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_belljar"));
    command
        .arg("daemon")
        .args(args)
        .env("BELLJAR_HOME", place.join("home"))
        .env("BELLJAR_SOCKET", place.join("run/daemon.sock"))
        .env("E2B_API_KEY", format!("{KEY} {OTHER_KEY}"))
        .env_remove("BELLJAR_HTTP_TOKEN")
        .stdin(Stdio::null());
    command
}

/// Waits for something to come true.
fn wait_for(what: &str, mut condition: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < LONG, "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}
