use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

fn parts() -> Result<Parts, EngineError> {
    Ok(Parts { code: vec![7; 5000], image: vec![9; 8192] })
}

fn read(mut file: File) -> Vec<u8> {
    let mut contents = Vec::new();
    file.read_to_end(&mut contents).unwrap();
    contents
}

fn must_not_make() -> Result<Parts, EngineError> {
    panic!("made again")
}

fn cache() -> (tempfile::TempDir, Cache) {
    let dir = tempfile::tempdir().unwrap();
    let cache = Cache::open(dir.path()).unwrap();
    (dir, cache)
}

#[test]
fn an_entry_is_made_once_and_found_again() {
    let (_dir, cache) = cache();
    cache.get("k", parts).unwrap();
    let entry = cache.get("k", must_not_make).unwrap();
    assert_eq!((read(entry.code), read(entry.image)), (vec![7; 5000], vec![9; 8192]));
}

#[test]
fn an_untouched_but_moved_entry_is_checked_and_used() {
    let (dir, cache) = cache();
    cache.get("k", parts).unwrap();
    let path = dir.path().join("k.img");
    std::fs::rename(&path, dir.path().join("x")).unwrap();
    std::fs::copy(dir.path().join("x"), &path).unwrap();
    cache.get("k", must_not_make).unwrap();
}

#[test]
fn a_damaged_entry_is_made_again() {
    for (part, damage) in
        [("cwasm", &b"\0"[..]), ("img", b""), ("stamp", b"{}"), ("stamp", b"\xff")]
    {
        let (dir, cache) = cache();
        cache.get("k", parts).unwrap();
        std::fs::write(dir.path().join(format!("k.{part}")), damage).unwrap();
        let made = AtomicUsize::new(0);
        let entry = cache
            .get("k", || {
                made.fetch_add(1, Ordering::Relaxed);
                parts()
            })
            .unwrap();
        assert_eq!(made.load(Ordering::Relaxed), 1, "{part}");
        assert_eq!(read(entry.code), vec![7; 5000]);
    }
}

#[test]
fn an_entry_that_others_could_have_written_is_not_used() {
    let (dir, cache) = cache();
    cache.get("k", parts).unwrap();
    std::fs::set_permissions(dir.path().join("k.cwasm"), std::fs::Permissions::from_mode(0o666))
        .unwrap();
    assert!(cache.find("k").is_none());
}

#[test]
fn a_symlink_in_place_of_an_entry_is_not_followed() {
    let (dir, cache) = cache();
    cache.get("k", parts).unwrap();
    std::fs::rename(dir.path().join("k.cwasm"), dir.path().join("elsewhere")).unwrap();
    std::os::unix::fs::symlink("elsewhere", dir.path().join("k.cwasm")).unwrap();
    assert!(cache.find("k").is_none());
}

#[test]
fn a_directory_open_to_others_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let error = Cache::open(dir.path()).err().unwrap().to_string();
    assert!(error.ends_with("cannot be used: others may write to it (mode 777)"), "{error}");
}

#[test]
fn a_directory_behind_a_symlink_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink("/tmp", dir.path().join("link")).unwrap();
    assert!(Cache::open(&dir.path().join("link")).is_err());
}

#[test]
fn concurrent_first_starts_make_one_entry() {
    let (dir, _) = cache();
    let made = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let cache = Cache::open(dir.path()).unwrap();
                cache
                    .get("k", || {
                        made.fetch_add(1, Ordering::Relaxed);
                        std::thread::sleep(std::time::Duration::from_millis(20));
                        parts()
                    })
                    .unwrap();
            });
        }
    });
    assert_eq!(made.load(Ordering::Relaxed), 1);
}

#[test]
fn an_entry_is_made_while_another_is_being_made() {
    let (dir, cache) = cache();
    let (begun, small_is_there) = (std::sync::Barrier::new(2), std::sync::Barrier::new(2));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let cache = Cache::open(dir.path()).unwrap();
            let slow = || {
                begun.wait();
                small_is_there.wait();
                parts()
            };
            cache.get("large", slow).unwrap();
        });
        begun.wait();
        // Would wait for ever if there were one lock for both.
        cache.get("small", parts).unwrap();
        small_is_there.wait();
    });
    cache.get("large", must_not_make).unwrap();
}

#[test]
fn a_failed_make_leaves_nothing_behind() {
    let (dir, cache) = cache();
    assert!(cache.get("k", || Err(EngineError::Engine("no".into()))).is_err());
    let left: Vec<_> =
        std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["k.lock"]);
}

/// As if it had last been used that long ago.
fn last_used(dir: &tempfile::TempDir, key: &str, ago: Duration) {
    let stamp = File::open(dir.path().join(format!("{key}.stamp"))).unwrap();
    stamp.set_modified(SystemTime::now() - ago).unwrap();
}

#[test]
fn what_nobody_uses_goes_when_another_of_its_name_comes() {
    let (dir, cache) = cache();
    for (key, days) in [("a-b-1", 20), ("a-b-2", 13), ("a-3", 20)] {
        cache.get(key, parts).unwrap();
        last_used(&dir, key, DAY * days);
    }
    cache.get("a-b-4", parts).unwrap();
    assert!(cache.find("a-b-1").is_none());
    for part in ["cwasm", "img"] {
        assert!(!dir.path().join(format!("a-b-1.{part}")).exists());
    }
    for kept in ["a-b-2", "a-3", "a-b-4"] {
        assert!(cache.find(kept).is_some(), "{kept}");
    }
}

#[test]
fn what_is_used_stays() {
    let (dir, cache) = cache();
    cache.get("a-1", parts).unwrap();
    last_used(&dir, "a-1", DAY * 20);
    cache.get("a-1", must_not_make).unwrap();
    cache.get("a-2", parts).unwrap();
    assert!(cache.find("a-1").is_some());
}

#[test]
fn what_is_being_made_is_not_removed() {
    let (dir, cache) = cache();
    cache.get("a-1", parts).unwrap();
    last_used(&dir, "a-1", DAY * 20);
    let lock = File::open(dir.path().join("a-1.lock")).unwrap();
    lock.lock().unwrap();
    cache.get("a-2", parts).unwrap();
    assert!(cache.find("a-1").is_some());
}
