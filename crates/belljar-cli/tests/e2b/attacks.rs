//! What clients should not do, beside what they may.

use crate::{KEY, OTHER_KEY, Server, wait_for};

const AGENT: (&str, &str) = ("E2b-Sandbox-Port", "49983");
const INTERPRETER: (&str, &str) = ("E2b-Sandbox-Port", "49999");
const JSON: (&str, &str) = ("Content-Type", "application/json");

#[test]
fn without_a_key_or_with_a_revoked_one_nothing_is_told() {
    let server = Server::new(&[]);
    let list = |key: &[(&str, &str)]| server.ask("GET /v2/sandboxes", key, b"");
    let (status, told) = list(&[]);
    assert_eq!(status, 401);
    assert_eq!(told, r#"{"code":401,"message":"an API key is needed: X-API-KEY"}"#);
    assert_eq!(list(&[("X-API-KEY", "e2b_")]).0, 401);
    assert_eq!(list(&[("X-API-KEY", &KEY[..43])]).0, 401);
    assert_eq!(list(&[("X-API-KEY", KEY)]).0, 200);
    // A key that was made works at once, and not any more once it is revoked.
    let made = server.belljar(&["key", "new", "mine"]);
    let made = made.trim();
    assert_eq!(list(&[("X-API-KEY", made)]).0, 200);
    let (id, token) = server.sandbox(made);
    let listed = server.belljar(&["key", "list"]);
    assert!(listed.contains("mine") && !listed.contains(made));
    server.belljar(&["key", "revoke", listed.split(' ').next().unwrap()]);
    assert_eq!(list(&[("X-API-KEY", made)]).0, 401);
    // And what it had ends.
    let headers = [("E2b-Sandbox-Id", &*id), AGENT, ("X-Access-Token", &*token)];
    wait_for("its sandbox ends", || server.ask("GET /health", &headers, b"").0 == 502);
}

#[test]
fn a_sandbox_of_somebody_else_is_not_there() {
    let server = Server::new(&[]);
    let (id, _) = server.sandbox(KEY);
    let (other, token) = server.sandbox(OTHER_KEY);
    for request in [
        format!("GET /sandboxes/{id}"),
        format!("DELETE /sandboxes/{id}"),
        format!("POST /sandboxes/{id}/pause"),
        format!("POST /v2/sandboxes/{id}/connect"),
        format!("POST /sandboxes/{id}/fork"),
        format!("POST /sandboxes/{id}/snapshots"),
        format!("GET /sandboxes/{id}/metrics"),
    ] {
        let (status, told) = server.ask(&request, &[("X-API-KEY", OTHER_KEY), JSON], b"{}");
        assert_eq!(status, 404, "{request}");
        assert!(told.contains(r#""code":404"#), "{told}");
    }
    assert_eq!(server.ask(&format!("GET /sandboxes/{id}"), &[("X-API-KEY", KEY)], b"").0, 200);
    // The token of one opens nothing in another.
    let read = |id: &str| {
        let headers = [("E2b-Sandbox-Id", id), AGENT, ("X-Access-Token", &*token)];
        server.ask("GET /envs", &headers, b"").0
    };
    assert_eq!((read(&id), read(&other)), (401, 200));
    for strange in ["", "../x", "i000", "%2e%2e"] {
        let headers = [("E2b-Sandbox-Id", strange), AGENT, ("X-Access-Token", &*token)];
        assert_eq!(server.ask("GET /envs", &headers, b"").0, 502, "{strange}");
    }
}

#[test]
fn a_create_that_is_repeated_makes_one_sandbox() {
    let server = Server::new(&[]);
    let create = |key: &str, name: &str| {
        let headers = [("X-API-KEY", key), ("Idempotency-Key", name)];
        let (status, made) =
            server.ask("POST /v2/sandboxes", &headers, br#"{"templateID":"base"}"#);
        assert_eq!(status, 201, "{made}");
        made
    };
    let first = create(KEY, "one");
    assert_eq!(create(KEY, "one"), first);
    assert_ne!(create(KEY, "two"), first);
    assert_ne!(create(OTHER_KEY, "one"), first, "names are each owner's own");
}

#[test]
fn paths_that_lead_out_lead_nowhere_and_those_inside_work() {
    let server = Server::new(&[]);
    let (id, token) = server.sandbox(KEY);
    let headers = [("E2b-Sandbox-Id", &*id), AGENT, ("X-Access-Token", &*token)];
    let kind = [("Content-Type", "application/octet-stream")];
    let written = [&headers[..], &kind].concat();
    let write = |path: &str| server.ask(&format!("POST /files?path={path}"), &written, b"x").0;
    for bad in ["/etc/passwd", "../../../../etc/x", "/x", "/home/x", "%00", "/home/user", "."] {
        assert!(matches!(write(bad), 400 | 403), "{bad}");
    }
    assert_eq!(write("..%2Fuser%2Ffine.txt"), 200);
    // What code has linked to outside is not followed, whoever asks.
    let code = br#"{"code":"import os; os.symlink('/etc', 'etc'); os.symlink('../../..', 'up')"}"#;
    let run = [("E2b-Sandbox-Id", &*id), INTERPRETER, ("X-Access-Token", &*token)];
    assert_eq!(server.ask("POST /execute", &run, code).0, 200);
    let read = |path: &str| server.ask(&format!("GET /files?path={path}"), &headers, b"").0;
    for bad in ["etc/passwd", "up/etc/passwd", "/etc/passwd", "/proc/self/environ"] {
        assert_eq!(read(bad), 404, "{bad}");
    }
    assert_eq!(read("fine.txt"), 200);
    let rpc = [&headers[..], &[JSON]].concat();
    let remove = |path: &str| {
        let body = format!(r#"{{"path":"{path}"}}"#);
        server.ask("POST /filesystem.Filesystem/Remove", &rpc, body.as_bytes()).0
    };
    for bad in ["/", "/home/user", "/tmp", "/etc/passwd", "~/.."] {
        assert_eq!(remove(bad), 403, "{bad}");
    }
    assert_eq!(remove("fine.txt"), 200);
}

#[test]
fn uploads_that_are_too_long_or_broken_are_refused() {
    let server = Server::new(&["--limit", "e2b_disk_bytes=1000000"]);
    let (id, token) = server.sandbox(KEY);
    let plain = [("E2b-Sandbox-Id", &*id), AGENT, ("X-Access-Token", &*token)];
    let kind = |kind: &'static str| [&plain[..], &[("Content-Type", kind)]].concat();
    let long = vec![b'x'; 2_000_000];
    let (status, told) =
        server.ask("POST /files?path=long", &kind("application/octet-stream"), &long);
    assert_eq!((status, told.contains(r#""code":507"#)), (507, true), "{told}");
    let form = "multipart/form-data; boundary=B";
    for broken in [
        &b""[..],
        b"--B",
        b"--B\r\n\r\n",
        b"--B\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\nhalf",
        b"--B\r\nContent-Disposition: form-data; name=\"other\"\r\n\r\nx\r\n--B--\r\n",
    ] {
        let (status, told) = server.ask("POST /files", &kind(form), broken);
        assert_eq!(status, 400, "{broken:?}: {told}");
    }
    assert_eq!(server.ask("POST /files?path=x", &kind("text/weird"), b"x").0, 400);
    let whole = b"--B\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\nwhole\r\n--B--\r\n";
    assert_eq!(server.ask("POST /files", &kind(form), whole).0, 200);
    let zipped = [&kind("application/octet-stream")[..], &[("Content-Encoding", "gzip")]].concat();
    assert_eq!(server.ask("POST /files?path=z", &zipped, b"not gzip").0, 400);
}

#[test]
fn metadata_that_would_fill_the_daemon_is_refused_and_some_is_kept() {
    let server = Server::new(&[]);
    let headers = [("X-API-KEY", KEY), ("Content-Type", "application/json")];
    let create = |bytes: usize| {
        let body = format!(r#"{{"templateID":"base","metadata":{{"a":"{}"}}}}"#, "x".repeat(bytes));
        server.ask("POST /v2/sandboxes", &headers, body.as_bytes())
    };
    let (status, told) = create(100_000);
    assert!(status == 400 && told.contains("65536 bytes"), "{status}: {told}");
    assert_eq!(create(1000).0, 201);
}

#[test]
fn frames_that_are_none_are_refused_and_the_sandbox_lives_on() {
    let server = Server::new(&[]);
    let (id, token) = server.sandbox(KEY);
    let headers = [
        ("E2b-Sandbox-Id", &*id),
        AGENT,
        ("X-Access-Token", &*token),
        ("Content-Type", "application/connect+json"),
    ];
    let start = |body: &[u8]| server.ask("POST /process.Process/Start", &headers, body).1;
    for (bad, word) in [
        (&b""[..], "invalid_argument"),
        (b"\0\0\0\0\xff{}", "invalid_argument"),
        (b"\0\xff\xff\xff\xff", "resource_exhausted"),
        (b"\x01\0\0\0\x02{}", "unimplemented"),
        (b"\0\0\0\0\x02{}", "invalid_argument"),
        (b"\0\0\0\0\x02[[", "invalid_argument"),
    ] {
        assert!(start(bad).contains(word), "{bad:?}: {}", start(bad));
    }
    let message = br#"{"process":{"cmd":"/bin/echo","args":["fine"]},"stdin":false}"#;
    let framed = [&[0, 0, 0, 0, u8::try_from(message.len()).unwrap()][..], message].concat();
    let told = start(&framed);
    assert!(told.contains(r#""stdout":"ZmluZQo=""#) && told.contains(r#""exitCode":0"#), "{told}");
    let unary = |method: &str, body: &[u8]| {
        server.ask(&format!("POST /process.Process/{method}"), &headers, body).0
    };
    assert_eq!(unary("Nonsense", b"{}"), 501);
    assert_eq!(unary("SendSignal", br#"{"process":{"pid":1},"signal":"SIGNAL_SIGKILL"}"#), 404);
    assert_eq!(unary("SendSignal", br#"{"process":{"pid":1},"signal":"SIGNAL_SIGSTOP"}"#), 400);
}

#[test]
fn clients_that_vanish_leave_nothing_running() {
    use std::io::Write;
    let server = Server::new(&[]);
    let before = server.processes();
    let (id, token) = server.sandbox(KEY);
    let run = [("E2b-Sandbox-Id", &*id), INTERPRETER, ("X-Access-Token", &*token)];
    assert_eq!(server.ask("POST /execute", &run, br#"{"code":"x = 1"}"#).0, 200);
    // Half a request, and then an execution nobody waits for.
    for body in ["{\"code\":", "{\"code\":\"while True: pass\"}        "] {
        let mut stream = std::net::TcpStream::connect(&server.address).unwrap();
        let head = format!(
            "POST /execute HTTP/1.1\r\nHost: localhost\r\nE2b-Sandbox-Id: {id}\r\n\
             E2b-Sandbox-Port: 49999\r\nX-Access-Token: {token}\r\nContent-Length: 35\r\n\r\n{body}"
        );
        stream.write_all(head.as_bytes()).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(500));
    }
    let (_, told) = server.ask("POST /execute", &run, br#"{"code":"x"}"#);
    assert!(told.contains(r#""text":"1""#), "{told}");
    // A killed sandbox takes its processes and its files with it.
    let headers = [
        ("E2b-Sandbox-Id", &*id),
        AGENT,
        ("X-Access-Token", &*token),
        ("Content-Type", "application/connect+json"),
        ("Connect-Timeout-Ms", "500"),
    ];
    let message = br#"{"process":{"cmd":"/bin/sh","args":["-c","sleep 1000 & sleep 1000"]}}"#;
    let framed = [&[0, 0, 0, 0, u8::try_from(message.len()).unwrap()][..], message].concat();
    assert_eq!(server.ask("POST /process.Process/Start", &headers, &framed).0, 200);
    assert!(server.processes() > before);
    let (status, _) = server.ask(&format!("DELETE /sandboxes/{id}"), &[("X-API-KEY", KEY)], b"");
    assert_eq!(status, 204);
    wait_for("its processes end", || server.processes() == before);
    let left = |folder: &str| {
        let workers = std::fs::read_dir(server.home().join("daemon/workers")).unwrap();
        let folders = workers.flatten().map(|worker| worker.path().join(folder));
        let names = folders.filter_map(|it| std::fs::read_dir(it).ok()).flatten().flatten();
        names.filter(|it| it.file_name().to_string_lossy().contains(&id)).count()
    };
    wait_for("its files are gone", || left("e2b") + left("sessions") == 0);
}

#[test]
fn a_thousand_idle_sandboxes_cost_no_process() {
    let server = Server::new(&[]);
    let before = server.processes();
    for _ in 0..1000 {
        server.sandbox(KEY);
    }
    assert_eq!(server.processes(), before);
    let (status, told) = server.ask("GET /v2/sandboxes?limit=1000", &[("X-API-KEY", KEY)], b"");
    assert_eq!(status, 200);
    assert_eq!(told.matches("\"sandboxID\"").count(), 1000);
    let refused = Server::new(&["--limit", "e2b_sandboxes=1"]);
    refused.sandbox(KEY);
    let body = br#"{"templateID":"base"}"#;
    assert_eq!(refused.ask("POST /v2/sandboxes", &[("X-API-KEY", KEY)], body).0, 429);
    assert_eq!(refused.ask("POST /v2/sandboxes", &[("X-API-KEY", OTHER_KEY)], body).0, 201);
}
