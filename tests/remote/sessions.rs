//! State: sessions, forks, snapshots, names.

use belljar::{
    Backend, DaemonSandbox, Files, RuntimeType, Sandbox, SandboxConfig, SandboxError, SessionStore,
    Snapshot, Status, create_sandbox,
};
use serde_json::json;
use support::{Cells, Expect, Jar, home};

use crate::{config, open, open_with, session};

#[test]
fn a_session_keeps_state_and_can_be_looked_at() {
    let jar = Jar::new();
    let mut sandbox = open_with(&SandboxConfig { session_id: Some("s-1".into()), ..config(&jar) });
    assert_eq!(sandbox.session_id(), None);
    let refused = sandbox.get_variable("x").expect_err("no session");
    assert_eq!(refused, SandboxError::NotInSession { wanted: "a variable".to_owned() });
    sandbox.initialize(json!({"a": [1, 2]})).expect("a session");
    let result = sandbox.run("x = len(context['a'])\nodd = {3}\nx");
    result.gave(2);
    assert_eq!(result.meta.session_id.as_deref(), Some("s-1"));
    assert_eq!(result.meta.runtime, "daemon");
    let x = sandbox.get_variable("x").expect("a session").expect("a variable");
    assert_eq!((x.type_name.as_str(), x.json), ("int", Some(json!(2))));
    let odd = sandbox.get_variable("odd").expect("a session").expect("a variable");
    assert_eq!((odd.text.as_str(), odd.json), ("{3}", None));
    assert_eq!(sandbox.get_variable("missing"), Ok(None));
    let found = sandbox.complete("contex", 6).expect("a session");
    assert_eq!((found.start, found.matches), (0, vec!["context".to_owned()]));
    sandbox.destroy().expect("nothing is in the way");
    assert!(sandbox.get_variable("x").is_err());
    sandbox.run("'x' in globals()").gave(false);
    sandbox.initialize(json!(7)).expect("a session");
    sandbox.run("context").gave(7);
}

#[test]
fn without_a_session_every_execution_is_fresh() {
    let jar = Jar::new();
    let mut sandbox = open(&jar);
    sandbox.run("x = 1").ended(Status::Ok, 0);
    sandbox.run("x").raised("NameError", "name 'x' is not defined");
    assert!(sandbox.validate_code("x = 1").expect("the host is fine"));
    let complaint = sandbox.check_code("x =").expect("the host is fine").expect("a complaint");
    assert_eq!(complaint.name, "SyntaxError");
}

#[test]
fn javascript_runs_there_as_well() {
    let jar = Jar::new();
    let mut sandbox =
        open_with(&SandboxConfig { runtime: RuntimeType::Javascript, ..config(&jar) });
    sandbox.initialize(json!({"n": 20})).expect("a session");
    sandbox.run("let y = context.n + 1; console.log(y * 2)").printed("42\n");
    sandbox.run("y").gave(21);
}

#[test]
fn limits_of_the_policy_hold_there() {
    let jar = Jar::new().with(|layer| layer.fuel_budget(50_000_000).stdout_max_bytes(100));
    let mut sandbox = open(&jar);
    sandbox.run("while True: pass").ended(Status::OutOfFuel, -1);
    let result = sandbox.run("print('x' * 1000)");
    assert_eq!((result.stdout.len(), result.meta.truncated), (100, true));
    assert_eq!(result.meta.resource_limits.fuel_budget, Some(50_000_000));
    let slow = Jar::new().with(|layer| layer.timeout_seconds(0.3));
    open(&slow).run("while True: pass").ended(Status::Timeout, -1);
}

#[test]
fn forks_are_independent_and_run_at_the_same_time() {
    let jar = Jar::new();
    let mut parent = session(&jar);
    parent.run("x = [1]\nopen('f', 'w').write('parent')").ended(Status::Ok, 0);
    let mut forks: Vec<Box<dyn Sandbox>> = (0..4).map(|_| parent.fork().expect("a fork")).collect();
    std::thread::scope(|scope| {
        for (number, fork) in forks.iter_mut().enumerate() {
            scope.spawn(move || {
                for _ in 0..5 {
                    fork.run(&format!("x.append({number})")).ended(Status::Ok, 0);
                }
                let code = format!("open('f', 'w').write('fork {number}')\nx");
                fork.run(&code).gave(json!([1, number, number, number, number, number]));
                let there = std::fs::read_to_string(fork.workspace().join("f")).expect("a file");
                assert_eq!(there, format!("fork {number}"));
            });
        }
        for _ in 0..5 {
            parent.run("x").gave(json!([1]));
        }
    });
    assert_eq!(jar.read("f"), "parent");
    drop(parent);
    forks[0].run("len(x)").gave(6);
    let workspace = forks[0].workspace().to_owned();
    forks[0].destroy().expect("nothing is in the way");
    assert!(!workspace.exists());
    assert!(open(&jar).fork().is_err());
}

#[test]
fn a_snapshot_goes_to_another_backend_and_back() {
    let jar = Jar::new();
    let mut there = session(&jar);
    there.run("x = list(range(1000))\nopen('f', 'w').write('data')").ended(Status::Ok, 0);
    let snapshot = there.snapshot(Files::With).expect("a snapshot");
    assert_eq!((snapshot.info().cells, snapshot.info().has_files), (1, true));
    there.run("x = None").ended(Status::Ok, 0);

    let other = Jar::new();
    let mut here = create_sandbox(&other.config()).expect("a sandbox");
    here.restore(&snapshot).expect("the same guest");
    here.run("sum(x), open('f').read()").gave(json!([499_500, "data"]));
    here.run("x = 'from here'\nopen('f', 'w').write('changed')").ended(Status::Ok, 0);
    let back = here.snapshot(Files::With).expect("a snapshot");
    let path = other.workspace().join("s.belljar");
    back.write(&path).expect("a file");
    let back = Snapshot::read(&path, &home()).expect("a snapshot");

    let third = Jar::new();
    let mut again = open(&third);
    again.restore(&back).expect("the same guest");
    again.run("x, open('f').read()").gave(json!(["from here", "changed"]));
    assert_eq!(third.read("f"), "changed");
    let script = SandboxConfig { runtime: RuntimeType::Javascript, ..config(&third) };
    let refused = open_with(&script).restore(&back).expect_err("another language");
    assert!(matches!(refused, SandboxError::Snapshot { .. }), "{refused}");
}

#[test]
fn a_large_snapshot_comes_in_pieces() {
    let jar = Jar::new();
    let mut sandbox = session(&jar);
    sandbox.run("import random\nx = random.randbytes(9_000_000)").ended(Status::Ok, 0);
    let snapshot = sandbox.snapshot(Files::Without).expect("a snapshot");
    assert!(snapshot.info().changed_bytes > 9_000_000);
    let mut other = open(&jar);
    other.restore(&snapshot).expect("the same guest");
    other.run("len(x)").gave(9_000_000);
}

#[test]
fn a_named_session_outlives_its_connection() {
    struct Remove(String);
    impl Drop for Remove {
        fn drop(&mut self) {
            let _ = SessionStore::open(&home()).remove(&self.0);
        }
    }
    let name = Remove(format!("remote-{}", std::process::id()));
    let daemon = support::Daemon::start();
    let jar = Jar::new();
    let config = SandboxConfig { workspace: None, socket: Some(daemon.socket()), ..config(&jar) };
    let mut sandbox = DaemonSandbox::named(&config, &name.0).expect("a session");
    assert_eq!(sandbox.session_id(), Some(name.0.as_str()));
    sandbox.run("x = 41").ended(Status::Ok, 0);
    let busy = DaemonSandbox::named(&config, &name.0).map(drop).expect_err("in use");
    assert_eq!(busy, SandboxError::SessionBusy { id: name.0.clone() });
    daemon.hang_up();
    // The server notices by itself, and saves nothing that was not saved.
    support::eventually("the session is free", || sandbox.execute("x += 1").is_ok());
    sandbox.run("x").gave(42);
    drop(sandbox);
    let wrong = DaemonSandbox::named(&config, "../x").map(drop).expect_err("no name");
    assert!(matches!(wrong, SandboxError::Session { .. }), "{wrong}");
}

#[test]
fn sessions_on_disk_work_with_the_backend() {
    let jar = Jar::new();
    let store = SessionStore::open(&home());
    let name = format!("remote-store-{}", std::process::id());
    let idle = std::time::Duration::from_secs(60);
    let mut kept = store.create(Some(&name), RuntimeType::Python, idle).expect("a session");
    let config = SandboxConfig { workspace: None, ..config(&jar) };
    let mut sandbox = kept.wake(&config).expect("a sandbox");
    sandbox.run("x = 5\nopen('f', 'w').write('kept')").ended(Status::Ok, 0);
    kept.save(&mut *sandbox, 1).expect("room on the disk");
    drop(sandbox);
    let wasm = SandboxConfig { backend: Backend::Wasm, ..config };
    kept.wake(&wasm).expect("a sandbox").run("x, open('f').read()").gave(json!([5, "kept"]));
    drop(kept);
    store.remove(&name).expect("nobody uses it");
}
