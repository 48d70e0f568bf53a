//! `belljar run` and `belljar check` with real guests.

#![expect(clippy::unwrap_used, reason = "a test stops where it fails")]

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Compiled guests are shared by all tests of this file.
fn home() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("belljar-home")
}

fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_belljar"));
    command
        .args(args)
        .env("BELLJAR_HOME", home())
        .env_remove("SANDBOX_TYPE")
        .env_remove("SANDBOX_PRESET")
        .stdin(Stdio::null());
    command
}

/// Exit code, standard output and standard error.
fn outcome(output: &Output) -> (i32, String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

fn belljar(args: &[&str]) -> (i32, String, String) {
    outcome(&command(args).output().unwrap())
}

fn with_stdin(args: &[&str], input: &[u8]) -> (i32, String, String) {
    let mut child = command(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    outcome(&child.wait_with_output().unwrap())
}

#[test]
fn output_goes_where_the_guest_sent_it() {
    let code = "import sys; print('out'); print('err', file=sys.stderr)";
    assert_eq!(belljar(&["run", "-c", code]), (0, "out\n".into(), "err\n".into()));
}

#[test]
fn the_guests_exit_code_is_ours() {
    assert_eq!(belljar(&["run", "-c", "import sys; sys.exit(3)"]).0, 3);
    assert_eq!(belljar(&["run", "-c", "import sys; sys.exit(0)"]).0, 0);
}

#[test]
fn an_uncaught_error_exits_with_one_and_shows_its_traceback() {
    let (code, stdout, stderr) = belljar(&["run", "-c", "raise ValueError('test')"]);
    assert_eq!((code, stdout.as_str()), (1, ""));
    assert!(stderr.ends_with("ValueError: test\n"), "{stderr}");
}

#[test]
fn code_comes_from_a_file_or_from_standard_input() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("hello.py");
    fs::write(&file, "\u{feff}print('file')\n").unwrap();
    assert_eq!(belljar(&["run", file.to_str().unwrap()]).1, "file\n");
    assert_eq!(with_stdin(&["run", "-"], b"print('stdin')").1, "stdin\n");
}

#[test]
fn code_whose_output_nobody_reads_is_stopped() {
    let started = std::time::Instant::now();
    let mut child = command(&["run", "--timeout", "60", "-c", "while True: print('x' * 1000)"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Reads a little and goes away.
    std::io::Read::read_exact(&mut child.stdout.take().unwrap(), &mut [0; 100]).unwrap();
    assert_eq!(outcome(&child.wait_with_output().unwrap()), (0, String::new(), String::new()));
    assert!(started.elapsed() < std::time::Duration::from_secs(30));
}

#[test]
fn a_time_limit_exits_with_124_and_says_how_to_raise_it() {
    let (code, _, stderr) = belljar(&["run", "--timeout", "300ms", "-c", "while True: pass"]);
    assert_eq!(code, 124);
    assert!(
        stderr.ends_with(
            "error: the code was stopped after 0.3 seconds\nhint: give it more time with --timeout\n"
        ),
        "{stderr}"
    );
}

#[test]
fn a_fuel_limit_exits_with_124() {
    let (code, _, stderr) = belljar(&["run", "--fuel", "100M", "-c", "while True: pass"]);
    assert_eq!(code, 124);
    assert!(stderr.contains("hint: give it more with --fuel"), "{stderr}");
}

#[test]
fn the_temporary_workspace_is_empty_and_removed_afterwards() {
    let code = "import os; print(os.listdir('/app')); open('/app/x', 'w').write('1')";
    let (exit, stdout, _) = belljar(&["run", "--json", "-c", code]);
    let result: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!((exit, &result["stdout"]), (0, &"[]\n".into()));
    assert_eq!(result["files_created"], serde_json::json!(["x"]));
    assert!(!Path::new(result["workspace_path"].as_str().unwrap()).exists());
}

#[test]
fn a_named_workspace_keeps_what_was_written() {
    let dir = tempfile::tempdir().unwrap();
    let code = "open('/app/out.txt', 'w').write('kept')";
    belljar(&["run", "--workspace", dir.path().to_str().unwrap(), "-c", code]);
    assert_eq!(fs::read_to_string(dir.path().join("out.txt")).unwrap(), "kept");
}

#[test]
fn data_is_readable_and_not_writable() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("in.txt"), "data").unwrap();
    let code = "print(open('/data/in.txt').read())\ntry: open('/data/new', 'w')\nexcept OSError: print('refused')";
    let (_, stdout, stderr) = belljar(&["run", "--data", dir.path().to_str().unwrap(), "-c", code]);
    assert_eq!((stdout.as_str(), stderr.as_str()), ("data\nrefused\n", ""));
    assert!(!dir.path().join("new").exists());
}

#[test]
fn the_guest_sees_only_the_environment_it_was_given() {
    let code = "import os; print(os.environ.get('GIVEN'), os.environ.get('HOST_SECRET'))";
    let mut command = command(&["run", "--env", "GIVEN=yes", "-c", code]);
    let (_, stdout, _) = outcome(&command.env("HOST_SECRET", "secret").output().unwrap());
    assert_eq!(stdout, "yes None\n");
}

#[test]
fn code_with_nul_bytes_is_the_guests_error_and_not_ours() {
    let (code, stdout, stderr) = with_stdin(&["run", "-"], b"print(1)\0");
    assert_eq!((code, stdout.as_str()), (1, ""));
    assert!(stderr.contains("null byte"), "{stderr}");
}

#[test]
fn check_answers_without_executing() {
    assert_eq!(belljar(&["check", "-c", "print('not run')"]), (0, String::new(), String::new()));
    let (code, stdout, stderr) = belljar(&["check", "-c", "x = 1 +"]);
    assert_eq!((code, stdout.as_str()), (1, ""));
    assert!(stderr.contains("SyntaxError"), "{stderr}");
    let (_, json, _) = belljar(&["check", "--json", "-c", "x = 1"]);
    assert_eq!(json, "{\"error\":null,\"valid\":true}\n");
}

#[test]
fn events_are_logged_without_the_code() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log.jsonl");
    belljar(&["run", "--log", log.to_str().unwrap(), "-c", "print('private words')"]);
    let text = fs::read_to_string(log).unwrap();
    let events: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let names: Vec<&str> = events.iter().filter_map(|event| event["event"].as_str()).collect();
    assert_eq!(names, ["execution_start", "execution_complete"]);
    assert!(!text.contains("private"), "{text}");
}

#[test]
fn a_missing_or_broken_interpreter_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let broken = dir.path().join("broken.wasm");
    fs::write(&broken, "not wasm").unwrap();
    for path in [dir.path().join("gone.wasm"), broken] {
        let path = path.to_str().unwrap();
        let (code, _, stderr) = belljar(&["run", "--wasm", path, "-c", "1"]);
        assert_eq!(code, 125, "{stderr}");
        assert!(stderr.starts_with("error: ") && stderr.contains(path), "{stderr}");
        assert!(stderr.contains("\nhint: "), "{stderr}");
    }
}
