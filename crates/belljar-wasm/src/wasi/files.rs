//! What a guest does with an open descriptor.

use std::os::unix::fs::FileExt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use belljar_core::limits::{MAX_IOVECS, MAX_LISTING_BYTES, MAX_TRANSFER_BYTES};
use cap_std::fs::Metadata;
use cap_std::fs::MetadataExt as _;

use super::errno::{Errno, Result};
use super::table::{Descriptor, Identity, Kind, Listed, OpenDir, OpenFile};
use super::view::View;
use super::{Abort, Wasi};

const RIGHT_WRITE: u64 = 1 << 6;
/// Everything but sockets; what a descriptor may really do is decided by the descriptor.
const ALL_RIGHTS: u64 = (1 << 29) - 1;
const FLAG_APPEND: u16 = 1;

const WHENCE_SET: u32 = 0;
const WHENCE_CURRENT: u32 = 1;
const WHENCE_END: u32 = 2;

/// Times to set, as WASI's flags ask for them.
pub struct NewTimes {
    pub accessed: Option<SystemTime>,
    pub modified: Option<SystemTime>,
}

impl NewTimes {
    pub fn from_wasi(accessed: u64, modified: u64, flags: u32) -> Result<NewTimes> {
        let pick = |set: u32, now: u32, value: u64| match (flags & set != 0, flags & now != 0) {
            (true, true) => Err(Errno::INVAL),
            (true, false) => Ok(Some(UNIX_EPOCH + Duration::from_nanos(value))),
            (false, true) => Ok(Some(SystemTime::now())),
            (false, false) => Ok(None),
        };
        Ok(NewTimes { accessed: pick(1, 2, accessed)?, modified: pick(4, 8, modified)? })
    }
}

/// How a write ended: with an error number for the guest, or with the end of the guest.
pub enum WriteError {
    Errno(Errno),
    Abort(Abort),
}

impl From<Errno> for WriteError {
    fn from(errno: Errno) -> WriteError {
        WriteError::Errno(errno)
    }
}

impl Wasi {
    pub fn fd_read(
        &mut self,
        view: &mut View<'_>,
        fd: u32,
        iovs: u32,
        count: u32,
        at: Option<u64>,
    ) -> Result<u32> {
        check_count(count)?;
        let mut done = 0u32;
        for index in 0..count {
            let (address, wanted) = view.iovec(iovs, index)?;
            let len = wanted.min(MAX_TRANSFER_BYTES - done);
            let buffer = view.bytes_mut(address, len)?;
            let position = at.map(|start| start.saturating_add(u64::from(done)));
            let read = read_once(self.table.get_mut(fd)?, buffer, position)?;
            done = done.checked_add(read).ok_or(Errno::INVAL)?;
            if read < wanted {
                break;
            }
        }
        Ok(done)
    }

    pub fn fd_write(
        &mut self,
        view: &View<'_>,
        fd: u32,
        iovs: u32,
        count: u32,
        at: Option<u64>,
    ) -> std::result::Result<u32, WriteError> {
        check_count(count)?;
        let mut done = 0u32;
        for index in 0..count {
            let (address, wanted) = view.iovec(iovs, index)?;
            let len = wanted.min(MAX_TRANSFER_BYTES - done);
            let bytes = view.bytes(address, len)?;
            let position = at.map(|start| start.saturating_add(u64::from(done)));
            match self.write_once(fd, bytes, position) {
                Ok(written) => {
                    done = done.checked_add(written).ok_or(Errno::INVAL)?;
                    if written < wanted {
                        break;
                    }
                }
                // What was written before counts; the guest meets the error at its next write.
                Err(WriteError::Errno(_)) if done > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    fn write_once(
        &mut self,
        fd: u32,
        bytes: &[u8],
        at: Option<u64>,
    ) -> std::result::Result<u32, WriteError> {
        let all = u32::try_from(bytes.len()).map_err(|_| Errno::INVAL)?;
        let output = match self.table.get_mut(fd)? {
            Descriptor::File(_) => return Ok(self.write_file(fd, bytes, at)?),
            Descriptor::Stdout => &mut self.stdout,
            Descriptor::Stderr => &mut self.stderr,
            Descriptor::Stdin => return Err(Errno::BADF.into()),
            Descriptor::Overlay(_) => return Err(Errno::ROFS.into()),
            Descriptor::Dir(_) | Descriptor::Root { .. } => return Err(Errno::ISDIR.into()),
        };
        if output.write(bytes) { Ok(all) } else { Err(WriteError::Abort(Abort::OutputFlood)) }
    }

    fn write_file(&mut self, fd: u32, bytes: &[u8], at: Option<u64>) -> Result<u32> {
        let file = self.table.file_mut(fd)?;
        if !file.writable {
            return Err(Errno::BADF);
        }
        let size = file.file.metadata()?.len();
        let position = at.unwrap_or(if file.append { size } else { file.position });
        let end = position.checked_add(bytes.len() as u64).ok_or(Errno::FBIG)?;
        self.ledger.charge_bytes(end.saturating_sub(size))?;
        let written = file.file.write_at(bytes, position);
        let reached = position + *written.as_ref().unwrap_or(&0) as u64;
        self.ledger.credit_bytes(end.saturating_sub(size) - reached.saturating_sub(size));
        let written = written?;
        if written > 0
            && let Some(path) = &file.path
        {
            self.ledger.changed(path);
        }
        if at.is_none() {
            file.position = reached;
        }
        u32::try_from(written).map_err(|_| Errno::OVERFLOW)
    }

    pub fn fd_set_size(&mut self, fd: u32, size: u64) -> Result<()> {
        let file = self.table.file_mut(fd)?;
        if !file.writable {
            return Err(Errno::INVAL);
        }
        let before = file.file.metadata()?.len();
        self.ledger.charge_bytes(size.saturating_sub(before))?;
        if let Err(error) = file.file.set_len(size) {
            self.ledger.credit_bytes(size.saturating_sub(before));
            return Err(error.into());
        }
        self.ledger.credit_bytes(before.saturating_sub(size));
        if size != before
            && let Some(path) = &file.path
        {
            self.ledger.changed(path);
        }
        Ok(())
    }

    /// posix_fallocate: the file is at least `offset + len` long afterwards.
    pub fn fd_allocate(&mut self, fd: u32, offset: u64, len: u64) -> Result<()> {
        let end = offset.checked_add(len).ok_or(Errno::FBIG)?;
        if self.table.file_mut(fd)?.file.metadata()?.len() < end {
            self.fd_set_size(fd, end)
        } else {
            Ok(())
        }
    }

    pub fn fd_seek(&mut self, fd: u32, offset: i64, whence: u32) -> Result<u64> {
        let (position, size) = match self.table.get_mut(fd)? {
            Descriptor::File(file) => {
                let size = file.file.metadata()?.len();
                (&mut file.position, size)
            }
            Descriptor::Overlay(overlay) => (&mut overlay.position, overlay.contents.len() as u64),
            Descriptor::Stdin | Descriptor::Stdout | Descriptor::Stderr => {
                return Err(Errno::SPIPE);
            }
            Descriptor::Dir(_) | Descriptor::Root { .. } => return Err(Errno::BADF),
        };
        let from = match whence {
            WHENCE_SET => 0,
            WHENCE_CURRENT => *position,
            WHENCE_END => size,
            _ => return Err(Errno::INVAL),
        };
        let target =
            from.checked_add_signed(offset).filter(|target| i64::try_from(*target).is_ok());
        *position = target.ok_or(Errno::INVAL)?;
        Ok(*position)
    }

    pub fn fd_sync(&mut self, fd: u32) -> Result<()> {
        match self.table.get(fd)? {
            // The workspace is scratch space: its durability is the host's business, and a guest
            // must not be able to keep the disk busy with syncs.
            Descriptor::File(_)
            | Descriptor::Dir(_)
            | Descriptor::Overlay(_)
            | Descriptor::Root { .. } => Ok(()),
            Descriptor::Stdin | Descriptor::Stdout | Descriptor::Stderr => Err(Errno::INVAL),
        }
    }

    pub fn fd_close(&mut self, fd: u32) -> Result<()> {
        if let Some(Descriptor::File(file)) = self.table.remove(fd)? {
            self.settle_unlinked(&file);
        }
        Ok(())
    }

    pub fn fd_renumber(&mut self, from: u32, to: u32) -> Result<()> {
        self.table.get(from)?;
        if from == to {
            return Ok(());
        }
        let replaced = self.table.remove(to)?;
        let descriptor = self.table.remove(from)?.ok_or(Errno::STALE)?;
        self.table.insert_at(to, descriptor)?;
        // Only now: both may have led to the same file.
        if let Some(Descriptor::File(file)) = replaced {
            self.settle_unlinked(&file);
        }
        Ok(())
    }

    /// Space of a file without a name is free only when its last descriptor is closed.
    fn settle_unlinked(&mut self, file: &OpenFile) {
        if !self.mounts[file.mount].writable || self.table.holds(file.identity) {
            return;
        }
        if let Ok(metadata) = file.file.metadata()
            && std::os::unix::fs::MetadataExt::nlink(&metadata) == 0
        {
            self.ledger.credit_bytes(metadata.len());
        }
    }

    pub fn fd_set_flags(&mut self, fd: u32, flags: u32) -> Result<()> {
        match self.table.get_mut(fd)? {
            Descriptor::File(file) => file.append = flags & u32::from(FLAG_APPEND) != 0,
            Descriptor::Stdin | Descriptor::Stdout | Descriptor::Stderr => {}
            Descriptor::Dir(_) | Descriptor::Root { .. } | Descriptor::Overlay(_) => {
                return Err(Errno::BADF);
            }
        }
        Ok(())
    }

    pub fn fd_set_times(&mut self, fd: u32, times: &NewTimes) -> Result<()> {
        let file = self.table.file_mut(fd)?;
        if !file.writable {
            return Err(Errno::PERM);
        }
        let mut new = std::fs::FileTimes::new();
        if let Some(accessed) = times.accessed {
            new = new.set_accessed(accessed);
        }
        if let Some(modified) = times.modified {
            new = new.set_modified(modified);
        }
        Ok(file.file.set_times(new)?)
    }

    pub fn fd_stat(&mut self, view: &mut View<'_>, fd: u32, out: u32) -> Result<()> {
        let (kind, flags, rights) = match self.table.get(fd)? {
            Descriptor::Stdin | Descriptor::Stdout | Descriptor::Stderr => {
                (Kind::CharacterDevice, 0, ALL_RIGHTS)
            }
            Descriptor::Root { .. } => (Kind::Directory, 0, ALL_RIGHTS),
            Descriptor::Dir(_) => (Kind::Directory, 0, ALL_RIGHTS),
            Descriptor::Overlay(_) => (Kind::File, 0, ALL_RIGHTS & !RIGHT_WRITE),
            Descriptor::File(file) => {
                let rights = if file.writable { ALL_RIGHTS } else { ALL_RIGHTS & !RIGHT_WRITE };
                (Kind::File, if file.append { FLAG_APPEND } else { 0 }, rights)
            }
        };
        let mut stat = [0; 24];
        stat[0] = kind as u8;
        stat[2..4].copy_from_slice(&flags.to_le_bytes());
        stat[8..16].copy_from_slice(&rights.to_le_bytes());
        stat[16..24].copy_from_slice(&ALL_RIGHTS.to_le_bytes());
        view.write(out, &stat)
    }

    pub fn fd_filestat(&mut self, view: &mut View<'_>, fd: u32, out: u32) -> Result<()> {
        let stat = match self.table.get(fd)? {
            Descriptor::Stdin | Descriptor::Stdout | Descriptor::Stderr => {
                FileStat::bare(Kind::CharacterDevice, 0)
            }
            Descriptor::Root { .. } => FileStat::bare(Kind::Directory, 0),
            Descriptor::Overlay(overlay) => {
                FileStat::bare(Kind::File, overlay.contents.len() as u64)
            }
            Descriptor::Dir(dir) => self.stat_of(dir.mount, &dir.dir.dir_metadata()?),
            Descriptor::File(file) => self.stat_of(file.mount, &Metadata::from_file(&file.file)?),
        };
        view.write(out, &stat.to_bytes())
    }

    pub fn stat_of(&self, mount: usize, metadata: &Metadata) -> FileStat {
        if self.undated_files {
            FileStat::bare(Kind::of(metadata.file_type()), metadata.len())
        } else {
            FileStat::of(mount, metadata)
        }
    }

    pub fn fd_preopened_name(&self, fd: u32) -> Result<&str> {
        match self.table.get(fd)? {
            Descriptor::Root { preopened: true } => Ok("/"),
            Descriptor::Dir(OpenDir { preopened_as: Some(name), .. }) => Ok(name),
            Descriptor::Stdin
            | Descriptor::Stdout
            | Descriptor::Stderr
            | Descriptor::Root { .. }
            | Descriptor::Dir(_)
            | Descriptor::File(_)
            | Descriptor::Overlay(_) => Err(Errno::BADF),
        }
    }

    pub fn fd_readdir(
        &mut self,
        view: &mut View<'_>,
        fd: u32,
        out: u32,
        len: u32,
        cookie: u64,
    ) -> Result<u32> {
        let root_listing;
        let listed_elsewhere = self.table.listing_bytes();
        let listing = match self.table.get_mut(fd)? {
            Descriptor::Dir(dir) => {
                if cookie == 0 {
                    dir.listing = list(dir, listed_elsewhere)?;
                    if self.undated_files {
                        dir.listing.iter_mut().for_each(|listed| listed.inode = 0);
                    }
                }
                &dir.listing
            }
            Descriptor::Root { .. } => {
                root_listing = self.list_root();
                &root_listing
            }
            Descriptor::Stdin
            | Descriptor::Stdout
            | Descriptor::Stderr
            | Descriptor::File(_)
            | Descriptor::Overlay(_) => return Err(Errno::NOTDIR),
        };
        let buffer = view.bytes_mut(out, len)?;
        let mut used = 0;
        let first = usize::try_from(cookie).map_err(|_| Errno::INVAL)?;
        for (index, listed) in listing.iter().enumerate().skip(first) {
            let entry = directory_entry(index as u64 + 1, listed)?;
            let fits = entry.len().min(buffer.len() - used);
            // A cut entry fills the buffer to the brim, which tells the guest to ask again.
            buffer[used..used + fits].copy_from_slice(&entry[..fits]);
            used += fits;
            if used == buffer.len() {
                break;
            }
        }
        let finished = used < buffer.len();
        if finished && let Descriptor::Dir(dir) = self.table.get_mut(fd)? {
            dir.listing = Vec::new();
        }
        u32::try_from(used).map_err(|_| Errno::OVERFLOW)
    }

    fn list_root(&self) -> Vec<Listed> {
        let mut names: Vec<&str> =
            self.mounts.iter().filter_map(|mount| mount.guest_path.split('/').nth(1)).collect();
        names.sort_unstable();
        names.dedup();
        names
            .into_iter()
            .map(|name| Listed { name: name.into(), inode: 0, kind: Kind::Directory })
            .collect()
    }
}

fn check_count(iovecs: u32) -> Result<()> {
    if iovecs <= MAX_IOVECS { Ok(()) } else { Err(Errno::INVAL) }
}

fn read_once(descriptor: &mut Descriptor, buffer: &mut [u8], at: Option<u64>) -> Result<u32> {
    let read = match descriptor {
        // There is nobody to ask: end of file.
        Descriptor::Stdin => 0,
        Descriptor::File(file) if !file.readable => return Err(Errno::BADF),
        Descriptor::File(file) => {
            let read = file.file.read_at(buffer, at.unwrap_or(file.position))?;
            if at.is_none() {
                file.position += read as u64;
            }
            read
        }
        Descriptor::Overlay(overlay) => {
            let start = usize::try_from(at.unwrap_or(overlay.position)).unwrap_or(usize::MAX);
            let rest = overlay.contents.get(start..).unwrap_or_default();
            let read = rest.len().min(buffer.len());
            buffer[..read].copy_from_slice(&rest[..read]);
            if at.is_none() {
                overlay.position += read as u64;
            }
            read
        }
        Descriptor::Stdout | Descriptor::Stderr => return Err(Errno::BADF),
        Descriptor::Dir(_) | Descriptor::Root { .. } => return Err(Errno::ISDIR),
    };
    u32::try_from(read).map_err(|_| Errno::OVERFLOW)
}

/// Reads a directory, if its names fit beside the listings the guest has begun elsewhere. In order of
/// names: file systems have orders of their own, and no run is to depend on them.
fn list(dir: &OpenDir, listed_elsewhere: usize) -> Result<Vec<Listed>> {
    let dot = |name: &str| Listed { name: name.into(), inode: 0, kind: Kind::Directory };
    let mut listing = vec![dot("."), dot("..")];
    let mut bytes = listed_elsewhere;
    for entry in dir.dir.entries()? {
        let entry = entry?;
        let name = entry.file_name();
        bytes += size_of::<Listed>() + name.len();
        if bytes > MAX_LISTING_BYTES {
            return Err(Errno::NOMEM);
        }
        let kind = entry.file_type().map_or(Kind::Unknown, Kind::of);
        let inode = entry.metadata().map_or(0, |metadata| metadata.ino());
        listing.push(Listed { name, inode, kind });
    }
    listing.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    Ok(listing)
}

/// WASI's `dirent` followed by the name.
fn directory_entry(next: u64, listed: &Listed) -> Result<Vec<u8>> {
    let name = listed.name.as_encoded_bytes();
    let mut entry = Vec::with_capacity(24 + name.len());
    entry.extend(next.to_le_bytes());
    entry.extend(listed.inode.to_le_bytes());
    entry.extend(u32::try_from(name.len()).map_err(|_| Errno::NAMETOOLONG)?.to_le_bytes());
    entry.extend([listed.kind as u8, 0, 0, 0]);
    entry.extend(name);
    Ok(entry)
}

/// WASI's `filestat`.
pub struct FileStat {
    device: u64,
    inode: u64,
    kind: Kind,
    links: u64,
    size: u64,
    accessed_ns: u64,
    modified_ns: u64,
    changed_ns: u64,
}

impl FileStat {
    fn of(mount: usize, metadata: &Metadata) -> FileStat {
        let ns = |seconds: i64, rest: i64| {
            u64::try_from(seconds.saturating_mul(1_000_000_000).saturating_add(rest)).unwrap_or(0)
        };
        FileStat {
            // The host's device numbers are none of the guest's business.
            device: mount as u64 + 1,
            inode: metadata.ino(),
            kind: Kind::of(metadata.file_type()),
            links: metadata.nlink(),
            size: metadata.len(),
            accessed_ns: ns(metadata.atime(), metadata.atime_nsec()),
            modified_ns: ns(metadata.mtime(), metadata.mtime_nsec()),
            changed_ns: ns(metadata.ctime(), metadata.ctime_nsec()),
        }
    }

    pub fn bare(kind: Kind, size: u64) -> FileStat {
        FileStat {
            device: 0,
            inode: 0,
            kind,
            links: 1,
            size,
            accessed_ns: 0,
            modified_ns: 0,
            changed_ns: 0,
        }
    }

    pub fn to_bytes(&self) -> [u8; 64] {
        let mut bytes = [0; 64];
        let words = [
            self.device,
            self.inode,
            self.kind as u64,
            self.links,
            self.size,
            self.accessed_ns,
            self.modified_ns,
            self.changed_ns,
        ];
        for (field, word) in bytes.chunks_exact_mut(8).zip(words) {
            field.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }
}

/// Which file an open descriptor leads to.
pub fn identity(file: &std::fs::File) -> Result<Identity> {
    Ok(Identity::of(&Metadata::from_file(file)?))
}
