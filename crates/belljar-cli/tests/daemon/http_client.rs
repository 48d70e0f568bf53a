//! A client over HTTP.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use serde_json::{Value, json};
use ureq::http::Request;

use crate::harness::{Daemon, PATIENCE, Place};

/// A daemon that is served over HTTP, with the token in its directory.
pub fn served(args: &[&str]) -> Daemon {
    Daemon::new(&[&["--http", "0"], args].concat())
}

/// The same with tokens of the test's choice.
pub fn served_with_tokens(tokens: &str, args: &[&str]) -> Daemon {
    let place = Place::new();
    let mut command = place.start(&[&["--foreground", "--http", "0"], args].concat());
    command.env("BELLJAR_HTTP_TOKEN", tokens);
    Daemon::started(place, command)
}

pub struct Http {
    agent: ureq::Agent,
    /// `http://127.0.0.1:…`
    pub url: String,
    pub token: String,
}

/// What came back.
pub struct Got {
    pub status: u16,
    pub headers: ureq::http::HeaderMap,
    pub body: Vec<u8>,
}

impl Got {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The status, and the word for programs.
    pub fn refused(&self) -> (u16, String) {
        let error = &self.json()["error"];
        assert!(error["message"].is_string(), "{}", self.text());
        (self.status, error["code"].as_str().unwrap().to_owned())
    }

    #[track_caller]
    pub fn expect(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{}", self.text());
        self
    }
}

impl Http {
    pub fn new(daemon: &Daemon) -> Self {
        let token = std::fs::read_to_string(daemon.place.home().join("daemon/http-token"));
        Self::with_token(daemon, token.unwrap().trim())
    }

    pub fn with_token(daemon: &Daemon, token: &str) -> Self {
        let url = daemon.status()["http"].as_str().unwrap().to_owned();
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(PATIENCE))
            .build();
        Self { agent: config.into(), url, token: token.to_owned() }
    }

    pub fn address(&self) -> &str {
        self.url.strip_prefix("http://").unwrap()
    }

    pub fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: Vec<u8>) -> Got {
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.url))
            .header("Authorization", format!("Bearer {}", self.token));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = if body.is_empty() {
            self.agent.run(request.body(()).unwrap())
        } else {
            self.agent.run(request.body(body).unwrap())
        };
        let (parts, body) = response.unwrap().into_parts();
        let body = body.into_with_config().limit(1 << 30).read_to_vec().unwrap();
        Got { status: parts.status.as_u16(), headers: parts.headers, body }
    }

    pub fn get(&self, path: &str) -> Got {
        self.send("GET", path, &[], Vec::new())
    }

    pub fn delete(&self, path: &str) -> Got {
        self.send("DELETE", path, &[], Vec::new())
    }

    pub fn put(&self, path: &str, body: &[u8]) -> Got {
        self.send("PUT", path, &[], body.to_vec())
    }

    pub fn post(&self, path: &str, body: &Value) -> Got {
        let kind = [("Content-Type", "application/json")];
        self.send("POST", path, &kind, body.to_string().into_bytes())
    }

    /// A session of that name.
    pub fn session(&self, name: &str) {
        self.post("/v1/sessions", &json!({"session_id": name})).expect(201);
    }

    /// What code prints, which must run to its end.
    pub fn prints(&self, code: &str) -> String {
        printed(&self.post("/v1/executions", &json!({"code": code})).expect(200).json())
    }

    pub fn prints_in(&self, session: &str, code: &str) -> String {
        let path = format!("/v1/sessions/{session}/executions");
        printed(&self.post(&path, &json!({"code": code})).expect(200).json())
    }

    /// A request whose answer comes as events.
    pub fn events(&self, path: &str, body: &Value) -> Events {
        let body = body.to_string();
        let mut stream = self.connect();
        let head = self.head(
            "POST",
            path,
            &[
                ("Accept", "text/event-stream"),
                ("Content-Type", "application/json"),
                ("Content-Length", &body.len().to_string()),
            ],
        );
        stream.write_all(format!("{head}\r\n{body}").as_bytes()).unwrap();
        Events { lines: BufReader::new(stream) }
    }

    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// The head of a request, without the empty line that ends it.
    pub fn head(&self, method: &str, path: &str, headers: &[(&str, &str)]) -> String {
        let mut head = format!("{method} {path} HTTP/1.1\r\n");
        let (bearer, host) = (format!("Bearer {}", self.token), self.address().to_owned());
        for (name, value) in [("Host", &*host), ("Authorization", &*bearer)] {
            if !headers.iter().any(|(other, _)| *other == name) {
                head.push_str(&format!("{name}: {value}\r\n"));
            }
        }
        for (name, value) in headers.iter().filter(|(_, value)| !value.is_empty()) {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head
    }

    /// The status of the answer to a request that no library would send.
    pub fn raw(&self, method: &str, path: &str, headers: &[(&str, &str)]) -> (u16, String) {
        let mut stream = self.connect();
        let head = self.head(method, path, headers);
        stream.write_all(format!("{head}Connection: close\r\n\r\n").as_bytes()).unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok());
        (status.unwrap_or_else(|| panic!("no answer: {answer:?}")), answer)
    }
}

fn printed(result: &Value) -> String {
    assert_eq!(result["status"], "ok", "{result}");
    result["stdout"].as_str().unwrap().to_owned()
}

/// An answer that goes on.
pub struct Events {
    pub lines: BufReader<TcpStream>,
}

impl Events {
    /// The next event and its data; `None` at the end.
    pub fn next(&mut self) -> Option<(String, Value)> {
        let mut name = None;
        loop {
            let mut line = String::new();
            if self.lines.read_line(&mut line).unwrap() == 0 {
                return None;
            }
            // Sizes of chunks are in between.
            if let Some(event) = line.strip_prefix("event: ") {
                name = Some(event.trim().to_owned());
            } else if let Some(data) = line.strip_prefix("data: ") {
                return Some((name?, serde_json::from_str(data).unwrap()));
            } else if line == "0\r\n" {
                return None;
            }
        }
    }
}
