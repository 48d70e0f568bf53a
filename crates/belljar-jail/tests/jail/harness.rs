//! Starting programs in jails and collecting what they say.

use std::io::{PipeReader, Read};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::thread::{JoinHandle, spawn};

use belljar_jail::{Descriptors, Ended, JailError, JailPlan, Jailed};
use tempfile::TempDir;

/// The system's own, which every user can read.
const PYTHON: &str = "/usr/bin/python3";
/// Names another Python (`prefix/bin/python3`), so that the same tests can be run with it.
const OTHER_PYTHON: &str = "BELLJAR_TEST_PYTHON";

/// What a program left behind.
#[derive(Debug)]
pub struct Run {
    pub out: String,
    pub err: String,
    pub ended: Ended,
}

/// A running program with its workspace.
pub struct Running {
    pub jail: Jailed,
    pub workspace: TempDir,
    /// The host's end of the protocol.
    pub protocol: UnixStream,
    out: JoinHandle<String>,
    err: JoinHandle<String>,
}

/// A plan for `python -c code` that can read the system and nothing else.
pub fn python_plan(code: &str) -> JailPlan {
    let mut plan = match std::env::var(OTHER_PYTHON) {
        Ok(other) => {
            let mut plan = JailPlan::new(&other);
            plan.read(Path::new(&other).ancestors().nth(2).unwrap());
            plan
        }
        Err(_) => JailPlan::new(PYTHON),
    };
    plan.with_system();
    plan.args = ["-I", "-c", code].map(String::from).into();
    plan.env.insert("PATH".into(), "/usr/bin:/bin".into());
    plan
}

/// Runs Python code to its end.
pub fn python(code: &str) -> Run {
    run(python_plan(code))
}

/// What Python code prints; it must succeed.
pub fn python_prints(code: &str) -> String {
    let run = python(code);
    assert_eq!((run.ended, &*run.err), (Ended::Exited(0), ""), "{}", run.out);
    run.out
}

/// Runs a plan, in a workspace of its own, to its end.
pub fn run(plan: JailPlan) -> Run {
    start(plan).finish()
}

pub fn start(plan: JailPlan) -> Running {
    try_start(plan).unwrap()
}

pub fn try_start(mut plan: JailPlan) -> Result<Running, JailError> {
    let workspace = tempfile::tempdir().unwrap();
    if !plan.zygote {
        plan.workspace.get_or_insert_with(|| workspace.path().into());
    }
    let (protocol, theirs) = UnixStream::pair().unwrap();
    let ((out, their_out), (err, their_err)) = (std::io::pipe().unwrap(), std::io::pipe().unwrap());
    let descriptors = Descriptors {
        protocol_in: theirs.try_clone().unwrap().into(),
        protocol_out: theirs.into(),
        user_stdout: their_out.into(),
        user_stderr: their_err.into(),
    };
    let jail = Jailed::spawn(&plan, descriptors)?;
    Ok(Running { jail, workspace, protocol, out: collect(out), err: collect(err) })
}

impl Running {
    pub fn finish(self) -> Run {
        let ended = self.jail.wait().unwrap();
        Run { out: self.out.join().unwrap(), err: self.err.join().unwrap(), ended }
    }

    /// Waits for a word of the program on its protocol descriptor.
    pub fn hear(&self) -> String {
        let mut word = [0; 64];
        let length = (&self.protocol).read(&mut word).unwrap();
        String::from_utf8_lossy(&word[..length]).into_owned()
    }
}

fn collect(mut pipe: PipeReader) -> JoinHandle<String> {
    spawn(move || {
        let mut text = Vec::new();
        pipe.read_to_end(&mut text).unwrap();
        String::from_utf8_lossy(&text).into_owned()
    })
}

/// Runs one test of this binary again as an ordinary user.
pub fn again_as_nobody(test: &str) {
    const NOBODY: u32 = 65534;
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can become somebody else; the test itself ran as a user");
        return;
    }
    let output = Command::new("/proc/self/exe")
        .args(["--exact", test, "--nocapture"])
        .env("TMPDIR", "/tmp")
        .current_dir("/")
        .uid(NOBODY)
        .gid(NOBODY)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{text}\n{errors}");
}

/// Tests that hold for root and for an ordinary user.
#[macro_export]
macro_rules! both_users {
    ($($(#[$meta:meta])* fn $name:ident() $body:block)*) => {
        $(#[test] $(#[$meta])* fn $name() $body)*

        mod as_nobody {
            $(
                #[test]
                $(#[$meta])*
                fn $name() {
                    let path = module_path!();
                    // Without the crate's name and this module's.
                    let module = path.split("::").nth(1).unwrap();
                    let test = format!("{module}::{}", stringify!($name));
                    $crate::harness::again_as_nobody(&test);
                }
            )*
        }
    };
}
