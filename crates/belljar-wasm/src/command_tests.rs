use std::time::Duration;

use super::*;
use crate::wasi::{Mount, open_directory};

/// Runs a command whose `_start` is `body`.
fn run(body: &str) -> Called {
    run_with(Grant::default(), body)
}

fn run_with(grant: Grant, body: &str) -> Called {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("command.wasm");
    let module = format!(
        r#"(module
            (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
            (import "wasi_snapshot_preview1" "path_filestat_get"
                (func $stat (param i32 i32 i32 i32 i32) (result i32)))
            (memory (export "memory") 1)
            (data (i32.const 0) "f")
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
    guest.run(grant, 1 << 20, limits, &CancelHandle::default()).unwrap().called
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

/// An image is the same wherever and whenever it is made of the same files.
#[test]
fn undated_files_have_neither_numbers_nor_dates() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("f"), "hello").unwrap();
    // Its size, and whether it has a date and a number, a bit each.
    let body = "
        (drop (call $stat (i32.const 4) (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 64)))
        (call $exit (i32.or
            (i32.shl (i32.load (i32.const 96)) (i32.const 2))
            (i32.or
                (i32.shl (i64.ne (i64.load (i32.const 112)) (i64.const 0)) (i32.const 1))
                (i64.ne (i64.load (i32.const 72)) (i64.const 0)))))";
    for (undated_files, expected) in [(true, 5 << 2), (false, (5 << 2) | 0b11)] {
        let mount = Mount {
            guest_path: "/boot".to_owned(),
            dir: open_directory(dir.path()).unwrap(),
            writable: false,
        };
        let grant = Grant { mounts: vec![mount], undated_files, ..Grant::default() };
        let CallEnd::Exited(code) = run_with(grant, body).end else { panic!("no exit") };
        assert_eq!(code, expected);
    }
}
