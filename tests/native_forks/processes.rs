//! What is left of sandboxes: nothing. Each test has a process of its own, since it counts.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use belljar::Status;
use serde_json::Value;
use support::{Expect, alone, given};

use crate::harness::{Warm, cold_with, descendants, descriptors, signal, warm, zygote};

const SIGKILL: i32 = 9;
const SIGSTOP: i32 = 19;

#[test]
fn a_sandbox_that_is_dropped_leaves_nothing() {
    alone("processes::a_sandbox_that_is_dropped_leaves_nothing", || {
        // What is opened once for all sandboxes is open after this.
        if warm().is_none() {
            return;
        }
        let before = descriptors();
        assert_eq!(descendants(), []);
        type Step = fn(&mut Warm);
        let steps: [(&str, Step); 6] = [
            ("with a spare", |_| {}),
            ("after ten", |warm| (0..10).for_each(|_| drop(warm.seed()))),
            ("in a session", |warm| {
                warm.sandbox.initialize(Value::Null).expect("a session");
                warm.run("import subprocess; p = subprocess.Popen(['sleep', '60']); None");
            }),
            ("after a session", |warm| {
                warm.sandbox.initialize(Value::Null).expect("a session");
                warm.sandbox.destroy().expect("destroyed");
            }),
            ("with a dead zygote", |_| signal(zygote(), SIGKILL)),
            ("with a zygote that hangs", |_| signal(zygote(), SIGSTOP)),
        ];
        for (name, step) in steps {
            let mut warm = warm().expect("a native backend");
            step(&mut warm);
            drop(warm);
            assert_eq!((descendants(), descriptors()), (vec![], before.clone()), "{name}");
        }
        drop(cold_with(|layer| layer));
        assert_eq!((descendants(), descriptors()), (vec![], before), "without a zygote");
    });
}

#[test]
fn an_idle_sandbox_has_one_spare_and_nothing_else() {
    alone("processes::an_idle_sandbox_has_one_spare_and_nothing_else", || {
        let Some(cold) = cold_with(|layer| layer) else { return };
        assert_eq!(descendants(), [], "nothing is started before it is wanted");
        drop(cold);
        let mut warm = warm().expect("a native backend");
        for _ in 0..5 {
            warm.seed();
        }
        std::thread::sleep(Duration::from_millis(100));
        // The jail's monitor and first process, the zygote, and the two of the spare.
        let all = descendants();
        assert_eq!(all.len(), 5, "{all:?}");
        assert!(all.iter().all(|process| process.state != 'Z'), "{all:?}");
    });
}

#[test]
fn a_zygote_that_died_is_replaced() {
    alone("processes::a_zygote_that_died_is_replaced", || {
        let Some(mut warm) = warm() else { return };
        let seed = warm.seed();
        signal(zygote(), SIGKILL);
        std::thread::sleep(Duration::from_millis(50));
        let next = warm.seed();
        assert_ne!(next, seed);
        assert_eq!(warm.seed(), next);
    });
}

#[test]
fn a_zygote_that_hangs_is_replaced() {
    alone("processes::a_zygote_that_hangs_is_replaced", || {
        let Some(mut warm) = warm() else { return };
        signal(zygote(), SIGSTOP);
        let start = Instant::now();
        // The spare still works, and is ended with its whole jail; the next has another zygote.
        for _ in 0..3 {
            warm.run("print(5)").printed("5\n");
        }
        assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
        let seed = warm.seed();
        assert_eq!(warm.seed(), seed);
    });
}

#[test]
fn code_whose_zygote_dies_ends_with_it() {
    alone("processes::code_whose_zygote_dies_ends_with_it", || {
        let Some(mut warm) = warm() else { return };
        warm.sandbox.initialize(Value::Null).expect("a session");
        warm.run("x = 1").kept(Status::Ok);
        let pid = zygote();
        let killer = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(200));
            signal(pid, SIGKILL);
        });
        let result = warm.run("while True: pass");
        killer.join().expect("it was killed");
        assert_eq!(result.status(), Status::Crashed, "{}", result.stderr);
        warm.run("1 + 1").gave(2);
    });
}

#[test]
fn a_host_that_is_killed_leaves_nothing() {
    const TEST: &str = "processes::a_host_that_is_killed_leaves_nothing";
    if let Some(told) = given() {
        let Some(mut warm) = warm() else {
            fs::write(told.join("pids"), "").expect("written");
            return;
        };
        warm.sandbox.initialize(Value::Null).expect("a session");
        warm.run("import subprocess; p = subprocess.Popen(['sleep', '600']); None");
        let pids: Vec<String> = descendants().iter().map(|below| below.pid.to_string()).collect();
        fs::write(told.join("part"), pids.join("\n")).expect("written");
        fs::rename(told.join("part"), told.join("pids")).expect("renamed");
        std::thread::sleep(Duration::from_secs(600));
    }
    let folder = tempfile::tempdir().expect("a folder");
    let program = std::env::current_exe().expect("the test's own path");
    let mut host = Command::new(program)
        .args(["--exact", TEST, "--nocapture"])
        .env("BELLJAR_TEST_GIVEN", folder.path())
        .stdout(Stdio::null())
        .spawn()
        .expect("a host");
    let told = folder.path().join("pids");
    within(60, || told.exists());
    let pids = fs::read_to_string(told).expect("its processes");
    host.kill().expect("killed");
    host.wait().expect("reaped");
    if pids.is_empty() {
        println!("skipped: no native backend here");
        return;
    }
    assert!(pids.lines().count() >= 5, "{pids}");
    within(10, || pids.lines().all(|pid| !Path::new("/proc").join(pid).exists()));
}

#[track_caller]
fn within(seconds: u64, condition: impl Fn() -> bool) {
    let until = Instant::now() + Duration::from_secs(seconds);
    while !condition() {
        assert!(Instant::now() < until, "not within {seconds} seconds");
        std::thread::sleep(Duration::from_millis(10));
    }
}
