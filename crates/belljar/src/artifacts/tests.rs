use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::time::Duration;

use belljar_core::{ExecutionPolicy, Meta, Outcome, SandboxError, SandboxResult};
use tempfile::TempDir;

use super::*;

const KEEP: Retention =
    Retention { max_age: Duration::from_secs(86_400), max_bytes: 100 * 1024 * 1024 };

/// A directory above the artifacts, and the artifacts.
fn place() -> (TempDir, ArtifactStore) {
    let dir = tempfile::tempdir().unwrap();
    let store = ArtifactStore::at(dir.path().join("artifacts"));
    (dir, store)
}

fn keep(store: &ArtifactStore, code: &str) -> Result<String, SandboxError> {
    keep_within(store, code, KEEP)
}

fn keep_within(
    store: &ArtifactStore,
    code: &str,
    retention: Retention,
) -> Result<String, SandboxError> {
    let meta = Meta { runtime: "wasm".into(), ..Meta::default() };
    let result = SandboxResult::new(Outcome::Finished, meta);
    store.store(code, &ExecutionPolicy::default(), &result, &Redactor::default(), retention)
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// What was said, without the directory's name.
fn said(dir: &TempDir, error: &SandboxError) -> String {
    error.to_string().replace(&dir.path().display().to_string(), "DIR")
}

#[test]
fn what_is_kept_is_for_its_owner_only_and_can_be_found_by_its_beginning() {
    let (dir, store) = place();
    let id = keep(&store, "print(1)").unwrap();
    assert_eq!(mode(&dir.path().join("artifacts")), 0o700);
    assert_eq!(mode(&store.path()), 0o700);
    assert_eq!(mode(&store.path().join(format!("{id}.json"))), 0o600);
    assert_eq!(fs::read_dir(store.path()).unwrap().count(), 1, "nothing else is left");
    for prefix in [id.as_str(), &id[..24], &format!("{id}.json")] {
        let (found, artifact) = store.read(prefix).unwrap();
        assert_eq!((found, artifact.code.as_str()), (id.clone(), "print(1)"));
    }
}

#[test]
fn asking_creates_nothing() {
    let (dir, store) = place();
    assert_eq!(store.list().unwrap(), []);
    assert_eq!(store.prune(KEEP).unwrap(), Pruned::default());
    insta::assert_snapshot!(
        said(&dir, &store.read("2026").unwrap_err()),
        @"the artifact `2026` cannot be used: there is none in DIR/artifacts/executions; nothing was run"
    );
    assert!(!dir.path().join("artifacts").exists());
}

#[test]
fn a_beginning_that_several_share_is_refused() {
    let (dir, store) = place();
    keep(&store, "1").unwrap();
    keep(&store, "2").unwrap();
    insta::assert_snapshot!(
        said(&dir, &store.read("20").unwrap_err()),
        @"the artifact `20` cannot be used: 2 artifacts begin like that; nothing was run"
    );
}

#[test]
fn links_are_not_followed() {
    for (place_of_link, target) in [
        ("artifacts", "elsewhere"),
        ("artifacts/executions", "elsewhere"),
        ("artifacts", "nowhere"),
    ] {
        let (dir, store) = place();
        fs::create_dir_all(dir.path().join("elsewhere/executions")).unwrap();
        if place_of_link.contains('/') {
            fs::create_dir(dir.path().join("artifacts")).unwrap();
        }
        symlink(dir.path().join(target), dir.path().join(place_of_link)).unwrap();
        let expected = "cannot use the artifacts at DIR/artifacts/executions: it, or executions in \
                        it, is a symbolic link or no directory; nothing was changed";
        assert_eq!(said(&dir, &keep(&store, "1").unwrap_err()), expected);
        assert_eq!(said(&dir, &store.list().unwrap_err()), expected);
        assert_eq!(said(&dir, &store.prune(KEEP).unwrap_err()), expected);
        assert_eq!(said(&dir, &store.read("2").unwrap_err()), expected);
        assert_eq!(fs::read_dir(dir.path().join("elsewhere/executions")).unwrap().count(), 0);
        assert!(!dir.path().join("nowhere").exists());
    }
}

#[test]
fn a_file_in_the_way_and_a_directory_that_others_may_write_are_refused() {
    let (dir, store) = place();
    fs::write(dir.path().join("artifacts"), "").unwrap();
    assert!(keep(&store, "1").is_err());
    fs::remove_file(dir.path().join("artifacts")).unwrap();
    keep(&store, "1").unwrap();
    fs::set_permissions(store.path(), fs::Permissions::from_mode(0o777)).unwrap();
    insta::assert_snapshot!(
        said(&dir, &keep(&store, "2").unwrap_err()),
        @"cannot use the artifacts at DIR/artifacts/executions: other users may write to it; nothing was changed"
    );
}

/// Who may write to the directory above could put another in its place.
#[test]
fn a_configured_directory_that_others_may_write_is_refused() {
    for exists in [false, true] {
        let (dir, store) = place();
        if exists {
            keep(&store, "1").unwrap();
        } else {
            fs::create_dir(dir.path().join("artifacts")).unwrap();
        }
        let set = |mode| {
            let path = dir.path().join("artifacts");
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        };
        for open in [0o777, 0o1777, 0o770, 0o702] {
            set(open);
            let refusal = "cannot use the artifacts at DIR/artifacts/executions: other users may \
                           write to DIR/artifacts; nothing was changed";
            assert_eq!(said(&dir, &keep(&store, "2").unwrap_err()), refusal);
            if exists {
                assert_eq!(said(&dir, &store.list().unwrap_err()), refusal);
                assert_eq!(said(&dir, &store.read("2").unwrap_err()), refusal);
                assert_eq!(said(&dir, &store.prune(KEEP).unwrap_err()), refusal);
            }
        }
        assert_eq!(store.path().exists(), exists, "nothing was made");
        set(0o755);
        keep(&store, "3").unwrap();
        assert_eq!(store.list().unwrap().len(), 1 + usize::from(exists));
    }
}

#[test]
fn damaged_and_foreign_files_are_listed_and_left_alone() {
    let (_dir, store) = place();
    let id = keep(&store, "1").unwrap();
    let damaged = "20200101T000000.000000Z_0000000000000000";
    let file = |name: &str| store.path().join(name);
    fs::write(file(&format!("{damaged}.json")), "{").unwrap();
    fs::write(file("notes.txt"), "mine").unwrap();
    fs::write(file("x.json"), "{}").unwrap();
    let link = "20200101T000000.000000Z_1111111111111111";
    symlink("/etc/passwd", file(&format!("{link}.json"))).unwrap();
    let folder = "20200101T000000.000000Z_2222222222222222";
    fs::create_dir(file(&format!("{folder}.json"))).unwrap();
    let listed: Vec<(String, bool)> =
        store.list().unwrap().into_iter().map(|file| (file.id, file.summary.is_ok())).collect();
    let all = [damaged, link, folder, &id, "notes.txt", "x.json"];
    assert_eq!(listed, all.map(|name| (name.to_owned(), name == id)));
    for unreadable in [damaged, link, folder] {
        assert!(store.read(unreadable).is_err());
    }
    let everything = Retention { max_age: Duration::ZERO, max_bytes: 0 };
    let removed = store.prune(everything).unwrap().removed;
    assert_eq!(removed, [damaged, link, id.as_str()]);
    assert!(file("notes.txt").exists() && file("x.json").exists());
    assert!(file(&format!("{folder}.json")).exists());
    assert!(Path::new("/etc/passwd").exists());
}

#[cfg(unix)]
#[test]
fn a_pipe_in_the_directory_is_not_waited_for() {
    let (_dir, store) = place();
    keep(&store, "1").unwrap();
    let name = "20200101T000000.000000Z_3333333333333333";
    rustix::fs::mknodat(
        rustix::fs::CWD,
        store.path().join(format!("{name}.json")),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RWXU,
        0,
    )
    .unwrap();
    assert!(store.read(name).is_err());
    assert_eq!(store.list().unwrap().len(), 2);
}

#[test]
fn what_is_too_old_or_too_much_goes_when_something_is_stored() {
    let (_dir, store) = place();
    keep(&store, "1").unwrap();
    let old = store.path().join("20200101T000000.000000Z_0000000000000000.json");
    let abandoned = store.path().join(".new-20200101T000000.000000Z_0000000000000000");
    let foreign = store.path().join(".new-mine");
    for path in [&old, &abandoned, &foreign] {
        fs::write(path, "{}").unwrap();
    }
    keep(&store, "2").unwrap();
    assert!(!old.exists() && !abandoned.exists() && foreign.exists());
    assert_eq!(store.list().unwrap().len(), 2);
    let small = Retention { max_bytes: 1, ..KEEP };
    let last = keep_within(&store, "3", small).unwrap();
    let left: Vec<String> = store.list().unwrap().into_iter().map(|file| file.id).collect();
    assert_eq!(left, [last], "the new one stays, however large");
}

#[test]
fn pruning_by_size_takes_the_oldest() {
    let (_dir, store) = place();
    let ids: Vec<String> = ["1", "2", "3"].iter().map(|code| keep(&store, code).unwrap()).collect();
    let one = store.list().unwrap()[0].bytes;
    let pruned = store.prune(Retention { max_bytes: 2 * one, ..KEEP }).unwrap();
    assert_eq!((pruned.removed, pruned.bytes), (vec![ids[0].clone()], one));
}
