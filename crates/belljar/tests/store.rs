//! Sessions on disk with real guests.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test stops where it fails")]

mod support;

use std::fs;
use std::time::Duration;

use belljar::sessions::SessionStatus;
use belljar::{
    ExecutionPolicy, Home, PolicyLayer, Preset, RuntimeType, SandboxConfig, SandboxError, Session,
    SessionStore, Snapshot, Status, ToolAnswer, Tools,
};

const DAY: Duration = Duration::from_secs(86_400);

fn config() -> SandboxConfig {
    let policy = ExecutionPolicy::preset(Preset::Agent);
    SandboxConfig { policy, home: Some(support::home()), ..SandboxConfig::default() }
}

/// A session of that name, in place of one that an earlier run has left.
fn fresh(store: &SessionStore, id: &str, language: RuntimeType) -> Session {
    if store.contains(id) {
        store.remove(id).unwrap();
    }
    store.create(Some(id), language, DAY).unwrap()
}

/// Runs a cell as a process of its own would: opens, wakes, runs, saves.
fn run(store: &SessionStore, id: &str, code: &str) -> String {
    let mut session = store.session(id).unwrap();
    let mut sandbox = session.wake(&config()).unwrap();
    let result = sandbox.execute(code).unwrap();
    assert!(result.success(), "{}", result.stderr);
    assert_eq!(result.meta.session_id.as_deref(), Some(id));
    session.save(sandbox.as_mut(), 1).unwrap();
    result.result.map(|value| value.text).unwrap_or_default()
}

fn store() -> SessionStore {
    SessionStore::open(&support::home())
}

#[test]
fn state_and_files_live_on_in_both_languages() {
    let store = store();
    for (language, first, second) in [
        (
            RuntimeType::Python,
            "def f(): return 41\nopen('f', 'w').write('x'); None",
            "f() + len(open('f').read())",
        ),
        (
            RuntimeType::Javascript,
            "const f = () => 41; await writeText('f', 'x'); undefined",
            "f() + (await readText('f')).length",
        ),
    ] {
        let id = format!("store-lives-{language}");
        drop(fresh(&store, &id, language));
        run(&store, &id, first);
        assert_eq!(run(&store, &id, second), "42", "{language}");
        let record = store.record(&id).unwrap();
        assert_eq!((record.cells_run, record.status), (2, SessionStatus::Idle));
        store.remove(&id).unwrap();
    }
}

#[test]
fn a_session_that_is_not_saved_is_as_it_was() {
    let store = store();
    drop(fresh(&store, "store-unsaved", RuntimeType::Python));
    run(&store, "store-unsaved", "x = 1");
    let session = store.session("store-unsaved").unwrap();
    let mut sandbox = session.wake(&config()).unwrap();
    sandbox.execute("x = 2").unwrap();
    // As if the process had been killed here.
    drop((sandbox, session));
    assert_eq!(run(&store, "store-unsaved", "x"), "1");
    store.remove("store-unsaved").unwrap();
}

#[test]
fn a_session_waits_on_disk_and_so_do_its_fork_and_its_copy() {
    let store = store();
    let waiting = || SandboxConfig { tools: Tools::new().deferred("ask").unwrap(), ..config() };
    let mut session = fresh(&store, "store-waits", RuntimeType::Python);
    session.defer(&["ask".to_owned()]);
    let mut sandbox = session.wake(&waiting()).unwrap();
    let result = sandbox.execute("n = await ask('how many?')\nn + 1").unwrap();
    assert_eq!(result.status(), Status::Suspended);
    session.save(sandbox.as_mut(), 1).unwrap();
    drop((sandbox, session));
    let record = store.record("store-waits").unwrap();
    assert_eq!(record.status, SessionStatus::Suspended);
    assert_eq!(record.pending_calls[0].name, "ask");

    for copy in ["store-waits-fork", "store-waits-copy"] {
        if store.contains(copy) {
            store.remove(copy).unwrap();
        }
    }
    drop(store.fork("store-waits", Some("store-waits-fork")).unwrap());
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("s.belljar");
    store.session("store-waits").unwrap().export(&waiting(), &file).unwrap();
    let snapshot = Snapshot::read(&file, &support::home()).unwrap();
    let copy = store.import(&snapshot, Some("store-waits-copy"), &waiting()).unwrap();
    assert_eq!(copy.record().deferred_tools, ["ask"]);
    drop(copy);

    for (id, answer) in [("store-waits", 1), ("store-waits-fork", 2), ("store-waits-copy", 3)] {
        let mut session = store.session(id).unwrap();
        let mut sandbox = session.wake(&waiting()).unwrap();
        let call = sandbox.pending_calls()[0].id;
        let answers = vec![ToolAnswer { id: call, outcome: Ok(answer.into()) }];
        let result = sandbox.resume(answers).unwrap();
        let value = result.result.expect("a value").json;
        assert_eq!(value, Some((answer + 1).into()), "{id}");
        session.save(sandbox.as_mut(), 0).unwrap();
        assert_eq!(session.record().status, SessionStatus::Idle);
        drop(session);
        store.remove(id).unwrap();
    }
}

#[test]
fn an_import_that_fails_leaves_nothing() {
    let store = store();
    drop(fresh(&store, "store-source", RuntimeType::Python));
    run(&store, "store-source", "big = bytearray(60_000_000); None");
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("s.belljar");
    let session = store.session("store-source").unwrap();
    session.export(&config(), &file).unwrap();
    drop(session);
    let snapshot = Snapshot::read(&file, &support::home()).unwrap();
    let small =
        ExecutionPolicy::build(Preset::Agent, [PolicyLayer::new().memory_bytes(50_000_000)])
            .unwrap();
    let small = SandboxConfig { policy: small, ..config() };
    assert!(store.import(&snapshot, Some("store-never"), &small).is_err());
    assert!(!store.contains("store-never"));
    let taken = store.import(&snapshot, Some("store-source"), &config()).unwrap_err();
    assert!(matches!(taken, SandboxError::Session { .. }), "{taken}");
    assert_eq!(run(&store, "store-source", "len(big)"), "60000000");
    store.remove("store-source").unwrap();
}

#[test]
fn a_state_of_the_other_language_is_refused() {
    let store = store();
    drop(fresh(&store, "store-python", RuntimeType::Python));
    drop(fresh(&store, "store-javascript", RuntimeType::Javascript));
    run(&store, "store-python", "x = 1");
    run(&store, "store-javascript", "let x = 1");
    let state = |id: &str| support::home().sessions().join(id).join("state.belljar");
    let python = fs::read(state("store-python")).unwrap();
    fs::write(state("store-javascript"), &python).unwrap();
    let session = store.session("store-javascript").unwrap();
    let error = session.wake(&config()).map(|_| ()).unwrap_err();
    assert!(matches!(error, SandboxError::Snapshot { .. }), "{error}");
    drop(session);
    store.remove("store-python").unwrap();
    store.remove("store-javascript").unwrap();
}

#[test]
fn a_home_that_cannot_be_written_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("home");
    fs::write(&file, "").unwrap();
    let store = SessionStore::open(&Home::at(&file));
    let error = store.create(Some("x"), RuntimeType::Python, DAY).unwrap_err();
    assert!(matches!(error, SandboxError::Cache { .. }), "{error}");
}
