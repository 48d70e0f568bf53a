//! Snapshot files made by somebody who means harm: everything in them is right but what they say.

use std::fs;
use std::path::PathBuf;

use belljar::{Files, Sandbox, SandboxError, Snapshot, Status, Tools};
use serde_json::{Value, json};
use support::{Cells, Expect, Jar, SnapshotFile, attacked, home};
use tempfile::TempDir;

/// A good snapshot with a file, an open one and a call that waits.
fn good() -> (TempDir, PathBuf, SnapshotFile) {
    let jar = jar();
    let mut session = jar.session();
    session.run("x = 1\nopen('f', 'w').write('inside'); f = open('f')").kept(Status::Ok);
    session.run("reply = await ask()").waits_for(&["ask"]);
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("s.snapshot");
    session.snapshot(Files::With).expect("a snapshot").write(&path).expect("a file");
    let file = SnapshotFile::read(&path);
    (dir, path, file)
}

fn jar() -> Jar {
    Jar::new().with_tools(Tools::new().deferred("ask").expect("a good name"))
}

fn directory(path: &str) -> Value {
    json!({"path": path, "kind": "directory"})
}

fn file(path: &str) -> Value {
    json!({"path": path, "kind": {"file": {"bytes": 6}}})
}

fn link(path: &str, target: &str) -> Value {
    json!({"path": path, "kind": {"link": {"target": target}}})
}

#[test]
fn files_that_lead_outside() {
    let (_dir, path, good) = good();
    let outside = tempfile::tempdir().expect("a directory");
    let away = outside.path().display().to_string();
    let jar = jar();
    attacked(&jar, "files that lead outside", || {
        for entries in [
            vec![file("../escaped")],
            vec![file("a/../../escaped")],
            vec![file(&format!("{away}/escaped"))],
            vec![file("./../escaped")],
            vec![file("")],
            vec![file(".")],
            vec![file("..")],
            vec![directory("../escaped"), file("f")],
            vec![directory(&format!("{away}/escaped")), file("f")],
            vec![link("l", &away), file("f")],
            vec![link("l", ".."), file("l/escaped")],
            vec![link("l", "a/../../.."), file("f")],
            vec![link("l", "/"), file("f")],
            vec![link("l", "."), file("l/escaped")],
            vec![directory("d"), link("d/l", "../.."), file("f")],
            vec![file("f"), file("f/below")],
            vec![file("a\0b")],
            vec![file(&"x/".repeat(5000))],
            vec![file(&"x".repeat(300))],
        ] {
            let mut forged = good.clone();
            forged.header["files"] = json!(entries);
            forged.write(&path);
            let read = Snapshot::read(&path, &home());
            let refused = read.map(drop).expect_err("it leads outside");
            assert!(matches!(refused, SandboxError::Snapshot { .. }), "{entries:?}: {refused}");
        }
    });
    assert_eq!(fs::read_dir(outside.path()).expect("a directory").count(), 0);
    let mut forged = good;
    forged.header["files"] = json!([directory("d"), file("d/f"), link("d/l", "../d/f")]);
    forged.write(&path);
    let snapshot = Snapshot::read(&path, &home()).expect("nothing is wrong with these");
    let mut session = jar.sandbox();
    session.restore(&snapshot).expect("a session");
    let id = session.waiting()[0];
    session.answer(vec![(id, Ok(json!("answered")))]).kept(Status::Ok);
    session.run("[open('d/l').read(), reply]").gave(json!(["inside", "answered"]));
}

#[test]
fn files_over_links_of_the_workspace() {
    let (_dir, path, mut good) = good();
    let outside = tempfile::tempdir().expect("a directory");
    let jar = jar();
    std::os::unix::fs::symlink(outside.path(), jar.workspace().join("d")).expect("a link");
    fs::write(outside.path().join("f"), "untouched").expect("a file");
    good.header["files"] = json!([directory("d"), file("d/f")]);
    good.write(&path);
    let snapshot = Snapshot::read(&path, &home()).expect("nothing is wrong with it");
    attacked(&jar, "links in the workspace", || {
        let mut session = jar.session();
        session.run("mine = 1").kept(Status::Ok);
        assert!(session.restore(&snapshot).is_err(), "a link is in the way");
        session.run("mine").gave(1);
    });
    let contents = fs::read_to_string(outside.path().join("f")).expect("the file");
    assert_eq!(contents, "untouched");
    let clean = self::jar();
    std::os::unix::fs::symlink(outside.path().join("f"), clean.workspace().join("f"))
        .expect("a link");
    good.header["files"] = json!([file("f")]);
    good.write(&path);
    let snapshot = Snapshot::read(&path, &home()).expect("nothing is wrong with it");
    clean.sandbox().restore(&snapshot).expect("the link itself is replaced");
    assert_eq!(fs::read_to_string(clean.workspace().join("f")).expect("the file"), "inside");
    let contents = fs::read_to_string(outside.path().join("f")).expect("the file");
    assert_eq!(contents, "untouched");
}

/// What a file descriptor is in the header.
fn descriptor(mount: &str, path: &str, position: u64) -> Value {
    json!({"file": {"mount": mount, "path": path, "position": position, "readable": true, "writable": true, "append": false}})
}

/// The place of the open file `f` in the table.
fn place_of_f(file: &SnapshotFile) -> usize {
    let table = file.header["host"]["wasi"]["descriptors"].as_array().expect("a table");
    table.iter().position(|entry| entry.get("file").is_some()).expect("an open file")
}

#[test]
fn descriptors_of_files_outside() {
    let (_dir, path, good) = good();
    let outside = tempfile::tempdir().expect("a directory");
    fs::write(outside.path().join("secret"), "secret").expect("a file");
    let away = outside.path().join("secret").display().to_string();
    let place = place_of_f(&good);
    let jar = jar();
    std::os::unix::fs::symlink(&away, jar.workspace().join("link")).expect("a link");
    attacked(&jar, "descriptors outside", || {
        for (mount, name) in [
            ("/app", "../secret"),
            ("/app", "a/../../secret"),
            ("/app", away.as_str()),
            ("/app", ""),
            ("/app", "."),
            ("/app", "link"),
            ("/app", "f\0"),
            ("/", "etc/passwd"),
            ("/etc", "passwd"),
            ("", "f"),
            ("/app/../etc", "passwd"),
            ("/data", "f"),
        ] {
            let mut forged = good.clone();
            forged.header["host"]["wasi"]["descriptors"][place] = descriptor(mount, name, 0);
            forged.write(&path);
            let Ok(snapshot) = Snapshot::read(&path, &home()) else { continue };
            let mut session = jar.sandbox();
            if session.restore(&snapshot).is_err() {
                continue;
            }
            let id = session.waiting()[0];
            session.answer(vec![(id, Ok(json!(1)))]).kept(Status::Ok);
            let result = session.run("f.buffer.raw.seek(0); f.buffer.raw.read()");
            result.raised("OSError", "[Errno 72] Stale file handle");
            session.run("f.buffer.raw.write(b'x')").ended(Status::Error, 1);
        }
    });
    assert_eq!(fs::read_to_string(&away).expect("the file"), "secret");
    let mut forged = good;
    forged.header["host"]["wasi"]["descriptors"][place] = descriptor("/app", "f", 2);
    forged.write(&path);
    let clean = self::jar();
    let mut session = clean.sandbox();
    session.restore(&Snapshot::read(&path, &home()).expect("a snapshot")).expect("a session");
    let id = session.waiting()[0];
    session.answer(vec![(id, Ok(json!(1)))]).kept(Status::Ok);
    session.run("f.buffer.raw.read().decode()").gave("side");
}

#[test]
fn descriptors_of_directories_outside() {
    let (_dir, path, good) = good();
    let jar = jar();
    attacked(&jar, "directories outside", || {
        for entry in [
            json!({"dir": {"mount": "/app", "path": "..", "preopened": true}}),
            json!({"dir": {"mount": "/app", "path": "../..", "preopened": false}}),
            json!({"dir": {"mount": "/", "path": "", "preopened": true}}),
            json!({"dir": {"mount": "/etc", "path": "", "preopened": true}}),
            json!({"dir": {"mount": "/app", "path": "/etc", "preopened": true}}),
        ] {
            for place in 0..6 {
                let mut forged = good.clone();
                forged.header["host"]["wasi"]["descriptors"][place] = entry.clone();
                forged.write(&path);
                let Ok(snapshot) = Snapshot::read(&path, &home()) else { continue };
                let mut session = jar.sandbox();
                if session.restore(&snapshot).is_err() {
                    continue;
                }
                let id = session.waiting()[0];
                let _ = session.answer(vec![(id, Ok(json!(1)))]);
                let code = "import os\nfound = []
for path in ('/etc/passwd', '../etc/passwd', 'etc/passwd', 'passwd', '../../etc/passwd', '/app/../etc/passwd', '/proc/self/environ'):
  try: found.append(open(path).read())
  except OSError: pass
for fd in range(10):
  try: os.stat('passwd', dir_fd=fd); found.append(fd)
  except (OSError, NotImplementedError): pass
found";
                let result = session.run(code);
                if result.success() {
                    result.gave(json!([]));
                }
            }
        }
    });
}

#[test]
fn numbers_that_make_no_sense() {
    let (_dir, path, good) = good();
    let place = place_of_f(&good);
    let jar = jar();
    attacked(&jar, "numbers", || {
        let many: Vec<Value> = (0..100_000).map(|_| json!("free")).collect();
        let calls: Vec<Value> = (1..50_000)
            .map(|id| json!({"id": id, "name": "ask", "args": [], "kwargs": {}}))
            .collect();
        for (field, value) in [
            ("/host/wasi/used", json!([u64::MAX, u64::MAX])),
            ("/host/wasi/random", json!(u64::MAX)),
            ("/host/wasi/descriptors", json!(many)),
            ("/host/wasi/descriptors", json!([])),
            ("/host/calls/deferred", json!(calls)),
            ("/host/calls/deferred", json!([])),
            ("/host/calls/usage", json!({"calls": u64::MAX, "bytes": u64::MAX, "depth": u64::MAX})),
            ("/host/waiting", json!(u64::MAX)),
            ("/host/waiting", json!(null)),
            ("/cells", json!(u64::MAX)),
            ("/created_unix", json!(u64::MAX)),
            ("/session_id", json!("../../x")),
        ] {
            let mut forged = good.clone();
            *forged.header.pointer_mut(field).expect("a field") = value;
            use_forged(&jar, &forged, &path, field);
        }
        for position in [u64::MAX, u64::MAX / 2, 1 << 62] {
            let mut forged = good.clone();
            forged.header["host"]["wasi"]["descriptors"][place] = descriptor("/app", "f", position);
            use_forged(&jar, &forged, &path, "position");
        }
        for clock in ["measured_ns", "unix_ns"] {
            let mut forged = good.clone();
            let saved = forged.header["host"]["wasi"]["clock"].as_object_mut().expect("a clock");
            for kind in saved.values_mut() {
                kind[clock] = json!(u64::MAX);
            }
            use_forged(&jar, &forged, &path, clock);
        }
    });
}

/// Whatever comes of it, the host lives.
#[track_caller]
fn use_forged(jar: &Jar, forged: &SnapshotFile, path: &std::path::Path, what: &str) {
    forged.write(path);
    let Ok(snapshot) = Snapshot::read(path, &home()) else { return };
    let _ = snapshot.info();
    let mut session = jar.sandbox();
    if session.restore(&snapshot).is_err() {
        return;
    }
    let answers: Vec<_> = session.waiting().into_iter().map(|id| (id, Ok(json!(1)))).collect();
    if !answers.is_empty() {
        let result = session.answer(answers);
        assert!(result.duration_ms < 5_000.0, "{what}: {} ms", result.duration_ms);
    }
    let _ = session
        .execute("import time, random; [time.time(), time.monotonic(), random.random(), f.read()]");
    let _ = session.execute("open('new', 'w').write('x'); 1 / 0");
    let _ = session.snapshot(Files::With).map(drop);
}

#[test]
fn memory_with_flipped_bits() {
    let (_dir, path, good) = good();
    let jar = jar().timeout(std::time::Duration::from_millis(300));
    let pages = good.header["pages"].as_u64().and_then(|n| usize::try_from(n).ok()).expect("pages");
    attacked(&jar, "flipped bits", || {
        // Far from each other, and the same in every run.
        let mut at = 12_345_usize;
        for round in 0..40 {
            let mut forged = good.clone();
            for _ in 0..=round {
                at = at
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                let byte = 4 * pages + (at >> 20) % (4096 * pages);
                forged.body[byte] ^= 1 << (at >> 50 & 7);
            }
            use_forged(&jar, &forged, &path, "flipped bits");
        }
    });
    let mut session = jar.session();
    session.run("'fine'").gave("fine");
}
