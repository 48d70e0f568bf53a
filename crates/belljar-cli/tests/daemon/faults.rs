//! Processes that are killed or stopped under everybody's feet.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::harness::{Daemon, Place, lives, signal, wait_for};

#[test]
fn an_execution_is_lost_with_its_worker_and_its_session_is_not() {
    let daemon = Daemon::new(&[]);
    let mut client = daemon.client();
    let named = client.session("named");
    client.execute(named, "x = 1\nopen('f', 'w').write('file')");
    let worker = daemon.worker_with_sandbox();
    // Of the two that come next, one is in the other worker.
    let mut others = daemon.client();
    let unnamed: Vec<u64> = (0..3).map(|_| others.create(json!({}))).collect();
    for sandbox in &unnamed {
        others.ask("initialize", json!({"sandbox": sandbox, "context": sandbox}));
    }
    let id = client.send("execute", json!({"sandbox": named, "code": "x = 2\nwhile True: pass"}));
    wait_for("it to run", || daemon.status()["running"] == 1);
    signal(worker, Signal::KILL);
    let result = client.answer(id)["result"].clone();
    assert_eq!(result["status"], "crashed", "{result}");
    assert_eq!(result["error"]["name"], "WorkerLost");
    assert_eq!(
        (&result["meta"]["session_id"], &result["meta"]["state"]),
        (&json!("named"), &json!("rolled_back"))
    );
    assert_eq!(client.prints(named, "print(x, open('f').read())"), "1 file\n");

    let (mut alive, mut gone) = (0, 0);
    for sandbox in &unnamed {
        let id = others.send("execute", json!({"sandbox": sandbox, "code": "print(context)"}));
        let answer = others.answer(id);
        match answer["error"]["message"].as_str() {
            None => {
                assert_eq!(answer["result"]["stdout"], format!("{sandbox}\n"));
                alive += 1;
            }
            Some(message) => {
                assert!(message.contains("was lost with its worker"), "{answer}");
                assert_eq!(answer["error"]["data"]["kind"], "worker_lost");
                gone += 1;
            }
        }
    }
    assert_eq!((alive, gone), (2, 1), "the other worker's clients notice nothing");
    others.ask("destroy", json!({"sandbox": unnamed[0]}));
    let counters = daemon.status()["counters"].clone();
    assert_eq!((&counters["crashed"], &counters["restarts"]), (&json!(1), &json!(1)));
}

#[test]
fn a_worker_that_was_killed_is_replaced_within_a_second() {
    let daemon = Daemon::new(&[]);
    let mut client = daemon.client();
    let named = client.session("named");
    client.execute(named, "x = 1");
    let mut best = Duration::MAX;
    for _ in 0..3 {
        let worker = daemon.worker_with_sandbox();
        signal(worker, Signal::KILL);
        let took = wait_for("another worker", || {
            let workers = daemon.workers();
            workers.len() == 2 && !workers.contains(&worker)
        });
        best = best.min(took);
        assert_eq!(client.prints(named, "print(x)"), "1\n");
    }
    eprintln!("replaced after {best:?}");
    assert!(best < Duration::from_secs(1), "{best:?}");
}

#[test]
fn a_worker_that_hangs_is_replaced() {
    let daemon = Daemon::new(&["--limit", "ping_seconds=0.1", "--limit", "hang_seconds=1"]);
    let mut client = daemon.client();
    let named = client.session("named");
    client.execute(named, "x = 1");
    let worker = daemon.worker_with_sandbox();
    signal(worker, Signal::STOP);
    let result = client.execute(named, "x = 2");
    assert_eq!(result["status"], "crashed", "{result}");
    assert_eq!(client.prints(named, "print(x)"), "1\n");
    wait_for("the end of the old one", || !lives(worker));
}

#[test]
fn everything_ends_with_the_supervisor_and_sessions_come_back_with_the_next() {
    let daemon = Daemon::new(&[]);
    let mut client = daemon.client();
    for number in 0..6 {
        let sandbox = client.session(&format!("s{number}"));
        client.execute(sandbox, &format!("x = {number}"));
    }
    let busy = client.session("s-busy");
    client.execute(busy, "x = 'saved'");
    // A worker may see that nobody listens a moment before it dies, and interrupt the cell: one that
    // does not heed that leaves nothing behind either.
    let deaf = "x = 'lost'\nwhile True:\n    try:\n        while True: pass\n    except BaseException: pass";
    client.send("execute", json!({"sandbox": busy, "code": deaf}));
    wait_for("it to run", || daemon.status()["running"] == 1);
    let workers = daemon.workers();
    let place = daemon.kill();
    let took = wait_for("workers to end", || !workers.iter().any(|worker| lives(*worker)));
    assert!(took < Duration::from_secs(5), "{took:?}");
    // One worker less: its sessions have moved.
    let daemon = Daemon::at(place, &["--workers", "1"]);
    let mut client = daemon.client();
    for number in 0..6 {
        let created = client.ask("create", json!({"session": format!("s{number}")}));
        assert_eq!(created["cells"], 1);
        let sandbox = created["sandbox"].as_u64().unwrap();
        assert_eq!(client.prints(sandbox, "print(x)"), format!("{number}\n"));
    }
    let busy = client.session("s-busy");
    assert_eq!(client.prints(busy, "print(x)"), "saved\n");
}

#[test]
fn a_request_that_is_no_execution_gets_an_error_when_its_worker_is_killed() {
    let daemon = Daemon::new(&[
        "--workers",
        "1",
        "--limit",
        "hang_seconds=1",
        "--limit",
        "ping_seconds=0.1",
    ]);
    let mut client = daemon.client();
    let named = client.session("named");
    client.execute(named, "x = 1");
    signal(daemon.worker_with_sandbox(), Signal::STOP);
    let (code, message) = client.refused("get_variable", json!({"sandbox": named, "name": "x"}));
    assert_eq!(code, -32000);
    assert!(message.contains("the worker ended before it answered"), "{message}");
    let found = client.ask("get_variable", json!({"sandbox": named, "name": "x"}));
    assert_eq!(found["variable"]["json"], 1);
}

#[test]
fn a_suspended_session_outlives_its_worker() {
    let daemon = Daemon::new(&[]);
    let mut client = daemon.client();
    let params = json!({"session": "waits", "deferred_tools": ["approve"]});
    let sandbox = client.create(params);
    let waiting = client.execute(sandbox, "print('yes' if await approve('?') else 'no')");
    assert_eq!(waiting["status"], "suspended");
    signal(daemon.worker_with_sandbox(), Signal::KILL);
    wait_for("another worker", || daemon.status()["counters"]["restarts"] == 1);
    let pending = client.ask("pending_calls", json!({"sandbox": sandbox}));
    let answers = json!([{"call": pending[0]["id"], "result": true}]);
    let result = client.ask("resume", json!({"sandbox": sandbox, "answers": answers}));
    assert_eq!(result["stdout"], "yes\n");
}

#[test]
fn calls_of_a_worker_that_was_killed_are_taken_back() {
    let daemon = Daemon::new(&[]);
    let mut client = daemon.client();
    let sandbox = client.create(json!({"tools": ["slow"]}));
    let id = client.send("execute", json!({"sandbox": sandbox, "code": "slow()"}));
    let call = client.hear().unwrap();
    signal(daemon.worker_with_sandbox(), Signal::KILL);
    assert_eq!(client.answer(id)["result"]["status"], "crashed");
    assert!(
        client
            .told
            .iter()
            .any(|told| told["method"] == "tool.drop" && told["params"]["id"] == call["id"])
    );
    client.write(&json!({"jsonrpc": "2.0", "id": call["id"], "result": 1}).to_string());
    client.ask("hello", Value::Null);
}

#[test]
fn a_session_whose_state_cannot_be_written_says_so() {
    let daemon = Daemon::new(&[]);
    let mut client = daemon.client();
    let sandbox = client.session("damaged");
    client.execute(sandbox, "x = 1");
    // A state that is a directory cannot be replaced by a file: as good as a disk that is full.
    for worker in 0..2 {
        let state = daemon
            .place
            .home()
            .join(format!("daemon/workers/{worker}/sessions/damaged/state.belljar"));
        if state.exists() {
            std::fs::remove_file(&state).unwrap();
            std::fs::create_dir(&state).unwrap();
        }
    }
    let (code, message) = client.refused("execute", json!({"sandbox": sandbox, "code": "x = 2"}));
    assert_eq!(code, -32000);
    assert!(message.contains("cannot be written"), "{message}");
    let other = client.session("fine");
    assert_eq!(client.prints(other, "print(1)"), "1\n");
}

/// A disk of 32 MiB.
fn small_disk(path: &Path) -> Result<(), String> {
    std::fs::create_dir(path).map_err(|error| error.to_string())?;
    let mount = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=32m,mode=0700", "tmpfs"])
        .arg(path)
        .output()
        .map_err(|error| error.to_string())?;
    if mount.status.success() {
        Ok(())
    } else {
        Err(String::from_utf8_lossy(&mount.stderr).into_owned())
    }
}

#[test]
fn a_full_disk_fails_what_has_to_be_saved_and_nothing_else() {
    let place = Place::new();
    if let Err(why) = small_disk(&place.home()) {
        eprintln!("skipped: no disk could be made that is soon full: {why}");
        return;
    }
    let daemon = Daemon::at(place, &[]);
    let (mut client, mut other) = (daemon.client(), daemon.client());
    let (named, unnamed) = (client.session("named"), other.create(json!({})));
    client.execute(named, "x = 1");
    other.ask("initialize", json!({"sandbox": unnamed, "context": "here"}));
    let filler = daemon.place.home().join("filler");
    let mut file = std::fs::File::create(&filler).unwrap();
    let full = std::io::copy(&mut std::io::repeat(1), &mut file).unwrap_err();
    assert_eq!(full.kind(), std::io::ErrorKind::StorageFull);

    let data = "data = bytes(range(256)) * 8192";
    let (code, message) = client.refused("execute", json!({"sandbox": named, "code": data}));
    assert_eq!(code, -32000, "{message}");
    assert!(message.contains("No space left on device"), "{message}");
    assert_eq!(other.prints(unnamed, "print(context)"), "here\n");
    let result = other.execute(unnamed, "open('large', 'wb').write(bytes(1 << 20))");
    assert_eq!(result["error"]["name"], "OSError", "{result}");

    drop(file);
    std::fs::remove_file(filler).unwrap();
    assert_eq!(client.prints(named, "print(x)"), "1\n");
    assert_eq!(daemon.status()["counters"]["restarts"], 0);
    // What was saved before is what the next daemon finds.
    let daemon = Daemon::at(daemon.kill(), &[]);
    let mut client = daemon.client();
    let named = client.session("named");
    assert_eq!(client.prints(named, "print(x)"), "1\n");
    let place = daemon.kill();
    assert!(Command::new("umount").arg("-l").arg(place.home()).status().unwrap().success());
}
