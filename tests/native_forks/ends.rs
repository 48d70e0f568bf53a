//! How forks end, and what is known of it.

use std::time::{Duration, Instant};

use belljar::{StateAfter, Status};
use serde_json::Value;
use support::Expect;

use crate::harness::{warm, warm_with};

#[test]
fn exit_codes_are_those_of_the_program() {
    let Some(mut warm) = warm() else { return };
    for code in [0, 3, 125, 137] {
        let status = if code == 0 { Status::Ok } else { Status::Error };
        warm.run(&format!("import sys; sys.exit({code})")).ended(status, code);
        warm.run(&format!("import os; os._exit({code})")).ended(status, code);
    }
}

#[test]
fn a_signal_is_told() {
    let Some(mut warm) = warm() else { return };
    let seed = warm.seed();
    let result = warm.run("import os; os.kill(os.getpid(), 11)");
    assert!(result.stderr.contains("signal 11"), "{}", result.stderr);
    assert_eq!(warm.seed(), seed);
}

#[test]
fn a_memory_bomb_is_out_of_memory_and_the_zygote_lives_on() {
    let Some(mut warm) = warm_with(|layer| layer.memory_bytes(128 << 20)) else { return };
    let seed = warm.seed();
    let shared = "
import mmap
m = mmap.mmap(-1, 400 << 20)
for at in range(0, len(m), 4096): m[at] = 1
print('survived')";
    let result = warm.run(shared);
    if !result.meta.isolation.iter().any(|layer| layer == "cgroup") {
        println!("skipped: no control group counts the memory here");
        return;
    }
    assert_eq!(result.status(), Status::OutOfMemory, "{}", result.stderr);
    assert_eq!(warm.seed(), seed);
    // Memory as it may be had.
    warm.run("x = bytearray(60 << 20); print(len(x) >> 20)").printed("60\n");
}

#[test]
fn endless_code_is_interrupted_and_its_session_lives_on() {
    let Some(mut warm) = warm_with(|layer| layer.timeout_seconds(0.5)) else { return };
    warm.sandbox.initialize(Value::Null).expect("a session");
    warm.run("x = 5").kept(Status::Ok);
    let result = warm.run("while True: pass");
    assert_eq!((result.status(), result.meta.state), (Status::Timeout, Some(StateAfter::Kept)));
    warm.run("x").gave(5);
    let stubborn = "
import signal
signal.signal(signal.SIGINT, signal.SIG_IGN)
while True: pass";
    let start = Instant::now();
    let result = warm.run(stubborn);
    assert_eq!((result.status(), result.meta.state), (Status::Timeout, Some(StateAfter::Lost)));
    assert!(start.elapsed() < Duration::from_secs(5));
    assert!(!warm.run("x").success(), "it is a new one");
    warm.run("1 + 1").gave(2);
}
