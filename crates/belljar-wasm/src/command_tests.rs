use std::time::Duration;

use super::*;

/// Runs a command whose `_start` is `body`.
fn run(body: &str) -> Called {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("command.wasm");
    let module = format!(
        r#"(module
            (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
            (memory (export "memory") 1)
            (tag $oops (param i32))
            (func $hold (local $held exnref)
                (block $caught (result exnref)
                    (try_table (catch_all_ref $caught) (throw $oops (i32.const 1)))
                    (unreachable))
                (local.set $held)
                (call $hold)
                (drop (ref.is_null (local.get $held))))
            (func (export "_start") {body}))"#
    );
    std::fs::write(&path, wat::parse_str(module).unwrap()).unwrap();
    let guest = CommandGuest::load(&path, &dir.path().join("cache"), &|_| {}).unwrap();
    let limits = Limits { fuel: 1 << 40, timeout: Duration::from_secs(60) };
    guest.run(Grant::default(), 1 << 20, limits, &CancelHandle::default()).unwrap().called
}

#[test]
fn a_command_catches_what_it_throws() {
    let called = run("
        (block $caught (result i32)
            (try_table (catch $oops $caught) (throw $oops (i32.const 3)))
            (unreachable))
        (call $exit)");
    assert!(matches!(called.end, CallEnd::Exited(3)));
}

#[test]
fn a_catch_all_does_not_catch_an_exit() {
    let called = run("
        (block $caught (try_table (catch_all $caught) (call $exit (i32.const 4))))");
    assert!(matches!(called.end, CallEnd::Exited(4)));
}

#[test]
fn an_exception_that_a_command_does_not_catch_is_a_crash() {
    let CallEnd::Crashed(message) = run("(throw $oops (i32.const 1))").end else {
        panic!("it did not crash")
    };
    assert_eq!(message, "an exception that nothing caught");
}

#[test]
fn a_command_that_holds_exceptions_without_end_crashes() {
    let CallEnd::Crashed(message) = run("(call $hold)").end else { panic!("it did not crash") };
    assert_eq!(message, "too many exceptions at once");
}
