//! Clients over HTTP that mean no good, each beside one that does.

use std::io::{Read, Write};

use serde_json::{Value, json};

use crate::harness::wait_for;
use crate::http_client::{Http, served, served_with_tokens};

const ONE: &str = "the-token-of-one-client";
const OTHER: &str = "the-token-of-the-other";

#[test]
fn without_the_token_nobody_is_heard() {
    let daemon = served(&[]);
    let http = Http::new(&daemon);
    let almost = http.token.replace(|c: char| c == http.token.chars().next_back().unwrap(), "!");
    for wrong in ["", "Bearer ", &format!("Bearer {almost}"), &format!("Basic {}", http.token)] {
        for path in ["/v1/health", "/v1/openapi.json", "/mcp", "/nothing"] {
            let (status, answer) = http.raw("GET", path, &[("Authorization", wrong)]);
            assert_eq!(status, 401, "{wrong} {path}");
            assert!(answer.to_lowercase().contains("www-authenticate: bearer"), "{answer}");
            assert!(answer.contains(r#""code":"unauthorized""#), "{answer}");
        }
    }
    assert_eq!(http.raw("GET", "/v1/health", &[]).0, 200);
}

#[test]
fn a_name_that_was_made_to_lead_here_leads_nowhere() {
    let daemon = served(&["--http-host", "jar.example"]);
    let http = Http::new(&daemon);
    let status = |headers: &[(&str, &str)]| http.raw("GET", "/v1/health", headers).0;
    for host in ["evil.example", "evil.example:80", "localhost.evil.example", "127.0.0.1.evil:1"] {
        assert_eq!(status(&[("Host", host)]), 403, "{host}");
    }
    assert_eq!(status(&[("Origin", "https://evil.example")]), 403);
    assert_eq!(status(&[("Origin", "null")]), 403);
    assert_eq!(status(&[("Host", "jar.example")]), 200);
    assert_eq!(status(&[("Host", "localhost:1")]), 200);
    assert_eq!(status(&[]), 200);
}

#[test]
fn a_body_that_is_too_long_is_not_read() {
    let daemon = served(&["--limit", "http_body_bytes=100000"]);
    let http = Http::new(&daemon);
    http.session("s");
    let code = |length: usize| json!({"code": "#".repeat(length)});
    assert_eq!(http.post("/v1/executions", &code(99_000)).expect(200).json()["status"], "ok");
    http.put("/v1/sessions/s/files/small", &vec![0; 99_000]).expect(204);
    // Far more than was promised, and more than anybody keeps: the answer comes before the end.
    for path in ["/v1/executions", "/v1/sessions", "/v1/sessions/s/executions"] {
        let length = "10000000000";
        let head = http.head(
            "POST",
            path,
            &[("Content-Type", "application/json"), ("Content-Length", length)],
        );
        let mut stream = http.connect();
        stream.write_all(format!("{head}\r\n{}", " ".repeat(200_000)).as_bytes()).unwrap();
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"HTTP/1.1 413", "{path}");
    }
    assert_eq!(http.prints("print(1)"), "1\n");
}

#[test]
fn slow_headers_and_slow_bodies_are_not_waited_for() {
    let daemon =
        served(&["--limit", "http_header_seconds=0.5", "--limit", "http_body_seconds=0.5"]);
    let http = Http::new(&daemon);
    let ended = |sent: &str| {
        let mut stream = http.connect();
        stream.write_all(sent.as_bytes()).unwrap();
        let mut answer = String::new();
        // Without an end this would take as long as the test has patience.
        let _ = stream.read_to_string(&mut answer);
        answer
    };
    assert!(!ended("GET /v1/heal").starts_with("HTTP/1.1 200"));
    assert!(!ended("").starts_with("HTTP/1.1 200"));
    let head = http.head(
        "POST",
        "/v1/executions",
        &[("Content-Type", "application/json"), ("Content-Length", "100"), ("Connection", "close")],
    );
    let answer = ended(&format!("{head}\r\n{{"));
    assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
    // Code may take its time.
    let slow = "import time; time.sleep(1.5); print('slow')";
    assert_eq!(http.prints(slow), "slow\n");
}

#[test]
fn connections_that_only_wait_keep_nobody_out() {
    let daemon = served(&["--limit", "http_connections=2", "--limit", "http_header_seconds=0.5"]);
    let http = Http::new(&daemon);
    let _idle: Vec<_> = (0..20).map(|_| http.connect()).collect();
    assert_eq!(http.prints("print(1)"), "1\n");
}

#[test]
fn what_one_client_has_no_other_can_name() {
    let daemon = served_with_tokens(&format!("{ONE} {OTHER}"), &[]);
    let (one, other) = (Http::with_token(&daemon, ONE), Http::with_token(&daemon, OTHER));
    one.session("mine");
    one.prints_in("mine", "secret = 1; open('secret', 'w').write('x')");
    let mut local = daemon.client();
    local.session("local");
    let code = json!({"code": "print(secret)"});
    for name in ["mine", "local", "1", "../mine", "%2e%2e%2fmine"] {
        let path = format!("/v1/sessions/{name}");
        let tried = [
            other.get(&path),
            other.get(&format!("{path}/files")),
            other.get(&format!("{path}/files/secret")),
            other.get(&format!("{path}/variables/secret")),
            other.post(&format!("{path}/executions"), &code),
            other.send("POST", &format!("{path}/fork"), &[], Vec::new()),
            other.send("POST", &format!("{path}/cancel"), &[], Vec::new()),
            other.delete(&path),
        ];
        for got in tried {
            assert_eq!(got.status, 404, "{name}: {}", got.text());
        }
    }
    assert_eq!(other.get("/v1/sessions").json(), json!({"sessions": []}));
    other.send("POST", "/v1/cancel", &[], Vec::new()).expect(200);
    // Names are each client's own.
    other.session("mine");
    assert_eq!(other.prints_in("mine", "print('secret' in globals())"), "False\n");
    assert_eq!(one.prints_in("mine", "print(secret)"), "1\n");
    assert!(local.refused("execute", json!({"sandbox": 2, "code": "1"})).1.contains("no sandbox"));
}

#[test]
fn whoever_never_reads_its_events_holds_up_nobody() {
    let daemon = served(&["--limit", "http_stall_seconds=1"]);
    let http = Http::new(&daemon);
    let flood = json!({
        "code": "for n in range(300_000): print('x' * 200)",
        "policy": {"stdout_max_bytes": 50_000_000, "timeout_seconds": 60},
    });
    let unread = http.events("/v1/executions", &flood);
    assert_eq!(http.prints("print('served')"), "served\n");
    wait_for("the flood to be over", || {
        daemon.status()["running"] == 0 && daemon.status()["sandboxes"] == 0
    });
    // The end of the connection is there, behind what has been written before.
    let mut stream = unread.lines.into_inner();
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest);
    assert!(!rest.ends_with(b"0\r\n\r\n"), "it was told everything, {} bytes", rest.len());
    // The twin, who reads, is told everything.
    let few = json!({"code": "for n in range(3000): print('x' * 200)"});
    let mut events = http.events("/v1/executions", &few);
    let (mut lines, mut last) = (0, None);
    while let Some((name, data)) = events.next() {
        lines += u64::from(name == "stdout");
        lines += data["lines"].as_u64().unwrap_or(0);
        last = Some(name);
    }
    assert_eq!((lines, last.as_deref()), (3000, Some("result")));
}

#[test]
fn too_many_requests_are_told_to_come_later() {
    let daemon =
        served_with_tokens(&format!("{ONE} {OTHER}"), &["--limit", "http_requests_per_second=2"]);
    let (one, other) = (Http::with_token(&daemon, ONE), Http::with_token(&daemon, OTHER));
    let answers: Vec<_> = (0..50).map(|_| one.get("/v1/health")).collect();
    let refused: Vec<_> = answers.iter().filter(|got| got.status == 429).collect();
    assert!(!refused.is_empty() && refused.len() < 50);
    assert_eq!(refused[0].refused().1, "rate_limited");
    assert!(refused[0].headers.contains_key("retry-after"));
    other.get("/v1/health").expect(200);
    wait_for("the next second", || one.get("/v1/health").status == 200);
}

#[test]
fn whoever_finds_no_room_is_told_that_it_is_busy() {
    let daemon = served(&["--limit", "running=1", "--limit", "waiting=0"]);
    let http = Http::new(&daemon);
    let first = http.events("/v1/executions", &json!({"code": "while True: pass", "timeout": 50}));
    wait_for("the code to run", || daemon.status()["running"] == 1);
    let busy = http.post("/v1/executions", &json!({"code": "1"}));
    assert_eq!(busy.refused(), (503, "busy".to_owned()));
    assert_eq!(busy.headers["retry-after"], "1");
    drop(first);
    wait_for("room", || http.post("/v1/executions", &json!({"code": "1"})).status == 200);
}

#[test]
fn nonsense_is_named_and_nothing_is_run() {
    let daemon = served(&[]);
    let http = Http::new(&daemon);
    http.session("s");
    let said = |got: crate::http_client::Got| {
        let (status, code) = got.refused();
        format!("{status} {code}")
    };
    let send = |kind: &str, body: &str| {
        said(http.send("POST", "/v1/executions", &[("Content-Type", kind)], body.into()))
    };
    assert_eq!(send("application/json", "{"), "400 invalid_request");
    assert_eq!(send("application/json", r#"{"code": 5}"#), "400 invalid_request");
    assert_eq!(send("application/json", r#"{"code": "", "cod": 1}"#), "400 invalid_request");
    assert_eq!(send("application/json", &"[".repeat(100_000)), "400 invalid_request");
    assert_eq!(send("text/plain", r#"{"code": "1"}"#), "415 unsupported_media_type");
    let post = |path: &str, body: Value| said(http.post(path, &body));
    let run = |more: Value| {
        let mut body = json!({"code": "1"});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        post("/v1/executions", body)
    };
    assert_eq!(run(json!({"timeout": -1})), "400 invalid_request");
    assert_eq!(run(json!({"language": "perl"})), "400 invalid_request");
    assert_eq!(run(json!({"policy": {"timeout_seconds": -1}})), "400 policy_validation");
    assert_eq!(run(json!({"policy": {"nothing": 1}})), "400 policy_validation");
    assert_eq!(run(json!({"policy": {"mount_host_dir": "/etc"}})), "400 unavailable_in_daemon");
    assert_eq!(post("/v1/sessions", json!({"session_id": "../up"})), "400 session");
    assert_eq!(post("/v1/sessions", json!({"session_id": ""})), "400 session");
    for path in ["../../etc/passwd", "%2e%2e/%2e%2e/etc/passwd", "/etc/passwd", "nothing"] {
        let got = http.get(&format!("/v1/sessions/s/files/{path}"));
        assert_eq!(got.status, 404, "{path}: {}", got.text());
        let tried = http.put(&format!("/v1/sessions/s/files/{path}"), b"x");
        assert!(path == "nothing" || (400..500).contains(&tried.status), "{path}");
    }
    http.prints_in("s", "import os; os.symlink('nothing', 'link')");
    assert_eq!(said(http.get("/v1/sessions/s/files/link")), "409 is_link");
    assert_eq!(http.get("/v1/sessions/s/files/nothing").expect(200).text(), "x");
    assert_eq!(http.prints_in("s", "print(1)"), "1\n");
}

#[test]
fn a_token_that_could_be_guessed_is_refused() {
    let place = crate::harness::Place::new();
    for (bad, why) in [("", "shorter"), ("short", "shorter"), (&format!("{ONE} short"), "shorter")]
    {
        let mut start = place.start(&["--http", "0"]);
        let output = start.env("BELLJAR_HTTP_TOKEN", bad).output().unwrap();
        let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(125), "{complaint}");
        assert!(complaint.contains(why) && !complaint.contains(ONE), "{complaint}");
    }
}
