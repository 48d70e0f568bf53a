//! The files of a workspace as a whole: copied for a fork, kept with a snapshot.
//!
//! A guest may be writing to the workspace meanwhile. So nothing is looked at by one name and opened
//! by another: every step goes through a directory that is open, and follows no link.

use std::cell::RefCell;
use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};

use belljar_core::SandboxError;
use belljar_core::limits::{MAX_ARCHIVED_BYTES, MAX_ARCHIVED_FILES, MAX_PATH_BYTES};
use belljar_core::units::format_bytes;
use cap_fs_ext::{DirExt, FollowSymlinks, OpenOptionsFollowExt};
use cap_std::fs::{Dir, DirBuilder, DirBuilderExt, File, OpenOptions, OpenOptionsExt};
use serde::{Deserialize, Serialize};
use tempfile::TempDir;

/// One thing in a workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Entry {
    /// Relative to the workspace.
    pub(crate) path: PathBuf,
    pub(crate) kind: Kind,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Kind {
    Directory,
    File { bytes: u64 },
    Link { target: PathBuf },
}

/// A directory that nobody else may enter, and that is removed when it is dropped.
pub(crate) fn temporary() -> Result<TempDir, SandboxError> {
    let made = tempfile::Builder::new()
        .prefix("belljar-")
        .permissions(Permissions::from_mode(0o700))
        .tempdir();
    made.map_err(|error| unusable(&std::env::temp_dir(), &error))
}

/// An open workspace.
pub(crate) struct Tree {
    root: Dir,
    path: PathBuf,
    /// Where the last step led: entries come in order, so the next is mostly beside or below it.
    last: RefCell<Option<(PathBuf, Dir)>>,
}

impl Tree {
    pub(crate) fn open(path: &Path) -> Result<Tree, SandboxError> {
        let root = Dir::open_ambient_dir(path, cap_std::ambient_authority());
        let root = root.map_err(|error| unusable(path, &error))?;
        Ok(Tree { root, path: path.to_owned(), last: RefCell::new(None) })
    }

    /// Everything in it, parents before what is in them. Pipes, sockets and devices are left out,
    /// since they are no state, and so are links that lead outside.
    pub(crate) fn list(&self) -> Result<Vec<Entry>, SandboxError> {
        let (mut entries, mut bytes) = (Vec::new(), 0u64);
        let mut pending = vec![PathBuf::new()];
        while let Some(folder) = pending.pop() {
            let failed = |error: io::Error| unusable(&self.path.join(&folder), &error);
            let dir = self.directory(&folder).map_err(failed)?;
            for entry in dir.entries().map_err(failed)? {
                let entry = entry.map_err(failed)?;
                let path = folder.join(entry.file_name());
                let metadata = entry.metadata().map_err(failed)?;
                let kind = if metadata.is_dir() {
                    pending.push(path.clone());
                    Kind::Directory
                } else if metadata.is_symlink() {
                    let target = dir.read_link_contents(entry.file_name()).map_err(failed)?;
                    if leaves(&path, &target) {
                        continue;
                    }
                    Kind::Link { target }
                } else if metadata.is_file() {
                    bytes = bytes.saturating_add(metadata.len());
                    Kind::File { bytes: metadata.len() }
                } else {
                    continue;
                };
                entries.push(Entry { path, kind });
                if bytes > MAX_ARCHIVED_BYTES || entries.len() > MAX_ARCHIVED_FILES {
                    return Err(too_large(&self.path));
                }
            }
        }
        entries.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(entries)
    }

    /// A file in it, open for reading. What is no file, or no file any more, is refused.
    pub(crate) fn read(&self, path: &Path) -> io::Result<std::fs::File> {
        let (folder, name) = self.place(path)?;
        let mut options = OpenOptions::new();
        options.read(true).follow(FollowSymlinks::No);
        // A pipe that took a file's place must not keep us waiting.
        let flags = rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOCTTY;
        options.custom_flags(i32::try_from(flags.bits()).map_err(io::Error::other)?);
        let file = folder.open_with(name, &options)?;
        if file.metadata()?.is_file() {
            Ok(file.into_std())
        } else {
            Err(io::Error::other("it is no file any more"))
        }
    }

    /// Makes one entry, in place of a file or link of that name; `fill` writes a file. Whoever made
    /// the entry may have meant harm: it stays inside, and no link is made that leads outside.
    pub(crate) fn put(
        &self,
        entry: &Entry,
        fill: impl FnOnce(&mut std::fs::File) -> io::Result<()>,
    ) -> io::Result<()> {
        let (folder, name) = self.place(&entry.path)?;
        match &entry.kind {
            Kind::Directory => match folder.create_dir_with(name, &private_directory()) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    folder.open_dir_nofollow(name).map(drop)
                }
                made => made,
            },
            Kind::Link { target } if leaves(&entry.path, target) => {
                Err(io::Error::other("a link in it leads outside"))
            }
            Kind::Link { target } => {
                replace(&folder, name)?;
                folder.symlink(target, name)
            }
            Kind::File { .. } => {
                replace(&folder, name)?;
                fill(&mut create(&folder, name)?.into_std())
            }
        }
    }

    /// A file that is there, open for writing at its end.
    pub(crate) fn append_to(&self, path: &Path) -> io::Result<Option<std::fs::File>> {
        let (folder, name) = self.place(path)?;
        let mut options = OpenOptions::new();
        options.append(true).follow(FollowSymlinks::No);
        let flags = rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOCTTY;
        options.custom_flags(i32::try_from(flags.bits()).map_err(io::Error::other)?);
        match folder.open_with(name, &options) {
            Ok(file) if file.metadata()?.is_file() => Ok(Some(file.into_std())),
            Ok(_) => Err(io::Error::other("it is no file")),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Where a link leads; `None` for what is no link, and for one that leads outside.
    pub(crate) fn link(&self, path: &Path) -> io::Result<Option<PathBuf>> {
        let (folder, name) = self.place(path)?;
        if !folder.symlink_metadata(name)?.is_symlink() {
            return Ok(None);
        }
        let target = folder.read_link_contents(name)?;
        Ok(Some(target).filter(|target| !leaves(path, target)))
    }

    /// Removes an entry, and what is in it.
    pub(crate) fn remove(&self, path: &Path) -> io::Result<()> {
        let (folder, name) = self.place(path)?;
        // The next step may lead to what is no longer there.
        self.last.take();
        if folder.symlink_metadata(name)?.is_dir() {
            folder.remove_dir_all(name)
        } else {
            folder.remove_file(name)
        }
    }

    /// Removes an entry that is no directory.
    pub(crate) fn remove_file(&self, path: &Path) -> io::Result<()> {
        let (folder, name) = self.place(path)?;
        folder.remove_file(name)
    }

    /// A directory and those in it, what is in one before itself. `None` where there is anything
    /// else, of whatever kind.
    pub(crate) fn hollow(&self, path: &Path) -> io::Result<Option<Vec<PathBuf>>> {
        let (mut folders, mut pending) = (Vec::new(), vec![path.to_owned()]);
        while let Some(folder) = pending.pop() {
            for entry in self.directory(&folder)?.entries()? {
                let entry = entry?;
                if folders.len() + pending.len() > MAX_ARCHIVED_FILES || !entry.metadata()?.is_dir()
                {
                    return Ok(None);
                }
                pending.push(folder.join(entry.file_name()));
            }
            folders.push(folder);
        }
        folders.reverse();
        Ok(Some(folders))
    }

    /// Removes a directory that has nothing in it.
    pub(crate) fn remove_empty(&self, path: &Path) -> io::Result<()> {
        let (folder, name) = self.place(path)?;
        // The next step may lead to what is no longer there.
        self.last.take();
        folder.remove_dir(name)
    }

    /// The open directory of an entry, and its name there.
    fn place<'a>(&self, path: &'a Path) -> io::Result<(Dir, &'a Path)> {
        let plain = path.components().all(|part| matches!(part, Component::Normal(_)));
        match path.file_name().map(Path::new) {
            Some(name) if plain && path.as_os_str().len() <= MAX_PATH_BYTES => {
                Ok((self.directory(path.parent().unwrap_or(Path::new("")))?, name))
            }
            _ => Err(io::Error::other("it holds a path that leads outside")),
        }
    }

    /// A directory in it, reached through directories only.
    fn directory(&self, path: &Path) -> io::Result<Dir> {
        let last = self.last.take();
        let dir = match (&last, path.parent(), path.file_name()) {
            (Some((here, dir)), _, _) if here == path => dir.try_clone()?,
            (Some((above, dir)), Some(parent), Some(name)) if above == parent => {
                dir.open_dir_nofollow(Path::new(name))?
            }
            _ => self.walk(path)?,
        };
        self.last.replace(Some((path.to_owned(), dir.try_clone()?)));
        Ok(dir)
    }

    fn walk(&self, path: &Path) -> io::Result<Dir> {
        let mut dir = self.root.try_clone()?;
        for part in path.components() {
            dir = dir.open_dir_nofollow(Path::new(part.as_os_str()))?;
        }
        Ok(dir)
    }
}

/// Copies everything in one directory into another. Where the file system can, the contents are
/// shared until one of the two is written.
pub(crate) fn copy(from: &Path, to: &Path) -> Result<(), SandboxError> {
    let (source, target) = (Tree::open(from)?, Tree::open(to)?);
    for entry in source.list()? {
        let copied =
            target.put(&entry, |file| io::copy(&mut source.read(&entry.path)?, file).map(drop));
        copied.map_err(|error| unusable(&to.join(&entry.path), &error))?;
    }
    Ok(())
}

/// Bytes and entries in a directory.
pub(crate) fn size(path: &Path) -> Result<(u64, u64), SandboxError> {
    let entries = Tree::open(path)?.list()?;
    let bytes = entries.iter().map(|entry| match entry.kind {
        Kind::File { bytes } => bytes,
        Kind::Directory | Kind::Link { .. } => 0,
    });
    Ok((bytes.sum(), entries.len() as u64))
}

fn private_directory() -> DirBuilder {
    let mut builder = DirBuilder::new();
    builder.mode(0o700);
    builder
}

fn create(folder: &Dir, name: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600).follow(FollowSymlinks::No);
    folder.open_with(name, &options)
}

/// Makes room for a file or link.
fn replace(folder: &Dir, name: &Path) -> io::Result<()> {
    match folder.remove_file(name) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Whether a link at `path` to `target` leads out of the workspace, as far as its words tell.
pub(crate) fn leaves(path: &Path, target: &Path) -> bool {
    let mut depth = path.components().count().saturating_sub(1);
    for part in target.components() {
        match part {
            Component::Normal(_) => depth += 1,
            Component::CurDir => {}
            Component::ParentDir if depth > 0 => depth -= 1,
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => return true,
        }
    }
    false
}

fn unusable(path: &Path, error: &io::Error) -> SandboxError {
    SandboxError::Workspace { path: path.to_owned(), problem: error.to_string(), hint: None }
}

fn too_large(workspace: &Path) -> SandboxError {
    SandboxError::Workspace {
        path: workspace.to_owned(),
        problem: format!(
            "it holds more than {} or {MAX_ARCHIVED_FILES} files, too much to be copied",
            format_bytes(MAX_ARCHIVED_BYTES)
        ),
        hint: Some("give the session a workspace of its own".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;
    use std::os::unix::fs::symlink;

    use super::*;

    fn names(dir: &Path) -> Vec<String> {
        let entries = Tree::open(dir).unwrap().list().unwrap();
        entries.iter().map(|entry| entry.path.display().to_string()).collect()
    }

    fn file(path: &str) -> Entry {
        Entry { path: path.into(), kind: Kind::File { bytes: 0 } }
    }

    fn link(path: &str, target: &str) -> Entry {
        Entry { path: path.into(), kind: Kind::Link { target: target.into() } }
    }

    #[test]
    fn a_copy_has_everything_and_is_independent_and_private() {
        let (from, to) = (tempfile::tempdir().unwrap(), temporary().unwrap());
        fs::create_dir_all(from.path().join("a/b")).unwrap();
        fs::write(from.path().join("a/b/f"), "1").unwrap();
        symlink("b/f", from.path().join("a/link")).unwrap();
        symlink("../../outside", from.path().join("a/out")).unwrap();
        copy(from.path(), to.path()).unwrap();
        fs::write(from.path().join("a/b/f"), "2").unwrap();
        assert_eq!(fs::read_to_string(to.path().join("a/link")).unwrap(), "1");
        assert_eq!(names(to.path()), ["a", "a/b", "a/b/f", "a/link"]);
        assert_eq!(size(to.path()).unwrap(), (1, 4));
        for (path, mode) in [("", 0o700), ("a", 0o700), ("a/b/f", 0o600)] {
            let permissions = fs::metadata(to.path().join(path)).unwrap().permissions();
            assert_eq!(permissions.mode() & 0o777, mode, "{path}");
        }
    }

    #[test]
    fn entries_that_lead_outside_are_refused() {
        let (root, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let tree = Tree::open(root.path()).unwrap();
        let put = |entry: &Entry| tree.put(entry, |file| file.write_all(b"1"));
        for bad in [
            file("../x"),
            file("/x"),
            file(""),
            file("missing/x"),
            link("l", "/etc"),
            link("l", "../x"),
            link("l", "a/../../x"),
        ] {
            assert!(put(&bad).is_err(), "{bad:?}");
        }
        symlink(outside.path(), root.path().join("out")).unwrap();
        assert!(put(&file("out/x")).is_err());
        assert!(put(&link("ok", "x")).is_ok());
        assert!(put(&file("out")).is_ok(), "replaced");
        assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_link_that_took_a_files_place_is_not_followed() {
        let (root, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::write(outside.path().join("secret"), "1").unwrap();
        let tree = Tree::open(root.path()).unwrap();
        symlink(outside.path().join("secret"), root.path().join("f")).unwrap();
        symlink(outside.path(), root.path().join("d")).unwrap();
        assert!(tree.read(Path::new("f")).is_err());
        assert!(tree.read(Path::new("d/secret")).is_err());
    }
}
