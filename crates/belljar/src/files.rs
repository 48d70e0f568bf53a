//! Files of a workspace for whoever is outside of it. No path and no link leads out of it, whatever
//! a guest does there meanwhile.

use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Component, Path, PathBuf};

use belljar_core::SandboxError;
use belljar_core::protocol::methods::{FileEntry, FileKind};

use crate::workspace_files::{Entry, Kind, Tree};

/// An open workspace.
pub struct WorkspaceFiles {
    tree: Tree,
    root: PathBuf,
}

impl WorkspaceFiles {
    /// Opens a workspace.
    ///
    /// # Errors
    /// When the directory cannot be opened.
    pub fn open(root: &Path) -> Result<Self, SandboxError> {
        Ok(Self { tree: Tree::open(root)?, root: root.to_owned() })
    }

    /// Everything in it, by path. Pipes, sockets, devices and links that lead outside are left out.
    ///
    /// # Errors
    /// When it cannot be read, or holds too much.
    pub fn list(&self) -> Result<Vec<FileEntry>, SandboxError> {
        Ok(self.tree.list()?.into_iter().map(described).collect())
    }

    /// At most `length` bytes of a file from `offset` on, and how long the file is.
    ///
    /// # Errors
    /// When there is no such file.
    pub fn read(
        &self,
        path: &str,
        offset: u64,
        length: u64,
    ) -> Result<(Vec<u8>, u64), SandboxError> {
        let read = || -> io::Result<(Vec<u8>, u64)> {
            let mut file = self.tree.read(Path::new(path))?;
            let bytes = file.metadata()?.len();
            file.seek(SeekFrom::Start(offset))?;
            let mut part = Vec::new();
            file.take(length).read_to_end(&mut part)?;
            Ok((part, bytes))
        };
        read().map_err(|error| self.failed(path, &error))
    }

    /// Writes a file, in place of one that is there or at its end, and the directories above it.
    ///
    /// # Errors
    /// When the path leads outside or through something that is no directory, or the disk is full.
    pub fn write(&self, path: &str, data: &[u8], append: bool) -> Result<(), SandboxError> {
        let write = || -> io::Result<()> {
            let path = Path::new(path);
            self.make_above(path)?;
            if append && let Some(mut file) = self.tree.append_to(path)? {
                return file.write_all(data);
            }
            let file = Entry { path: path.to_owned(), kind: Kind::File { bytes: 0 } };
            self.tree.put(&file, |file| file.write_all(data))
        };
        write().map_err(|error| self.failed(path, &error))
    }

    /// Where a link leads; `None` when it is no link, or one that leads outside.
    ///
    /// # Errors
    /// When there is nothing of that name.
    pub fn link(&self, path: &str) -> Result<Option<String>, SandboxError> {
        let target = self.tree.link(Path::new(path)).map_err(|error| self.failed(path, &error))?;
        Ok(target.and_then(|target| target.to_str().map(str::to_owned)))
    }

    /// Makes a link, in place of a file or link that is there, and the directories above it.
    ///
    /// # Errors
    /// When the path or the link leads outside.
    pub fn make_link(&self, path: &str, target: &str) -> Result<(), SandboxError> {
        let link = Entry { path: path.into(), kind: Kind::Link { target: target.into() } };
        self.make_above(Path::new(path))
            .and_then(|()| self.tree.put(&link, |_| Ok(())))
            .map_err(|error| self.failed(path, &error))
    }

    /// Makes a directory, if there is none, and those above it.
    ///
    /// # Errors
    /// When the path leads outside or through something that is no directory.
    pub fn make_directory(&self, path: &str) -> Result<(), SandboxError> {
        let folder = Entry { path: path.into(), kind: Kind::Directory };
        self.make_above(Path::new(path))
            .and_then(|()| self.tree.put(&folder, |_| Ok(())))
            .map_err(|error| self.failed(path, &error))
    }

    /// Removes a file, a link, or a directory with everything in it.
    ///
    /// # Errors
    /// When there is none, or it cannot be removed.
    pub fn remove(&self, path: &str) -> Result<(), SandboxError> {
        self.tree.remove(Path::new(path)).map_err(|error| self.failed(path, &error))
    }

    fn make_above(&self, path: &Path) -> io::Result<()> {
        // Before any of it is made.
        if !path.components().all(|part| matches!(part, Component::Normal(_))) {
            return Err(io::Error::other("it holds a path that leads outside"));
        }
        let above: Vec<&Path> = path.ancestors().skip(1).collect();
        for folder in above.into_iter().rev().filter(|folder| !folder.as_os_str().is_empty()) {
            let folder = Entry { path: folder.to_owned(), kind: Kind::Directory };
            self.tree.put(&folder, |_| Ok(()))?;
        }
        Ok(())
    }

    fn failed(&self, path: &str, error: &io::Error) -> SandboxError {
        SandboxError::Workspace {
            path: self.root.join(path),
            problem: error.to_string(),
            hint: Some("name a file by its path in the workspace, as in `data/table.csv`".into()),
        }
    }
}

fn described(entry: Entry) -> FileEntry {
    let (kind, bytes) = match entry.kind {
        Kind::Directory => (FileKind::Directory, 0),
        Kind::File { bytes } => (FileKind::File, bytes),
        Kind::Link { .. } => (FileKind::Link, 0),
    };
    FileEntry { path: entry.path.display().to_string(), kind, bytes }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_listed_read_and_removed() {
        let dir = tempfile::tempdir().unwrap();
        let files = WorkspaceFiles::open(dir.path()).unwrap();
        files.write("a/b/f", b"12345", false).unwrap();
        files.write("a/b/f", b"678", true).unwrap();
        files.write("new", b"9", true).unwrap();
        assert_eq!(files.read("a/b/f", 4, 3).unwrap(), (b"567".to_vec(), 8));
        assert_eq!(files.read("a/b/f", 99, 3).unwrap(), (Vec::new(), 8));
        let listed: Vec<(String, u64)> =
            files.list().unwrap().into_iter().map(|file| (file.path, file.bytes)).collect();
        let expected = [("a", 0), ("a/b", 0), ("a/b/f", 8), ("new", 1)];
        assert_eq!(listed, expected.map(|(path, bytes)| (path.to_owned(), bytes)));
        files.write("a/b/f", b"", false).unwrap();
        assert_eq!(files.read("a/b/f", 0, 9).unwrap().1, 0);
        files.remove("a").unwrap();
        files.remove("new").unwrap();
        assert!(files.list().unwrap().is_empty() && files.remove("new").is_err());
    }

    #[test]
    fn links_are_told_and_made_as_long_as_they_stay_inside() {
        let dir = tempfile::tempdir().unwrap();
        let files = WorkspaceFiles::open(dir.path()).unwrap();
        files.write("f", b"1", false).unwrap();
        files.make_link("d/l", "../f").unwrap();
        assert_eq!(files.link("d/l").unwrap().as_deref(), Some("../f"));
        assert_eq!(std::fs::read_to_string(dir.path().join("d/l")).unwrap(), "1");
        assert_eq!(files.link("f").unwrap(), None);
        assert!(files.link("missing").is_err());
        assert!(files.make_link("d/l", "../../f").is_err());
        std::os::unix::fs::symlink("/etc", dir.path().join("out")).unwrap();
        assert_eq!(files.link("out").unwrap(), None);
    }

    #[test]
    fn nothing_outside_is_reached() {
        let (dir, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let files = WorkspaceFiles::open(dir.path()).unwrap();
        std::fs::write(outside.path().join("secret"), "1").unwrap();
        std::os::unix::fs::symlink(outside.path(), dir.path().join("out")).unwrap();
        let absolute = outside.path().join("secret").display().to_string();
        for path in
            ["../x", "/etc/passwd", "", ".", "a/../../x", "out/secret", "out/new", &absolute]
        {
            assert!(files.read(path, 0, 1).is_err(), "{path}");
            assert!(files.write(path, b"x", false).is_err(), "{path}");
            assert!(files.write(path, b"x", true).is_err(), "{path}");
        }
        assert!(files.remove("out/secret").is_err() && files.remove("..").is_err());
        files.remove("out").unwrap();
        assert_eq!(std::fs::read_to_string(absolute).unwrap(), "1");
    }
}
