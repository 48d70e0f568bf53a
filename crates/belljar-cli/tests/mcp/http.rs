//! Who is let in over HTTP, and what becomes of bad requests.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::{LONG, TOKEN, belljar, build_dir, done, initialize, wait};

/// A server over HTTP, ended at the end.
pub(crate) struct HttpServer {
    child: Child,
    pub(crate) url: String,
    _place: Option<tempfile::TempDir>,
}

impl HttpServer {
    pub(crate) fn start(more: &[&str]) -> Self {
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
        Self { child, url, _place: None }
    }

    /// A daemon that is served over HTTP, which has MCP beside everything else.
    pub(crate) fn daemon() -> Self {
        let place = tempfile::tempdir().unwrap();
        let command = |args: &[&str]| {
            let mut command = belljar(&[&["daemon"], args].concat());
            command
                .env("BELLJAR_HOME", place.path().join("home"))
                .env("BELLJAR_SOCKET", place.path().join("run/daemon.sock"))
                .env("BELLJAR_HTTP_TOKEN", TOKEN)
                .stdin(Stdio::null());
            command
        };
        let cache = build_dir().join("test-home/cache");
        let child = command(&["start", "--foreground", "--http", "0", "--workers", "2", "--cache"])
            .arg(cache)
            // However fast the machine is; and few at once, so that many wait.
            .args(["--limit", "http_requests_per_second=1000000", "--limit", "running=8"])
            .spawn()
            .unwrap();
        let begun = std::time::Instant::now();
        let url = loop {
            let output = command(&["status", "--json"]).output().unwrap();
            let status: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
            if let Some(url) = status["http"].as_str() {
                break format!("{url}/mcp");
            }
            assert!(begun.elapsed() < LONG, "no daemon: {output:?}");
            std::thread::sleep(std::time::Duration::from_millis(20));
        };
        Self { child, url, _place: Some(place) }
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

#[test]
fn the_daemon_lets_nobody_in_without_the_token_either() {
    let server = HttpServer::daemon();
    let wrong = ("Authorization", "Bearer another-token-of-nobody");
    assert_eq!(server.post(&[], &initialize()).0, 401);
    assert_eq!(server.post(&[wrong], &initialize()).0, 401);
    assert_eq!(server.post(&[BEARER, ("Host", "evil.example")], &initialize()).0, 403);
    assert_eq!(server.post(&[BEARER, ("Origin", "https://evil.example")], &initialize()).0, 403);
    assert_eq!(server.post(&[BEARER], &initialize()).0, 200);
}
