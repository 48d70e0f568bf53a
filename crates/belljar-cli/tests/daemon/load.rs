//! Many sessions and many executions, while workers are killed at random.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::harness::{Client, Daemon, signal};

const SESSIONS: usize = 200;
/// Of each.
const EXECUTIONS: u64 = 10;
const CLIENTS: usize = 8;

/// A session as its user knows it.
struct Session {
    name: String,
    sandbox: u64,
    /// What `n` is there, as far as results have told.
    n: u64,
    /// Executions that were lost, nobody knows how far, and would have added one each.
    maybe_more: u64,
    lost: u64,
}

impl Session {
    /// One of several kinds of executions; what it says is what it has to be.
    fn step(&mut self, client: &mut Client, round: u64) {
        let code = match round % 5 {
            0 => "n += 1\nprint(name, n)",
            1 => "print(name, n)",
            2 => "n += 1\nopen('f', 'w').write(f'{name} {n}')\nprint(open('f').read())",
            3 => "n += 1\nprint(name, n)\nraise ValueError(name)",
            _ => "import json\nprint(json.dumps([name, n])[0], name, n)",
        };
        let adds = [0, 2, 3].contains(&(round % 5));
        let result = execute(client, self.sandbox, code);
        let status = result["status"].as_str().unwrap();
        if status == "crashed" {
            self.lost += 1;
            match result["meta"]["state"].as_str() {
                Some("kept") => self.n += u64::from(adds),
                Some("rolled_back") => {}
                _ => self.maybe_more += u64::from(adds),
            }
            return;
        }
        assert_eq!(status, if round % 5 == 3 { "error" } else { "ok" }, "{result}");
        let stdout = result["stdout"].as_str().unwrap().trim_start_matches("[ ");
        let (name, n) = stdout.trim().split_once(' ').unwrap_or_else(|| panic!("{result}"));
        assert_eq!(name, self.name, "state of another session");
        let (n, expected) = (n.parse::<u64>().unwrap(), self.n + u64::from(adds));
        // Where nobody could say whether a lost one was saved, both are right.
        let possible = expected..=expected + self.maybe_more;
        assert!(possible.contains(&n), "{}: {n} instead of {expected}", self.name);
        (self.n, self.maybe_more) = (n, 0);
    }
}

/// Runs something, again when the daemon is busy: then nothing was run.
fn execute(client: &mut Client, sandbox: u64, code: &str) -> Value {
    loop {
        let id = client.send("execute", json!({"sandbox": sandbox, "code": code}));
        let answer = client.answer(id);
        if answer["error"]["code"] != -32001 {
            assert!(answer.get("error").is_none(), "{answer}");
            return answer["result"].clone();
        }
    }
}

fn work(mut client: Client, first: usize, lost: &AtomicU64) {
    let mut sessions: Vec<Session> = (first..SESSIONS)
        .step_by(CLIENTS)
        .map(|number| {
            let name = format!("session-{number}");
            let sandbox = client.session(&name);
            Session { name, sandbox, n: 0, maybe_more: 0, lost: 0 }
        })
        .collect();
    for session in &mut sessions {
        let code = format!("name, n = {:?}, 0", session.name);
        while execute(&mut client, session.sandbox, &code)["status"] != "ok" {}
    }
    for round in 0..EXECUTIONS {
        for session in &mut sessions {
            session.step(&mut client, round);
        }
    }
    for mut session in sessions {
        session.step(&mut client, 1);
        lost.fetch_add(session.lost, Ordering::Relaxed);
    }
}

#[test]
fn no_result_is_wrong_and_no_session_lost_while_workers_are_killed() {
    // On a busy machine a worker may take long to be there again.
    let daemon = Daemon::new(&["--limit", "worker_seconds=60"]);
    let (over, lost) = (AtomicBool::new(false), AtomicU64::new(0));
    let begun = std::time::Instant::now();
    let kills = std::thread::scope(|scope| {
        let killer = scope.spawn(|| {
            let mut kills = 0_u32;
            let mut random = 12345_u64;
            while !over.load(Ordering::Relaxed) {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                std::thread::sleep(Duration::from_millis(500 + (random >> 33) % 1500));
                let workers = daemon.workers();
                if let Some(worker) = workers.get((random >> 40) as usize % workers.len().max(1)) {
                    signal(*worker, Signal::KILL);
                    kills += 1;
                }
            }
            kills
        });
        let clients: Vec<_> = (0..CLIENTS)
            .map(|first| {
                let (client, lost) = (daemon.client(), &lost);
                scope.spawn(move || work(client, first, lost))
            })
            .collect();
        let failed = clients.into_iter().filter_map(|client| client.join().err()).count();
        over.store(true, Ordering::Relaxed);
        assert_eq!(failed, 0, "clients saw something wrong");
        killer.join().unwrap()
    });
    let status = daemon.status();
    eprintln!(
        "{kills} workers killed, {} executions lost of {}, {} sessions revived, {:?}",
        lost.load(Ordering::Relaxed),
        status["counters"]["executions"],
        status["counters"]["revived"],
        begun.elapsed()
    );
    assert!(kills > 0);
    let total = u64::try_from(SESSIONS).unwrap() * EXECUTIONS;
    assert!(lost.load(Ordering::Relaxed) < total / 2);
    // All of them are there.
    let mut client = daemon.client();
    for number in 0..SESSIONS {
        let name = format!("session-{number}");
        let created = wait_created(&mut client, &name);
        assert_eq!(client.prints(created, "print(name)"), format!("{name}\n"));
    }
}

/// A client that has left a moment ago may still have the session.
fn wait_created(client: &mut Client, name: &str) -> u64 {
    for _ in 0..500 {
        let id = client.send("create", json!({"session": name}));
        let answer: Value = client.answer(id);
        if let Some(sandbox) = answer["result"]["sandbox"].as_u64() {
            return sandbox;
        }
        assert!(answer["error"]["message"].as_str().unwrap().contains("in use"), "{answer}");
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("{name} stays in use");
}
