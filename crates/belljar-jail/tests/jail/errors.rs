//! What is said when a jail cannot be had as planned.

use belljar_jail::{JailPlan, Jailed};

use crate::harness::{python_plan, try_start};

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

#[test]
fn a_jail_can_be_shared_between_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<Jailed>();
}
