//! What is in a sandbox's directories, as the agent's clients see it.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat, XattrFlags};
use rustix::io::Errno;
use serde_json::{Value, json};

use super::place::{Inside, Root};
use super::time;

/// Entries of one list.
const MAX_ENTRIES: usize = 100_000;
/// Bytes of their paths, together.
const MAX_LISTED_BYTES: usize = 16 * 1024 * 1024;
/// What metadata is called on disk.
const PREFIX: &str = "user.e2b.";
/// Entries of one sandbox that are copied into another.
const MAX_COPIED: usize = 1_000_000;
/// All of a file's metadata.
const MAX_METADATA_BYTES: usize = 4096;

/// Something in a directory, as it is told.
pub(super) fn entry(root: &Root, path: &Inside) -> io::Result<Value> {
    let parent = path.parent();
    let link = match &parent {
        Some(parent) => {
            let parent = root.directory(parent)?;
            let found = rustix::fs::statat(&parent, path.name(), AtFlags::SYMLINK_NOFOLLOW)?;
            if kind_of(&found) == FileType::Symlink {
                let target = rustix::fs::readlinkat(&parent, path.name(), Vec::new())?;
                Some((found, target.to_string_lossy().into_owned()))
            } else {
                None
            }
        }
        None => None,
    };
    let opened = root.open(path, OFlags::PATH, Mode::empty());
    let (found, metadata) = match (&opened, &link) {
        (Ok(opened), _) => (rustix::fs::fstat(opened)?, metadata(root, path)),
        // A link that leads nowhere is told about by itself.
        (Err(_), Some((found, _))) => (*found, BTreeMap::new()),
        (Err(error), None) => return Err(io::Error::new(error.kind(), error.to_string())),
    };
    let mut told = described(path, &found);
    if let Some((_, target)) = link {
        told["symlinkTarget"] = json!(target);
        told["isSymlink"] = json!(true);
        if opened.is_err() {
            told["type"] = json!("FILE_TYPE_SYMLINK");
        }
    }
    if !metadata.is_empty() {
        told["metadata"] = json!(metadata);
    }
    Ok(told)
}

fn kind_of(found: &Stat) -> FileType {
    FileType::from_raw_mode(found.st_mode)
}

fn described(path: &Inside, found: &Stat) -> Value {
    let kind = match kind_of(found) {
        FileType::Directory => "FILE_TYPE_DIRECTORY",
        FileType::Symlink => "FILE_TYPE_SYMLINK",
        _ => "FILE_TYPE_FILE",
    };
    let mode = found.st_mode & 0o7777;
    json!({
        "name": path.name(),
        "type": kind,
        "path": path.as_str(),
        "size": found.st_size.to_string(),
        "mode": mode,
        "permissions": permissions(kind_of(found), mode),
        "owner": "user",
        "group": "user",
        "modifiedTime": time::rfc3339_of(found.st_mtime, found.st_mtime_nsec),
    })
}

/// `-rw-r--r--`
fn permissions(kind: FileType, mode: u32) -> String {
    let first = match kind {
        FileType::Directory => 'd',
        FileType::Symlink => 'L',
        _ => '-',
    };
    let bits = (0..9).map(|at| match (mode >> (8 - at) & 1, at % 3) {
        (0, _) => '-',
        (_, 0) => 'r',
        (_, 1) => 'w',
        (_, _) => 'x',
    });
    std::iter::once(first).chain(bits).collect()
}

/// Everything in a directory, so many levels deep. No link is followed.
pub(super) fn list(root: &Root, path: &Inside, depth: u32) -> io::Result<Vec<Value>> {
    let (mut told, mut bytes) = (Vec::new(), 0);
    let mut waiting = vec![(path.clone(), 1)];
    while let Some((directory, level)) = waiting.pop() {
        let names = match root.directory(&directory) {
            Ok(opened) => names_in(&opened)?,
            // It has gone since its parent was read.
            Err(error) if level > 1 && error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        for name in names {
            let child = directory.child(&name);
            let Ok(one) = entry(root, &child) else { continue };
            let is_directory = one["type"] == "FILE_TYPE_DIRECTORY" && one["isSymlink"].is_null();
            told.push(one);
            bytes += child.as_str().len();
            if told.len() > MAX_ENTRIES || bytes > MAX_LISTED_BYTES {
                return Err(io::Error::other("there are more entries than can be told at once"));
            }
            if is_directory && level < depth {
                waiting.push((child, level + 1));
            }
        }
    }
    told.sort_by(|a, b| a["path"].as_str().cmp(&b["path"].as_str()));
    Ok(told)
}

/// Names that are text; others cannot be told in JSON.
pub(super) fn names_in(directory: &OwnedFd) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        match entry.file_name().to_str() {
            Ok("." | "..") | Err(_) => {}
            Ok(name) => names.push(name.to_owned()),
        }
        if names.len() > MAX_ENTRIES {
            return Err(io::Error::other(format!("more than {MAX_ENTRIES} entries")));
        }
    }
    Ok(names)
}

/// What was said about a file when it was written.
pub(super) fn metadata(root: &Root, path: &Inside) -> BTreeMap<String, String> {
    let Ok(file) = root.open(path, OFlags::RDONLY, Mode::empty()) else { return BTreeMap::new() };
    let mut names = vec![0; 64 * 1024];
    let Ok(length) = rustix::fs::flistxattr(&file, &mut names[..]) else { return BTreeMap::new() };
    let names = names[..length].split(|byte| *byte == 0);
    let ours = names.filter_map(|name| std::str::from_utf8(name).ok()?.strip_prefix(PREFIX));
    ours.filter_map(|name| {
        let mut value = vec![0; MAX_METADATA_BYTES];
        let length = rustix::fs::fgetxattr(&file, format!("{PREFIX}{name}"), &mut value[..]);
        value.truncate(length.ok()?);
        Some((name.to_owned(), String::from_utf8(value).ok()?))
    })
    .collect()
}

/// Says something else about a file, and only that.
pub(super) fn set_metadata(
    file: impl AsFd,
    root: &Root,
    path: &Inside,
    all: &BTreeMap<String, String>,
) -> io::Result<()> {
    for name in metadata(root, path).into_keys() {
        match rustix::fs::fremovexattr(&file, format!("{PREFIX}{name}")) {
            Ok(()) | Err(Errno::NODATA) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let bytes: usize = all.iter().map(|(name, value)| name.len() + value.len()).sum();
    if bytes > MAX_METADATA_BYTES {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("metadata has more than {MAX_METADATA_BYTES} bytes"),
        ));
    }
    for (name, value) in all {
        let name = format!("{PREFIX}{name}");
        rustix::fs::fsetxattr(&file, name, value.as_bytes(), XattrFlags::empty())?;
    }
    Ok(())
}

/// Removes something with everything in it; what is not there is as good as removed.
pub(super) fn remove(root: &Root, path: &Inside) -> io::Result<()> {
    let Some(parent) = path.parent() else { return Ok(()) };
    let parent = match root.directory_to_change(&parent) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        parent => parent?,
    };
    remove_in(&parent, path.name())
}

/// Directories that wait to be emptied are held open, so no link can come in between.
fn remove_in(parent: &OwnedFd, name: &str) -> io::Result<()> {
    match rustix::fs::unlinkat(parent, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => return Ok(()),
        Err(Errno::ISDIR) => {}
        Err(error) => return Err(error.into()),
    }
    /// Deeper than any program makes them; each level holds a descriptor.
    const MAX_DEPTH: usize = 500;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let open = |at: &OwnedFd, name: &str| -> io::Result<OwnedFd> {
        Ok(rustix::fs::openat(at, name, flags, Mode::empty())?)
    };
    let mut stack = vec![(name.to_owned(), open(parent, name)?)];
    while let Some((name, directory)) = stack.last() {
        let mut deeper = None;
        for inner in names_in(directory)? {
            match rustix::fs::unlinkat(directory, &inner, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(Errno::ISDIR) => {
                    deeper = Some((inner.clone(), open(directory, &inner)?));
                    break;
                }
                Err(error) => return Err(error.into()),
            }
        }
        if let Some(deeper) = deeper {
            if stack.len() >= MAX_DEPTH {
                return Err(io::Error::other("directories are nested too deeply"));
            }
            stack.push(deeper);
            continue;
        }
        let name = name.clone();
        stack.pop();
        let above = stack.last().map_or(parent, |(_, above)| above);
        match rustix::fs::unlinkat(above, &name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Moves something; directories above the new place are made.
pub(super) fn rename(root: &Root, from: &Inside, to: &Inside) -> io::Result<()> {
    let (Some(source), Some(target)) = (from.parent(), to.parent()) else {
        return Err(io::ErrorKind::PermissionDenied.into());
    };
    let source = root.directory_to_change(&source)?;
    rustix::fs::statat(&source, from.name(), AtFlags::SYMLINK_NOFOLLOW)?;
    root.make_directories(&target)?;
    let target = root.directory_to_change(&target)?;
    Ok(rustix::fs::renameat(&source, from.name(), &target, to.name())?)
}

/// Everything of one sandbox into another that has nothing yet: files, directories and links as they
/// are. What is none of these is left out. Directories wait by their names: open ones are few.
pub(super) fn copy(from: &Root, to: &Root, most: u64) -> io::Result<()> {
    let (mut left, mut entries) = (most, 0_usize);
    for top in [super::place::HOME, super::place::TMP] {
        let Ok(top) = Inside::new(top) else { continue };
        let mut waiting = vec![top];
        while let Some(path) = waiting.pop() {
            let source = match from.real_directory(&path) {
                // It has gone meanwhile, or is something else now.
                Err(error) if is_no_directory(&error) => continue,
                source => source?,
            };
            let target = to.real_directory(&path)?;
            for name in names_in(&source)? {
                entries += 1;
                if entries > MAX_COPIED {
                    return Err(io::Error::other(format!("more than {MAX_COPIED} entries")));
                }
                if copy_one(&source, &target, &name, &mut left)? {
                    waiting.push(path.child(&name));
                }
            }
        }
    }
    Ok(())
}

fn is_no_directory(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::NOENT | Errno::NOTDIR | Errno::LOOP))
}

/// Whether it is a directory, whose contents have to be copied as well.
fn copy_one(source: &OwnedFd, target: &OwnedFd, name: &str, left: &mut u64) -> io::Result<bool> {
    let found = match rustix::fs::statat(source, name, AtFlags::SYMLINK_NOFOLLOW) {
        // It has gone meanwhile.
        Err(Errno::NOENT) => return Ok(false),
        found => found?,
    };
    let mode = Mode::from_raw_mode(found.st_mode & 0o777);
    let quiet = OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    match kind_of(&found) {
        FileType::Directory => {
            let flags = quiet | OFlags::RDONLY | OFlags::DIRECTORY;
            rustix::fs::mkdirat(target, name, mode | Mode::RWXU)?;
            let made = rustix::fs::openat(target, name, flags, Mode::empty())?;
            rustix::fs::fchmod(&made, mode | Mode::RWXU)?;
            return Ok(true);
        }
        FileType::Symlink => {
            let leads = rustix::fs::readlinkat(source, name, Vec::new())?;
            rustix::fs::symlinkat(leads.as_c_str(), target, name)?;
        }
        FileType::RegularFile => {
            let inner = rustix::fs::openat(source, name, quiet | OFlags::RDONLY, Mode::empty())?;
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
            let made = rustix::fs::openat(target, name, flags, Mode::RUSR | Mode::WUSR)?;
            rustix::fs::fchmod(&made, mode | Mode::RUSR | Mode::WUSR)?;
            let (inner, mut made) = (std::fs::File::from(inner), std::fs::File::from(made));
            let copied = io::copy(&mut io::Read::take(inner, *left), &mut made)?;
            *left = left.saturating_sub(copied.max(1));
            if *left == 0 {
                return Err(io::ErrorKind::StorageFull.into());
            }
        }
        _ => {}
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::super::place;
    use super::*;

    fn inside(path: &str) -> Inside {
        Inside::new(path).unwrap()
    }

    #[test]
    fn directories_are_listed_moved_and_removed_without_leaving() {
        let dir = tempfile::tempdir().unwrap();
        place::make(dir.path(), "s").unwrap();
        let home = place::root_path(dir.path(), "s").join("home/user");
        std::fs::write(dir.path().join("other"), "other").unwrap();
        std::fs::create_dir_all(home.join("a/b")).unwrap();
        std::fs::write(home.join("a/b/c.txt"), "12345").unwrap();
        std::os::unix::fs::symlink(dir.path(), home.join("a/out")).unwrap();
        let root = place::open(dir.path(), "s").unwrap();
        let names = |depth| {
            let all = list(&root, &inside("a"), depth).unwrap();
            all.iter().map(|it| it["path"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(names(1), ["/home/user/a/b", "/home/user/a/out"]);
        assert_eq!(names(3).len(), 3, "a link is not followed");
        let told = entry(&root, &inside("a/b/c.txt")).unwrap();
        assert_eq!((&told["size"], &told["type"]), (&json!("5"), &json!("FILE_TYPE_FILE")));
        assert_eq!(entry(&root, &inside("a/out")).unwrap()["type"], "FILE_TYPE_SYMLINK");
        rename(&root, &inside("a/b"), &inside("x/y")).unwrap();
        assert!(home.join("x/y/c.txt").is_file());
        remove(&root, &inside("a")).unwrap();
        remove(&root, &inside("x")).unwrap();
        assert_eq!(std::fs::read_to_string(dir.path().join("other")).unwrap(), "other");
        assert_eq!(std::fs::read_dir(home).unwrap().count(), 0);
        assert!(rename(&root, &inside("none"), &inside("b")).is_err());
    }

    #[test]
    fn links_to_what_is_above_the_home_do_not_make_it_movable_and_others_work() {
        let dir = tempfile::tempdir().unwrap();
        place::make(dir.path(), "s").unwrap();
        let tmp = place::root_path(dir.path(), "s").join("tmp");
        let link = |leads: &str, name: &str| std::os::unix::fs::symlink(leads, tmp.join(name));
        link("/", "top").unwrap();
        link("/home", "above").unwrap();
        link("/etc", "evil").unwrap();
        link("/home/user", "within").unwrap();
        let root = place::open(dir.path(), "s").unwrap();
        for (from, to) in [
            ("/tmp/above/user", "/tmp/old"),
            ("/tmp/top/home", "/tmp/old"),
            ("/tmp/top/tmp", "x"),
            ("/tmp/evil", "/tmp/above/other"),
            ("/tmp/evil", "/tmp/top/other"),
        ] {
            let error = rename(&root, &inside(from), &inside(to)).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "{from} to {to}");
        }
        for path in ["/tmp/above/user", "/tmp/top/home", "/tmp/top/tmp"] {
            assert!(remove(&root, &inside(path)).is_err(), "{path}");
        }
        assert!(root.make_directories(&inside("/tmp/top/new")).is_err());
        assert!(place::open(dir.path(), "s").is_ok());
        std::fs::write(tmp.join("file"), "1").unwrap();
        rename(&root, &inside("/tmp/file"), &inside("/tmp/within/file")).unwrap();
        remove(&root, &inside("/tmp/within/file")).unwrap();
        assert_eq!(root.make_directories(&inside("/tmp/within/new")).unwrap(), 1);
    }

    #[test]
    fn a_copy_of_many_directories_holds_few_descriptors() {
        let dir = tempfile::tempdir().unwrap();
        for id in ["a", "b"] {
            place::make(dir.path(), id).unwrap();
        }
        let home = place::root_path(dir.path(), "a").join("home/user");
        for number in 0..2000 {
            std::fs::create_dir(home.join(number.to_string())).unwrap();
        }
        std::fs::write(home.join("1999/file"), "kept").unwrap();
        std::os::unix::fs::symlink("1999", home.join("link")).unwrap();
        let root = |id: &str| place::open(dir.path(), id).unwrap();
        let open = || std::fs::read_dir("/proc/self/fd").unwrap().count();
        let before = open();
        let copying = std::thread::scope(|scope| {
            let copying = scope.spawn(|| copy(&root("a"), &root("b"), 1_000_000));
            while !copying.is_finished() {
                // Other tests have some, too.
                assert!(open() < before + 500);
            }
            copying.join().unwrap()
        });
        copying.unwrap();
        let made = place::root_path(dir.path(), "b").join("home/user");
        assert_eq!(std::fs::read_dir(&made).unwrap().count(), 2001);
        assert_eq!(std::fs::read_to_string(made.join("link/file")).unwrap(), "kept");
    }

    #[test]
    fn permissions_read_as_ls_shows_them() {
        assert_eq!(permissions(FileType::RegularFile, 0o644), "-rw-r--r--");
        assert_eq!(permissions(FileType::Directory, 0o755), "drwxr-xr-x");
    }
}
