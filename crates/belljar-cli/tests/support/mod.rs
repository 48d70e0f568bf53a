//! Running the command with real guests. Compiled guests are shared by all tests.

#![allow(dead_code, clippy::allow_attributes, reason = "each test file uses a part of it")]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

pub(crate) fn home() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("belljar-home")
}

pub(crate) fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_belljar"));
    command
        .args(args)
        .env("BELLJAR_HOME", home())
        .env_remove("SANDBOX_TYPE")
        .env_remove("SANDBOX_PRESET")
        .env_remove("E2B_API_KEY")
        .env_remove("BELLJAR_LLM_COMMAND")
        .env_remove("COLUMNS")
        .stdin(Stdio::null());
    command
}

/// Exit code, standard output and standard error.
pub(crate) fn outcome(output: &Output) -> (i32, String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (output.status.code().unwrap_or(-1), text(&output.stdout), text(&output.stderr))
}

pub(crate) fn belljar(args: &[&str]) -> (i32, String, String) {
    outcome(&command(args).output().unwrap())
}

/// The same as one text, to be compared as a whole.
pub(crate) fn shown(args: &[&str]) -> String {
    let (code, stdout, stderr) = belljar(args);
    let part = |name: &str, text: &str| {
        if text.is_empty() { String::new() } else { format!("--- {name}\n{text}") }
    };
    format!("exit {code}\n{}{}", part("stdout", &stdout), part("stderr", &stderr))
        .replace(&home().display().to_string(), "HOME")
}

/// Standard output of a run that must succeed.
pub(crate) fn ok(args: &[&str]) -> String {
    let (code, stdout, stderr) = belljar(args);
    assert_eq!(code, 0, "{args:?}\n{stdout}\n{stderr}");
    stdout
}

pub(crate) fn start(command: &mut Command, input: &[u8]) -> Child {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Whoever refuses to begin does not read what he is told.
    let _ = child.stdin.take().unwrap().write_all(input);
    child
}

/// A session's name that nothing has from an earlier run of the tests.
pub(crate) struct Name(pub(crate) &'static str);

impl Name {
    pub(crate) fn new(name: &'static str) -> Self {
        belljar(&["session", "rm", name]);
        Self(name)
    }

    pub(crate) fn run(&self, code: &str) -> String {
        ok(&["run", "--session", self.0, "-c", code])
    }
}

impl Drop for Name {
    fn drop(&mut self) {
        belljar(&["session", "rm", self.0]);
    }
}
