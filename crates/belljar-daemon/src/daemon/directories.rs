//! The directories of workers. What is in one may be anything that an escaped worker has put there:
//! no link is followed, nothing is opened but directories, and nothing is walked by recursion.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use belljar::{Home, SessionStore, check_id};
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::errors::DaemonError;
use super::listen;
use super::names::Listed;

/// What workers have left behind, out of their reach, until it is removed.
const GONE: &str = "gone";

/// Numbers for what is set aside.
static LAST: AtomicU64 = AtomicU64::new(0);

/// What is where: the directories of the workers there will be, and the sessions in each of them and
/// in those that there were once.
pub(super) struct Found {
    pub(super) directories: Vec<PathBuf>,
    /// By the number of the directory.
    pub(super) sessions: Vec<(usize, Vec<String>)>,
}

/// The directories of that many workers. Sessions of others, which there were once, move to them.
pub(super) fn worker_directories(
    daemon: &Path,
    workers: usize,
    listed: &mut Listed,
) -> Result<Found, DaemonError> {
    let root = daemon.join("workers");
    listen::private_directory(&root)?;
    let directories: Vec<PathBuf> =
        (0..workers).map(|number| root.join(number.to_string())).collect();
    let failed = || DaemonError::system("look at the directories of workers");
    for directory in &directories {
        own_directory(directory).map_err(failed())?;
        let sessions = Home::at(directory).sessions();
        if is_something_else(&sessions) {
            tracing::warn!(path = %sessions.display(), "what is no directory is removed");
            std::fs::remove_file(&sessions).map_err(failed())?;
        }
        own_directory(&sessions).map_err(failed())?;
    }
    let mut others = Vec::new();
    for entry in std::fs::read_dir(&root).map_err(failed())? {
        let path = entry.map_err(failed())?.path();
        let number = path.file_name().and_then(|name| name.to_str()?.parse().ok());
        others.extend(number.filter(|number| *number >= workers).map(|number| (number, path)));
    }
    others.sort();
    for ((number, other), (to, target)) in others.iter().zip(directories.iter().enumerate().cycle())
    {
        move_sessions((*number, other), (to, target), listed);
    }
    let all = directories.iter().cloned().enumerate().chain(others);
    let sessions = all.map(|(number, path)| (number, sessions_in(&path).unwrap_or_default()));
    Ok(Found { sessions: sessions.collect(), directories })
}

/// Those that are another worker's by the list are not this one's to give.
fn move_sessions(from: (usize, &Path), to: (usize, &Path), listed: &mut Listed) {
    let Ok(names) = sessions_in(from.1) else { return };
    let (Ok(source), Ok(target)) = (
        opened(CWD, Home::at(from.1).sessions().as_path()),
        opened(CWD, Home::at(to.1).sessions().as_path()),
    ) else {
        return;
    };
    for name in names {
        // One of the same name would be another session: both stay where they are.
        let taken = rustix::fs::statat(&target, &name, AtFlags::SYMLINK_NOFOLLOW).is_ok();
        if taken || listed.get(&name).is_some_and(|owner| *owner != from.0) {
            continue;
        }
        match rustix::fs::renameat(&source, &name, &target, &name) {
            Ok(()) => {
                if let Some(owner) = listed.get_mut(&name) {
                    *owner = to.0;
                }
            }
            Err(error) => tracing::warn!(%error, session = name, "a session stays behind"),
        }
    }
}

/// The names of the sessions in a worker's directory. Nothing of them is opened.
fn sessions_in(directory: &Path) -> io::Result<Vec<String>> {
    let folder = opened(CWD, Home::at(directory).sessions().as_path())?;
    let mut names = Vec::new();
    for entry in Dir::read_from(&folder)? {
        let entry = entry?;
        let Ok(name) = entry.file_name().to_str() else { continue };
        if check_id(name).is_ok() && is_directory(&folder, entry.file_name()) {
            names.push(name.to_owned());
        }
    }
    Ok(names)
}

/// Whether a worker's directory holds a session.
pub(super) fn holds(directory: &Path, session: &str) -> bool {
    let path = Home::at(directory).sessions().join(session);
    path.symlink_metadata().is_ok_and(|found| found.is_dir())
}

/// A state that was saved, told from every other: each is a new file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Saved {
    file: u64,
    changed: (i64, i64),
}

/// The state of a session in a worker's directory, if it was saved. It is not opened.
pub(super) fn saved(directory: &Path, session: &str) -> Option<Saved> {
    let path = SessionStore::open(&Home::at(directory)).state_file(session);
    let found = path.symlink_metadata().ok()?;
    Some(Saved { file: found.ino(), changed: (found.ctime(), found.ctime_nsec()) })
}

/// Makes a directory, or takes the one that is there, for its owner only. A worker may have opened
/// its own to everybody, and is not obeyed.
fn own_directory(path: &Path) -> io::Result<()> {
    match std::fs::create_dir(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        Ok(()) | Err(_) => {}
    }
    if path.symlink_metadata()?.is_dir() {
        std::fs::set_permissions(path, PermissionsExt::from_mode(0o700))?;
    }
    drop(opened(CWD, path)?);
    Ok(())
}

fn is_something_else(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|found| !found.is_dir())
}

/// Room for the temporary files of a new worker, and a way for whatever is mounted in its directory.
/// What the last one has left is set aside: the answer is where.
pub(super) fn make_way(directory: &Path, tmp: &str, mounted: &str) -> io::Result<Vec<PathBuf>> {
    let mut aside = Vec::new();
    if directory.join(tmp).symlink_metadata().is_ok() {
        aside.push(set_aside(directory, tmp)?);
    }
    if is_something_else(&directory.join(mounted)) {
        aside.push(set_aside(directory, mounted)?);
    }
    std::fs::create_dir(directory.join(tmp))?;
    Ok(aside)
}

/// Puts something of a worker that has ended where the next one cannot reach it.
fn set_aside(directory: &Path, name: &str) -> io::Result<PathBuf> {
    let daemon = directory.parent().and_then(Path::parent).unwrap_or(directory);
    let number = LAST.fetch_add(1, Ordering::Relaxed);
    let folder = daemon.join(GONE).join(format!("{}-{number}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let path = directory.join(name);
    if path.symlink_metadata()?.is_dir() {
        // A directory that nobody may write to cannot be moved.
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o700))?;
    }
    std::fs::rename(&path, folder.join(name))?;
    Ok(folder)
}

/// Takes something out of a worker's directory while the worker may run: no link is followed on the
/// way. The answer is where it is now, to be cleared.
pub(super) fn take_out(directory: &Path, folder: &str, name: &str) -> io::Result<Option<PathBuf>> {
    let daemon = directory.parent().and_then(Path::parent).unwrap_or(directory);
    let number = LAST.fetch_add(1, Ordering::Relaxed);
    let aside = daemon.join(GONE).join(format!("{}-{number}", std::process::id()));
    let from = match opened(CWD, directory).and_then(|top| opened(top.as_fd(), Path::new(folder))) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        from => from?,
    };
    std::fs::create_dir_all(&aside)?;
    match rustix::fs::renameat(&from, name, CWD, aside.join(name)) {
        Ok(()) => Ok(Some(aside)),
        Err(Errno::NOENT) => {
            std::fs::remove_dir(&aside)?;
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

/// Removes what was set aside and is still there.
pub(super) fn clear_all(daemon: &Path) {
    let Ok(left) = std::fs::read_dir(daemon.join(GONE)) else { return };
    for folder in left.flatten() {
        clear(&folder.path());
    }
}

/// Removes what was set aside, however deep it is.
pub(super) fn clear(folder: &Path) {
    if let Err(error) = opened(CWD, folder).and_then(|top| hollow(&top)) {
        tracing::warn!(%error, path = %folder.display(), "what a worker has left cannot be removed");
        return;
    }
    // Whoever else removed it was quicker.
    let _ = std::fs::remove_dir(folder);
}

/// Directories come up to the top before they are emptied, so that none is deep.
fn hollow(top: &OwnedFd) -> io::Result<()> {
    let mut last = 0_u64;
    loop {
        let names = names_in(top)?;
        if names.is_empty() {
            return Ok(());
        }
        for name in names {
            if !is_directory(top, &name) {
                rustix::fs::unlinkat(top, &name, AtFlags::empty())?;
                continue;
            }
            let directory = entered(top, &name)?;
            loop {
                let inside = names_in(&directory)?;
                if inside.is_empty() {
                    break;
                }
                for inner in inside {
                    if is_directory(&directory, &inner) {
                        drop(entered(&directory, &inner)?);
                        last = free_name(top, last);
                        rustix::fs::renameat(&directory, &inner, top, last.to_string())?;
                    } else {
                        rustix::fs::unlinkat(&directory, &inner, AtFlags::empty())?;
                    }
                }
            }
            rustix::fs::unlinkat(top, &name, AtFlags::REMOVEDIR)?;
        }
    }
}

/// A number that is nothing's name.
fn free_name(top: &OwnedFd, last: u64) -> u64 {
    let is_taken = |number: &u64| {
        let found = rustix::fs::statat(top, number.to_string(), AtFlags::SYMLINK_NOFOLLOW);
        !matches!(found, Err(Errno::NOENT))
    };
    (last + 1..).find(|number| !is_taken(number)).unwrap_or(last)
}

/// So many names at once.
const NAMES_AT_ONCE: usize = 10_000;

fn names_in(directory: &OwnedFd) -> io::Result<Vec<CString>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
            names.push(entry.file_name().to_owned());
        }
        if names.len() >= NAMES_AT_ONCE {
            break;
        }
    }
    Ok(names)
}

fn is_directory(directory: &OwnedFd, name: &std::ffi::CStr) -> bool {
    let found = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW);
    found.is_ok_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::Directory)
}

/// A directory that its owner may read and write from now on.
fn entered(directory: &OwnedFd, name: &std::ffi::CStr) -> io::Result<OwnedFd> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let found = rustix::fs::openat(directory, name, flags | OFlags::PATH, Mode::empty())?;
    // By what was found, and not by its name, which may be a link by now.
    let found = format!("/proc/self/fd/{}", found.as_raw_fd());
    rustix::fs::chmodat(CWD, &found, Mode::RWXU, AtFlags::empty())?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(CWD, &found, flags, Mode::empty())?)
}

fn opened(at: std::os::fd::BorrowedFd<'_>, path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(at, path, flags, Mode::empty())?)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn directories(daemon: &Path, workers: usize) -> Vec<PathBuf> {
        worker_directories(daemon, workers, &mut Listed::default()).unwrap().directories
    }

    fn there(directory: &Path) -> Vec<String> {
        let mut names = sessions_in(directory).unwrap();
        names.sort();
        names
    }

    #[test]
    fn sessions_of_workers_that_are_no_more_move_to_others() {
        let dir = tempfile::tempdir().unwrap();
        let mut listed = Listed::default();
        for (number, worker) in directories(dir.path(), 3).iter().enumerate() {
            std::fs::create_dir(worker.join(format!("sessions/s{number}"))).unwrap();
            listed.insert(format!("s{number}"), number);
        }
        let found = worker_directories(dir.path(), 1, &mut listed).unwrap();
        assert_eq!(there(&found.directories[0]), ["s0", "s1", "s2"]);
        assert!(listed.values().all(|owner| *owner == 0));
    }

    #[test]
    fn a_link_in_a_workers_directory_leads_nowhere() {
        let dir = tempfile::tempdir().unwrap();
        let private = dir.path().join("private");
        std::fs::create_dir_all(private.join("key")).unwrap();
        let daemon = dir.path().join("daemon");
        for worker in directories(&daemon, 2) {
            std::fs::remove_dir(worker.join("sessions")).unwrap();
            symlink(&private, worker.join("sessions")).unwrap();
        }
        let one = directories(&daemon, 1);
        assert!(private.join("key").is_dir());
        assert_eq!(there(&one[0]), Vec::<String>::new());
        // The twin: a real one is used.
        std::fs::create_dir(one[0].join("sessions/own")).unwrap();
        symlink(&private, one[0].join("sessions/linked")).unwrap();
        std::fs::write(one[0].join("sessions/file"), "").unwrap();
        assert_eq!(there(&directories(&daemon, 1)[0]), ["own"]);
        assert!(!holds(&one[0], "linked") && holds(&one[0], "own"));
    }

    #[test]
    fn a_name_that_is_another_workers_does_not_move() {
        let dir = tempfile::tempdir().unwrap();
        let many = directories(dir.path(), 3);
        for worker in [1, 2] {
            std::fs::create_dir(many[worker].join("sessions/payroll")).unwrap();
        }
        let mut listed = Listed::from([("payroll".to_owned(), 1)]);
        let found = worker_directories(dir.path(), 2, &mut listed).unwrap();
        assert_eq!(there(&found.directories[0]), Vec::<String>::new());
        assert_eq!(there(&found.directories[1]), ["payroll"]);
    }

    #[test]
    fn whatever_a_worker_made_of_its_temporary_directory_the_next_one_has_room() {
        let dir = tempfile::tempdir().unwrap();
        let worker = directories(dir.path(), 1).remove(0);
        let victim = dir.path().join("victim");
        std::fs::write(&victim, "alive").unwrap();
        assert!(make_way(&worker, "tmp", "packages").unwrap().is_empty());
        let tmp = worker.join("tmp");
        let plant: [&dyn Fn(); 3] = [
            &|| std::fs::write(&tmp, "a file").unwrap(),
            &|| symlink(dir.path(), &tmp).unwrap(),
            &|| {
                std::fs::create_dir(&tmp).unwrap();
                symlink(&victim, tmp.join("1")).unwrap();
                std::fs::set_permissions(&tmp, PermissionsExt::from_mode(0o0)).unwrap();
                symlink("/nowhere", worker.join("packages")).unwrap();
            },
        ];
        for plant in plant {
            std::fs::remove_dir(&tmp).unwrap();
            plant();
            for aside in make_way(&worker, "tmp", "packages").unwrap() {
                clear(&aside);
                assert!(!aside.exists());
            }
            assert_eq!(std::fs::read_dir(&tmp).unwrap().count(), 0);
        }
        assert!(worker.join("packages").symlink_metadata().is_err());
        assert_eq!(std::fs::read_to_string(victim).unwrap(), "alive");
    }

    #[test]
    fn directories_too_deep_for_any_stack_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let worker = directories(dir.path(), 1).remove(0);
        make_way(&worker, "tmp", "packages").unwrap();
        let mut deepest = opened(CWD, &worker.join("tmp")).unwrap();
        for _ in 0..5000 {
            rustix::fs::mkdirat(&deepest, "1", Mode::RWXU).unwrap();
            deepest = entered(&deepest, c"1").unwrap();
        }
        make_way(&worker, "tmp", "packages").unwrap();
        clear_all(dir.path());
        assert_eq!(std::fs::read_dir(dir.path().join(GONE)).unwrap().count(), 0);
    }
}
