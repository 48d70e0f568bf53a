//! The backend e2b against the daemon that E2B's own packages have vouched for.

use std::process::{Command, Output};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::{KEY, Server, build_dir, wait_for};

/// `belljar run` on a service.
fn run(url: &str, key: Option<&str>, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_belljar"));
    command
        .args(["run", "--backend", "e2b"])
        .args(args)
        .env("BELLJAR_HOME", build_dir().join("test-home"))
        .env("E2B_API_URL", url)
        .env("E2B_SANDBOX_URL", url)
        .env_remove("SANDBOX_TYPE")
        .env_remove("E2B_API_KEY");
    if let Some(key) = key {
        command.env("E2B_API_KEY", key);
    }
    command.output().unwrap()
}

fn said(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

fn sandboxes(server: &Server) -> usize {
    let (_, told) = server.ask("GET /v2/sandboxes", &[("X-API-KEY", KEY)], b"");
    told.matches("\"sandboxID\"").count()
}

#[test]
fn code_runs_there_and_nothing_is_left_behind() {
    let server = Server::new(&[]);
    let run = |args: &[&str]| run(&server.url(), Some(KEY), args);
    let result =
        run(&["--json", "-c", "import sys\nprint('out ř')\nprint('err', file=sys.stderr)\n6 * 7"]);
    let result: Value = serde_json::from_slice(&result.stdout).unwrap();
    assert_eq!(
        (&result["status"], &result["stdout"]),
        (&"ok".into(), &"out ř\n".into()),
        "{result}"
    );
    assert_eq!((&result["stderr"], &result["result"]["text"]), (&"err\n".into(), &"42".into()));
    assert_eq!(result["meta"]["runtime"], "e2b");
    let failed = run(&["-c", "print('before')\n1 / 0"]);
    let (stdout, stderr) = said(&failed);
    assert_eq!((failed.status.code(), &*stdout), (Some(1), "before\n"));
    assert!(stderr.contains("ZeroDivisionError: division by zero"), "{stderr}");
    assert_eq!(run(&["-c", "import sys; sys.exit(3)"]).status.code(), Some(3));
    let script = run(&["--lang", "javascript", "-c", "console.log([1, 2].map((x) => x * 2))"]);
    assert_eq!(said(&script).0, "[ 2, 4 ]\n");
    assert_eq!(sandboxes(&server), 0);
}

#[test]
fn files_go_there_and_come_back() {
    let server = Server::new(&[]);
    let place = tempfile::tempdir().unwrap();
    std::fs::create_dir(place.path().join("d")).unwrap();
    std::fs::write(place.path().join("d/in ř.txt"), "given").unwrap();
    std::fs::write(place.path().join("gone.txt"), "x").unwrap();
    let code = "import os\nopen('out.txt', 'w').write(open('d/in ř.txt').read() + ' back')\n\
                open('d/in ř.txt', 'a').write('!')\nos.remove('gone.txt')";
    let workspace = place.path().to_str().unwrap();
    let ran = run(&server.url(), Some(KEY), &["--json", "--workspace", workspace, "-c", code]);
    let result: Value = serde_json::from_slice(&ran.stdout).unwrap();
    assert_eq!(result["files_created"], serde_json::json!(["out.txt"]), "{result}");
    assert_eq!(result["files_modified"], serde_json::json!(["d/in ř.txt"]));
    assert_eq!(result["files_deleted"], serde_json::json!(["gone.txt"]));
    let read = |name: &str| std::fs::read_to_string(place.path().join(name)).ok();
    assert_eq!(read("out.txt").as_deref(), Some("given back"));
    assert_eq!(read("d/in ř.txt").as_deref(), Some("given!"));
    assert_eq!(read("gone.txt"), None);
}

#[test]
fn code_whose_time_is_over_is_stopped_there() {
    let server = Server::new(&[]);
    let begun = Instant::now();
    let ran = run(
        &server.url(),
        Some(KEY),
        &["--timeout", "1", "--json", "-c", "print(1)\nwhile True: pass"],
    );
    let result: Value = serde_json::from_slice(&ran.stdout).unwrap();
    assert_eq!((&result["status"], &result["stdout"]), (&"timeout".into(), &"1\n".into()));
    assert!(begun.elapsed() < Duration::from_secs(20));
    wait_for("the sandbox there ends", || sandboxes(&server) == 0);
}

#[test]
fn missing_and_refused_keys_and_services_are_told_apart() {
    let server = Server::new(&[]);
    let problem = |url: &str, key: Option<&str>| {
        let output = run(url, key, &["-c", "1"]);
        assert_eq!(output.status.code(), Some(125));
        said(&output).1
    };
    let url = server.url();
    assert!(problem(&url, None).contains("E2B_API_KEY is not set"));
    assert!(problem(&url, Some("e2b_00000000000000000000")).contains("refuses the key"));
    let nobody = problem("http://127.0.0.1:9", Some(KEY));
    assert!(nobody.contains("cannot be reached") && !nobody.contains(KEY), "{nobody}");
    assert!(problem("ftp://x", Some(KEY)).contains("is no address"));
}
