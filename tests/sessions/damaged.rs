//! Snapshot files that are not what they should be, and files written by several at once.

use std::fs;
use std::path::{Path, PathBuf};

use belljar::{Files, JavaScriptSandbox, PythonSandbox, Sandbox, SandboxError, Snapshot, Status};
use serde_json::json;
use support::{Cells, Expect, Jar, SnapshotFile, given, home, in_new_processes};
use tempfile::TempDir;

/// A good snapshot with files in it, in a directory of its own.
fn good() -> (TempDir, PathBuf, SnapshotFile) {
    let jar = Jar::new();
    let mut session = jar.session();
    session.run("x = 'from the snapshot'\nopen('f', 'w').write('file'); g = open('f')");
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("s.snapshot");
    session.snapshot(Files::With).expect("a snapshot").write(&path).expect("a file");
    let file = SnapshotFile::read(&path);
    (dir, path, file)
}

/// Reads a file that must be refused, and gives the reason.
#[track_caller]
fn refused(path: &Path, what: &str) -> String {
    match Snapshot::read(path, &home()) {
        Ok(snapshot) => panic!("{what} was taken for {snapshot:?}"),
        Err(SandboxError::Snapshot { path: named, problem, .. }) => {
            assert_eq!(named.as_deref(), Some(path), "{what}");
            problem
        }
        Err(other) => panic!("{what}: {other}"),
    }
}

#[test]
fn the_parts_of_a_good_file_make_a_good_file() {
    let (_dir, path, file) = good();
    file.write(&path);
    let jar = Jar::new();
    let mut session = jar.sandbox();
    session.restore(&Snapshot::read(&path, &home()).expect("a snapshot")).expect("a session");
    session.run("[x, g.read()]").gave(json!(["from the snapshot", "file"]));
}

#[test]
fn cut_short_at_every_boundary() {
    let (_dir, path, file) = good();
    let whole = file.bytes();
    let mut cuts: Vec<usize> = file.boundaries();
    cuts.extend(file.boundaries().iter().map(|cut| cut + 1));
    cuts.extend(file.boundaries().iter().filter_map(|cut| cut.checked_sub(1)));
    cuts.extend([whole.len() - 32, whole.len() - 31, whole.len() - 1]);
    for cut in cuts {
        fs::write(&path, &whole[..cut]).expect("a file");
        let problem = refused(&path, &format!("{cut} of {} bytes", whole.len()));
        let expected = ["it is cut short", "its checksum is wrong"];
        assert!(expected.contains(&problem.as_str()), "{cut}: {problem}");
    }
}

#[test]
fn longer_than_it_should_be() {
    let (_dir, path, file) = good();
    for more in [&b"x"[..], &[0; 10_000]] {
        fs::write(&path, [&file.bytes()[..], more].concat()).expect("a file");
        assert_eq!(refused(&path, "more"), "its checksum is wrong");
    }
}

#[test]
fn any_byte_flipped() {
    let (_dir, path, file) = good();
    let whole = file.bytes();
    let header_end = file.boundaries()[4];
    let others = (header_end..whole.len()).step_by(whole.len() / 100);
    for at in (0..header_end).chain(others).chain(whole.len() - 33..whole.len()) {
        let mut damaged = whole.clone();
        damaged[at] ^= 1 << (at % 8);
        fs::write(&path, &damaged).expect("a file");
        refused(&path, &format!("byte {at} of {} flipped", whole.len()));
    }
}

#[test]
fn of_another_version() {
    let (_dir, path, mut file) = good();
    for version in [0, 2, u32::MAX] {
        file.start[16..].copy_from_slice(&version.to_le_bytes());
        file.write(&path);
        let expected = format!("it has version {version} of the format, and this Belljar reads 1");
        assert_eq!(refused(&path, "another version"), expected);
    }
    let error = Snapshot::read(&path, &home()).map(drop).expect_err("another version");
    assert_eq!(error.hint().as_deref(), Some("use the version of Belljar that wrote it"));
}

#[test]
fn of_another_guest() {
    let (_dir, path, mut file) = good();
    file.header["guest"] = json!("another build");
    file.write(&path);
    let problem = refused(&path, "another guest");
    assert!(
        problem.starts_with("it was taken from another build of the python guest (3.13."),
        "{problem}"
    );
}

#[test]
fn swapped_between_languages() {
    let (_dir, path, mut file) = good();
    let snapshot = Snapshot::read(&path, &home()).expect("a snapshot");
    let jar = Jar::new();
    let mut javascript = JavaScriptSandbox::from_config(&jar.config()).expect("a sandbox");
    javascript.initialize(json!(null)).expect("a session");
    javascript.run("var mine = 5").kept(Status::Ok);
    let error = javascript.restore(&snapshot).expect_err("another language");
    let text = "the snapshot cannot be used: it is of a python session, and this is javascript; \
                no session was changed";
    assert_eq!(error.to_string(), text);
    javascript.run("mine").gave(5);
    let other = javascript.snapshot(Files::Without).expect("a snapshot");
    let mut python = jar.session();
    python.run("mine = 6").kept(Status::Ok);
    assert!(python.restore(&other).is_err());
    python.run("mine").gave(6);
    // A header that lies about it.
    file.header["language"] = json!("javascript");
    file.write(&path);
    let problem = refused(&path, "a lie");
    assert!(
        problem.starts_with("it was taken from another build of the javascript guest"),
        "{problem}"
    );
    file.header["language"] = json!("cobol");
    file.write(&path);
    assert!(refused(&path, "no language").starts_with("its header makes no sense"));
}

#[test]
fn no_snapshot_at_all() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("file");
    let refuse = |contents: &[u8]| {
        fs::write(&path, contents).expect("a file");
        refused(&path, "no snapshot")
    };
    assert_eq!(refuse(b""), "it is cut short");
    assert_eq!(refuse(b"x"), "it is cut short");
    assert_eq!(refuse(b"just some text that is no snapshot"), "it is no snapshot of Belljar");
    assert_eq!(refuse(&[0; 10_000]), "it is no snapshot of Belljar");
    assert_eq!(
        refuse(&b"BELLJAR SNAPSHOT".repeat(100)),
        "it has version 1280066882 of the format, and this Belljar reads 1"
    );
    assert_eq!(refused(&dir.path().join("missing"), "missing"), "there is no such file");
    let problem = refused(dir.path(), "a directory");
    assert!(problem.contains("directory"), "{problem}");
    assert_eq!(refused(Path::new("/dev/zero"), "a device"), "it is no snapshot of Belljar");
    assert_eq!(refused(Path::new("/dev/null"), "a device"), "it is cut short");
}

#[test]
fn headers_that_claim_what_is_not_there() {
    let (_dir, path, file) = good();
    for (field, value) in [
        ("/pages", json!(0)),
        ("/pages", json!(u32::MAX)),
        ("/pages", json!(-1)),
        ("/pages", json!(1_000_000)),
        ("/cells", json!(-5)),
        ("/host/memory_bytes", json!(0)),
        ("/host/memory_bytes", json!(u64::MAX)),
        ("/host/memory_bytes", json!(65_536)),
        ("/host/memory_bytes", json!(1)),
        ("/host", json!(null)),
        ("/host/wasi/descriptors", json!(null)),
        ("/files", json!([{"path": "f", "kind": {"file": {"bytes": u64::MAX}}}])),
        ("/files", json!([{"path": "f", "kind": {"file": {"bytes": 1_000_000}}}])),
        ("/files", json!([{"path": "f", "kind": "socket"}])),
        ("/language_version", json!(3)),
        ("/unknown", json!(1)),
    ] {
        let mut lying = file.clone();
        match lying.header.pointer_mut(field) {
            Some(place) => *place = value.clone(),
            None => lying.header[&field[1..]] = value.clone(),
        }
        lying.write(&path);
        refused(&path, &format!("{field} = {value}"));
    }
    let mut empty = file.clone();
    empty.header = json!({});
    empty.write(&path);
    assert!(refused(&path, "an empty header").starts_with("its header makes no sense"));
    let mut pages = file;
    let count =
        pages.header["pages"].as_u64().and_then(|n| usize::try_from(n).ok()).expect("pages");
    // Out of order, doubled, outside.
    for (at, number) in [(0, 5_000_u32), (4, 0), (4 * (count - 1), u32::MAX)] {
        let mut lying = pages.clone();
        lying.body[at..at + 4].copy_from_slice(&number.to_le_bytes());
        lying.write(&path);
        let problem = refused(&path, "pages");
        assert!(problem.ends_with("the saved memory makes no sense"), "{problem}");
    }
    pages.body.truncate(8);
    pages.write(&path);
    assert_eq!(refused(&path, "no pages"), "it is cut short");
}

#[test]
fn a_refused_file_leaves_no_traces() {
    let (_dir, path, mut file) = good();
    let left = || {
        let ours =
            |entry: &fs::DirEntry| entry.file_name().to_string_lossy().starts_with("belljar-");
        fs::read_dir(std::env::temp_dir())
            .expect("a directory")
            .flatten()
            .filter(ours)
            .filter(|entry| entry.path().join("only in this test").exists())
            .count()
    };
    file.header["files"] = json!([
        {"path": "only in this test", "kind": "directory"},
        {"path": "../outside", "kind": "directory"},
    ]);
    file.write(&path);
    refused(&path, "files outside");
    assert_eq!(left(), 0);
}

/// Sessions that write different snapshots to one path, while others read it.
fn write_again_and_again(path: &Path, numbers: std::ops::Range<usize>) {
    let jar = Jar::new();
    std::thread::scope(|scope| {
        for number in numbers {
            let jar = &jar;
            scope.spawn(move || {
                let mut session: PythonSandbox = jar.session();
                session.run(&format!("n = [{number}] * 100_000")).kept(Status::Ok);
                let snapshot = session.snapshot(Files::Without).expect("a snapshot");
                for _ in 0..10 {
                    snapshot.write(path).expect("it can be written");
                    let read = Snapshot::read(path, &home()).expect("always a whole one");
                    session.restore(&read).expect("a session");
                    session.run("len(n), len(set(n))").gave(json!([100_000, 1]));
                }
            });
        }
    });
}

#[test]
fn two_threads_writing_one_snapshot() {
    let dir = tempfile::tempdir().expect("a directory");
    write_again_and_again(&dir.path().join("s"), 0..3);
    assert_eq!(fs::read_dir(dir.path()).expect("a directory").count(), 1);
}

#[test]
fn two_processes_writing_one_snapshot() {
    if let Some(path) = given() {
        write_again_and_again(&path, 0..2);
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("s");
    in_new_processes("damaged::two_processes_writing_one_snapshot", 3, &path);
    assert!(Snapshot::read(&path, &home()).is_ok());
    assert_eq!(fs::read_dir(dir.path()).expect("a directory").count(), 1);
}
