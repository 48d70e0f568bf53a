//! A workspace of the caller's, and its copy where the daemon's workers can see it.
//!
//! The files are sent once; after each execution exactly what it created, changed and deleted is
//! done here as well. Whoever wrote the names may have meant harm: nothing outside is touched, and
//! no link is followed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use belljar_core::limits::{MAX_ARCHIVED_BYTES, MAX_CHUNK_BYTES, MAX_LISTED_FILES};
use belljar_core::protocol::methods::{
    Chunk, FILES_LIST, FILES_READ, FILES_WRITE, FileEntry, FileKind, FileReadParams,
    FileWriteParams, SandboxParams,
};
use belljar_core::{SandboxError, SandboxResult};
use tempfile::SpooledTempFile;

use super::place::Place;
use crate::files::WorkspaceFiles;
use crate::workspace_files::{Entry, Kind, Tree};

pub(super) struct Mirror {
    root: PathBuf,
    sent: bool,
    /// What was changed there and is not yet here, because something was in the way.
    changed: BTreeSet<String>,
    deleted: BTreeSet<String>,
    /// Files as they were here when both sides were the same.
    same: BTreeMap<PathBuf, Stamp>,
}

/// Tells whether a file was changed: how long it is, and when it was written.
type Stamp = (u64, Option<SystemTime>);

/// What became of a file over there.
enum Fetched {
    File(SpooledTempFile),
    Link(String),
    /// The daemon does not give it: a link that leads outside, for example.
    Refused,
}

impl Mirror {
    pub(super) fn new(root: &Path, sent: bool) -> Self {
        Self {
            root: root.to_owned(),
            sent,
            changed: BTreeSet::new(),
            deleted: BTreeSet::new(),
            same: BTreeMap::new(),
        }
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// The copy is gone, and with it what was not fetched.
    pub(super) fn forget(&mut self) {
        *self = Self::new(&self.root, false);
    }

    /// The copy was reached over a connection that is lost, and may have been changed since: nobody
    /// was told. What was not changed here comes from there, with the next execution.
    pub(super) fn rejoin(&mut self, place: &Place) -> Result<(), SandboxError> {
        if !self.sent {
            return Ok(());
        }
        let params = SandboxParams { sandbox: place.sandbox };
        let there: Vec<FileEntry> = place.ask(FILES_LIST, &params)?;
        if there.len() > MAX_LISTED_FILES {
            let problem = "the daemon names more files than there can be".to_owned();
            return Err(self.unusable(Path::new(""), problem));
        }
        let tree = Tree::open(&self.root)?;
        let files = there.into_iter().filter(|entry| entry.kind != FileKind::Directory);
        for path in files.map(|entry| entry.path) {
            let name = Path::new(&path);
            let here = tree.read(name).ok().and_then(|file| stamp(&file));
            if here.is_none() || here == self.same.get(name).copied() {
                self.changed.insert(path);
            }
        }
        self.sent = false;
        Ok(())
    }

    /// Sends everything, if that was not done before.
    pub(super) fn send(&mut self, place: &Place) -> Result<(), SandboxError> {
        if self.sent {
            return Ok(());
        }
        let tree = Tree::open(&self.root)?;
        for entry in tree.list()? {
            let newer_there = entry.path.to_str().is_some_and(|path| self.changed.contains(path));
            if !newer_there {
                self.send_entry(place, &tree, &entry)?;
            }
        }
        self.sent = true;
        Ok(())
    }

    fn send_entry(
        &mut self,
        place: &Place,
        tree: &Tree,
        entry: &Entry,
    ) -> Result<(), SandboxError> {
        let unusable = |problem: String| self.unusable(&entry.path, problem);
        let text = |path: &Path| path.to_str().map(str::to_owned);
        let nameless = || unusable("its name is no text, and cannot be sent".to_owned());
        let mut params = FileWriteParams {
            sandbox: place.sandbox,
            path: text(&entry.path).ok_or_else(nameless)?,
            data: String::new(),
            append: false,
            link: None,
            directory: false,
        };
        let mut file = match &entry.kind {
            Kind::Directory => {
                params.directory = true;
                return place.ask(FILES_WRITE, &params);
            }
            Kind::Link { target } => {
                params.link = Some(text(target).ok_or_else(nameless)?);
                return place.ask(FILES_WRITE, &params);
            }
            Kind::File { .. } => {
                tree.read(&entry.path).map_err(|error| unusable(error.to_string()))?
            }
        };
        let before = stamp(&file);
        loop {
            let mut part = Vec::new();
            let read = (&mut file).take(MAX_CHUNK_BYTES).read_to_end(&mut part);
            let read = read.map_err(|error| unusable(error.to_string()))?;
            if read == 0 && params.append {
                self.same.extend(before.map(|stamp| (entry.path.clone(), stamp)));
                return Ok(());
            }
            params.data = STANDARD.encode(part);
            place.ask::<()>(FILES_WRITE, &params)?;
            params.append = true;
        }
    }

    /// Does here what an execution did there.
    pub(super) fn fetch(
        &mut self,
        place: &Place,
        result: &SandboxResult,
    ) -> Result<(), SandboxError> {
        let lists = [&result.files_created, &result.files_modified, &result.files_deleted];
        if lists.iter().any(|list| list.len() > MAX_LISTED_FILES) {
            let problem = "the daemon names more changed files than there can be".to_owned();
            return Err(self.unusable(Path::new(""), problem));
        }
        for path in result.files_created.iter().chain(&result.files_modified) {
            self.deleted.remove(path);
            self.changed.insert(path.clone());
        }
        for path in &result.files_deleted {
            self.changed.remove(path);
            self.deleted.insert(path.clone());
        }
        let tree = Tree::open(&self.root)?;
        // First, so that a directory can take the place of a file.
        while let Some(path) = self.deleted.first().cloned() {
            remove(&tree, Path::new(&path))
                .map_err(|error| self.unusable(Path::new(&path), error.to_string()))?;
            self.deleted.remove(&path);
        }
        let files = WorkspaceFiles::open(&self.root)?;
        let mut left = MAX_ARCHIVED_BYTES;
        while let Some(path) = self.changed.first().cloned() {
            match self.read(place, &path, &mut left)? {
                Fetched::File(contents) => {
                    self.put(&tree, &files, &path, contents)?;
                    let name = Path::new(&path);
                    let stamp = tree.read(name).ok().and_then(|file| stamp(&file));
                    self.same.extend(stamp.map(|stamp| (name.to_owned(), stamp)));
                }
                Fetched::Link(target) => {
                    make_way(&tree, Path::new(&path));
                    files.make_link(&path, &target)?;
                }
                Fetched::Refused => {}
            }
            self.changed.remove(&path);
        }
        Ok(())
    }

    /// Fetches a file whole, before anything here is touched.
    fn read(&self, place: &Place, path: &str, left: &mut u64) -> Result<Fetched, SandboxError> {
        let failed = |problem: String| self.unusable(Path::new(path), problem);
        let most = usize::try_from(MAX_CHUNK_BYTES).unwrap_or(usize::MAX);
        let mut contents = SpooledTempFile::new(most);
        let mut params = FileReadParams {
            sandbox: place.sandbox,
            path: path.to_owned(),
            offset: 0,
            length: Some(MAX_CHUNK_BYTES),
        };
        loop {
            let chunk: Chunk = match place.ask(FILES_READ, &params) {
                // Anything else says nothing about the file: it is missing here, and that is told.
                Err(error @ SandboxError::Remote { .. })
                    if params.offset == 0 && is_of_the_file(&error) =>
                {
                    tracing::warn!(path, %error, "a changed file stays with the daemon");
                    return Ok(Fetched::Refused);
                }
                other => other?,
            };
            if let Some(target) = chunk.link {
                return Ok(Fetched::Link(target));
            }
            let part = STANDARD.decode(&chunk.data);
            let part = part.map_err(|_| failed("the daemon sends it as no base64".to_owned()))?;
            let bytes = part.len() as u64;
            *left = left.checked_sub(bytes).ok_or_else(|| {
                failed("the files that were changed are too large together".to_owned())
            })?;
            contents.write_all(&part).map_err(|error| failed(error.to_string()))?;
            params.offset += bytes;
            if bytes == 0 || params.offset >= chunk.bytes {
                contents.rewind().map_err(|error| failed(error.to_string()))?;
                return Ok(Fetched::File(contents));
            }
        }
    }

    /// A file that is there keeps its permissions.
    fn put(
        &self,
        tree: &Tree,
        files: &WorkspaceFiles,
        path: &str,
        mut contents: SpooledTempFile,
    ) -> Result<(), SandboxError> {
        let failed = |error: io::Error| self.unusable(Path::new(path), error.to_string());
        let name = Path::new(path);
        if let Ok(Some(mut there)) = tree.append_to(name) {
            return there
                .set_len(0)
                .and_then(|()| io::copy(&mut contents, &mut there))
                .map(drop)
                .map_err(failed);
        }
        make_way(tree, name);
        // Makes the directories above it.
        files.write(path, b"", false)?;
        let entry = Entry { path: name.to_owned(), kind: Kind::File { bytes: 0 } };
        tree.put(&entry, |file| io::copy(&mut contents, file).map(drop)).map_err(failed)
    }

    fn unusable(&self, path: &Path, problem: String) -> SandboxError {
        SandboxError::Workspace { path: self.root.join(path), problem, hint: None }
    }
}

fn stamp(file: &File) -> Option<Stamp> {
    let found = file.metadata().ok()?;
    Some((found.len(), found.modified().ok()))
}

/// Whether the daemon says of the file itself that it cannot be read.
fn is_of_the_file(error: &SandboxError) -> bool {
    matches!(error, SandboxError::Remote { kind, .. } if kind == "workspace")
}

/// Removes a file or a link that is there. A directory is none, whatever was said of it.
fn remove(tree: &Tree, path: &Path) -> io::Result<()> {
    match tree.remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// Where a file or link shall be there may be the directories of files that were deleted. They are
/// removed one by one, and only as long as nothing is in them.
fn make_way(tree: &Tree, path: &Path) {
    let Ok(Some(folders)) = tree.hollow(path) else { return };
    for folder in folders {
        // What somebody puts there meanwhile is noticed by whoever needs its place.
        if tree.remove_empty(&folder).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    /// A directory `d/a/b`, with what `add` puts in it; whether way is made where it is.
    fn is_removed(add: impl FnOnce(&Path)) -> bool {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().join("d");
        fs::create_dir_all(place.join("a/b")).unwrap();
        add(&place);
        make_way(&Tree::open(dir.path()).unwrap(), Path::new("d"));
        let there = place.join("a/b").exists();
        assert_eq!(place.exists(), there, "all of it or nothing");
        !there
    }

    #[test]
    fn only_directories_with_nothing_in_them_make_way() {
        assert!(is_removed(|_| {}));
        assert!(is_removed(|place| fs::create_dir_all(place.join("c/e")).unwrap()));
        assert!(!is_removed(|place| fs::write(place.join("a/file"), "").unwrap()));
        assert!(!is_removed(|place| symlink("b", place.join("a/inside")).unwrap()));
        assert!(!is_removed(|place| symlink("/etc", place.join("outside")).unwrap()));
        assert!(!is_removed(|place| {
            mknodat(CWD, place.join("a/pipe"), FileType::Fifo, Mode::RUSR, 0).unwrap();
        }));
    }

    #[test]
    fn a_link_in_the_place_is_not_followed() {
        let (dir, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::create_dir(outside.path().join("empty")).unwrap();
        symlink(outside.path(), dir.path().join("out")).unwrap();
        let tree = Tree::open(dir.path()).unwrap();
        for path in ["out", "out/empty"] {
            make_way(&tree, Path::new(path));
        }
        assert!(outside.path().join("empty").is_dir() && dir.path().join("out").is_symlink());
        // A file or link of that name replaces the link itself.
        let (file, link) = (Kind::File { bytes: 0 }, Kind::Link { target: "x".into() });
        for kind in [file, link] {
            tree.put(&Entry { path: "out".into(), kind }, |_| Ok(())).unwrap();
            assert!(outside.path().join("empty").is_dir());
        }
    }
}
