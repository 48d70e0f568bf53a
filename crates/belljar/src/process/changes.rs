//! What a process has changed in its workspace, and whether that was too much. The system keeps no
//! account for us, so the workspace is looked at before, after, and from time to time in between.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use belljar_core::limits::MAX_LISTED_FILES;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use rustix::path::Arg;

use super::launch::Ancestor;
use super::nameless::{FileSystem, Nameless};

/// How often the workspace is looked at while code runs, unless looking takes long.
const INTERVAL: Duration = Duration::from_millis(10);

/// Looking takes at most this part of the time.
const SHARE: u32 = 20;

/// Names of a workspace, as paths: a listing that takes more is broken off.
const MAX_PATH_BYTES: usize = 32 * 1024 * 1024;

/// What an entry takes beside its name.
const ENTRY_BYTES: usize = 64;

/// Directories in directories; deeper ones are not looked into. Each level costs a descriptor.
const MAX_DEPTH: usize = 128;

/// Everything in a workspace, by path. Links are not followed.
#[derive(Default)]
pub(crate) struct Listing {
    entries: BTreeMap<PathBuf, Mark>,
    /// Directories that could not be looked into. Anything may be in there.
    unseen: usize,
    /// What the paths take together.
    path_bytes: usize,
}

/// What changes when a file does. No program can set the time of the last change.
#[derive(PartialEq, Eq, Clone, Copy)]
struct Mark {
    inode: u64,
    changed: (i64, u64),
    bytes: u64,
    is_dir: bool,
}

/// Paths of files relative to the workspace, in order.
#[derive(Default, Debug, PartialEq, Eq)]
pub(super) struct Changes {
    pub(super) created: Vec<String>,
    pub(super) modified: Vec<String>,
    pub(super) deleted: Vec<String>,
}

impl Listing {
    /// What is there now.
    pub(super) fn of(workspace: &Path) -> Self {
        let mut listing = Self::default();
        listing.add(rustix::fs::CWD, workspace, Path::new(""), 0);
        listing
    }

    /// Adds what is in the directory `name` of `parent`. A guest may put a link in its place at any
    /// moment, so it is opened without following one, and everything in it by its descriptor.
    fn add(&mut self, parent: BorrowedFd<'_>, name: impl Arg, below: &Path, depth: usize) {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = rustix::fs::openat(parent, name, flags, Mode::empty()).and_then(Dir::new);
        let mut dir = match opened {
            Ok(dir) if depth < MAX_DEPTH => dir,
            // Removed or replaced meanwhile.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return,
            Ok(_) | Err(_) => {
                self.unseen += 1;
                return;
            }
        };
        while let Some(Ok(entry)) = dir.read() {
            if self.path_bytes > MAX_PATH_BYTES {
                self.unseen += 1;
                return;
            }
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            let Ok(fd) = dir.fd() else { return };
            let Ok(found) = rustix::fs::statat(fd, name, AtFlags::SYMLINK_NOFOLLOW) else {
                continue;
            };
            let path = below.join(OsStr::from_bytes(name.to_bytes()));
            self.path_bytes += path.as_os_str().len() + ENTRY_BYTES;
            let mark = Mark::of(&found);
            if mark.is_dir {
                self.add(fd, name, &path, depth + 1);
            }
            self.entries.insert(path, mark);
        }
    }

    /// Whether everything that is there was seen.
    pub(super) fn is_whole(&self) -> bool {
        self.unseen == 0
    }

    fn bytes(&self) -> u64 {
        self.files().map(|(_, mark)| mark.bytes).sum()
    }

    fn files(&self) -> impl Iterator<Item = (&Path, &Mark)> {
        let files = self.entries.iter().filter(|(_, mark)| !mark.is_dir);
        files.map(|(path, mark)| (path.as_path(), mark))
    }

    fn file(&self, path: &Path) -> Option<&Mark> {
        self.entries.get(path).filter(|mark| !mark.is_dir)
    }

    /// What was done to get from here to `after`. Directories are no files.
    pub(super) fn changes_to(&self, after: &Self) -> Changes {
        let name = |path: &Path| path.to_string_lossy().into_owned();
        let mut changes = Changes::default();
        for (path, mark) in after.files() {
            match self.file(path) {
                None => changes.created.push(name(path)),
                Some(before) if before != mark => changes.modified.push(name(path)),
                Some(_) => {}
            }
        }
        let gone = self.files().filter(|(path, _)| after.file(path).is_none());
        changes.deleted = gone.map(|(path, _)| name(path)).collect();
        for list in [&mut changes.created, &mut changes.modified, &mut changes.deleted] {
            list.truncate(MAX_LISTED_FILES);
        }
        changes
    }
}

/// Opens directories that their maker has closed, so that the workspace can be looked at and
/// removed. Others keep their modes.
pub(super) fn open_up(workspace: &Path) {
    open_up_below(rustix::fs::CWD, workspace, 0);
}

/// As in [`Listing::add`], no link is followed.
fn open_up_below(parent: BorrowedFd<'_>, name: impl Arg + Copy, depth: usize) {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let open = || rustix::fs::openat(parent, name, flags | OFlags::RDONLY, Mode::empty());
    let opened = open().or_else(|_| {
        let closed = rustix::fs::openat(parent, name, flags | OFlags::PATH, Mode::empty())?;
        // A descriptor that gives no access can be named, but its mode cannot be set through it.
        let by_number = format!("/proc/self/fd/{}", closed.as_raw_fd());
        rustix::fs::chmod(by_number, Mode::RWXU)?;
        open()
    });
    let Ok(mut dir) = opened.and_then(Dir::new) else { return };
    while let Some(Ok(entry)) = dir.read() {
        let name = entry.file_name();
        let is_dir = matches!(entry.file_type(), FileType::Directory | FileType::Unknown);
        if is_dir && depth < MAX_DEPTH && !matches!(name.to_bytes(), b"." | b"..") {
            let Ok(fd) = dir.fd() else { return };
            open_up_below(fd, name, depth + 1);
        }
    }
}

impl Mark {
    fn of(found: &Stat) -> Self {
        Self {
            inode: found.st_ino,
            changed: (found.st_ctime, found.st_ctime_nsec),
            bytes: u64::try_from(found.st_blocks).unwrap_or_default().saturating_mul(512),
            is_dir: FileType::from_raw_mode(found.st_mode).is_dir(),
        }
    }
}

/// How much a workspace may grow, and when to look next.
pub(crate) struct Quota<'a> {
    workspace: &'a Path,
    bytes: u64,
    files: u64,
    /// Directories that were closed to us before; others would hide what is written.
    unseen: usize,
    /// What may be added, and so the most that one file can take.
    growth: u64,
    /// Where the workspace is, if that can be told.
    file_system: Option<FileSystem>,
    /// Whether something could not be looked at the last time.
    was_hidden: bool,
    due: Instant,
}

impl<'a> Quota<'a> {
    /// What may be added to what is there now.
    pub(super) fn new(
        workspace: &'a Path,
        before: &Listing,
        bytes: Option<u64>,
        files: Option<u64>,
    ) -> Self {
        Self {
            workspace,
            bytes: before.bytes().saturating_add(bytes.unwrap_or(u64::MAX)),
            files: (before.entries.len() as u64).saturating_add(files.unwrap_or(u64::MAX)),
            unseen: if bytes.or(files).is_some() { before.unseen } else { usize::MAX },
            growth: bytes.unwrap_or(u64::MAX),
            file_system: FileSystem::of(workspace).ok(),
            was_hidden: false,
            due: Instant::now() + INTERVAL,
        }
    }

    /// For what is no execution: nobody looks.
    pub(super) fn unlimited(workspace: &'a Path) -> Self {
        let never = Duration::from_secs(24 * 60 * 60);
        Self {
            workspace,
            bytes: u64::MAX,
            files: u64::MAX,
            unseen: usize::MAX,
            growth: u64::MAX,
            file_system: None,
            was_hidden: false,
            due: Instant::now() + never,
        }
    }

    pub(super) fn due(&self) -> Instant {
        self.due
    }

    pub(super) fn is_due(&self, now: Instant) -> bool {
        now >= self.due
    }

    /// Looks at the workspace, and at what the descendants of `ancestor` hold of it without a name.
    pub(super) fn is_exceeded(&mut self, ancestor: Option<Ancestor>) -> bool {
        let start = Instant::now();
        let listing = Listing::of(self.workspace);
        let limited = self.bytes.min(self.files) < u64::MAX;
        let exceeded = self.is_exceeded_by(&listing)
            || ancestor
                .is_some_and(|ancestor| limited && self.is_exceeded_with(&listing, ancestor));
        let looked = Instant::now();
        self.due = looked + INTERVAL.max((looked - start) * SHARE);
        exceeded
    }

    /// What cannot be looked at is too much, unless that is over the next time: a process that is
    /// becoming another program lets nobody look.
    fn is_exceeded_with(&mut self, listing: &Listing, ancestor: Ancestor) -> bool {
        let Some(file_system) = self.file_system else { return true };
        let nameless = Nameless::held_below(ancestor, file_system);
        let was_hidden = std::mem::replace(&mut self.was_hidden, !nameless.is_whole());
        (self.was_hidden && was_hidden)
            || listing.bytes().saturating_add(nameless.bytes(self.growth)) > self.bytes
            || (listing.entries.len() as u64).saturating_add(nameless.count()) > self.files
    }

    pub(super) fn is_exceeded_by(&self, listing: &Listing) -> bool {
        listing.bytes() > self.bytes
            || listing.entries.len() as u64 > self.files
            || listing.unseen > self.unseen
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_listing_is_broken_off_where_its_names_become_too_long() {
        let dir = tempfile::tempdir().unwrap();
        let name = "d".repeat(255);
        // Such paths are too long for the system as a whole, and are made step by step.
        let mut at = rustix::fs::open(dir.path(), OFlags::DIRECTORY, Mode::empty()).unwrap();
        for _ in 0..MAX_DEPTH - 2 {
            rustix::fs::mkdirat(&at, &*name, Mode::RWXU).unwrap();
            at = rustix::fs::openat(&at, &*name, OFlags::DIRECTORY, Mode::empty()).unwrap();
        }
        for number in 0..2_000 {
            let flags = OFlags::CREATE | OFlags::WRONLY;
            rustix::fs::openat(&at, format!("{number}"), flags, Mode::RUSR).unwrap();
        }
        let listing = Listing::of(dir.path());
        assert!(!listing.is_whole() && listing.path_bytes < 2 * MAX_PATH_BYTES);
    }

    #[test]
    fn what_came_changed_and_went_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        for name in ["kept", "changed", "gone", "same-size"] {
            fs::write(at(name), "1").unwrap();
        }
        let before = Listing::of(dir.path());
        fs::write(at("changed"), "22").unwrap();
        std::thread::sleep(Duration::from_millis(20));
        fs::write(at("same-size"), "2").unwrap();
        fs::remove_file(at("gone")).unwrap();
        fs::create_dir(at("d")).unwrap();
        std::os::unix::fs::symlink("/", at("d/link")).unwrap();
        let changes = before.changes_to(&Listing::of(dir.path()));
        assert_eq!(changes.created, ["d/link"]);
        assert_eq!(changes.modified, ["changed", "same-size"]);
        assert_eq!(changes.deleted, ["gone"]);
    }

    #[test]
    fn a_directory_that_becomes_a_file_is_a_file_that_came() {
        let dir = tempfile::tempdir().unwrap();
        let (a, b) = (dir.path().join("a"), dir.path().join("b"));
        fs::create_dir(&a).unwrap();
        fs::write(&b, "1").unwrap();
        let before = Listing::of(dir.path());
        fs::remove_dir(&a).unwrap();
        fs::write(&a, "1").unwrap();
        fs::remove_file(&b).unwrap();
        fs::create_dir(&b).unwrap();
        let changes = before.changes_to(&Listing::of(dir.path()));
        assert_eq!((changes.created, changes.deleted), (vec!["a".into()], vec!["b".into()]));
        assert!(changes.modified.is_empty());
    }

    #[test]
    fn what_cannot_be_looked_into_is_over_any_quota() {
        let dir = tempfile::tempdir().unwrap();
        let before = Listing::of(dir.path());
        let deep = (0..MAX_DEPTH).fold(dir.path().to_owned(), |path, _| path.join("d"));
        fs::create_dir_all(deep.parent().unwrap()).unwrap();
        let quota = Quota::new(dir.path(), &before, Some(u64::MAX), None);
        assert!(!quota.is_exceeded_by(&Listing::of(dir.path())));
        fs::create_dir(&deep).unwrap();
        let after = Listing::of(dir.path());
        assert!(quota.is_exceeded_by(&after));
        // What was like that before is the caller's affair.
        assert!(!Quota::new(dir.path(), &after, Some(u64::MAX), None).is_exceeded_by(&after));
    }

    #[test]
    fn a_quota_counts_what_was_added() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("old"), vec![1; 100_000]).unwrap();
        let before = Listing::of(dir.path());
        let mut quota = Quota::new(dir.path(), &before, Some(50_000), Some(2));
        assert!(!quota.is_exceeded(None));
        fs::write(dir.path().join("new"), vec![1; 40_000]).unwrap();
        assert!(!quota.is_exceeded(None));
        fs::write(dir.path().join("newer"), vec![1; 40_000]).unwrap();
        assert!(quota.is_exceeded(None));
        let mut quota = Quota::new(dir.path(), &before, None, Some(1));
        assert!(quota.is_exceeded(None), "two files were added");
    }
}
