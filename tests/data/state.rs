//! Sessions with the data image: forked, saved, put back, suspended, woken elsewhere.

use std::time::Duration;

use belljar::{
    Files, GuestImage, Home, ImageChoice, PythonSandbox, RuntimeType, Sandbox, SandboxError,
    SessionStore, Snapshot, Status, Tools,
};
use serde_json::json;
use support::{Cells, Expect, Jar, given, home, in_new_processes};

use crate::{image, jar};

const STATE: &str = "import numpy as np, pandas as pd
frame = pd.DataFrame({'key': list('abab'), 'n': np.arange(4), 'x': [.5, 1.5, np.nan, 2.]})
grid = np.arange(1_000_000, dtype='float64').reshape(1000, 1000)
view = grid[::2, ::2]
generator = np.random.default_rng(7); generator.random(3)
when = pd.Timestamp('2024-02-29 12:00', tz='Europe/Oslo')";

const CHECK: &str =
    "[frame.groupby('key').n.sum().to_dict(), float(view.sum()), view.base is grid.base,
 round(float(generator.random()), 6), str(when + pd.Timedelta('1D'))]";

fn expected() -> serde_json::Value {
    // What NumPy's generators give is the same everywhere, and in every version.
    json!([{"a": 2, "b": 4}, 124_874_750_000.0, true, 0.225_207, "2024-03-01 12:00:00+01:00"])
}

/// The generator's fourth number depends on what was drawn before: all sessions must agree on it.
fn look(session: &mut dyn Sandbox) -> serde_json::Value {
    let result = session.run(CHECK);
    result.ended(Status::Ok, 0);
    assert_eq!(image(&result), GuestImage::Data);
    result.result.and_then(|value| value.json).expect("JSON")
}

#[test]
fn forks_go_on_from_the_same_place() {
    let jar = Jar::new();
    let mut parent = jar.session();
    parent.run(STATE).kept(Status::Ok);
    let mut child = parent.fork().expect("a fork");
    child.run("grid[:] = 0; frame.loc[:, 'n'] = 9").kept(Status::Ok);
    let seen = look(&mut parent);
    assert_eq!(seen, expected());
    child.run("float(grid.sum()) + int(frame.n.sum())").gave(36.0);
    let mut second = parent.fork().expect("a fork");
    second.run("[float(grid[-1, -1]), len(frame)]").gave(json!([999_999.0, 4]));
}

#[test]
fn a_snapshot_is_restored_with_its_own_image() {
    let jar = Jar::new();
    let mut session = jar.session();
    session.run(STATE).kept(Status::Ok);
    let file = jar.workspace().join("state.belljar");
    session.snapshot(Files::Without).expect("a snapshot").write(&file).expect("written");
    let seen = look(&mut session);
    let snapshot = Snapshot::read(&file, &home()).expect("a snapshot");
    assert_eq!((snapshot.image(), snapshot.info().image), (GuestImage::Data, GuestImage::Data));
    for choice in [ImageChoice::Auto, ImageChoice::Data] {
        let there = crate::jar(choice);
        let mut restored = there.sandbox();
        restored.restore(&snapshot).expect("restored");
        assert_eq!(look(&mut restored), seen);
    }
    let mut plain = crate::jar(ImageChoice::Plain).sandbox();
    let error = plain.restore(&snapshot).expect_err("another image");
    assert_eq!(
        error.to_string(),
        "the snapshot cannot be used: it is of a session with the image data, not plain; \
         no session was changed"
    );
    let mut plain = Jar::new().session();
    plain.run("x = 1").kept(Status::Ok);
    let plain = plain.snapshot(Files::Without).expect("a snapshot");
    let error = crate::jar(ImageChoice::Data).sandbox().restore(&plain).expect_err("another");
    assert!(matches!(error, SandboxError::Snapshot { .. }), "{error}");
}

#[test]
fn a_cell_that_is_stopped_is_undone() {
    let jar = Jar::new();
    let mut session = jar.session();
    session.run(STATE).kept(Status::Ok);
    session
        .run("grid[:] = 1\nkeep = [np.ones(10_000_000) for _ in range(99)]")
        .rolled_back(Status::OutOfMemory);
    assert_eq!(look(&mut session), expected());
}

#[test]
fn a_cell_that_waits_is_resumed_in_another_process() {
    let tools = Tools::new().deferred("approve").expect("a good name");
    let jar = Jar::new().with_tools(tools);
    if let Some(file) = given() {
        let snapshot = Snapshot::read(&file, &home()).expect("a snapshot");
        let mut woken: PythonSandbox = jar.sandbox();
        woken.restore(&snapshot).expect("restored");
        let call = woken.waiting();
        woken.answer(vec![(call[0], Ok(json!(12)))]).gave(12);
        assert_eq!(look(&mut woken), expected());
        return;
    }
    let mut session = jar.session();
    let file = jar.workspace().join("state.belljar");
    session.run(STATE).kept(Status::Ok);
    session
        .run("answer = await approve(int(frame.n.sum()))\nint(grid[0, answer])")
        .waits_for(&["approve"]);
    session.snapshot(Files::Without).expect("a snapshot").write(&file).expect("written");
    drop(session);
    in_new_processes("state::a_cell_that_waits_is_resumed_in_another_process", 2, &file);
}

#[test]
fn a_session_on_disk_remembers_its_image() {
    let jar = Jar::new();
    // Compiled guests are those of all tests, the sessions are not.
    let own = Home::at(jar.workspace().join("home")).with_cache(home().cache());
    let store = SessionStore::open(&own);
    let idle = Duration::from_secs(60);
    let mut session = store.create(Some("s"), RuntimeType::Python, idle).expect("a session");
    let mut sandbox = session.wake(&jar.config()).expect("awake");
    sandbox.run(STATE).kept(Status::Ok);
    session.save(sandbox.as_mut(), 1).expect("saved");
    drop((sandbox, session));
    assert_eq!(store.record("s").expect("a record").image, GuestImage::Data);
    let fork = store.fork("s", Some("t")).expect("a fork");
    let mut sandbox = fork.wake(&jar.config()).expect("awake");
    assert_eq!(look(sandbox.as_mut()), expected());
    let named = crate::jar(ImageChoice::Plain).config();
    let error = fork.wake(&named).map(|_| ()).expect_err("another image");
    assert!(error.to_string().contains("with the image data, not plain"), "{error}");
}

#[test]
fn randomness_is_new_in_every_sandbox_and_fork() {
    let code = "import numpy as np\nprint(np.random.rand(), np.random.default_rng().random())";
    let fresh = [Jar::new().run(code).stdout, Jar::new().run(code).stdout];
    assert_ne!(fresh[0], fresh[1]);
    let jar = jar(ImageChoice::Data);
    let mut session = jar.session();
    session.run("import numpy as np").kept(Status::Ok);
    let draw = "float(np.random.rand())";
    let mut drawn: Vec<String> = (0..3)
        .map(|_| session.fork().expect("a fork").run(draw).result.expect("a number").text)
        .collect();
    drawn.sort();
    drawn.dedup();
    assert_eq!(drawn.len(), 3, "{drawn:?}");
    let repeated = || Jar::new().with(|layer| layer.deterministic(true)).run(code).stdout;
    assert_eq!(repeated(), repeated());
}
