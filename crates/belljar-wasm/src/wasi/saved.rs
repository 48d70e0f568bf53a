//! What a guest holds of its host, as data: saved with a session, opened again elsewhere.
//!
//! Nothing in here is a right. Where a session comes back to life it gets what the new grant gives,
//! and what it held beyond that is gone.

use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use belljar_core::limits::{MAX_OPEN_FILES, MAX_PATH_BYTES};
use cap_std::fs::{Metadata, OpenOptions, OpenOptionsExt};
use serde::{Deserialize, Serialize};

use super::paths::open_flags;
use super::sources::{Clock, Random, SavedClock};
use super::table::{Descriptor, Entry, Identity, OpenDir, OpenFile, Table};
use super::{Grant, Mount, Wasi};

/// The state of a guest's WASI.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SavedWasi {
    descriptors: Vec<SavedEntry>,
    /// Bytes and files added to the workspace so far.
    used: (u64, u64),
    clock: SavedClock,
    /// How far the seeded sequence has come, where there is one.
    random: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum SavedEntry {
    Free,
    Gone,
    Stdin,
    Stdout,
    Stderr,
    Root { preopened: bool },
    Dir { mount: String, path: PathBuf, preopened: bool },
    File(SavedFile),
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SavedFile {
    mount: String,
    path: PathBuf,
    position: u64,
    readable: bool,
    writable: bool,
    append: bool,
}

impl Wasi {
    pub fn save(&self) -> SavedWasi {
        SavedWasi {
            descriptors: self.table.entries().iter().map(|entry| self.save_entry(entry)).collect(),
            used: self.ledger.used(),
            clock: self.clock.save(),
            random: self.random.save(),
        }
    }

    fn save_entry(&self, entry: &Entry) -> SavedEntry {
        let mount = |index: usize| self.mounts[index].guest_path.clone();
        match entry {
            Entry::Free => SavedEntry::Free,
            Entry::Gone | Entry::Open(Descriptor::Overlay(_)) => SavedEntry::Gone,
            Entry::Open(Descriptor::Stdin) => SavedEntry::Stdin,
            Entry::Open(Descriptor::Stdout) => SavedEntry::Stdout,
            Entry::Open(Descriptor::Stderr) => SavedEntry::Stderr,
            Entry::Open(Descriptor::Root { preopened }) => {
                SavedEntry::Root { preopened: *preopened }
            }
            Entry::Open(Descriptor::Dir(dir)) if dir.path.to_str().is_some() => SavedEntry::Dir {
                mount: mount(dir.mount),
                path: dir.path.clone(),
                preopened: dir.preopened_as.is_some(),
            },
            Entry::Open(Descriptor::File(
                file @ OpenFile { path: Some(path), position, readable, writable, append, .. },
            )) if path.to_str().is_some() => SavedEntry::File(SavedFile {
                mount: mount(file.mount),
                path: path.clone(),
                position: *position,
                readable: *readable,
                writable: *writable,
                append: *append,
            }),
            // Without a name, or with one that is no text, it cannot be found again.
            Entry::Open(Descriptor::Dir(_) | Descriptor::File(_)) => SavedEntry::Gone,
        }
    }

    /// A guest that goes on from a saved state, with what it is given now.
    pub fn restore(grant: Grant, saved: &SavedWasi) -> Wasi {
        let mut wasi = Wasi::new(grant);
        let entries = saved.descriptors.iter().take(MAX_OPEN_FILES);
        wasi.table = Table::from_entries(
            entries.map(|entry| reopen(&wasi.mounts, entry).unwrap_or(Entry::Gone)).collect(),
        );
        wasi.ledger.set_used(saved.used);
        wasi.clock = Clock::restore(saved.clock, wasi.deterministic);
        wasi.random = Random::restore(saved.random, wasi.deterministic);
        wasi
    }

    /// What of this has to be put back when a cell is undone. Files stay as they are on disk, and
    /// so does the account of them.
    pub fn checkpoint(&self) -> Undo {
        Undo { table: self.table.clone(), random: self.random.clone(), clock: self.clock.clone() }
    }

    pub fn undo(&mut self, undo: Undo) {
        let abandoned = std::mem::replace(&mut self.table, undo.table);
        self.random = undo.random;
        if matches!(undo.clock, Clock::Fixed { .. }) {
            self.clock = undo.clock;
        }
        // A file without a name takes room as long as a descriptor leads to it.
        for bytes in nameless_beside(&self.table, &abandoned) {
            self.ledger.add_bytes(bytes);
        }
        for bytes in nameless_beside(&abandoned, &self.table) {
            self.ledger.credit_bytes(bytes);
        }
    }
}

/// Sizes of the files without a name that one table holds and the other does not.
fn nameless_beside(table: &Table, other: &Table) -> Vec<u64> {
    let mut seen: Vec<Identity> = Vec::new();
    let mut sizes = Vec::new();
    for entry in table.entries() {
        let Entry::Open(Descriptor::File(file)) = entry else { continue };
        if seen.contains(&file.identity) || other.holds(file.identity) {
            continue;
        }
        seen.push(file.identity);
        if let Ok(metadata) = file.file.metadata()
            && std::os::unix::fs::MetadataExt::nlink(&metadata) == 0
        {
            sizes.push(metadata.len());
        }
    }
    sizes
}

/// Descriptors, seeded randomness and a fixed clock at some time.
pub struct Undo {
    table: Table,
    random: Random,
    clock: Clock,
}

/// `None` when what was open is not there, or not given, any more.
fn reopen(mounts: &[Mount], saved: &SavedEntry) -> Option<Entry> {
    let mount_at = |name: &str| mounts.iter().position(|mount| mount.guest_path == name);
    let descriptor = match saved {
        SavedEntry::Free => return Some(Entry::Free),
        SavedEntry::Gone => return Some(Entry::Gone),
        SavedEntry::Stdin => Descriptor::Stdin,
        SavedEntry::Stdout => Descriptor::Stdout,
        SavedEntry::Stderr => Descriptor::Stderr,
        SavedEntry::Root { preopened } => Descriptor::Root { preopened: *preopened },
        SavedEntry::Dir { mount, path, preopened } => {
            let index = mount_at(mount)?;
            let whole = path.as_os_str().is_empty();
            let dir = if whole {
                Arc::clone(&mounts[index].dir)
            } else {
                Arc::new(mounts[index].dir.open_dir(plain(path)?).ok()?)
            };
            Descriptor::Dir(OpenDir {
                dir,
                mount: index,
                path: path.clone(),
                preopened_as: (*preopened && whole).then(|| mount.clone()),
                listing: Vec::new(),
            })
        }
        SavedEntry::File(saved) => {
            let index = mount_at(&saved.mount)?;
            Descriptor::File(reopen_file(&mounts[index], index, saved)?)
        }
    };
    Some(Entry::Open(descriptor))
}

fn reopen_file(mount: &Mount, index: usize, saved: &SavedFile) -> Option<OpenFile> {
    if saved.writable && !mount.writable || i64::try_from(saved.position).is_err() {
        return None;
    }
    let mut options = OpenOptions::new();
    options
        .read(saved.readable || !saved.writable)
        .write(saved.writable)
        .custom_flags(open_flags());
    let file = mount.dir.open_with(plain(&saved.path)?, &options).ok()?.into_std();
    let metadata = Metadata::from_file(&file).ok()?;
    metadata.is_file().then(|| OpenFile {
        identity: Identity::of(&metadata),
        file: Arc::new(file),
        mount: index,
        path: Some(saved.path.clone()),
        position: saved.position,
        readable: saved.readable,
        writable: saved.writable,
        append: saved.append,
    })
}

/// A path that goes only down. cap-std would keep others inside as well; ours have no reason to be.
fn plain(path: &Path) -> Option<&Path> {
    let plain = path.components().all(|part| matches!(part, Component::Normal(_)));
    (plain && path.as_os_str().len() <= MAX_PATH_BYTES).then_some(path)
}
