//! Tests that need processes of their own: this program again, with one test in it.

use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::jar::OTHER_HOME;
use crate::memory::exclusive;
use crate::third_party::skipped;

/// Set in a child, to what its parent gives it.
const GIVEN: &str = "BELLJAR_TEST_GIVEN";

/// Runs `body` in a process where nothing else runs, so that memory and descriptors are its own.
/// `test` is the name of the test that calls this.
#[track_caller]
pub fn alone(test: &str, body: impl FnOnce()) {
    match given() {
        Some(_) => body(),
        None => in_new_processes(test, 1, Path::new(".")),
    }
}

/// In a child: what its parent has left for it.
#[must_use]
pub fn given() -> Option<PathBuf> {
    std::env::var_os(GIVEN).map(PathBuf::from)
}

/// Runs this test again, in so many new processes at once; there, [`given`] tells what is given
/// here.
#[track_caller]
pub fn in_new_processes(test: &str, count: usize, given: &Path) {
    let children: Vec<Child> = (0..count).map(|_| start(test, given)).collect();
    for child in children {
        let output = child.wait_with_output().expect("its output");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{test} in a new process: {said}{complaint}");
        // A name that fits no test would pass as well.
        assert!(said.contains("1 passed"), "{test} is no test: {said}");
    }
}

fn start(test: &str, given: &Path) -> Child {
    let program = std::env::current_exe().expect("the test's own path");
    Command::new(program)
        .args(["--exact", test, "--test-threads=1", "--nocapture"])
        .env(GIVEN, given)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("a new process")
}

/// Runs a test of this program again as an ordinary user, who has a home of Belljar's for it.
#[track_caller]
pub fn again_as_nobody(test: &str) {
    const NOBODY: u32 = 65534;
    let myself = std::fs::metadata("/proc/self").expect("/proc").uid();
    if myself != 0 {
        skipped(test, "only root can become somebody else; the test itself ran as a user");
        return;
    }
    // Its pipes and its load are not to be taken for somebody else's.
    let _guard = exclusive();
    let home = tempfile::tempdir().expect("a home");
    chown(home.path(), Some(NOBODY), Some(NOBODY)).expect("root may");
    let output = Command::new("/proc/self/exe")
        .args(["--exact", test, "--test-threads=1", "--nocapture"])
        .env(OTHER_HOME, home.path())
        .env("TMPDIR", "/tmp")
        .env("HOME", home.path())
        .current_dir("/")
        .uid(NOBODY)
        .gid(NOBODY)
        .output()
        .expect("a new process");
    let said = String::from_utf8_lossy(&output.stdout);
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{test} as nobody: {said}{complaint}");
    assert!(said.contains("1 passed"), "{test} is no test: {said}");
    for line in complaint.lines().filter(|line| line.starts_with("SKIPPED")) {
        skipped(&format!("{test} as nobody"), line);
    }
}

/// Tests that hold for whoever runs them and, when that is root, for an ordinary user too.
#[macro_export]
macro_rules! both_users {
    ($($(#[$meta:meta])* fn $name:ident() $body:block)*) => {
        $($(#[$meta])* #[test] fn $name() $body)*

        mod as_nobody {
            $(
                $(#[$meta])*
                #[test]
                fn $name() {
                    let path = module_path!();
                    // Without the crate's name and this module's.
                    let modules: Vec<&str> = path.split("::").skip(1).collect();
                    let module = modules[..modules.len() - 1].join("::");
                    $crate::again_as_nobody(&format!("{module}::{}", stringify!($name)));
                }
            )*
        }
    };
}
