//! What clients over HTTP can do.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use serde_json::{Value, json};

use crate::harness::{Place, signal, wait_for};
use crate::http_client::{Http, served};

#[test]
fn code_is_run_and_its_failure_is_a_result() {
    let daemon = served(&[]);
    let http = Http::new(&daemon);
    assert_eq!(http.prints("print(6 * 7)"), "42\n");
    let run = |body: Value| http.post("/v1/executions", &body).expect(200).json();
    let result = run(json!({"code": "console.log(6 * 7)", "language": "javascript"}));
    assert_eq!((&result["stdout"], &result["status"]), (&json!("42\n"), &json!("ok")));
    let result = run(json!({"code": "1/0"}));
    assert_eq!((&result["status"], &result["success"]), (&json!("error"), &json!(false)));
    let result = run(json!({"code": "while True: pass", "timeout": 0.3}));
    assert_eq!(result["status"], "timeout");
    let result = run(json!({"code": "print('x' * 100)", "policy": {"stdout_max_bytes": 10}}));
    assert_eq!(result["meta"]["truncated"], true, "{result}");
}

#[test]
fn a_session_lives_on_and_ends() {
    let daemon = served(&[]);
    let http = Http::new(&daemon);
    let made = http.post("/v1/sessions", &json!({"session_id": "work"})).expect(201);
    assert_eq!(made.headers["location"], "/v1/sessions/work");
    assert_eq!(http.prints_in("work", "x = [1, 2]; print(x)"), "[1, 2]\n");
    let variable = http.get("/v1/sessions/work/variables/x").expect(200).json();
    assert_eq!(variable["json"], json!([1, 2]));
    let none = http.get("/v1/sessions/work/variables/nothing").refused();
    assert_eq!(none, (404, "variable_not_found".to_owned()));
    let fork = http.send("POST", "/v1/sessions/work/fork", &[], Vec::new()).expect(201).json();
    let fork = fork["session_id"].as_str().unwrap().to_owned();
    http.prints_in(&fork, "x.append(3)");
    assert_eq!(http.prints_in("work", "print(x)"), "[1, 2]\n");
    assert_eq!(http.prints_in(&fork, "print(x)"), "[1, 2, 3]\n");
    let listed = http.get("/v1/sessions").expect(200).json();
    assert_eq!(listed["sessions"].as_array().unwrap().len(), 2, "{listed}");
    let shown = http.get("/v1/sessions/work").expect(200).json();
    assert_eq!((&shown["executions"], &shown["running"]), (&json!(2), &json!(false)));
    http.delete("/v1/sessions/work").expect(204);
    let gone = http.post("/v1/sessions/work/executions", &json!({"code": "1"})).refused();
    assert_eq!(gone, (404, "session_not_found".to_owned()));
    let with_context = json!({"session_id": "c", "context": {"a": 1}, "language": "python"});
    http.post("/v1/sessions", &with_context).expect(201);
    assert_eq!(http.prints_in("c", "print(context['a'])"), "1\n");
    let again = http.post("/v1/sessions", &with_context).refused();
    assert_eq!(again, (409, "session_exists".to_owned()));
}

#[test]
fn files_go_in_and_out() {
    let daemon = served(&[]);
    let http = Http::new(&daemon);
    http.session("f");
    let files = "/v1/sessions/f/files";
    // More than fits into one message.
    let content: Vec<u8> = (0..9_000_000_u32).map(|number| (number % 251) as u8).collect();
    http.put(&format!("{files}/data/all%20of%20it.bin"), &content).expect(204);
    let size = "import os; print(os.path.getsize('data/all of it.bin'))";
    assert_eq!(http.prints_in("f", size), "9000000\n");
    let back = http.get(&format!("{files}/data/all%20of%20it.bin")).expect(200);
    assert!(back.body == content);
    http.prints_in("f", "open('made', 'w').write('by code')");
    assert_eq!(http.get(&format!("{files}/made")).expect(200).text(), "by code");
    http.send("PUT", &format!("{files}/empty"), &[], Vec::new()).expect(204);
    let listed = http.get(files).expect(200).json();
    let paths: Vec<&str> =
        listed["files"].as_array().unwrap().iter().map(|it| it["path"].as_str().unwrap()).collect();
    assert_eq!(paths, ["data", "data/all of it.bin", "empty", "made"]);
    http.delete(&format!("{files}/data")).expect(204);
    let gone = http.get(&format!("{files}/data/all%20of%20it.bin")).refused();
    assert_eq!(gone, (404, "file_not_found".to_owned()));
    assert_eq!(http.prints_in("f", "print(sorted(os.listdir()))"), "['empty', 'made']\n");
}

#[test]
fn lines_come_as_they_are_printed_and_then_the_result() {
    let daemon = served(&[]);
    let http = Http::new(&daemon);
    http.session("live");
    let code = "import sys, time\nprint('one')\nprint('two', file=sys.stderr)\ntime.sleep(50)";
    let mut events = http.events("/v1/sessions/live/executions", &json!({"code": code}));
    assert_eq!(events.next().unwrap(), ("stdout".to_owned(), json!({"text": "one\n"})));
    assert_eq!(events.next().unwrap(), ("stderr".to_owned(), json!({"text": "two\n"})));
    // It still runs, and can be stopped.
    assert_eq!(http.get("/v1/sessions/live").json()["running"], true);
    let stopped = http.send("POST", "/v1/sessions/live/cancel", &[], Vec::new()).expect(200);
    assert_eq!(stopped.json()["cancelled"], 1);
    // It is told where it was.
    let (name, result) = loop {
        let (name, data) = events.next().unwrap();
        if name != "stderr" {
            break (name, data);
        }
    };
    assert_eq!((&*name, &result["status"]), ("result", &json!("cancelled")), "{result}");
    assert!(events.next().is_none());
    assert_eq!(http.prints_in("live", "print(sys.argv is not None)"), "True\n");
    let mut events =
        http.events("/v1/executions", &json!({"code": "print(1)", "language": "python"}));
    assert_eq!(events.next().unwrap().0, "stdout");
    assert_eq!(events.next().unwrap().1["stdout"], "1\n");
    let bad = json!({"code": "1", "policy": {"timeout_seconds": -1}});
    let (name, error) = http.events("/v1/executions", &bad).next().unwrap();
    assert_eq!((&*name, &error["error"]["code"]), ("error", &json!("policy_validation")));
}

#[test]
fn whoever_goes_away_wants_no_result() {
    let daemon = served(&[]);
    let http = Http::new(&daemon);
    let events = http.events("/v1/executions", &json!({"code": "while True: pass", "timeout": 50}));
    wait_for("the code to run", || daemon.status()["running"] == 1);
    drop(events);
    wait_for("the code to be stopped", || daemon.status()["running"] == 0);
    wait_for("the sandbox to end", || daemon.status()["sandboxes"] == 0);
    assert_eq!(http.prints("print(1)"), "1\n");
}

#[test]
fn the_daemon_says_how_it_is_and_what_it_offers() {
    let daemon = served(&[]);
    let http = Http::new(&daemon);
    http.prints("print(1)");
    let health = http.get("/v1/health").expect(200).json();
    assert_eq!((&health["ready"], &health["workers_ready"]), (&json!(true), &json!(2)));
    let metrics = http.get("/v1/metrics").expect(200).text();
    assert!(metrics.contains("\nbelljar_executions_total 1\n"), "{metrics}");
    let document = http.get("/v1/openapi.json").expect(200).json();
    let (code, printed, _) = daemon.place.belljar(&["openapi"]);
    assert_eq!((code, serde_json::from_str::<Value>(&printed).unwrap()), (0, document.clone()));
    // Everything that is described is there.
    for (path, operations) in document["paths"].as_object().unwrap() {
        for method in operations.as_object().unwrap().keys() {
            let path = path.replace("{id}", "none").replace("{name}", "x").replace("{path}", "y");
            let got = http.send(&method.to_uppercase(), &path, &[], Vec::new());
            let there = got.status < 400
                || !["not_found", "method_not_allowed"].contains(&&*got.refused().1);
            assert!(there, "{method} {path}: {}", got.text());
        }
    }
    assert_eq!(http.get("/v1/nothing").refused(), (404, "not_found".to_owned()));
    assert_eq!(http.get("/v1/executions").refused(), (405, "method_not_allowed".to_owned()));
}

#[test]
fn the_start_says_where_it_is_and_the_token_is_its_owners() {
    let place = Place::new();
    let output = place.start(&["--http", "0"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let path = place.home().join("daemon/http-token");
    assert!(said.contains("\nit is served at http://127.0.0.1:"), "{said}");
    assert!(said.contains(&format!("\nthe token is in {}\n", path.display())), "{said}");
    let mode = std::fs::metadata(&path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o600);
    let (_, status, _) = place.belljar(&["status"]);
    assert!(status.contains("over HTTP at http://127.0.0.1:"), "{status}");
    assert_eq!(place.belljar(&["stop"]).0, 0);
}

#[test]
fn an_address_others_reach_has_to_be_wanted() {
    let place = Place::new();
    let start = |args: &[&str]| {
        let output = place.start(args).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, complaint) = start(&["--http", "0.0.0.0:0"]);
    assert_eq!(code, Some(125), "{complaint}");
    assert!(complaint.contains("0.0.0.0:0 is an address that other machines reach"), "{complaint}");
    // The twin.
    let (code, complaint) = start(&["--http", "0.0.0.0:0", "--http-anywhere"]);
    assert_eq!(code, Some(0), "{complaint}");
    assert_eq!(place.belljar(&["stop"]).0, 0);
}

#[test]
fn what_runs_is_answered_before_the_daemon_ends() {
    let mut daemon = served(&[]);
    let http = Http::new(&daemon);
    let running = std::thread::scope(|scope| {
        let asked = scope.spawn(|| http.prints("import time; time.sleep(1.5); print('done')"));
        wait_for("the code to run", || daemon.status()["running"] == 1);
        signal(daemon.child.id().cast_signed(), rustix::process::Signal::TERM);
        asked.join().unwrap()
    });
    assert_eq!(running, "done\n");
    assert_eq!(daemon.wait(), 0);
}

#[test]
fn a_lost_worker_is_told_and_the_next_sandbox_is_elsewhere() {
    let daemon = served(&[]);
    let http = Http::new(&daemon);
    http.session("lost");
    signal(daemon.worker_with_sandbox(), rustix::process::Signal::KILL);
    wait_for("another worker", || daemon.status()["counters"]["restarts"] == 1);
    let gone = http.post("/v1/sessions/lost/executions", &json!({"code": "1"}));
    assert_eq!(gone.refused(), (410, "worker_lost".to_owned()));
    http.delete("/v1/sessions/lost").expect(204);
    http.session("lost");
    assert_eq!(http.prints_in("lost", "print('found')"), "found\n");
}

/// Says what somebody else's validator says.
#[test]
fn the_description_is_valid_openapi() {
    const VALIDATOR: &str = "openapi-spec-validator==0.9.0";
    let venv = crate::harness::cache().ancestors().nth(2).unwrap().join("test-venv-openapi");
    let python = venv.join("bin/python");
    let done = |command: &mut Command| match command.output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(crate::harness::outcome(&output).2),
        Err(error) => Err(error.to_string()),
    };
    let there = || done(Command::new(&python).args(["-c", "import openapi_spec_validator"]));
    let made = there().or_else(|_| {
        done(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&venv))?;
        let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
        done(Command::new(&python).args(pip).arg(VALIDATOR))
    });
    if let Err(reason) = made {
        // Past the harness, which hides what passing tests print.
        let line = format!("\nSKIPPED: the_description_is_valid_openapi: {reason}\n");
        let _ = std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes());
        return;
    }
    let place = Place::new();
    let file = place.path().join("openapi.json");
    std::fs::write(&file, place.belljar(&["openapi"]).1).unwrap();
    let check = |file: &std::path::Path| {
        done(Command::new(&python).args(["-m", "openapi_spec_validator"]).arg(file))
    };
    check(&file).unwrap();
    std::fs::write(&file, r#"{"openapi": "3.1.0", "paths": {}}"#).unwrap();
    assert!(check(&file).is_err(), "the validator says nothing");
}
