//! What a worker could do if it were somebody else's.

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde_json::json;

use crate::harness::{Daemon, signal};

fn status_of(pid: i32, field: &str) -> String {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(&format!("{field}:")));
    line.unwrap_or_else(|| panic!("no {field}")).trim().to_owned()
}

fn namespace(pid: &str, kind: &str) -> PathBuf {
    std::fs::read_link(format!("/proc/{pid}/ns/{kind}")).unwrap()
}

#[test]
fn a_worker_is_confined() {
    let daemon = Daemon::new(&[]);
    for worker in daemon.workers() {
        assert_eq!(status_of(worker, "Seccomp"), "2");
        assert_eq!(status_of(worker, "NoNewPrivs"), "1");
        for capabilities in ["CapEff", "CapPrm", "CapInh", "CapBnd", "CapAmb"] {
            assert_eq!(status_of(worker, capabilities), "0000000000000000", "{capabilities}");
        }
        for kind in ["net", "mnt", "pid", "user", "ipc", "uts"] {
            let own = namespace("self", kind);
            assert_ne!(namespace(&worker.to_string(), kind), own, "{kind}");
        }
        // The jail's two filters, and the seal.
        assert_eq!(status_of(worker, "Seccomp_filters"), "3");
    }
}

#[test]
fn a_worker_sees_its_own_directory_and_no_other() {
    let daemon = Daemon::new(&[]);
    let worker = daemon.workers()[0];
    let root = PathBuf::from(format!("/proc/{worker}/root"));
    let there: BTreeSet<String> = std::fs::read_dir(&root)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    for absent in ["root", "home", "work", "var", "run", "mnt", "srv", "boot", "sys"] {
        assert!(!there.contains(absent), "{absent}: {there:?}");
    }
    let home = daemon.place.home();
    assert!(!root.join(home.strip_prefix("/").unwrap()).exists());
    // Its own, and nothing of the other worker's.
    assert!(root.join("app/sessions").is_dir());
    let mounts = std::fs::read_to_string(format!("/proc/{worker}/mounts")).unwrap();
    let writable: Vec<&str> = mounts
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>())
        .filter(|parts| parts[3].split(',').any(|option| option == "rw"))
        .map(|parts| parts[1])
        .filter(|path| !path.starts_with("/dev") && *path != "/proc")
        .collect();
    assert_eq!(writable.iter().collect::<BTreeSet<_>>(), BTreeSet::from([&"/app", &"/tmp"]));
}

#[test]
fn a_worker_runs_the_memory_of_its_guests_as_it_would_outside() {
    // Pages are looked up with PAGEMAP_SCAN, which the jail's ordinary filter does not allow.
    let daemon = Daemon::new(&["--workers", "1"]);
    let mut client = daemon.client();
    let sandbox = client.create(json!({}));
    client.ask("initialize", json!({"sandbox": sandbox}));
    client.execute(sandbox, "x = bytearray(30_000_000)");
    let result = client.execute(sandbox, "x[5] = 1");
    assert!(result["duration_ms"].as_f64().unwrap() < 50.0, "{result}");
    let worker = daemon.worker_with_sandbox();
    assert!(
        std::fs::read_dir(format!("/proc/{worker}/fd"))
            .unwrap()
            .flatten()
            .any(|fd| { std::fs::read_link(fd.path()).is_ok_and(|to| to.ends_with("pagemap")) }),
        "it has not opened its page map"
    );
}

#[test]
fn a_worker_that_uses_up_its_memory_is_replaced() {
    let daemon = Daemon::new(&["--workers", "1", "--limit", "memory_bytes=268435456"]);
    let mut client = daemon.client();
    let session = client.session("kept");
    client.execute(session, "x = 3");
    let policy = json!({"memory_bytes": 200_000_000});
    let mut crashed = false;
    for _ in 0..8 {
        let id = client.send("create", json!({"policy": policy}));
        let Some(sandbox) = client.answer(id)["result"]["sandbox"].as_u64() else { break };
        let id = client.send("initialize", json!({"sandbox": sandbox}));
        client.answer(id);
        let code = "x = b'x' * 100_000_000";
        let id = client.send("execute", json!({"sandbox": sandbox, "code": code}));
        crashed |= client.answer(id)["result"]["status"] == "crashed";
        if crashed {
            break;
        }
    }
    assert!(crashed, "{}", daemon.status());
    assert_eq!(client.prints(session, "print(x)"), "3\n");
}

#[test]
fn workers_are_not_left_when_one_is_interrupted() {
    let daemon = Daemon::new(&[]);
    let mut client = daemon.client();
    let sandbox = client.create(json!({}));
    assert_eq!(client.prints(sandbox, "print(1)"), "1\n");
    // A terminal's Ctrl-C reaches the whole group; workers are in sessions of their own.
    for worker in daemon.workers() {
        let group = rustix::process::getpgid(rustix::process::Pid::from_raw(worker)).unwrap();
        assert_ne!(group.as_raw_nonzero().get(), daemon.child.id().cast_signed());
    }
    signal(daemon.workers()[0], rustix::process::Signal::CONT);
    assert_eq!(client.prints(sandbox, "print(1)"), "1\n");
}
