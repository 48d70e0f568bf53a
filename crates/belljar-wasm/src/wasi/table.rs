//! What a guest's descriptors stand for.

use std::ffi::OsString;
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;

use belljar_core::limits::MAX_OPEN_FILES;
use cap_std::fs::{Dir, Metadata, MetadataExt};

use super::errno::{Errno, Result};

/// A directory of the host that the guest sees.
#[derive(Clone)]
pub struct Mount {
    /// Where it sees it.
    pub guest_path: String,
    /// The directory, open.
    pub dir: Arc<Dir>,
    /// Whether it may change it.
    pub writable: bool,
}

/// A file that exists only for the guest: read-only, in the root of a mount.
#[derive(Clone)]
pub struct Overlay {
    /// Index of the mount.
    pub mount: usize,
    /// Its name there.
    pub name: String,
    /// What it holds.
    pub contents: Arc<[u8]>,
}

#[derive(Clone)]
pub enum Descriptor {
    Stdin,
    Stdout,
    Stderr,
    /// The directory above all mounts. It holds nothing else: every other path through it is denied.
    Root {
        preopened: bool,
    },
    Dir(OpenDir),
    File(OpenFile),
    Overlay(OpenOverlay),
}

#[derive(Clone)]
pub struct OpenDir {
    pub dir: Arc<Dir>,
    pub mount: usize,
    /// Where it is below its mount; empty for the mount itself.
    pub path: PathBuf,
    /// The name under which the guest was given it at the start.
    pub preopened_as: Option<String>,
    /// What the last full listing found, so that cookies stay valid while entries change.
    pub listing: Vec<Listed>,
}

#[derive(Clone)]
pub struct Listed {
    pub name: OsString,
    pub inode: u64,
    pub kind: Kind,
}

#[derive(Clone)]
pub struct OpenFile {
    pub file: Arc<File>,
    pub mount: usize,
    /// Where it is below its mount; `None` when it has no name any more.
    pub path: Option<PathBuf>,
    pub position: u64,
    pub readable: bool,
    pub writable: bool,
    pub append: bool,
    pub identity: Identity,
}

#[derive(Clone)]
pub struct OpenOverlay {
    pub contents: Arc<[u8]>,
    pub position: u64,
}

/// Which file a name or descriptor leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    device: u64,
    inode: u64,
}

impl Identity {
    pub fn of(metadata: &Metadata) -> Identity {
        Identity { device: metadata.dev(), inode: metadata.ino() }
    }
}

/// WASI's file types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Unknown = 0,
    CharacterDevice = 2,
    Directory = 3,
    File = 4,
    Symlink = 7,
}

impl Kind {
    pub fn of(kind: cap_std::fs::FileType) -> Kind {
        if kind.is_dir() {
            Kind::Directory
        } else if kind.is_file() {
            Kind::File
        } else if kind.is_symlink() {
            Kind::Symlink
        } else {
            Kind::Unknown
        }
    }
}

/// The guest's descriptors by number.
#[derive(Clone)]
pub struct Table(Vec<Entry>);

#[derive(Clone)]
pub enum Entry {
    Free,
    Open(Descriptor),
    /// Was open when the session was saved, and cannot be opened here. The guest may close it.
    Gone,
}

impl Entry {
    fn open(&self) -> Result<&Descriptor> {
        match self {
            Entry::Open(descriptor) => Ok(descriptor),
            Entry::Free => Err(Errno::BADF),
            Entry::Gone => Err(Errno::STALE),
        }
    }
}

impl Table {
    pub fn new(descriptors: impl IntoIterator<Item = Descriptor>) -> Table {
        Table(descriptors.into_iter().map(Entry::Open).collect())
    }

    pub fn from_entries(entries: Vec<Entry>) -> Table {
        Table(entries)
    }

    pub fn entries(&self) -> &[Entry] {
        &self.0
    }

    fn open(&self) -> impl Iterator<Item = &Descriptor> {
        self.0.iter().filter_map(|entry| entry.open().ok())
    }

    fn open_mut(&mut self) -> impl Iterator<Item = &mut Descriptor> {
        self.0.iter_mut().filter_map(|entry| match entry {
            Entry::Open(descriptor) => Some(descriptor),
            Entry::Free | Entry::Gone => None,
        })
    }

    pub fn get(&self, fd: u32) -> Result<&Descriptor> {
        self.0.get(fd as usize).ok_or(Errno::BADF)?.open()
    }

    pub fn get_mut(&mut self, fd: u32) -> Result<&mut Descriptor> {
        match self.0.get_mut(fd as usize).ok_or(Errno::BADF)? {
            Entry::Open(descriptor) => Ok(descriptor),
            entry @ (Entry::Free | Entry::Gone) => Err(entry.open().err().unwrap_or(Errno::BADF)),
        }
    }

    pub fn file_mut(&mut self, fd: u32) -> Result<&mut OpenFile> {
        match self.get_mut(fd)? {
            Descriptor::File(file) => Ok(file),
            Descriptor::Dir(_) | Descriptor::Root { .. } => Err(Errno::ISDIR),
            Descriptor::Stdin | Descriptor::Stdout | Descriptor::Stderr => Err(Errno::SPIPE),
            Descriptor::Overlay(_) => Err(Errno::ROFS),
        }
    }

    pub fn has_room(&self) -> Result<()> {
        if self.open().count() < MAX_OPEN_FILES { Ok(()) } else { Err(Errno::MFILE) }
    }

    pub fn insert(&mut self, descriptor: Descriptor) -> Result<u32> {
        self.has_room()?;
        let free = self.0.iter().position(|entry| matches!(entry, Entry::Free));
        let fd = free.unwrap_or_else(|| {
            self.0.push(Entry::Free);
            self.0.len() - 1
        });
        self.0[fd] = Entry::Open(descriptor);
        u32::try_from(fd).map_err(|_| Errno::MFILE)
    }

    /// Frees a number; gives back what it stood for, unless that is gone.
    pub fn remove(&mut self, fd: u32) -> Result<Option<Descriptor>> {
        let entry = self.0.get_mut(fd as usize).ok_or(Errno::BADF)?;
        match std::mem::replace(entry, Entry::Free) {
            Entry::Open(descriptor) => Ok(Some(descriptor)),
            Entry::Gone => Ok(None),
            Entry::Free => Err(Errno::BADF),
        }
    }

    /// Puts a descriptor at a number that was in use before.
    pub fn insert_at(&mut self, fd: u32, descriptor: Descriptor) -> Result<()> {
        *self.0.get_mut(fd as usize).ok_or(Errno::BADF)? = Entry::Open(descriptor);
        Ok(())
    }

    /// What the listings that the guest has begun and not finished take.
    pub fn listing_bytes(&self) -> usize {
        let listings = self.open().filter_map(|descriptor| match descriptor {
            Descriptor::Dir(dir) => Some(&dir.listing),
            Descriptor::Stdin
            | Descriptor::Stdout
            | Descriptor::Stderr
            | Descriptor::Root { .. }
            | Descriptor::File(_)
            | Descriptor::Overlay(_) => None,
        });
        listings.flatten().map(|listed| size_of::<Listed>() + listed.name.len()).sum()
    }

    /// True when some descriptor still leads to this file.
    pub fn holds(&self, identity: Identity) -> bool {
        self.open().any(
            |descriptor| matches!(descriptor, Descriptor::File(file) if file.identity == identity),
        )
    }

    /// Open descriptors of a file that lost this name go on without one.
    pub fn unlinked(&mut self, identity: Identity, path: &std::path::Path) {
        for descriptor in self.open_mut() {
            if let Descriptor::File(file) = descriptor
                && file.identity == identity
                && file.path.as_deref() == Some(path)
            {
                file.path = None;
            }
        }
    }

    /// Keeps the paths of open descriptors true after a rename.
    pub fn moved(&mut self, mount: usize, from: &std::path::Path, to: &std::path::Path) {
        for descriptor in self.open_mut() {
            let (place, path) = match descriptor {
                Descriptor::Dir(dir) => (dir.mount, &mut dir.path),
                Descriptor::File(OpenFile { mount, path: Some(path), .. }) => (*mount, path),
                Descriptor::File(_)
                | Descriptor::Stdin
                | Descriptor::Stdout
                | Descriptor::Stderr
                | Descriptor::Root { .. }
                | Descriptor::Overlay(_) => continue,
            };
            if place == mount
                && let Ok(rest) = path.strip_prefix(from)
            {
                *path = if rest.as_os_str().is_empty() { to.to_path_buf() } else { to.join(rest) };
            }
        }
    }
}
