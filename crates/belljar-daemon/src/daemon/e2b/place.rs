//! Where a sandbox's files are: a directory that stands for its root, in the directory of the worker
//! that runs its code. Workers and commands write there and are not trusted: every path is opened
//! below that root, by the kernel, wherever links in it lead.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use rustix::fs::{CWD, Mode, OFlags, RawDir, ResolveFlags, openat2};
use rustix::io::Errno;

use crate::agent::messages::Identity;
pub(super) use crate::agent::messages::{HOME, TMP};

/// Where sandboxes have their roots, in a worker's directory.
pub(super) const FOLDER: &str = "e2b";
/// The longest path, as the kernel has it.
const MAX_PATH_BYTES: usize = 4096;
/// How often something is looked for while others rename what it is in.
const MAX_TRIES: u32 = 1000;
/// Directories in each other that are looked at to be counted: each is open meanwhile.
const MAX_LEVELS: usize = 256;
/// Looking at more to find out how much there is would take too long.
const MAX_COUNTED: u64 = 1_000_000;

/// The root of a sandbox, opened.
pub(super) struct Root(OwnedFd);

/// A path in a sandbox: absolute, without `.` and `..`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Inside(String);

/// Makes the root of a new sandbox.
pub(super) fn make(worker: &Path, id: &str) -> io::Result<()> {
    let root = root_path(worker, id);
    let mut builder = std::fs::DirBuilder::new();
    builder.mode(0o700);
    match builder.create(worker.join(FOLDER)) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        Ok(()) | Err(_) => {}
    }
    builder.create(&root)?;
    builder.recursive(true).mode(0o755);
    builder.create(root.join(&HOME[1..]))?;
    builder.create(root.join(&TMP[1..]))
}

/// Where the root is, on this machine.
pub(super) fn root_path(worker: &Path, id: &str) -> PathBuf {
    worker.join(FOLDER).join(id)
}

/// Opens a root. No link is followed on the way.
pub(super) fn open(worker: &Path, id: &str) -> io::Result<Root> {
    let directory = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let worker = rustix::fs::openat(CWD, worker, directory | OFlags::NOFOLLOW, Mode::empty())?;
    let path = Path::new(FOLDER).join(id);
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    let root = openat2(&worker, path, directory, Mode::empty(), resolve)?;
    // These are mounted by their names: nothing but directories may be there.
    for top in [HOME, TMP] {
        openat2(&root, &top[1..], directory, Mode::empty(), resolve)?;
    }
    Ok(Root(root))
}

impl AsFd for Root {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Inside {
    /// What a client calls something: relative to the home, with `~`, or absolute.
    pub(super) fn new(path: &str) -> Result<Self, &'static str> {
        if path.len() > MAX_PATH_BYTES || path.contains('\0') {
            return Err("this is no path");
        }
        let full = match path.strip_prefix('~') {
            Some(rest) if rest.is_empty() || rest.starts_with('/') => format!("{HOME}{rest}"),
            Some(_) | None if path.starts_with('/') => path.to_owned(),
            Some(_) | None => format!("{HOME}/{path}"),
        };
        let mut parts: Vec<&str> = Vec::new();
        for part in full.split('/') {
            match part {
                "" | "." => {}
                ".." => drop(parts.pop()),
                name => parts.push(name),
            }
        }
        Ok(Self(format!("/{}", parts.join("/"))))
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    pub(super) fn name(&self) -> &str {
        self.0.rsplit('/').next().unwrap_or_default()
    }

    pub(super) fn child(&self, name: &str) -> Self {
        Self(format!("{}/{name}", if self.0 == "/" { "" } else { &self.0 }))
    }

    /// Where it is; the root is in nothing.
    pub(super) fn parent(&self) -> Option<Self> {
        let (parent, name) = self.0.rsplit_once('/')?;
        let parent = if parent.is_empty() { "/" } else { parent };
        (!name.is_empty()).then(|| Self(parent.to_owned()))
    }

    /// Whether its owner may make, change and remove it: the two directories themselves stay.
    pub(super) fn is_writable(&self) -> bool {
        [HOME, TMP]
            .iter()
            .any(|top| self.0.strip_prefix(top).is_some_and(|rest| rest.starts_with('/')))
    }

    fn relative(&self) -> &str {
        if self.0 == "/" { "." } else { &self.0[1..] }
    }
}

impl Root {
    /// Opens something below the root. Absolute links begin at the root.
    pub(super) fn open(&self, path: &Inside, flags: OFlags, mode: Mode) -> io::Result<OwnedFd> {
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        let mut tries = 0;
        loop {
            tries += 1;
            // Nothing here makes anybody wait: a pipe without another end is no file. The kernel
            // takes no such flags for what is only a place.
            let quiet = OFlags::NONBLOCK | OFlags::NOCTTY;
            let quiet = if flags.contains(OFlags::PATH) { OFlags::empty() } else { quiet };
            let flags = flags | OFlags::CLOEXEC | quiet;
            match openat2(&self.0, path.relative(), flags, mode, resolve) {
                // Somebody renames directories meanwhile.
                Err(Errno::AGAIN | Errno::INTR) if tries < MAX_TRIES => {}
                other => return Ok(other?),
            }
        }
    }

    /// A directory, to do something in it by name.
    pub(super) fn directory(&self, path: &Inside) -> io::Result<OwnedFd> {
        self.open(path, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty())
    }

    /// What the kernel calls a directory of it.
    pub(super) fn identity(&self, path: &str) -> io::Result<Identity> {
        let found = rustix::fs::fstat(self.real_directory(&Inside(path.to_owned()))?)?;
        Ok((found.st_dev, found.st_ino))
    }

    /// A directory that is reached through directories only.
    pub(super) fn real_directory(&self, path: &Inside) -> io::Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        Ok(openat2(&self.0, path.relative(), flags, Mode::empty(), resolve)?)
    }

    /// A directory, to make, move or remove something in it. Wherever links on the way lead, what
    /// stands for the home and for the temporary files stays what it is.
    pub(super) fn directory_to_change(&self, path: &Inside) -> io::Result<OwnedFd> {
        let identity = |directory: &OwnedFd| -> io::Result<Identity> {
            let found = rustix::fs::fstat(directory)?;
            Ok((found.st_dev, found.st_ino))
        };
        let directory = self.directory(path)?;
        let found = identity(&directory)?;
        let above = self.directory(&Inside("/home".to_owned()))?;
        if [identity(&self.0)?, identity(&above)?].contains(&found) {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        Ok(directory)
    }

    /// Makes a directory and those above it; how many were not there.
    pub(super) fn make_directories(&self, path: &Inside) -> io::Result<usize> {
        let (mut at, mut made) = (Inside("/".to_owned()), 0);
        for name in path.as_str().split('/').filter(|name| !name.is_empty()) {
            let parent = at.clone();
            at = at.child(name);
            match self.open(&at, OFlags::PATH | OFlags::DIRECTORY, Mode::empty()) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    if !at.is_writable() {
                        return Err(io::ErrorKind::PermissionDenied.into());
                    }
                    let parent = self.directory_to_change(&parent)?;
                    match rustix::fs::mkdirat(&parent, name, Mode::from_raw_mode(0o755)) {
                        Ok(()) => made += 1,
                        Err(Errno::EXIST) => {}
                        Err(error) => return Err(error.into()),
                    }
                    // The daemon makes everything for itself alone; in there it is a home.
                    let made = self.directory(&at)?;
                    rustix::fs::fchmod(&made, Mode::from_raw_mode(0o755))?;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(made)
    }

    /// How many bytes are in it, as the disk counts them. No link is followed. What cannot be looked
    /// at is more than may be.
    pub(super) fn used_bytes(&self) -> io::Result<u64> {
        let (mut bytes, mut counted) = (0_u64, 0_u64);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let top = Rc::new(rustix::fs::openat(&self.0, ".", flags, Mode::empty())?);
        // Those that wait have names in what is open: one for each level.
        let mut waiting = vec![(top, c".".to_owned(), 0)];
        let mut buffer = Vec::with_capacity(32 * 1024);
        while let Some((parent, name, level)) = waiting.pop() {
            let directory = match rustix::fs::openat(&*parent, &*name, flags, Mode::empty()) {
                Ok(directory) => Rc::new(directory),
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => continue,
                Err(_) => return Ok(u64::MAX),
            };
            let mut entries = RawDir::new(&*directory, buffer.spare_capacity_mut());
            while let Some(entry) = entries.next() {
                let entry = entry?;
                let name = entry.file_name();
                if matches!(name.to_bytes(), b"." | b"..") {
                    continue;
                }
                counted += 1;
                let link = rustix::fs::AtFlags::SYMLINK_NOFOLLOW;
                // Whatever has gone meanwhile is not there.
                let Ok(found) = rustix::fs::statat(&*directory, name, link) else { continue };
                bytes = bytes.saturating_add(u64::try_from(found.st_blocks).unwrap_or(0) * 512);
                let kind = rustix::fs::FileType::from_raw_mode(found.st_mode);
                if kind == rustix::fs::FileType::Directory {
                    waiting.push((Rc::clone(&directory), name.to_owned(), level + 1));
                }
                if counted > MAX_COUNTED || level > MAX_LEVELS {
                    return Ok(u64::MAX);
                }
            }
        }
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn inside(path: &str) -> String {
        Inside::new(path).map_or_else(str::to_owned, |path| path.0)
    }

    #[test]
    fn paths_are_what_they_mean() {
        assert_eq!(inside("a.txt"), "/home/user/a.txt");
        assert_eq!(inside(""), "/home/user");
        assert_eq!(inside("~"), "/home/user");
        assert_eq!(inside("~/x/../y"), "/home/user/y");
        assert_eq!(inside("~x"), "/home/user/~x");
        assert_eq!(inside("/tmp//./b/"), "/tmp/b");
        assert_eq!(inside("../../../../etc/passwd"), "/etc/passwd");
        assert_eq!(inside("a\0b"), "this is no path");
        let writable = |path: &str| Inside::new(path).unwrap().is_writable();
        assert!(writable("x") && writable("/tmp/x"));
        assert!(!writable("/tmp") && !writable("~") && !writable("/etc/x") && !writable("/tmpx/y"));
    }

    #[test]
    fn a_link_out_of_the_sandbox_leads_nowhere_and_one_inside_works() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("secret"), "secret").unwrap();
        make(dir.path(), "one").unwrap();
        let home = root_path(dir.path(), "one").join("home/user");
        symlink(dir.path().join("secret"), home.join("out")).unwrap();
        symlink("../../../../secret", home.join("up")).unwrap();
        symlink("/home/user/file", home.join("in")).unwrap();
        std::fs::write(home.join("file"), "mine").unwrap();
        let root = open(dir.path(), "one").unwrap();
        let read = |path: &str| {
            let path = Inside::new(path).unwrap();
            root.open(&path, OFlags::RDONLY, Mode::empty()).map(std::fs::File::from)
        };
        assert!(read("out").is_err() && read("up").is_err());
        assert_eq!(io::read_to_string(read("in").unwrap()).unwrap(), "mine");
        assert!(root.make_directories(&Inside::new("/etc/x").unwrap()).is_err());
        assert_eq!(root.make_directories(&Inside::new("a/b").unwrap()).unwrap(), 2);
        assert!(root.used_bytes().unwrap() < 1024 * 1024);
    }

    #[test]
    fn directories_that_nobody_may_read_or_that_do_not_end_are_full_and_many_are_not() {
        let dir = tempfile::tempdir().unwrap();
        make(dir.path(), "one").unwrap();
        let home = root_path(dir.path(), "one").join("home/user");
        let root = open(dir.path(), "one").unwrap();
        for number in 0..3000 {
            std::fs::create_dir(home.join(number.to_string())).unwrap();
        }
        std::fs::write(home.join("2999/file"), vec![b'x'; 100_000]).unwrap();
        let used = root.used_bytes().unwrap();
        assert!((100_000..64 * 1024 * 1024).contains(&used), "{used}");
        let deep = home.join(vec!["d"; MAX_LEVELS + 2].join("/"));
        std::fs::create_dir_all(deep).unwrap();
        std::fs::write(home.join("d/file"), "x").unwrap();
        assert_eq!(root.used_bytes().unwrap(), u64::MAX);
        std::fs::remove_dir_all(home.join("d")).unwrap();
        let closed = std::os::unix::fs::PermissionsExt::from_mode(0o000);
        std::fs::set_permissions(home.join("2999"), closed).unwrap();
        // Whoever may read everything counts it all the same.
        let readable = rustix::process::geteuid().is_root();
        assert_eq!(root.used_bytes().unwrap() == u64::MAX, !readable);
    }

    #[test]
    fn a_directory_that_was_replaced_is_another_and_the_same_one_is_not() {
        let dir = tempfile::tempdir().unwrap();
        make(dir.path(), "one").unwrap();
        let root = open(dir.path(), "one").unwrap();
        let home = root_path(dir.path(), "one").join("home/user");
        let identity = |path: &Path| {
            let found = rustix::fs::stat(path).unwrap();
            (found.st_dev, found.st_ino)
        };
        assert_eq!(root.identity(HOME).unwrap(), identity(&home));
        std::fs::rename(&home, dir.path().join("aside")).unwrap();
        symlink("/etc", &home).unwrap();
        assert!(root.identity(HOME).is_err());
        std::fs::remove_file(&home).unwrap();
        std::fs::create_dir(&home).unwrap();
        assert_ne!(root.identity(HOME).unwrap(), identity(&dir.path().join("aside")));
    }

    #[test]
    fn a_root_that_was_replaced_by_a_link_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        make(dir.path(), "one").unwrap();
        symlink("/etc", dir.path().join("e2b/two")).unwrap();
        assert!(open(dir.path(), "one").is_ok());
        assert!(open(dir.path(), "two").is_err());
        // What is mounted of it, likewise.
        let home = root_path(dir.path(), "one").join("home/user");
        std::fs::remove_dir(&home).unwrap();
        symlink("/etc", &home).unwrap();
        assert!(open(dir.path(), "one").is_err());
    }
}
