//! What a server says about sandboxes, results and files.

use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::{Arc, Mutex};

use belljar_core::{Backend, GuestError, Meta, Outcome, SandboxResult, Status, Stop};
use serde_json::{Value, json};

use super::Server;
use crate::factory::SandboxConfig;
use crate::home::Home;
use crate::plan::LaunchPlan;
use crate::remote::DaemonSandbox;
use crate::sandbox::Sandbox;

/// A sandbox at a server that answers each request by this, connection after connection.
fn sandbox_at(
    folder: &Path,
    in_workspace: bool,
    answer: impl FnMut(&str, &Value) -> Result<Value, String> + Send + 'static,
) -> DaemonSandbox {
    named_sandbox_at(folder, in_workspace, None, answer)
}

/// The same, of a session that has run before.
fn named_sandbox_at(
    folder: &Path,
    in_workspace: bool,
    session: Option<&str>,
    mut answer: impl FnMut(&str, &Value) -> Result<Value, String> + Send + 'static,
) -> DaemonSandbox {
    let path = folder.join("s");
    let listener = UnixListener::bind(&path).unwrap();
    let cells = u32::from(session.is_some());
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let mut server = Server::new(client.unwrap());
            loop {
                let asked = server.hear();
                let method = asked["method"].as_str().unwrap_or_default();
                let answered = match method {
                    "" => break,
                    "hello" => Ok(json!({"belljar": "0", "protocol": 1, "pid": 1})),
                    "create" => Ok(json!({"sandbox": 1, "workspace": "/etc", "cells": cells})),
                    method => answer(method, &asked["params"]),
                };
                match answered {
                    Ok(result) => server.answer(&asked["id"], &result),
                    Err(message) => {
                        let (kind, message) =
                            message.split_once(": ").unwrap_or(("", message.as_str()));
                        let data = json!({ "kind": kind });
                        let error = json!({"code": -32602, "message": message, "data": data});
                        server.say(&json!({"jsonrpc": "2.0", "id": asked["id"], "error": error}));
                    }
                }
            }
        }
    });
    let workspace = folder.join("w");
    std::fs::create_dir(&workspace).unwrap();
    let config = SandboxConfig {
        backend: Backend::Daemon,
        workspace: in_workspace.then_some(workspace),
        socket: Some(path),
        home: Some(Home::at(folder.join("home"))),
        ..SandboxConfig::default()
    };
    DaemonSandbox::from_plan(LaunchPlan::new(&config).unwrap(), &config, session).unwrap()
}

fn finished() -> SandboxResult {
    SandboxResult::new(Outcome::Finished, Meta::default())
}

#[test]
fn a_sandbox_that_the_daemon_has_ended_is_made_again_unless_it_was_a_session() {
    let folder = tempfile::tempdir().unwrap();
    let mut times = 0;
    let mut sandbox = sandbox_at(folder.path(), false, move |method, _| {
        times += u32::from(method == "execute");
        match (method, times) {
            ("execute", 1 | 3) => Err("there is no sandbox 1 in this connection".to_owned()),
            ("execute", _) => Ok(json!(finished())),
            _ => Ok(Value::Null),
        }
    });
    assert_eq!(sandbox.workspace(), Path::new(""), "not what the daemon says");
    insta::assert_snapshot!(
        sandbox.execute("1").unwrap_err(),
        @"there is no sandbox 1 in this connection"
    );
    assert!(sandbox.execute("1").unwrap().success());
    sandbox.initialize(Value::Null).unwrap();
    sandbox.execute("1").unwrap_err();
    insta::assert_snapshot!(
        sandbox.execute("1").unwrap_err(),
        @"the connection to the daemon was lost: the daemon has ended the sandbox; nothing was run"
    );
    sandbox.initialize(Value::Null).unwrap();
    assert!(sandbox.execute("1").unwrap().success());
}

#[test]
fn results_that_make_no_sense_are_no_results() {
    let folder = tempfile::tempdir().unwrap();
    let mut sandbox = sandbox_at(folder.path(), false, |_, _| {
        let mut result = json!(finished());
        result["exit_code"] = json!(7);
        Ok(result)
    });
    insta::assert_snapshot!(
        sandbox.execute("1").unwrap_err(),
        @"protocol error: the daemon's answer to execute makes no sense; the code may have run, and this sandbox is gone"
    );
}

#[test]
fn files_that_a_daemon_names_stay_in_the_workspace() {
    let linked = |path: &str| path.ends_with("link");
    for (path, deleted) in [
        ("../evil", false),
        ("/etc/evil", false),
        ("a/../../evil", false),
        ("", false),
        ("out/evil", false),
        ("link", false),
        ("../victim", true),
        ("out/victim", true),
    ] {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("victim"), "alive").unwrap();
        let named = path.to_owned();
        let mut sandbox = sandbox_at(folder.path(), true, move |method, _| match method {
            "execute" => {
                let mut result = finished();
                let list =
                    if deleted { &mut result.files_deleted } else { &mut result.files_created };
                list.push(named.clone());
                Ok(json!(result))
            }
            "files.read" if linked(&named) => {
                Ok(json!({"data": "", "bytes": 0, "link": "../victim"}))
            }
            "files.read" => Ok(json!({"data": "ZXZpbA==", "bytes": 4})),
            _ => Ok(Value::Null),
        });
        std::os::unix::fs::symlink(folder.path(), folder.path().join("w/out")).unwrap();
        let error = sandbox.execute("1").unwrap_err();
        assert!(error.to_string().contains("the code ended with status ok"), "{path}: {error}");
        let victim = std::fs::read_to_string(folder.path().join("victim")).unwrap();
        assert!(victim == "alive" && !folder.path().join("evil").exists(), "{path}");
        assert_eq!(std::fs::read_dir(folder.path().join("w")).unwrap().count(), 1, "{path}");
    }
}

/// The permitted twin.
#[test]
fn files_that_a_daemon_names_come_into_the_workspace() {
    let folder = tempfile::tempdir().unwrap();
    let mut sandbox = sandbox_at(folder.path(), true, |method, params| match method {
        "execute" => {
            let mut result = finished();
            result.files_created = vec!["a/good".to_owned(), "link".to_owned()];
            Ok(json!(result))
        }
        "files.read" if params["path"] == "link" => {
            Ok(json!({"data": "", "bytes": 0, "link": "a/good"}))
        }
        "files.read" => Ok(json!({"data": "Z29vZA==", "bytes": 4})),
        _ => Ok(Value::Null),
    });
    sandbox.execute("1").unwrap();
    assert_eq!(std::fs::read_to_string(folder.path().join("w/link")).unwrap(), "good");
}

#[test]
fn a_file_without_end_is_not_fetched_without_end() {
    let folder = tempfile::tempdir().unwrap();
    let mut sandbox = sandbox_at(folder.path(), true, |method, _| match method {
        "execute" => {
            let mut result = finished();
            result.files_created = vec!["f".to_owned()];
            Ok(json!(result))
        }
        // Always more to come, and never any of it.
        "files.read" => Ok(json!({"data": "", "bytes": u64::MAX})),
        _ => Ok(Value::Null),
    });
    sandbox.execute("1").unwrap();
    assert_eq!(std::fs::read(folder.path().join("w/f")).unwrap(), b"");
}

#[test]
fn files_that_do_not_come_for_another_reason_than_themselves_are_an_error() {
    for kind in ["workspace", "worker_lost", "busy", ""] {
        let folder = tempfile::tempdir().unwrap();
        let mut sandbox = sandbox_at(folder.path(), true, move |method, _| match method {
            "execute" => {
                let mut result = finished();
                result.files_created = vec!["f".to_owned()];
                Ok(json!(result))
            }
            "files.read" => Err(format!("{kind}: it cannot be had")),
            _ => Ok(Value::Null),
        });
        match sandbox.execute("1") {
            // A link that leads outside, for example.
            Ok(result) => assert!(result.success() && kind == "workspace", "{kind}"),
            Err(error) => {
                let ran = error.to_string().contains("the code ended with status ok");
                assert!(ran && kind != "workspace", "{kind}: {error}");
            }
        }
    }
}

#[test]
fn a_sandbox_that_was_lost_with_its_worker_is_made_again() {
    let folder = tempfile::tempdir().unwrap();
    let mut times = 0;
    let mut sandbox = sandbox_at(folder.path(), false, move |method, _| {
        times += u32::from(method == "execute");
        match (method, times) {
            ("execute", 1) => Err("worker_lost: this sandbox was lost with its worker".to_owned()),
            ("execute", 3) => {
                let error = GuestError { name: "WorkerLost".to_owned(), ..GuestError::default() };
                let outcome = Outcome::Stopped(Stop::Crashed, Some(error));
                Ok(json!(SandboxResult::new(outcome, Meta::default())))
            }
            ("execute", _) => Ok(json!(finished())),
            ("validate", _) => Err("worker_lost: this sandbox was lost".to_owned()),
            _ => Ok(Value::Null),
        }
    });
    sandbox.execute("1").unwrap_err();
    assert!(sandbox.execute("2").unwrap().success());
    assert_eq!(sandbox.execute("3").unwrap().status(), Status::Crashed);
    assert!(sandbox.execute("4").unwrap().success());
    sandbox.check_code("1").unwrap_err();
    assert!(sandbox.execute("5").unwrap().success());
    sandbox.initialize(Value::Null).unwrap();
    assert!(sandbox.execute("6").unwrap().success());
}

#[test]
fn what_a_session_changed_while_nobody_was_told_is_not_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let written = Arc::new(Mutex::new(Vec::new()));
    let (kept, mut times) = (Arc::clone(&written), 0);
    let mut sandbox = named_sandbox_at(folder.path(), true, Some("s"), move |method, params| {
        times += u32::from(method == "execute");
        match (method, times) {
            ("execute", 2) => Err("there is no sandbox 1 in this connection".to_owned()),
            ("execute", _) => Ok(json!(finished())),
            ("files.write", 2) => {
                kept.lock().unwrap().push(params["path"].as_str().unwrap().to_owned());
                Ok(Value::Null)
            }
            ("files.list", _) => {
                let entry = |path| json!({"path": path, "kind": "file", "bytes": 5});
                Ok(json!(["data", "edited", "new"].map(entry)))
            }
            ("files.read", _) => Ok(json!({"data": "bmV3ZXI=", "bytes": 5})),
            _ => Ok(Value::Null),
        }
    });
    let at = |name: &str| folder.path().join("w").join(name);
    for name in ["data", "edited"] {
        std::fs::write(at(name), "old").unwrap();
    }
    sandbox.execute("1").unwrap();
    sandbox.execute("2").unwrap_err();
    std::fs::write(at("edited"), "by its user").unwrap();
    std::fs::write(at("added"), "by its user").unwrap();
    sandbox.execute("3").unwrap();
    let mut sent = written.lock().unwrap().clone();
    sent.sort();
    sent.dedup();
    assert_eq!(sent, ["added", "edited"]);
    let read = |name: &str| std::fs::read_to_string(at(name)).unwrap();
    assert_eq!([read("data"), read("new")], ["newer", "newer"]);
    assert_eq!([read("edited"), read("added")], ["by its user", "by its user"]);
}
