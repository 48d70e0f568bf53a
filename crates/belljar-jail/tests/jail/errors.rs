//! What is said when a jail cannot be had as planned.

use std::process::Command;

use belljar_jail::{JailPlan, Jailed};

use crate::harness::{python_plan, start, try_start};

fn error(plan: JailPlan) -> String {
    try_start(plan).err().unwrap().to_string()
}

crate::both_users! {
    fn a_missing_program() {
        let mut plan = JailPlan::new("/no/such/program");
        plan.with_system();
        assert_eq!(
            error(plan),
            "the jail could not start /no/such/program: No such file or directory (os error 2)"
        );
    }

    fn a_program_that_is_no_program() {
        let mut plan = JailPlan::new("/etc/passwd");
        plan.with_system();
        assert_eq!(
            error(plan),
            "the jail could not start /etc/passwd: Permission denied (os error 13)"
        );
    }

    fn a_missing_workspace() {
        let mut plan = python_plan("");
        plan.workspace = Some("/no/such/directory".into());
        assert_eq!(error(plan), "/no/such/directory is not there, so it cannot be mounted at /app");
    }

    fn a_missing_mount() {
        let mut plan = python_plan("");
        plan.read("/no/such/file");
        assert_eq!(
            error(plan),
            "/no/such/file is not there, so it cannot be mounted at /no/such/file"
        );
    }

    fn a_missing_optional_mount_is_passed_over() {
        let mut plan = python_plan("");
        plan.read_if_there("/no/such/file");
        assert!(try_start(plan).is_ok());
    }

    fn a_relative_path() {
        let mut plan = python_plan("");
        plan.read_at("/usr", "../usr");
        assert_eq!(
            error(plan),
            "the jail's plan is invalid: ../usr is no absolute path without `..`"
        );
    }

    fn a_directory_that_is_not_in_the_jail() {
        let mut plan = python_plan("");
        plan.directory = "/nowhere".into();
        assert_eq!(
            error(plan),
            "the jail could not enter /nowhere: No such file or directory (os error 2)"
        );
    }
}

/// Runs one test of this binary again in a user namespace that `prepare` has changed.
fn again_in_a_container(test: &str, prepare: &str) {
    let script = format!("{prepare} && exec \"$0\" --exact --include-ignored {test} --nocapture");
    let output = Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "/bin/sh", "-c", &script])
        .arg(std::env::current_exe().unwrap())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{text}\n{errors}");
}

#[test]
fn without_namespaces_there_is_no_jail() {
    let none = "echo 0 > /proc/sys/user/max_user_namespaces";
    again_in_a_container("errors::in_a_container_without_namespaces", none);
}

#[test]
#[ignore = "run by without_namespaces_there_is_no_jail"]
fn in_a_container_without_namespaces() {
    assert_eq!(
        error(python_plan("")),
        "the jail could not make namespaces: No space left on device (os error 28)"
    );
    assert!(!belljar_jail::probe().usable());
}

#[test]
fn without_a_whole_proc_there_is_a_jail_without_proc() {
    let masked = "mount -t tmpfs none /proc/sys/kernel";
    again_in_a_container("errors::in_a_container_with_a_masked_proc", masked);
}

#[test]
#[ignore = "run by without_a_whole_proc_there_is_a_jail_without_proc"]
fn in_a_container_with_a_masked_proc() {
    let running = start(python_plan("import os; print(os.listdir('/proc'))"));
    assert!(!running.jail.has_proc());
    let run = running.finish();
    assert_eq!((&*run.out, &*run.err), ("[]\n", ""));
    assert!(belljar_jail::probe().missing.iter().any(|missing| missing.what == "proc"));
}

#[test]
fn a_jail_can_be_shared_between_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<Jailed>();
}
