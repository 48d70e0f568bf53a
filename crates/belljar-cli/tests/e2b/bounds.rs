//! What one client could take from others, or from the machine, beside what it may.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::{KEY, LONG, OTHER_KEY, Server, wait_for};

const JSON: (&str, &str) = ("Content-Type", "application/json");
const BYTES: (&str, &str) = ("Content-Type", "application/octet-stream");

/// A sandbox with what requests to it carry.
struct Inside<'a> {
    server: &'a Server,
    id: String,
    token: String,
}

impl<'a> Inside<'a> {
    fn new(server: &'a Server, key: &str) -> Self {
        let (id, token) = server.sandbox(key);
        Self { server, id, token }
    }

    fn ask(&self, line: &str, more: &[(&str, &str)], body: &[u8]) -> (u16, String) {
        let own = [("E2b-Sandbox-Id", &*self.id), ("X-Access-Token", &*self.token)];
        self.server.ask(line, &[&own[..], more].concat(), body)
    }

    fn upload(&self, name: &str, bytes: usize) -> u16 {
        self.ask(&format!("POST /files?path={name}"), &[BYTES], &vec![b'x'; bytes]).0
    }

    /// What a command printed, and how it ended.
    fn command(&self, script: &str) -> String {
        self.start(&json!({ "process": { "cmd": "/bin/sh", "args": ["-c", script] } }))
    }

    fn start(&self, message: &Value) -> String {
        let message = message.to_string().into_bytes();
        let length = u32::try_from(message.len()).unwrap().to_be_bytes();
        let framed = [&[0][..], &length, &message].concat();
        let kind = [("Content-Type", "application/connect+json")];
        self.ask("POST /process.Process/Start", &kind, &framed).1
    }

    fn rpc(&self, method: &str, asked: &Value) -> (u16, String) {
        let line = format!("POST /filesystem.Filesystem/{method}");
        self.ask(&line, &[JSON], asked.to_string().as_bytes())
    }

    fn directory(&self) -> PathBuf {
        let workers = self.server.home().join("daemon/workers");
        let places = std::fs::read_dir(workers).unwrap().flatten();
        places.map(|it| it.path().join("e2b").join(&self.id)).find(|it| it.is_dir()).unwrap()
    }
}

#[test]
fn uploads_at_the_same_time_do_not_fill_more_than_there_is_and_one_after_the_other_fits() {
    let server = Server::new(&["--limit", "e2b_disk_bytes=1000000"]);
    let sandbox = Inside::new(&server, KEY);
    let statuses: Vec<u16> = std::thread::scope(|scope| {
        let uploads: Vec<_> = (0..6)
            .map(|number| {
                let sandbox = &sandbox;
                scope.spawn(move || sandbox.upload(&format!("f{number}"), 400_000))
            })
            .collect();
        uploads.into_iter().map(|it| it.join().unwrap()).collect()
    });
    let whole = statuses.iter().filter(|it| **it == 200).count();
    assert!(whole <= 2 && statuses.iter().all(|it| matches!(it, 200 | 507)), "{statuses:?}");
    let home = sandbox.directory().join("home/user");
    let sizes = std::fs::read_dir(&home).unwrap().flatten().map(|it| it.metadata().unwrap().len());
    assert!(sizes.sum::<u64>() <= 1_000_000);
    let other = Inside::new(&server, KEY);
    assert_eq!([other.upload("a", 300_000), other.upload("b", 300_000)], [200, 200]);
    // What takes the place of something needs no room beside it.
    assert_eq!([other.upload("a", 300_000), other.upload("a", 300_000)], [200, 200]);
}

#[test]
fn removed_files_that_are_held_open_count_and_small_ones_are_fine() {
    let server = Server::new(&["--limit", "e2b_disk_bytes=4000000"]);
    let sandbox = Inside::new(&server, KEY);
    let hold = |files: usize, then: &str| {
        let script = format!(
            "import os, time\nheld = []\nfor n in range({files}):\n  f = open('f', 'wb')\n  \
             os.remove('f')\n  f.write(b'x' * 1_500_000)\n  f.flush()\n  held.append(f)\n{then}"
        );
        sandbox.start(&json!({ "process": { "cmd": "python3", "args": ["-c", script] } }))
    };
    let fine = hold(1, "time.sleep(3)\nprint('fine')");
    assert!(fine.contains("ZmluZQo="), "{fine}");
    let begun = Instant::now();
    let ended = hold(6, "time.sleep(1000)");
    assert!(begun.elapsed() < LONG && ended.contains("signal"), "{ended}");
    // Another jail works.
    assert!(sandbox.command("echo fine").contains("ZmluZQo="));
}

#[test]
fn one_key_cannot_use_up_the_watchers_of_all() {
    let server = Server::new(&[]);
    let greedy = Inside::new(&server, KEY);
    let watch = |sandbox: &Inside<'_>| sandbox.rpc("CreateWatcher", &json!({ "path": "." }));
    // There are two keys, and 100 watchers.
    for _ in 0..50 {
        assert_eq!(watch(&greedy).0, 200);
    }
    let (status, told) = watch(&greedy);
    assert!(status == 429 && told.contains("of this key"), "{status}: {told}");
    assert_eq!(watch(&Inside::new(&server, KEY)).0, 429);
    assert_eq!(watch(&Inside::new(&server, OTHER_KEY)).0, 200);
}

#[test]
fn whoever_has_no_token_wakes_nothing_and_its_owner_does() {
    let server = Server::new(&[]);
    let body = br#"{"templateID":"base","autoPause":true,"autoResume":{"enabled":true}}"#;
    let key = [("X-API-KEY", KEY), JSON];
    let made: Value =
        serde_json::from_str(&server.ask("POST /v2/sandboxes", &key, body).1).unwrap();
    let text = |name: &str| made[name].as_str().unwrap().to_owned();
    let (id, token) = (text("sandboxID"), text("envdAccessToken"));
    assert_eq!(server.ask(&format!("POST /sandboxes/{id}/pause"), &key, b"{}").0, 204);
    let state = || {
        let shown = server.ask(&format!("GET /sandboxes/{id}"), &key, b"").1;
        serde_json::from_str::<Value>(&shown).unwrap()["state"].as_str().unwrap().to_owned()
    };
    for (line, port) in [
        ("GET /contexts", "49999"),
        ("POST /contexts", "49999"),
        ("POST /execute", "49999"),
        ("GET /health", "49983"),
        ("GET /files?path=x", "49983"),
        ("POST /process.Process/List", "49983"),
    ] {
        for token in ["", "ea_wrong"] {
            let headers =
                [("E2b-Sandbox-Id", &*id), ("E2b-Sandbox-Port", port), ("X-Access-Token", token)];
            let (status, _) = server.ask(line, &headers, br#"{"code":"1"}"#);
            assert!(matches!(status, 401 | 502), "{line}: {status}");
            assert_eq!(state(), "paused", "{line}");
        }
    }
    let headers =
        [("E2b-Sandbox-Id", &*id), ("E2b-Sandbox-Port", "49999"), ("X-Access-Token", &*token)];
    let (status, told) = server.ask("POST /execute", &headers, br#"{"code":"6 * 7"}"#);
    assert!(status == 200 && told.contains(r#""text":"42""#), "{told}");
    assert_eq!(state(), "running");
}

#[test]
fn headers_that_do_not_come_are_not_waited_for_and_a_connection_may_be_idle() {
    let server = Server::new(&["--limit", "http_header_seconds=1"]);
    let connect = || {
        let stream = TcpStream::connect(&server.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream
    };
    let mut slow = connect();
    slow.write_all(b"GET /v2/sandboxes HTTP/1.1\r\nHost: local").unwrap();
    let mut idle = connect();
    let begun = Instant::now();
    let mut said = Vec::new();
    // It is closed, in whatever way, long before an idle connection would be.
    let _ = slow.read_to_end(&mut said);
    assert!(begun.elapsed() < Duration::from_secs(50));
    std::thread::sleep(Duration::from_secs(2));
    idle.write_all(b"GET /v2/sandboxes HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        .unwrap();
    idle.read_to_end(&mut said).unwrap();
    assert!(String::from_utf8_lossy(&said).contains("HTTP/1.1 401"));
}

#[test]
fn a_directory_that_is_swapped_while_a_jail_is_made_is_not_mounted() {
    let server = Server::new(&[]);
    let victim = tempfile::tempdir().unwrap();
    std::fs::create_dir(victim.path().join("user")).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..20 {
            let sandbox = Inside::new(&server, KEY);
            let above = sandbox.directory().join("home");
            let aside = sandbox.directory().join("aside");
            stop.store(false, Ordering::Relaxed);
            let (victim, stop) = (victim.path(), &stop);
            // As somebody who has broken out of a worker could.
            let swapping = scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    std::fs::rename(&above, &aside).unwrap();
                    symlink(victim, &above).unwrap();
                    std::fs::remove_file(&above).unwrap();
                    std::fs::rename(&aside, &above).unwrap();
                }
            });
            for _ in 0..5 {
                sandbox.command("echo caught > caught; echo caught > /home/user/caught");
            }
            stop.store(true, Ordering::Relaxed);
            swapping.join().unwrap();
        }
    });
    assert_eq!(std::fs::read_dir(victim.path().join("user")).unwrap().count(), 0);
    let fine = Inside::new(&server, KEY);
    assert!(fine.command("echo fine").contains("ZmluZQo="));
}

#[test]
fn a_sandbox_that_ends_starts_nothing_more() {
    let server = Server::new(&[]);
    let before = server.processes();
    for _ in 0..5 {
        let sandbox = Inside::new(&server, KEY);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| sandbox.command("sleep 1000"));
                scope.spawn(|| {
                    let port = [("E2b-Sandbox-Port", "49999")];
                    sandbox.ask("POST /execute", &port, br#"{"code":"while True: pass"}"#)
                });
            }
            std::thread::sleep(Duration::from_millis(30));
            let line = format!("DELETE /sandboxes/{}", sandbox.id);
            assert_eq!(server.ask(&line, &[("X-API-KEY", KEY)], b"").0, 204);
        });
        // Everybody was answered, and nothing was left.
        let told = sandbox.command("echo late");
        assert!(told.contains("was not found") && !told.contains("stdout"), "{told}");
    }
    wait_for("all processes end", || server.processes() == before);
}

#[test]
fn lists_tags_and_commands_that_are_too_long_are_refused_and_others_work() {
    let server = Server::new(&[]);
    let sandbox = Inside::new(&server, KEY);
    let start = |args: &[&str], tag: &str| {
        sandbox.start(&json!({ "process": { "cmd": "/bin/echo", "args": args }, "tag": tag }))
    };
    assert!(start(&["fine"], &"t".repeat(256)).contains("ZmluZQo="));
    assert!(start(&["x"], &"t".repeat(257)).contains("too long"));
    assert!(start(&[&"x".repeat(100_000)], "t").contains("exitCode"));
    assert!(start(&vec!["x"; 100_000], "t").contains("too long"));
    // A hundred thousand entries are listed, and not one more.
    let made = sandbox.command("mkdir many; cd many; seq 100001 | xargs touch; echo made");
    assert!(made.contains("bWFkZQo="), "{made}");
    let (status, told) = sandbox.rpc("ListDir", &json!({ "path": "many" }));
    assert!(status != 200 && told.contains("entries"), "{status}");
    assert!(sandbox.command("rm many/1; echo gone").contains("Z29uZQo="));
    let (status, told) = sandbox.rpc("ListDir", &json!({ "path": "many" }));
    assert_eq!((status, told.matches("\"name\"").count()), (200, 100_000));
}
