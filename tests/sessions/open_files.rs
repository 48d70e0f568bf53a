//! Files that are open when a session is saved.

use std::fs;

use belljar::{Files, Sandbox, Snapshot, Status};
use serde_json::json;
use support::{Cells, Expect, Jar, home};

/// Saved to a file and read again.
fn through_a_file(session: &mut dyn Sandbox, files: Files) -> Snapshot {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("s.snapshot");
    session.snapshot(files).expect("a snapshot").write(&path).expect("a file");
    Snapshot::read(&path, &home()).expect("a snapshot")
}

const OPEN: &str = "import os
open('read', 'w').write('0123456789'); open('update', 'w').write('abcdefghij')
reading = open('read'); reading.read(3)
raw = open('read', 'rb', buffering=0); raw.seek(7)
writing = open('written', 'w'); writing.write('begun '); writing.flush()
buffered = open('buffered', 'w'); buffered.write('not yet on disk ')
appending = open('appended', 'a'); appending.write('one '); appending.flush()
updating = open('update', 'r+'); updating.seek(5)
lines = iter(open('read'))";

const USE: &str =
    "writing.write('ended'); writing.close(); buffered.write('ended'); buffered.close()
appending.write('two'); appending.close(); updating.write('XY'); updating.close()
[reading.read(2), reading.tell(), raw.read(2).decode(), next(lines), open('written').read(),
 open('buffered').read(), open('appended').read(), open('update').read()]";

#[test]
fn are_open_again_at_their_position() {
    let expected = json!([
        "34",
        5,
        "78",
        "0123456789",
        "begun ended",
        "not yet on disk ended",
        "one two",
        "abcdeXYhij"
    ]);
    let jar = Jar::new();
    let mut session = jar.session();
    session.run(OPEN).kept(Status::Ok);
    let snapshot = through_a_file(&mut session, Files::With);
    let mut fork = session.fork().expect("a fork");
    session.run(USE).gave(expected.clone());
    fork.run(USE).gave(expected.clone());
    let elsewhere = Jar::new();
    let mut restored = elsewhere.sandbox();
    restored.restore(&snapshot).expect("a session");
    restored.run(USE).gave(expected);
    assert_eq!(elsewhere.read("written"), "begun ended");
}

#[test]
fn that_were_deleted_give_a_clear_error_when_used() {
    let jar = Jar::new();
    let mut session = jar.session();
    session.run("import os\nopen('f', 'w').write('text'); f = open('f'); os.remove('f')");
    session.run("f.read(2)").gave("te");
    let mut fork = session.fork().expect("a fork");
    fork.run("f.read()").raised("OSError", "[Errno 72] Stale file handle");
    fork.run("f.close()").ended(Status::Ok, 0);
    fork.run("open('new', 'w').write('n'); open('new').read()").gave("n");
    session.run("f.read()").gave("xt");
}

#[test]
fn that_are_not_where_the_session_comes_to_life_give_a_clear_error() {
    let (jar, elsewhere) = (Jar::new(), Jar::new());
    let mut session = jar.session();
    session.run("f = open('f', 'w+'); f.write('text'); f.flush(); x = 1").kept(Status::Ok);
    let snapshot = through_a_file(&mut session, Files::Without);
    let mut restored = elsewhere.sandbox();
    restored.restore(&snapshot).expect("a session");
    restored.run("x").gave(1);
    restored.run("f.seek(0)").raised("OSError", "[Errno 72] Stale file handle");
    restored.run("open('f')").ended(Status::Error, 1);
    // A number that stood for a file which is gone stands for no other file.
    let code = "opened = [open(f'n{i}', 'w') for i in range(20)]\nf.fileno() in [o.fileno() for o in opened]";
    restored.run(code).gave(false);
}

#[test]
fn that_were_renamed_are_found_under_their_new_name() {
    let jar = Jar::new();
    let mut session = jar.session();
    let code = "import os\nopen('old', 'w').write('0123456789'); f = open('old'); f.read(4)
os.mkdir('d'); os.rename('old', 'd/new'); os.rename('d', 'e')";
    session.run(code).kept(Status::Ok);
    let mut fork = session.fork().expect("a fork");
    fork.run("f.read()").gave("456789");
}

#[test]
fn a_link_in_place_of_an_open_file_is_not_followed_outside() {
    let jar = Jar::new();
    let outside = tempfile::tempdir().expect("a directory");
    fs::write(outside.path().join("secret"), "secret").expect("a file");
    let mut session = jar.session();
    session.run("open('f', 'w').write('mine'); f = open('f')").kept(Status::Ok);
    let snapshot = through_a_file(&mut session, Files::Without);
    let elsewhere = Jar::new();
    let link = elsewhere.workspace().join("f");
    std::os::unix::fs::symlink(outside.path().join("secret"), link).expect("a link");
    let mut restored = elsewhere.sandbox();
    restored.restore(&snapshot).expect("a session");
    restored.run("f.read()").raised("OSError", "[Errno 72] Stale file handle");
}

#[test]
fn standard_streams_work_on() {
    let jar = Jar::new();
    let mut session = jar.session();
    session.run("import sys; mine = sys.stdout; print('begun', end='')").printed("begun");
    let snapshot = through_a_file(&mut session, Files::Without);
    let mut restored = jar.sandbox();
    restored.restore(&snapshot).expect("a session");
    restored.run("print('on'); mine.write('same\\n'); None").printed("on\nsame\n");
    let result = restored.run("sys.stderr.write('err')");
    assert_eq!(result.stderr, "err");
}

#[test]
fn the_quota_goes_on_counting() {
    let jar = Jar::new().with(|layer| layer.workspace_max_bytes(1_000_000));
    let mut session = jar.session();
    session.run("open('a', 'w').write('x' * 900_000); None").kept(Status::Ok);
    let snapshot = through_a_file(&mut session, Files::With);
    let mut fork = session.fork().expect("a fork");
    let elsewhere = Jar::new().with(|layer| layer.workspace_max_bytes(1_000_000));
    let mut restored = elsewhere.sandbox();
    restored.restore(&snapshot).expect("a session");
    for session in [&mut session as &mut dyn Sandbox, &mut *fork, &mut restored] {
        session.run("open('b', 'w').write('x' * 200_000); None").ended(Status::Quota, -1);
        session.run("import os; os.remove('b'); open('c', 'w').write('x' * 50_000)").gave(50_000);
    }
}
