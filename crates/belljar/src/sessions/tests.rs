//! The store without a guest; what guests do in sessions is tested with the engine.

use std::fs;
use std::sync::Barrier;
use std::time::Duration;

use belljar_core::RuntimeType;

use super::*;

const DAY: Duration = Duration::from_secs(86_400);

fn store() -> (tempfile::TempDir, SessionStore) {
    let dir = tempfile::tempdir().unwrap();
    let store = SessionStore::open(&Home::at(dir.path().join("home")));
    (dir, store)
}

fn make(store: &SessionStore, id: &str) -> Session {
    store.create(Some(id), RuntimeType::Python, DAY).unwrap()
}

/// Files of the sessions' directory that are not sessions.
fn leftovers(dir: &tempfile::TempDir) -> Vec<String> {
    let entries = fs::read_dir(dir.path().join("home/sessions")).unwrap();
    entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with('.'))
        .collect()
}

#[test]
fn a_session_is_made_listed_and_removed() {
    let (dir, store) = store();
    assert_eq!(store.list().unwrap(), []);
    assert!(!dir.path().join("home").exists(), "asking must not write");
    let session = make(&store, "work");
    assert_eq!((session.id(), session.record().cells_run), ("work", 0));
    assert!(session.workspace().is_dir());
    assert_eq!(session.load().unwrap().map(|_| ()), None);
    let listed = store.list().unwrap();
    assert_eq!((listed[0].id.as_str(), listed[0].busy), ("work", true));
    drop(session);
    assert!(!store.list().unwrap()[0].busy);
    store.remove("work").unwrap();
    assert_eq!(store.list().unwrap(), []);
    assert_eq!(leftovers(&dir), Vec::<String>::new());
}

#[test]
fn sessions_are_their_owners_only() {
    use std::os::unix::fs::PermissionsExt;
    let (dir, store) = store();
    let session = make(&store, "work");
    let root = dir.path().join("home/sessions");
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    for path in [root.clone(), root.join("work"), session.workspace()] {
        assert_eq!(mode(&path), 0o700, "{}", path.display());
    }
    for file in [RECORD_FILE, LOCK_FILE] {
        assert_eq!(mode(&root.join("work").join(file)), 0o600, "{file}");
    }
}

#[test]
fn a_name_is_taken_once() {
    let (dir, store) = store();
    drop(make(&store, "work"));
    let error = store.create(Some("work"), RuntimeType::Python, DAY).unwrap_err();
    insta::assert_snapshot!(format!("{error}\nhint: {}", error.hint().unwrap()), @r"
    the session `work` cannot be used: there is one of this name already; nothing was changed
    hint: choose another name, or remove it with `belljar session rm work`
    ");
    let names: std::collections::BTreeSet<String> = (0..20)
        .map(|_| store.create(None, RuntimeType::Python, DAY).unwrap().id().to_owned())
        .collect();
    assert_eq!(names.len(), 20);
    assert_eq!(leftovers(&dir), Vec::<String>::new());
}

#[test]
fn names_that_are_paths_reach_nothing() {
    let (_dir, store) = store();
    drop(make(&store, "work"));
    for bad in ["../sessions/work", "", ".", "work/workspace", "-rf"] {
        assert!(store.session(bad).is_err(), "{bad}");
        assert!(store.remove(bad).is_err(), "{bad}");
        assert!(store.create(Some(bad), RuntimeType::Python, DAY).is_err(), "{bad}");
        assert!(!store.contains(bad), "{bad}");
    }
    assert!(store.contains("work"));
}

#[test]
fn an_open_session_is_busy_for_everybody_else() {
    let (_dir, store) = store();
    let session = make(&store, "work");
    let busy = || SandboxError::SessionBusy { id: "work".to_owned() };
    assert_eq!(store.session("work").unwrap_err(), busy());
    assert_eq!(store.remove("work").unwrap_err(), busy());
    assert_eq!(store.fork("work", None).unwrap_err(), busy());
    assert!(store.record("work").is_ok() && store.files("work").is_ok());
    drop(session);
    assert!(store.session("work").is_ok());
}

#[test]
fn of_many_that_open_a_session_at_once_one_gets_it() {
    let (_dir, store) = store();
    drop(make(&store, "work"));
    let together = Barrier::new(8);
    let opened = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(|| {
                    together.wait();
                    let session = store.session("work");
                    together.wait();
                    match session {
                        Ok(_) => 1,
                        Err(SandboxError::SessionBusy { .. }) => 0,
                        Err(other) => panic!("{other}"),
                    }
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum::<usize>()
    });
    assert_eq!(opened, 1);
}

#[test]
fn of_many_that_make_a_session_at_once_one_makes_it() {
    let (dir, store) = store();
    let together = Barrier::new(8);
    let made = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(|| {
                    together.wait();
                    usize::from(store.create(Some("new"), RuntimeType::Python, DAY).is_ok())
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum::<usize>()
    });
    assert_eq!(made, 1);
    assert!(store.session("new").is_ok());
    assert_eq!(leftovers(&dir), Vec::<String>::new());
}

#[test]
fn a_damaged_description_is_an_error_and_loses_nothing() {
    let (dir, store) = store();
    let session = make(&store, "notes");
    fs::write(session.workspace().join("precious.txt"), "x").unwrap();
    drop(session);
    let record = dir.path().join("home/sessions/notes").join(RECORD_FILE);
    fs::write(&record, "{\"version\": 1, \"id\"").unwrap();
    let error = store.session("notes").unwrap_err();
    let shown = format!("{error}\nhint: {}", error.hint().unwrap());
    insta::assert_snapshot!(shown.replace(&dir.path().display().to_string(), "DIR"), @r"
    the session `notes` cannot be used: its session.json is damaged: EOF while parsing an object at line 1 column 19; nothing was changed
    hint: its files are in DIR/home/sessions/notes/workspace; `belljar session rm notes` removes all of it
    ");
    assert!(store.list().unwrap()[0].record.is_err());
    assert_eq!(store.prune(Some(Duration::ZERO), true).unwrap(), Pruned::default());
    assert!(record.parent().unwrap().join("workspace/precious.txt").is_file());
    store.remove("notes").unwrap();
    assert!(!store.contains("notes"));
}

#[test]
fn a_fork_has_its_own_files() {
    let (_dir, store) = store();
    let parent = make(&store, "parent");
    fs::create_dir(parent.workspace().join("sub")).unwrap();
    fs::write(parent.workspace().join("sub/a.txt"), "parent").unwrap();
    std::os::unix::fs::symlink("sub/a.txt", parent.workspace().join("link")).unwrap();
    drop(parent);
    let fork = store.fork("parent", Some("fork")).unwrap();
    fs::write(fork.workspace().join("sub/a.txt"), "fork").unwrap();
    let parent = store.session("parent").unwrap();
    assert_eq!(fs::read_to_string(parent.workspace().join("sub/a.txt")).unwrap(), "parent");
    let names: Vec<String> = fork.files().unwrap().into_iter().map(|file| file.path).collect();
    assert_eq!(names, ["link", "sub/", "sub/a.txt"]);
    assert!(fork.workspace().join("link").symlink_metadata().unwrap().is_symlink());
    assert_eq!(fork.id(), "fork");
    assert!(store.fork("nobody", None).is_err());
    drop(parent);
    assert!(store.fork("parent", Some("fork")).is_err());
}

#[test]
fn sessions_idle_for_too_long_are_pruned() {
    let (dir, store) = store();
    let mut old = make(&store, "old");
    old.record.last_used_unix = 1000;
    let write = |session: &Session| {
        session.record.write(&session.dir.join(RECORD_FILE), Durability::Disk).unwrap();
    };
    write(&old);
    let mut waiting = make(&store, "waiting");
    waiting.record.last_used_unix = 1000;
    waiting.record.status = SessionStatus::Suspended;
    write(&waiting);
    let mut open = make(&store, "open");
    open.record.last_used_unix = 1000;
    write(&open);
    drop((old, waiting, make(&store, "new")));
    // What a process that was killed would leave.
    for name in [".new-1", ".gone-1"] {
        fs::create_dir(dir.path().join("home/sessions").join(name)).unwrap();
    }
    let pruned = store.prune(None, false).unwrap();
    assert_eq!(
        pruned,
        Pruned { removed: vec!["old".to_owned()], waiting: vec!["waiting".to_owned()] }
    );
    assert_eq!(leftovers(&dir), Vec::<String>::new());
    drop(open);
    assert_eq!(store.prune(None, true).unwrap().removed, ["open", "waiting"]);
    assert_eq!(store.list().unwrap().len(), 1);
}

#[test]
fn a_session_can_work_in_a_directory_of_the_callers() {
    let (dir, store) = store();
    let mut session = make(&store, "work");
    session.work_in(dir.path());
    session.defer(&["approve".to_owned(), "approve".to_owned()]);
    session.note(Vec::new()).unwrap();
    drop(session);
    let session = store.session("work").unwrap();
    assert_eq!(session.workspace(), dir.path());
    assert_eq!(session.record().deferred_tools, ["approve"]);
}
