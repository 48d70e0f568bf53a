//! What a sandbox did to its workspace: which files it created, changed and removed, and how much
//! it may still add. Kept while it happens, so its cost does not depend on files nobody touched.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use belljar_core::limits::MAX_LISTED_FILES;

use super::errno::{Errno, Result};

/// How a file stands compared with the beginning.
#[derive(Debug)]
struct Entry {
    existed: bool,
    exists: bool,
    changed: bool,
}

/// Bytes and files a sandbox may add to its workspace.
#[derive(Clone, Copy, Debug)]
pub struct Quota {
    /// Bytes of files.
    pub bytes: u64,
    /// Files, directories and links.
    pub files: u64,
}

#[derive(Debug)]
pub struct Ledger {
    entries: BTreeMap<PathBuf, Entry>,
    /// Names the guest gave to one and the same file, a set for each file.
    links: Vec<BTreeSet<PathBuf>>,
    quota: Quota,
    bytes: u64,
    files: u64,
    exceeded: bool,
}

/// The files that differ from the beginning, sorted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Delta {
    /// There now, not before.
    pub created: Vec<String>,
    /// There before and now, with other contents.
    pub modified: Vec<String>,
    /// There before, not now.
    pub deleted: Vec<String>,
}

impl Ledger {
    pub fn new(quota: Quota) -> Ledger {
        Ledger {
            entries: BTreeMap::new(),
            links: Vec::new(),
            quota,
            bytes: 0,
            files: 0,
            exceeded: false,
        }
    }

    /// True once something was refused because of the quota.
    pub fn exceeded(&self) -> bool {
        self.exceeded
    }

    pub fn clear_exceeded(&mut self) {
        self.exceeded = false;
    }

    /// Bytes and files added so far.
    pub fn used(&self) -> (u64, u64) {
        (self.bytes, self.files)
    }

    /// Goes on from what a session had added before it came here.
    pub fn set_used(&mut self, (bytes, files): (u64, u64)) {
        (self.bytes, self.files) = (bytes, files);
    }

    /// Asks for room for more bytes. Only what is granted may be written.
    pub fn charge_bytes(&mut self, bytes: u64) -> Result<()> {
        if self.bytes.saturating_add(bytes) > self.quota.bytes {
            self.exceeded = true;
            return Err(Errno::NOSPC);
        }
        self.bytes = self.bytes.saturating_add(bytes);
        Ok(())
    }

    /// Counts bytes that are there whether there is room for them or not.
    pub fn add_bytes(&mut self, bytes: u64) {
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// Gives back bytes: a write that came out shorter, a file that shrank or went away.
    pub fn credit_bytes(&mut self, bytes: u64) {
        self.bytes = self.bytes.saturating_sub(bytes);
    }

    /// Asks for room for one more file, directory or link.
    pub fn charge_file(&mut self) -> Result<()> {
        if self.files >= self.quota.files {
            self.exceeded = true;
            return Err(Errno::NOSPC);
        }
        self.files += 1;
        Ok(())
    }

    pub fn credit_file(&mut self) {
        self.files = self.files.saturating_sub(1);
    }

    pub fn created(&mut self, path: PathBuf) {
        let entry = self.entries.entry(path).or_insert(Entry {
            existed: false,
            exists: true,
            changed: true,
        });
        entry.exists = true;
        entry.changed = true;
    }

    pub fn changed(&mut self, path: &Path) {
        match self.links.iter().find(|names| names.contains(path)) {
            Some(names) => {
                for name in names.clone() {
                    self.changed_under(&name);
                }
            }
            None => self.changed_under(path),
        }
    }

    fn changed_under(&mut self, path: &Path) {
        match self.entries.get_mut(path) {
            Some(entry) => entry.changed = true,
            None => {
                self.entries.insert(
                    path.to_path_buf(),
                    Entry { existed: true, exists: true, changed: true },
                );
            }
        }
    }

    /// A file has another name now.
    pub fn renamed(&mut self, from: PathBuf, to: PathBuf) {
        let others = self.links.iter().find(|names| names.contains(&from));
        let other = others.and_then(|names| names.iter().find(|name| **name != from)).cloned();
        self.removed(from);
        match other {
            Some(other) => self.linked(other, to),
            None => self.created(to),
        }
    }

    /// A file has got one more name.
    pub fn linked(&mut self, from: PathBuf, to: PathBuf) {
        self.created(to.clone());
        match self.links.iter_mut().find(|names| names.contains(&from)) {
            Some(names) => {
                names.insert(to);
            }
            None => self.links.push(BTreeSet::from([from, to])),
        }
    }

    pub fn removed(&mut self, path: PathBuf) {
        for names in &mut self.links {
            names.remove(&path);
        }
        self.links.retain(|names| names.len() > 1);
        let entry = self.entries.entry(path.clone()).or_insert(Entry {
            existed: true,
            exists: true,
            changed: false,
        });
        entry.exists = false;
        if !entry.existed {
            // Came and went: nothing to tell, and nothing to keep in memory.
            self.entries.remove(&path);
        }
    }

    /// What differs from the beginning.
    pub fn delta(&self) -> Delta {
        let mut delta = Delta::default();
        for (path, entry) in &self.entries {
            let list = match (entry.existed, entry.exists) {
                (false, true) => &mut delta.created,
                (true, false) => &mut delta.deleted,
                (true, true) if entry.changed => &mut delta.modified,
                (true, true) | (false, false) => continue,
            };
            if list.len() < MAX_LISTED_FILES {
                list.push(path.to_string_lossy().into_owned());
            }
        }
        delta
    }

    /// Begins anew: what is there now is the beginning. Quotas go on.
    pub fn restart_delta(&mut self) {
        self.entries.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ledger() -> Ledger {
        Ledger::new(Quota { bytes: 100, files: 2 })
    }

    #[test]
    fn a_file_that_came_and_went_leaves_no_trace() {
        let mut ledger = ledger();
        ledger.created("a".into());
        ledger.removed("a".into());
        assert_eq!(ledger.delta(), Delta::default());
        assert!(ledger.entries.is_empty());
    }

    #[test]
    fn a_file_removed_and_made_again_is_modified() {
        let mut ledger = ledger();
        ledger.removed("a".into());
        ledger.created("a".into());
        assert_eq!(ledger.delta(), Delta { modified: vec!["a".into()], ..Delta::default() });
    }

    #[test]
    fn a_created_file_stays_created_when_written_again() {
        let mut ledger = ledger();
        ledger.created("a".into());
        ledger.changed(Path::new("a"));
        assert_eq!(ledger.delta(), Delta { created: vec!["a".into()], ..Delta::default() });
    }

    #[test]
    fn a_change_under_one_name_is_a_change_under_all() {
        let mut ledger = ledger();
        ledger.linked("a".into(), "b".into());
        ledger.changed(Path::new("b"));
        let expected =
            Delta { created: vec!["b".into()], modified: vec!["a".into()], ..Delta::default() };
        assert_eq!(ledger.delta(), expected);
        ledger.renamed("b".into(), "c".into());
        let expected = Delta { created: vec!["c".into()], ..expected };
        assert_eq!(ledger.delta(), expected);
        ledger.removed("c".into());
        assert!(ledger.links.is_empty());
    }

    #[test]
    fn the_quota_refuses_what_does_not_fit_and_grants_what_does() {
        let mut ledger = ledger();
        assert_eq!(ledger.charge_bytes(101), Err(Errno::NOSPC));
        assert!(ledger.exceeded());
        assert_eq!(ledger.charge_bytes(100), Ok(()));
        ledger.credit_bytes(50);
        assert_eq!(ledger.charge_bytes(50), Ok(()));
        assert_eq!((ledger.charge_file(), ledger.charge_file()), (Ok(()), Ok(())));
        assert_eq!(ledger.charge_file(), Err(Errno::NOSPC));
    }
}
