//! What a guest does with a path. Every path is relative to a directory the guest holds, and
//! cap-std keeps it below that directory whatever links and dots it contains.

use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use belljar_core::limits::{MAX_LISTED_FILES, MAX_MOVED_PATH_BYTES, MAX_PATH_BYTES};
use cap_fs_ext::{DirExt, FollowSymlinks, OpenOptionsFollowExt, SystemTimeSpec};
use cap_std::fs::{Dir, Metadata, MetadataExt, OpenOptions, OpenOptionsExt};
use cap_std::time::SystemTime as CapTime;

use super::Wasi;
use super::errno::{Errno, Result};
use super::files::{FileStat, NewTimes, identity};
use super::table::{Descriptor, Identity, Kind, OpenDir, OpenFile, OpenOverlay};
use super::view::View;

const LOOKUP_FOLLOW: u32 = 1;

const OPEN_CREATE: u32 = 1;
const OPEN_DIRECTORY: u32 = 2;
const OPEN_EXCLUSIVE: u32 = 4;
const OPEN_TRUNCATE: u32 = 8;

const RIGHT_READ: u64 = 1 << 1 | 1 << 14;
const RIGHTS_TO_WRITE: u64 = 1 << 6 | 1 << 8 | 1 << 22;

const FLAG_APPEND: u32 = 1;

/// Names one file may have. A change under one of them is noted under all.
const MAX_LINKS: u64 = 256;

/// Opening must never wait (a named pipe) nor make a terminal ours.
pub(super) fn open_flags() -> i32 {
    let flags = rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOCTTY;
    i32::try_from(flags.bits()).unwrap_or(0)
}

/// The arguments of `path_open`, decoded.
pub struct Open {
    pub follow: bool,
    pub create: bool,
    pub directory: bool,
    pub exclusive: bool,
    pub truncate: bool,
    pub read: bool,
    pub write: bool,
    pub append: bool,
}

impl Open {
    pub fn from_wasi(lookup: u32, open: u32, rights: u64, flags: u32) -> Open {
        Open {
            follow: lookup & LOOKUP_FOLLOW != 0,
            create: open & OPEN_CREATE != 0,
            directory: open & OPEN_DIRECTORY != 0,
            exclusive: open & OPEN_EXCLUSIVE != 0,
            truncate: open & OPEN_TRUNCATE != 0,
            read: rights & RIGHT_READ != 0,
            write: rights & RIGHTS_TO_WRITE != 0,
            append: flags & FLAG_APPEND != 0,
        }
    }

    fn changes_something(&self) -> bool {
        self.write || self.create || self.truncate
    }
}

/// A path in the guest's memory (address and length), relative to a descriptor.
#[derive(Clone, Copy)]
pub struct PathAt {
    pub fd: u32,
    pub path: (u32, u32),
}

/// A directory the guest holds, and where it is.
struct Place {
    dir: Arc<Dir>,
    mount: usize,
    path: PathBuf,
}

impl Wasi {
    pub fn path_open(
        &mut self,
        view: &View<'_>,
        fd: u32,
        path: (u32, u32),
        open: &Open,
    ) -> Result<u32> {
        let path = read_path(view, path)?;
        self.table.has_room()?;
        let place = match self.place(fd) {
            Ok(place) => place,
            // "/" itself may be opened, to be listed.
            Err(_) if is_dot(&path) && !open.changes_something() => {
                return self.table.insert(Descriptor::Root { preopened: false });
            }
            Err(errno) => return Err(self.denied(errno, &path)),
        };
        place.check_length(&path)?;
        if let Some(contents) = self.overlay_at(&place, &path) {
            return if open.changes_something() {
                Err(Errno::ROFS)
            } else {
                self.table.insert(Descriptor::Overlay(OpenOverlay { contents, position: 0 }))
            };
        }
        if open.directory {
            return self.open_directory(&place, &path, open);
        }
        if open.changes_something() && !self.mounts[place.mount].writable {
            return Err(Errno::ROFS);
        }
        self.open_file(&place, &path, open)
    }

    fn open_directory(&mut self, place: &Place, path: &Path, open: &Open) -> Result<u32> {
        let opened =
            if open.follow { place.dir.open_dir(path) } else { place.dir.open_dir_nofollow(path) };
        let dir = opened.map_err(|error| self.denied(error.into(), path))?;
        self.insert_directory(place, path, dir)
    }

    fn insert_directory(&mut self, place: &Place, path: &Path, dir: Dir) -> Result<u32> {
        let path = place.real_path(path);
        self.table.insert(Descriptor::Dir(OpenDir {
            dir: Arc::new(dir),
            mount: place.mount,
            path,
            preopened_as: None,
            listing: Vec::new(),
        }))
    }

    fn open_file(&mut self, place: &Place, path: &Path, open: &Open) -> Result<u32> {
        let creates =
            open.create && place.stat(path, open.follow).is_err_and(|errno| errno == Errno::NOENT);
        if creates {
            self.ledger.charge_file()?;
        }
        let file = place.open(path, open).map_err(|errno| {
            if creates {
                self.ledger.credit_file();
            }
            self.denied(errno, path)
        })?;
        let metadata = Metadata::from_file(&file)?;
        if metadata.is_dir() {
            if open.write {
                return Err(Errno::ISDIR);
            }
            return self.insert_directory(place, path, Dir::from_std_file(file));
        }
        if !metadata.is_file() {
            // A pipe, socket or device that somebody put into the workspace.
            return Err(Errno::ACCES);
        }
        // Where a link leads matters only to the account of changes.
        let name = if open.changes_something() {
            place.real_path(path)
        } else {
            lexical(&place.path, path)
        };
        if creates {
            self.ledger.created(name.clone());
        } else if open.truncate && metadata.len() > 0 {
            file.set_len(0)?;
            self.ledger.credit_bytes(metadata.len());
            self.ledger.changed(&name);
        }
        self.table.insert(Descriptor::File(OpenFile {
            identity: identity(&file)?,
            file: Arc::new(file),
            mount: place.mount,
            path: Some(name),
            position: 0,
            readable: open.read,
            writable: open.write,
            append: open.append,
        }))
    }

    pub fn path_filestat(
        &mut self,
        view: &mut View<'_>,
        fd: u32,
        lookup: u32,
        path: (u32, u32),
        out: u32,
    ) -> Result<()> {
        let path = read_path(view, path)?;
        let stat = match self.place(fd) {
            Ok(place) => match self.overlay_at(&place, &path) {
                Some(contents) => FileStat::bare(Kind::File, contents.len() as u64),
                None => self.stat_of(place.mount, &place.stat(&path, lookup & LOOKUP_FOLLOW != 0)?),
            },
            Err(_) if self.leads_to_a_mount(&path) => FileStat::bare(Kind::Directory, 0),
            Err(_) => return Err(Errno::NOENT),
        };
        view.write(out, &stat.to_bytes())
    }

    pub fn path_set_times(
        &mut self,
        view: &View<'_>,
        fd: u32,
        lookup: u32,
        path: (u32, u32),
        times: &NewTimes,
    ) -> Result<()> {
        let (place, path) = self.writable_place(view, fd, path)?;
        let kind = Kind::of(place.stat(&path, lookup & LOOKUP_FOLLOW != 0)?.file_type());
        if kind == Kind::Unknown {
            // A pipe that somebody left there: touching it would wait for a reader.
            return Err(Errno::ACCES);
        }
        let spec = |time: Option<std::time::SystemTime>| {
            time.map(|time| SystemTimeSpec::Absolute(CapTime::from_std(time)))
        };
        let (accessed, modified) = (spec(times.accessed), spec(times.modified));
        if lookup & LOOKUP_FOLLOW != 0 {
            place.dir.set_times(path, accessed, modified)?;
        } else {
            place.dir.set_symlink_times(path, accessed, modified)?;
        }
        Ok(())
    }

    pub fn path_create_directory(
        &mut self,
        view: &View<'_>,
        fd: u32,
        path: (u32, u32),
    ) -> Result<()> {
        let (place, path) = self.writable_place(view, fd, path)?;
        self.ledger.charge_file()?;
        place.dir.create_dir(&path).map_err(|error| {
            self.ledger.credit_file();
            self.denied(error.into(), &path)
        })
    }

    pub fn path_remove_directory(
        &mut self,
        view: &View<'_>,
        fd: u32,
        path: (u32, u32),
    ) -> Result<()> {
        let (place, path) = self.writable_place(view, fd, path)?;
        place.dir.remove_dir(&path).map_err(|error| self.denied(error.into(), &path))?;
        self.ledger.credit_file();
        Ok(())
    }

    pub fn path_unlink(&mut self, view: &View<'_>, fd: u32, path: (u32, u32)) -> Result<()> {
        let (place, path) = self.writable_place(view, fd, path)?;
        let metadata = place.stat(&path, false).map_err(|errno| self.denied(errno, &path))?;
        let real = place.real_entry(&path);
        place.dir.remove_file(&path)?;
        self.forget_file(real, &metadata);
        Ok(())
    }

    /// Notes that a name is gone, and its space if that was the last way to it.
    fn forget_file(&mut self, path: PathBuf, metadata: &Metadata) {
        self.table.unlinked(Identity::of(metadata), &path);
        self.ledger.removed(path);
        self.ledger.credit_file();
        if metadata.is_file() && metadata.nlink() == 1 && !self.table.holds(Identity::of(metadata))
        {
            self.ledger.credit_bytes(metadata.len());
        }
    }

    pub fn path_rename(&mut self, view: &View<'_>, from: PathAt, to: PathAt) -> Result<()> {
        let ((from_place, from), (to_place, to)) = self.writable_places(view, from, to)?;
        let moved = from_place.stat(&from, false).map_err(|errno| self.denied(errno, &from))?;
        let replaced = to_place.stat(&to, false).ok();
        if replaced.as_ref().is_some_and(|replaced| Identity::of(replaced) == Identity::of(&moved))
        {
            return Ok(());
        }
        let real_from = from_place.real_entry(&from);
        let inside = if moved.is_dir() {
            files_below(&from_place.dir.open_dir(&from)?)?
        } else {
            Vec::new()
        };
        from_place
            .dir
            .rename(&from, &to_place.dir, &to)
            .map_err(|error| self.denied(error.into(), &to))?;
        let real_to = to_place.real_entry(&to);
        match replaced {
            Some(replaced) if replaced.is_dir() => self.ledger.credit_file(),
            Some(replaced) => self.forget_file(real_to.clone(), &replaced),
            None => {}
        }
        if moved.is_dir() {
            for file in inside {
                self.ledger.renamed(real_from.join(&file), real_to.join(&file));
            }
        } else {
            self.ledger.renamed(real_from.clone(), real_to.clone());
        }
        self.table.moved(from_place.mount, &real_from, &real_to);
        Ok(())
    }

    pub fn path_link(&mut self, view: &View<'_>, from: PathAt, to: PathAt) -> Result<()> {
        let ((from_place, from), (to_place, to)) = self.writable_places(view, from, to)?;
        if from_place.stat(&from, false)?.nlink() >= MAX_LINKS {
            return Err(Errno::MLINK);
        }
        self.ledger.charge_file()?;
        from_place.dir.hard_link(&from, &to_place.dir, &to).map_err(|error| {
            self.ledger.credit_file();
            self.denied(error.into(), &to)
        })?;
        self.ledger.linked(from_place.real_entry(&from), to_place.real_entry(&to));
        Ok(())
    }

    pub fn path_symlink(
        &mut self,
        view: &View<'_>,
        target: (u32, u32),
        fd: u32,
        path: (u32, u32),
    ) -> Result<()> {
        let target = read_path(view, target)?;
        let (place, path) = self.writable_place(view, fd, path)?;
        self.ledger.charge_file()?;
        // cap-std refuses absolute targets; relative ones are checked whenever they are followed.
        place.dir.symlink(&target, &path).map_err(|error| {
            self.ledger.credit_file();
            self.denied(error.into(), &target)
        })?;
        self.ledger.created(place.real_entry(&path));
        Ok(())
    }

    pub fn path_readlink(
        &mut self,
        view: &mut View<'_>,
        fd: u32,
        path: (u32, u32),
        out: u32,
        len: u32,
    ) -> Result<u32> {
        let path = read_path(view, path)?;
        let place = self.place(fd).map_err(|_| Errno::NOENT)?;
        // Refuses absolute targets, which would tell the guest about the host.
        let target = place.dir.read_link(&path)?;
        let target = target.as_os_str().as_encoded_bytes();
        let fits = target.len().min(len as usize);
        let used = u32::try_from(fits).map_err(|_| Errno::OVERFLOW)?;
        view.bytes_mut(out, used)?.copy_from_slice(&target[..fits]);
        Ok(used)
    }

    /// The directory behind a descriptor; `PERM` for the root, which holds only mounts.
    fn place(&self, fd: u32) -> Result<Place> {
        match self.table.get(fd)? {
            Descriptor::Dir(dir) => {
                Ok(Place { dir: Arc::clone(&dir.dir), mount: dir.mount, path: dir.path.clone() })
            }
            Descriptor::Root { .. } => Err(Errno::PERM),
            Descriptor::Stdin
            | Descriptor::Stdout
            | Descriptor::Stderr
            | Descriptor::File(_)
            | Descriptor::Overlay(_) => Err(Errno::NOTDIR),
        }
    }

    fn writable_place(
        &mut self,
        view: &View<'_>,
        fd: u32,
        path: (u32, u32),
    ) -> Result<(Place, PathBuf)> {
        let path = read_path(view, path)?;
        let place = self.place(fd).map_err(|errno| self.denied(errno, &path))?;
        if !self.mounts[place.mount].writable || self.overlay_at(&place, &path).is_some() {
            return Err(Errno::ROFS);
        }
        place.check_length(&path)?;
        Ok((place, path))
    }

    /// Both ends of a rename or a link: a name cannot move to another mount.
    fn writable_places(
        &mut self,
        view: &View<'_>,
        from: PathAt,
        to: PathAt,
    ) -> Result<((Place, PathBuf), (Place, PathBuf))> {
        let from = self.writable_place(view, from.fd, from.path)?;
        let to = self.writable_place(view, to.fd, to.path)?;
        if from.0.mount == to.0.mount { Ok((from, to)) } else { Err(Errno::XDEV) }
    }

    /// Remembers that the guest reached for something it may not have.
    fn denied(&mut self, errno: Errno, path: &Path) -> Errno {
        if errno == Errno::PERM {
            self.denials.note(path);
        }
        errno
    }

    fn overlay_at(&self, place: &Place, path: &Path) -> Option<Arc<[u8]>> {
        let overlay = self.overlay.as_ref()?;
        let here =
            place.mount == overlay.mount && lexical(&place.path, path) == Path::new(&overlay.name);
        here.then(|| Arc::clone(&overlay.contents))
    }

    fn leads_to_a_mount(&self, path: &Path) -> bool {
        let wanted = lexical(Path::new(""), path);
        self.mounts
            .iter()
            .any(|mount| Path::new(mount.guest_path.trim_start_matches('/')).starts_with(&wanted))
    }
}

impl Place {
    /// Directories nest through descriptors without any one path being long; what is told about
    /// them must not be.
    fn check_length(&self, path: &Path) -> Result<()> {
        let whole = self.path.as_os_str().len() + path.as_os_str().len();
        if whole < MAX_PATH_BYTES { Ok(()) } else { Err(Errno::NAMETOOLONG) }
    }

    fn open(&self, path: &Path, open: &Open) -> Result<std::fs::File> {
        let mut options = OpenOptions::new();
        options.read(open.read || !open.write).write(open.write).custom_flags(open_flags());
        options.follow(if open.follow { FollowSymlinks::Yes } else { FollowSymlinks::No });
        if open.create && open.exclusive {
            options.write(true).create_new(true);
        } else if open.create {
            options.write(true).create(true);
        } else if open.truncate {
            options.write(true);
        }
        Ok(self.dir.open_with(path, &options)?.into_std())
    }

    fn stat(&self, path: &Path, follow: bool) -> Result<Metadata> {
        let metadata =
            if follow { self.dir.metadata(path) } else { self.dir.symlink_metadata(path) };
        Ok(metadata?)
    }

    /// Where `path` really is below the mount, all links resolved.
    fn real_path(&self, path: &Path) -> PathBuf {
        let mut components = path.components();
        let plain =
            matches!((components.next(), components.next()), (Some(Component::Normal(_)), None));
        if plain && self.dir.symlink_metadata(path).is_ok_and(|metadata| !metadata.is_symlink()) {
            return self.path.join(path);
        }
        match self.dir.canonicalize(path) {
            Ok(real) => lexical(&self.path, &real),
            Err(_) => lexical(&self.path, path),
        }
    }

    /// Like `real_path`, but of the entry itself: its last component is not followed.
    fn real_entry(&self, path: &Path) -> PathBuf {
        match (path.parent(), path.file_name()) {
            (Some(parent), Some(name)) if !parent.as_os_str().is_empty() => {
                self.real_path(parent).join(name)
            }
            _ => lexical(&self.path, path),
        }
    }
}

fn read_path(view: &View<'_>, (address, len): (u32, u32)) -> Result<PathBuf> {
    if len as usize > MAX_PATH_BYTES {
        return Err(Errno::NAMETOOLONG);
    }
    let text = std::str::from_utf8(view.bytes(address, len)?).map_err(|_| Errno::ILSEQ)?;
    if text.contains('\0') {
        return Err(Errno::INVAL);
    }
    if text.is_empty() {
        return Err(Errno::NOENT);
    }
    Ok(PathBuf::from(text))
}

fn is_dot(path: &Path) -> bool {
    path.components().all(|component| matches!(component, Component::CurDir | Component::RootDir))
}

/// Joins without looking at the disk.
fn lexical(base: &Path, path: &Path) -> PathBuf {
    let mut joined = base.to_path_buf();
    for component in path.components() {
        match component {
            Component::Normal(name) => joined.push(name),
            Component::ParentDir => {
                joined.pop();
            }
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    joined
}

/// Every file and link below a directory, relative to it. One directory is open at a time, and a
/// tree too large to be told in a result is refused.
fn files_below(top: &Dir) -> Result<Vec<PathBuf>> {
    let (mut files, mut bytes) = (Vec::new(), 0);
    let mut pending = vec![PathBuf::new()];
    while let Some(folder) = pending.pop() {
        for entry in top.read_dir(Path::new(".").join(&folder))? {
            let entry = entry?;
            let path = folder.join(entry.file_name());
            bytes += path.as_os_str().len();
            if files.len() + pending.len() >= MAX_LISTED_FILES || bytes > MAX_MOVED_PATH_BYTES {
                return Err(Errno::NOMEM);
            }
            if entry.file_type()?.is_dir() {
                pending.push(path);
            } else {
                files.push(path);
            }
        }
    }
    Ok(files)
}
