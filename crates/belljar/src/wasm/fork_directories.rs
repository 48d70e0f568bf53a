//! Workspaces of forks. Making a directory can cost more than everything else a fork does, and most
//! forks leave theirs empty: the next fork of the family gets it.

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use belljar_core::SandboxError;
use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, UTIME_NOW};
use tempfile::TempDir;

use crate::workspace_files;

/// Empty directories that are kept for later forks; more are removed at once.
const MAX_SPARE: usize = 4;

/// Empty directories of a session and all its forks, removed when the last of them is gone.
#[derive(Debug, Default)]
pub(super) struct ForkDirectories {
    spare: Mutex<Vec<Made>>,
}

#[derive(Debug)]
struct Made {
    directory: TempDir,
    /// As it was made: a directory that has held much stays large.
    bytes: u64,
}

/// The workspace of one fork. Dropped, it is removed or kept for the next fork.
#[derive(Debug)]
pub(super) struct ForkDirectory {
    path: PathBuf,
    made: Option<Made>,
    family: Arc<ForkDirectories>,
}

impl ForkDirectories {
    /// An empty directory that nobody else may enter.
    pub(super) fn take(self: &Arc<Self>) -> Result<ForkDirectory, SandboxError> {
        // Asked again: it has lain where other programs of this user can reach it.
        let spare = self.spare().pop().filter(Made::is_as_new);
        let made = spare.map_or_else(Made::new, Ok)?;
        let path = made.directory.path().to_owned();
        Ok(ForkDirectory { path, made: Some(made), family: Arc::clone(self) })
    }

    fn spare(&self) -> MutexGuard<'_, Vec<Made>> {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a directory that is as good as a new one, and removes any other.
    fn give_back(&self, made: Made) {
        if made.is_as_new() {
            let mut spare = self.spare();
            if spare.len() < MAX_SPARE {
                spare.push(made);
            }
        }
    }
}

impl Made {
    fn new() -> Result<Self, SandboxError> {
        let directory = workspace_files::temporary()?;
        let bytes = fs::symlink_metadata(directory.path()).map_or(0, |metadata| metadata.len());
        Ok(Self { directory, bytes })
    }

    /// Whether nothing tells it from one just made, so that no fork learns of another.
    fn is_as_new(&self) -> bool {
        let path = self.directory.path();
        let as_made = |metadata: Metadata| {
            metadata.is_dir() && metadata.len() == self.bytes && metadata.mode() & 0o7777 == 0o700
        };
        fs::symlink_metadata(path).is_ok_and(as_made)
            && fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none())
            && forget_times(path).is_ok()
    }
}

fn forget_times(path: &Path) -> rustix::io::Result<()> {
    let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
    let times = Timestamps { last_access: now, last_modification: now };
    rustix::fs::utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW)
}

impl ForkDirectory {
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Removes it now. What knows its path may still be there, so no other fork may get it.
    pub(super) fn close(mut self) -> std::io::Result<()> {
        self.made.take().map_or(Ok(()), |made| made.directory.close())
    }
}

impl Drop for ForkDirectory {
    fn drop(&mut self) {
        if let Some(made) = self.made.take() {
            self.family.give_back(made);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(family: &Arc<ForkDirectories>) -> ForkDirectory {
        family.take().expect("a directory")
    }

    #[test]
    fn an_empty_directory_is_used_again() {
        let family = Arc::new(ForkDirectories::default());
        let first = taken(&family).path().to_owned();
        assert_eq!(taken(&family).path(), first);
        drop(family);
        assert!(!first.exists());
    }

    #[test]
    fn a_directory_that_was_used_is_not() {
        let family = Arc::new(ForkDirectories::default());
        let used = |change: fn(&Path)| {
            let directory = taken(&family);
            change(directory.path());
            let path = directory.path().to_owned();
            drop(directory);
            assert!(!path.exists(), "a directory with traces was kept");
        };
        used(|path| fs::write(path.join("f"), "x").expect("a file"));
        used(|path| {
            let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
            fs::set_permissions(path, open).expect("its owner may");
        });
    }

    #[test]
    fn times_tell_nothing() {
        let family = Arc::new(ForkDirectories::default());
        let directory = taken(&family);
        let old = Timespec { tv_sec: 1, tv_nsec: 0 };
        let times = Timestamps { last_access: old, last_modification: old };
        rustix::fs::utimensat(CWD, directory.path(), &times, AtFlags::empty()).expect("times");
        drop(directory);
        let again = taken(&family);
        assert_ne!(fs::metadata(again.path()).expect("it is there").mtime(), 1);
    }

    #[test]
    fn a_closed_one_is_gone() {
        let family = Arc::new(ForkDirectories::default());
        let directory = taken(&family);
        let path = directory.path().to_owned();
        directory.close().expect("it is empty");
        assert!(!path.exists());
        assert_ne!(taken(&family).path(), path);
    }

    #[test]
    fn only_a_few_are_kept() {
        let family = Arc::new(ForkDirectories::default());
        let forks: Vec<_> = (0..MAX_SPARE + 3).map(|_| taken(&family)).collect();
        let paths: Vec<_> = forks.iter().map(|fork| fork.path().to_owned()).collect();
        drop(forks);
        assert_eq!(paths.iter().filter(|path| path.exists()).count(), MAX_SPARE);
    }

    #[test]
    fn a_spare_one_that_somebody_has_used_meanwhile_is_not_taken() {
        let family = Arc::new(ForkDirectories::default());
        let path = taken(&family).path().to_owned();
        fs::write(path.join("left by somebody"), "").expect("a file");
        assert_ne!(taken(&family).path(), path);
    }
}
