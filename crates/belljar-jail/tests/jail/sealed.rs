//! Programs that know that they are in a jail, and seal themselves.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::Command;

use belljar_jail::{Ended, JailPlan, inside};

use crate::harness::{Run, run};

/// This test program in a jail, as one of its own tests.
fn one_of_ours(test: &str, seals: bool) -> Run {
    let program = std::env::current_exe().unwrap();
    let mut plan = JailPlan::new("/program");
    plan.with_system();
    plan.read_at(program, "/program");
    plan.args = ["--exact", test, "--ignored", "--nocapture"].map(String::from).into();
    plan.seals = seals;
    run(plan)
}

fn starts_a_program() -> String {
    match Command::new("/bin/true").status() {
        Ok(status) => format!("{status}"),
        Err(error) => format!("{:?}", error.kind()),
    }
}

#[test]
#[ignore = "runs in the jail that a_sealed_program_starts_nothing_more makes"]
fn inside_a_jail_that_seals() {
    let before = starts_a_program();
    let (_, output) = inside::protocol().unwrap();
    assert!(inside::protocol().is_err(), "they can be taken once");
    inside::seal().unwrap();
    let thread = std::thread::spawn(starts_a_program).join().unwrap();
    let again = inside::seal().is_err();
    writeln!(File::from(output), "spoken").unwrap();
    println!(
        "before: {before}; sealed: {}; in a thread: {thread}; again: {again}",
        starts_a_program()
    );
}

#[test]
#[ignore = "runs in the jail that only_a_plan_that_says_so_can_be_sealed makes"]
fn inside_an_ordinary_jail() {
    println!("sealed: {}", inside::seal().is_ok());
}

#[test]
fn a_sealed_program_starts_nothing_more() {
    let ran = one_of_ours("sealed::inside_a_jail_that_seals", true);
    assert_eq!(ran.ended, Ended::Exited(0), "{}\n{}", ran.out, ran.err);
    let expected = "before: exit status: 0; sealed: PermissionDenied; in a thread: \
                    PermissionDenied; again: true";
    assert!(ran.out.contains(expected), "{}", ran.out);
}

#[test]
fn only_a_plan_that_says_so_can_be_sealed() {
    let ran = one_of_ours("sealed::inside_an_ordinary_jail", false);
    assert!(ran.out.contains("sealed: false"), "{}\n{}", ran.out, ran.err);
    assert!(Path::new("/bin/true").exists());
}
