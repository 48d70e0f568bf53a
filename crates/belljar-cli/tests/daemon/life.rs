//! Starting, stopping and finding a daemon.

use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::harness::{Daemon, Place, outcome, signal, wait_for};

#[test]
fn a_daemon_is_started_in_the_background_used_and_stopped() {
    let place = Place::new();
    let (code, _, errors) = place.belljar(&["status"]);
    assert_eq!(code, 125);
    assert!(errors.contains("no daemon answers") && errors.contains("hint: start one"), "{errors}");
    let (code, output, errors) = outcome(&place.start(&[]).output().unwrap());
    assert_eq!(code, 0, "{errors}");
    assert!(output.starts_with("the daemon runs as process "), "{output}");

    let mut client = place.client();
    assert_eq!(client.ask("hello", Value::Null)["protocol"], 1);
    let sandbox = client.create(json!({}));
    let result = client.execute(sandbox, "print('hello')\n6 * 7");
    assert_eq!((&result["stdout"], &result["result"]["json"]), (&json!("hello\n"), &json!(42)));
    let script = client.create(json!({"language": "javascript"}));
    assert_eq!(client.prints(script, "console.log([1, 2].length)"), "2\n");

    let (code, output, _) = place.belljar(&["status", "--json"]);
    assert_eq!(code, 0);
    let status: Value = serde_json::from_str(&output).unwrap();
    assert_eq!((&status["confined"], &status["sandboxes"]), (&json!(true), &json!(2)));
    assert_eq!(status["counters"]["executions"], 2);
    let (_, output, _) = place.belljar(&["status"]);
    assert!(
        output.contains("workers in jails: userns") && output.contains("worker 1:"),
        "{output}"
    );
    let (_, output, _) = place.belljar(&["status", "--metrics"]);
    assert!(output.contains("\nbelljar_executions_total 2\n"), "{output}");
    let (_, output, _) = place.belljar(&["logs"]);
    assert!(output.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()), "{output}");
    assert!(output.contains("a worker is ready"), "{output}");

    let (code, output, errors) = place.belljar(&["stop"]);
    assert_eq!((code, output.as_str()), (0, "the daemon has ended\n"), "{errors}");
    assert!(client.hear().is_none());
    assert!(!place.socket().exists());
    assert_eq!(place.belljar(&["stop"]).0, 125);
}

#[test]
fn two_daemons_on_one_socket_or_in_one_home_are_refused() {
    let daemon = Daemon::new(&[]);
    let (code, _, errors) = outcome(&daemon.place.start(&["--foreground"]).output().unwrap());
    assert_eq!(code, 125);
    assert!(errors.contains("a daemon is running already"), "{errors}");
    let (code, _, errors) = outcome(&daemon.place.start(&[]).output().unwrap());
    assert_eq!(code, 125);
    assert!(errors.contains("a daemon is running already"), "{errors}");
    let mut other = daemon.place.start(&["--foreground"]);
    other.env("BELLJAR_HOME", daemon.place.path().join("other"));
    let (code, _, errors) = outcome(&other.output().unwrap());
    assert_eq!(code, 125);
    assert!(errors.contains("daemon.sock.lock"), "{errors}");
    assert_eq!(daemon.client().ask("hello", Value::Null)["protocol"], 1);
}

#[test]
fn a_socket_that_a_dead_daemon_has_left_is_replaced() {
    let place = Daemon::new(&[]).kill();
    assert!(place.socket().exists());
    let daemon = Daemon::at(place, &[]);
    assert_eq!(daemon.client().ask("hello", Value::Null)["pid"], daemon.child.id());
}

#[test]
fn what_is_no_socket_is_not_removed() {
    let place = Place::new();
    std::fs::create_dir(place.path().join("run")).unwrap();
    std::fs::write(place.socket(), "mine").unwrap();
    let (code, _, errors) = outcome(&place.start(&["--foreground"]).output().unwrap());
    assert_eq!(code, 125);
    assert!(errors.contains("something else than a socket"), "{errors}");
    assert_eq!(std::fs::read_to_string(place.socket()).unwrap(), "mine");
}

#[test]
fn a_directory_that_others_can_write_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new();
    let run = place.path().join("run");
    std::fs::create_dir(&run).unwrap();
    std::fs::set_permissions(&run, std::fs::Permissions::from_mode(0o777)).unwrap();
    let (code, _, errors) = outcome(&place.start(&["--foreground"]).output().unwrap());
    assert_eq!(code, 125);
    assert!(errors.contains("others may write to it (mode 777)"), "{errors}");
}

#[test]
fn socket_and_directories_are_for_their_owner_only() {
    use std::os::unix::fs::MetadataExt;
    let daemon = Daemon::new(&[]);
    let mode = |path| std::fs::metadata(path).unwrap().mode() & 0o777;
    assert_eq!(mode(daemon.place.socket()), 0o600);
    assert_eq!(mode(daemon.place.path().join("run")), 0o700);
    assert_eq!(mode(daemon.place.home().join("daemon/workers/0")), 0o700);
    assert_eq!(mode(daemon.place.home().join("daemon/log")), 0o600);
}

#[test]
fn a_socket_that_was_removed_is_made_anew() {
    let daemon = Daemon::new(&[]);
    let mut before = daemon.client();
    std::fs::remove_file(daemon.place.socket()).unwrap();
    wait_for("a new socket", || {
        std::os::unix::net::UnixStream::connect(daemon.place.socket()).is_ok()
    });
    assert_eq!(daemon.client().ask("hello", Value::Null)["protocol"], 1);
    assert_eq!(before.ask("hello", Value::Null)["protocol"], 1);
}

/// A program that makes a socket, and becomes the daemon with it at descriptor 3.
const ACTIVATE: &str = "
import os, socket, sys
s = socket.socket(socket.AF_UNIX)
s.bind(sys.argv[1])
s.listen()
os.dup2(s.fileno(), 3)
os.set_inheritable(3, True)
os.environ.update(LISTEN_FDS='1', LISTEN_PID=str(os.getpid()))
os.execv(sys.argv[2], sys.argv[2:])
";

#[test]
fn a_socket_of_a_service_manager_is_used() {
    let place = Place::new();
    let run = place.path().join("run");
    std::fs::create_dir(&run).unwrap();
    let start = place.start(&["--foreground"]);
    let mut python = std::process::Command::new("python3");
    python.args(["-c", ACTIVATE]).arg(place.socket()).arg(start.get_program());
    python.args(start.get_args());
    for (name, value) in start.get_envs() {
        match value {
            Some(value) => python.env(name, value),
            None => python.env_remove(name),
        };
    }
    let Ok(child) = python.spawn() else {
        eprintln!("skipped: there is no python3 to be the service manager");
        return;
    };
    let mut daemon = Daemon { place, child };
    wait_for("the socket", || {
        std::os::unix::net::UnixStream::connect(daemon.place.socket()).is_ok()
    });
    // Connections wait until the daemon is there.
    assert_eq!(daemon.client().ask("hello", Value::Null)["pid"], daemon.child.id());
    signal(daemon.child.id().cast_signed(), Signal::TERM);
    assert_eq!(daemon.wait(), 0);
    assert!(daemon.place.socket().exists(), "it is the service manager's");
}

#[test]
fn stop_lets_what_runs_finish_and_takes_nothing_new() {
    let mut daemon = Daemon::new(&[]);
    let mut client = daemon.client();
    let sandbox = client.create(json!({}));
    let code = "import time\ntime.sleep(1)\nprint('done')";
    let running = client.send("execute", json!({"sandbox": sandbox, "code": code}));
    std::thread::sleep(Duration::from_millis(200));
    let mut other = daemon.client();
    other.ask("stop", Value::Null);
    let (code, message) = other.refused("create", json!({}));
    assert_eq!(
        (code, message.as_str()),
        (-32001, "busy: the daemon is about to end; nothing was run")
    );
    assert_eq!(client.answer(running)["result"]["stdout"], "done\n");
    assert_eq!(daemon.wait(), 0);
}

#[test]
fn whoever_hears_a_result_while_the_daemon_ends_can_still_fetch_its_files() {
    let mut daemon = Daemon::new(&[]);
    let mut client = daemon.client();
    let sandbox = client.create(json!({}));
    let code = "import time\ntime.sleep(0.5)\nfor n in range(20): open(f'f{n}', 'w').write('x')";
    let running = client.send("execute", json!({"sandbox": sandbox, "code": code}));
    wait_for("it to run", || daemon.status()["running"] == 1);
    daemon.client().ask("stop", Value::Null);
    let result = client.answer(running)["result"].clone();
    for path in result["files_created"].as_array().unwrap() {
        let part = client.ask("files.read", json!({"sandbox": sandbox, "path": path}));
        assert_eq!(part["bytes"], 1);
    }
    assert_eq!(client.refused("execute", json!({"sandbox": sandbox, "code": "1"})).0, -32001);
    assert_eq!(daemon.wait(), 0);
}

#[test]
fn stop_can_be_hurried() {
    for by_signal in [false, true] {
        let mut daemon = Daemon::new(&[]);
        let (mut client, mut other) = (daemon.client(), daemon.client());
        let policy = json!({"timeout_seconds": 600});
        let sandbox = client.create(json!({"policy": policy}));
        let code = "while True: pass";
        let running = client.send("execute", json!({"sandbox": sandbox, "code": code}));
        wait_for("it to run", || daemon.status()["running"] == 1);
        other.ask("stop", json!({"patience_seconds": 100_000}));
        if by_signal {
            for _ in 0..2 {
                signal(daemon.child.id().cast_signed(), Signal::TERM);
                std::thread::sleep(Duration::from_millis(200));
            }
        } else {
            // The socket is gone by now: whoever is connected says it.
            other.ask("stop", json!({"patience_seconds": 0.1}));
        }
        assert_eq!(client.answer(running)["result"]["status"], "cancelled");
        assert_eq!(daemon.wait(), 0);
    }
}

#[test]
fn what_runs_too_long_is_cancelled_when_the_daemon_ends() {
    let mut daemon = Daemon::new(&[]);
    let mut client = daemon.client();
    let sandbox = client.session("long");
    client.execute(sandbox, "x = 1");
    let running = client.send("execute", json!({"sandbox": sandbox, "code": "while True: pass"}));
    std::thread::sleep(Duration::from_millis(200));
    client.ask("stop", json!({"patience_seconds": 0.2}));
    assert_eq!(client.answer(running)["result"]["status"], "cancelled");
    assert_eq!(daemon.wait(), 0);
}

#[test]
fn sigterm_is_as_good_as_stop() {
    let mut daemon = Daemon::new(&[]);
    let workers = daemon.workers();
    signal(daemon.child.id().cast_signed(), Signal::TERM);
    assert_eq!(daemon.wait(), 0);
    assert!(!daemon.place.socket().exists());
    assert!(workers.into_iter().all(|worker| !crate::harness::lives(worker)));
}

#[test]
fn an_unknown_limit_is_refused() {
    let place = Place::new();
    let (code, _, errors) =
        outcome(&place.start(&["--foreground", "--limit", "runing=1"]).output().unwrap());
    assert_eq!(code, 125);
    assert!(errors.contains("\"runing=1\": there is no such limit"), "{errors}");
}

#[test]
fn workers_without_a_jail_are_said_to_be_so() {
    let daemon = Daemon::new(&["--unconfined"]);
    assert_eq!(daemon.status()["confined"], false);
    let (_, output, _) = daemon.place.belljar(&["status"]);
    assert!(output.contains("UNCONFINED"), "{output}");
    let mut client = daemon.client();
    let sandbox = client.create(json!({}));
    assert_eq!(client.prints(sandbox, "print(1)"), "1\n");
    let workers = daemon.workers();
    daemon.kill();
    wait_for("workers to end with the daemon", || {
        !workers.iter().any(|worker| crate::harness::lives(*worker))
    });
}

#[test]
fn named_sessions_are_listed_and_pruned_apart_from_the_users_own() {
    let daemon = Daemon::new(&[]);
    let mut client = daemon.client();
    for name in ["kept", "old"] {
        let sandbox = client.session(name);
        client.prints(sandbox, "x = 1");
    }
    let place = &daemon.place;
    let session = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_belljar"));
        command.arg("session").args(args).env("BELLJAR_HOME", place.home());
        crate::harness::outcome(&command.output().unwrap())
    };
    let names = |args: &[&str]| -> Vec<String> {
        let listed: Vec<Value> = serde_json::from_str(&session(args).1).unwrap();
        listed.iter().map(|it| it["id"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(&["list", "--daemon", "--json"]), ["kept", "old"]);
    assert!(names(&["list", "--json"]).is_empty());
    // What is in use stays.
    let (code, said, _) = session(&["prune", "--daemon", "--idle", "0.001s"]);
    assert_eq!((code, said.as_str()), (0, "nothing to remove\n"));
    assert_ne!(session(&["rm", "--daemon", "old"]).0, 0);
    drop(client);
    wait_for("the sandboxes to end", || daemon.status()["sandboxes"] == 0);
    wait_for("the session to be removed", || session(&["rm", "--daemon", "old"]).0 == 0);
    assert_eq!(names(&["list", "--daemon", "--json"]), ["kept"]);
    let mut client = daemon.client();
    let sandbox = client.session("kept");
    assert_eq!(client.prints(sandbox, "print(x)"), "1\n");
    drop(client);
    wait_for("the session to be pruned", || {
        session(&["prune", "--daemon", "--idle", "0.001s"]).1.contains("removed kept")
    });
    assert!(names(&["list", "--daemon", "--json"]).is_empty());
    assert_ne!(session(&["rm", "--daemon", "nothing"]).0, 0);
}
