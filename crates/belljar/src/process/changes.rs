//! What a process has changed in its workspace, and whether that was too much. The system keeps no
//! account for us, so the workspace is looked at before, after, and from time to time in between.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use belljar_core::limits::MAX_LISTED_FILES;

/// How often the workspace is looked at while code runs, unless looking takes long.
const INTERVAL: Duration = Duration::from_millis(50);

/// Looking takes at most this part of the time.
const SHARE: u32 = 20;

/// Directories in directories; deeper ones are not looked into. Far beyond what a path may name.
const MAX_DEPTH: usize = 256;

/// Everything in a workspace, by path. Links are not followed.
#[derive(Default)]
pub(crate) struct Listing(BTreeMap<PathBuf, Mark>);

/// What changes when a file does. No program can set the time of the last change.
#[derive(PartialEq, Eq, Clone, Copy)]
struct Mark {
    inode: u64,
    changed: (i64, i64),
    bytes: u64,
    is_dir: bool,
}

/// Paths relative to the workspace, in order.
#[derive(Default, Debug, PartialEq, Eq)]
pub(super) struct Changes {
    pub(super) created: Vec<String>,
    pub(super) modified: Vec<String>,
    pub(super) deleted: Vec<String>,
}

impl Listing {
    /// What is there now. What cannot be read is not there.
    pub(super) fn of(workspace: &Path) -> Self {
        let mut listing = Self::default();
        listing.add(workspace, Path::new(""), 0);
        listing
    }

    fn add(&mut self, dir: &Path, below: &Path, depth: usize) {
        let Ok(entries) = fs::read_dir(dir) else { return };
        for entry in entries.flatten() {
            let Ok(metadata) = entry.metadata() else { continue };
            let path = below.join(entry.file_name());
            let is_dir = metadata.is_dir();
            let mark = Mark {
                inode: metadata.ino(),
                changed: (metadata.ctime(), metadata.ctime_nsec()),
                bytes: metadata.blocks().saturating_mul(512),
                is_dir,
            };
            if is_dir && depth < MAX_DEPTH {
                self.add(&entry.path(), &path, depth + 1);
            }
            self.0.insert(path, mark);
        }
    }

    fn bytes(&self) -> u64 {
        self.0.values().filter(|mark| !mark.is_dir).map(|mark| mark.bytes).sum()
    }

    /// What was done to get from here to `after`. Directories count when they come or go.
    pub(super) fn changes_to(&self, after: &Self) -> Changes {
        let name = |path: &Path| path.to_string_lossy().into_owned();
        let mut changes = Changes::default();
        for (path, mark) in &after.0 {
            match self.0.get(path) {
                None => changes.created.push(name(path)),
                Some(before) if before.is_dir != mark.is_dir => changes.modified.push(name(path)),
                Some(before) if before != mark && !mark.is_dir => changes.modified.push(name(path)),
                Some(_) => {}
            }
        }
        let gone = self.0.keys().filter(|path| !after.0.contains_key(*path));
        changes.deleted = gone.map(|path| name(path)).collect();
        for list in [&mut changes.created, &mut changes.modified, &mut changes.deleted] {
            list.truncate(MAX_LISTED_FILES);
        }
        changes
    }
}

/// How much a workspace may grow, and when to look next.
pub(crate) struct Quota<'a> {
    workspace: &'a Path,
    bytes: u64,
    files: u64,
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
            files: (before.0.len() as u64).saturating_add(files.unwrap_or(u64::MAX)),
            due: Instant::now() + INTERVAL,
        }
    }

    pub(super) fn due(&self) -> Instant {
        self.due
    }

    pub(super) fn is_due(&self, now: Instant) -> bool {
        now >= self.due
    }

    /// Looks at the workspace.
    pub(super) fn is_exceeded(&mut self) -> bool {
        let start = Instant::now();
        let exceeded = self.is_exceeded_by(&Listing::of(self.workspace));
        let looked = Instant::now();
        self.due = looked + INTERVAL.max((looked - start) * SHARE);
        exceeded
    }

    pub(super) fn is_exceeded_by(&self, listing: &Listing) -> bool {
        listing.bytes() > self.bytes || listing.0.len() as u64 > self.files
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(changes.created, ["d", "d/link"]);
        assert_eq!(changes.modified, ["changed", "same-size"]);
        assert_eq!(changes.deleted, ["gone"]);
    }

    #[test]
    fn a_quota_counts_what_was_added() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("old"), vec![1; 100_000]).unwrap();
        let before = Listing::of(dir.path());
        let mut quota = Quota::new(dir.path(), &before, Some(50_000), Some(2));
        assert!(!quota.is_exceeded());
        fs::write(dir.path().join("new"), vec![1; 40_000]).unwrap();
        assert!(!quota.is_exceeded());
        fs::write(dir.path().join("newer"), vec![1; 40_000]).unwrap();
        assert!(quota.is_exceeded());
        let mut quota = Quota::new(dir.path(), &before, None, Some(1));
        assert!(quota.is_exceeded(), "two files were added");
    }
}
