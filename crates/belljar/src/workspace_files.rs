//! The files of a workspace as a whole: copied for a fork, kept with a snapshot.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};

use belljar_core::SandboxError;
use belljar_core::limits::{MAX_ARCHIVED_BYTES, MAX_ARCHIVED_FILES, MAX_PATH_BYTES};
use belljar_core::units::format_bytes;
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
    File { bytes: u64, executable: bool },
    Link { target: PathBuf },
}

/// A directory that is removed when it is dropped.
pub(crate) fn temporary() -> Result<TempDir, SandboxError> {
    let made = tempfile::Builder::new().prefix("belljar-").tempdir();
    made.map_err(|error| unusable(&std::env::temp_dir(), &error))
}

/// Everything in a workspace, parents before what is in them. Pipes, sockets and devices are left
/// out: they are no state.
pub(crate) fn list(workspace: &Path) -> Result<Vec<Entry>, SandboxError> {
    let (mut entries, mut bytes) = (Vec::new(), 0u64);
    let mut pending = vec![PathBuf::new()];
    while let Some(folder) = pending.pop() {
        let failed = |error: io::Error| unusable(&workspace.join(&folder), &error);
        for entry in fs::read_dir(workspace.join(&folder)).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let (path, metadata) =
                (folder.join(entry.file_name()), entry.metadata().map_err(failed)?);
            let kind = if metadata.is_dir() {
                pending.push(path.clone());
                Kind::Directory
            } else if metadata.is_symlink() {
                Kind::Link { target: fs::read_link(entry.path()).map_err(failed)? }
            } else if metadata.is_file() {
                bytes = bytes.saturating_add(metadata.len());
                let executable = metadata.permissions().mode() & 0o100 != 0;
                Kind::File { bytes: metadata.len(), executable }
            } else {
                continue;
            };
            entries.push(Entry { path, kind });
            if bytes > MAX_ARCHIVED_BYTES || entries.len() > MAX_ARCHIVED_FILES {
                return Err(too_large(workspace));
            }
        }
    }
    entries.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(entries)
}

/// Copies everything in one directory into another, which is ours alone. Where the file system can,
/// the contents are shared until one of the two is written.
pub(crate) fn copy(from: &Path, to: &Path) -> Result<(), SandboxError> {
    for entry in list(from)? {
        put(to, &entry, |target| fs::copy(from.join(&entry.path), target).map(drop))
            .map_err(|error| unusable(&to.join(&entry.path), &error))?;
    }
    Ok(())
}

/// Makes one entry; `fill` writes a file at the path it is given. Whoever made the entry may have
/// meant harm: it stays below `root`, and no link is followed or made that leads outside.
pub(crate) fn put(
    root: &Path,
    entry: &Entry,
    fill: impl FnOnce(&Path) -> io::Result<()>,
) -> io::Result<()> {
    let path = inside(root, &entry.path)?;
    match &entry.kind {
        Kind::Directory => match fs::create_dir(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && is_plain_dir(&path) => {
                Ok(())
            }
            made => made,
        },
        Kind::Link { target } => {
            if leaves(&entry.path, target) {
                return Err(io::Error::other("a link in it leads outside"));
            }
            replace(&path)?;
            std::os::unix::fs::symlink(target, &path)
        }
        Kind::File { executable, .. } => {
            replace(&path)?;
            fill(&path)?;
            fs::set_permissions(
                &path,
                fs::Permissions::from_mode(if *executable { 0o700 } else { 0o600 }),
            )
        }
    }
}

/// Makes room for a file or link.
fn replace(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// The place of an entry, all of whose parents are directories and no links.
fn inside(root: &Path, path: &Path) -> io::Result<PathBuf> {
    let plain = path.components().all(|part| matches!(part, Component::Normal(_)));
    if !plain || path.as_os_str().is_empty() || path.as_os_str().len() > MAX_PATH_BYTES {
        return Err(io::Error::other("it holds a path that leads outside"));
    }
    let mut parent = root.to_path_buf();
    for part in path.parent().into_iter().flat_map(Path::components) {
        parent.push(part);
        if !is_plain_dir(&parent) {
            return Err(io::Error::other("it holds a path through something that is no directory"));
        }
    }
    Ok(root.join(path))
}

fn is_plain_dir(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|metadata| metadata.is_dir())
}

/// Whether a link at `path` to `target` leads out of the workspace.
fn leaves(path: &Path, target: &Path) -> bool {
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
    use super::*;

    fn names(dir: &Path) -> Vec<String> {
        list(dir).unwrap().iter().map(|entry| entry.path.display().to_string()).collect()
    }

    #[test]
    fn a_copy_has_everything_and_is_independent() {
        let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::create_dir_all(from.path().join("a/b")).unwrap();
        fs::write(from.path().join("a/b/f"), "1").unwrap();
        std::os::unix::fs::symlink("b/f", from.path().join("a/link")).unwrap();
        copy(from.path(), to.path()).unwrap();
        fs::write(from.path().join("a/b/f"), "2").unwrap();
        assert_eq!(fs::read_to_string(to.path().join("a/link")).unwrap(), "1");
        assert_eq!(names(to.path()), ["a", "a/b", "a/b/f", "a/link"]);
    }

    #[test]
    fn entries_that_lead_outside_are_refused() {
        let root = tempfile::tempdir().unwrap();
        let file = |path: &str| Entry {
            path: path.into(),
            kind: Kind::File { bytes: 0, executable: false },
        };
        let link = |path: &str, target: &str| Entry {
            path: path.into(),
            kind: Kind::Link { target: target.into() },
        };
        for bad in [
            file("../x"),
            file("/x"),
            file(""),
            file("missing/x"),
            link("l", "/etc"),
            link("l", "../x"),
            link("l", "a/../../x"),
        ] {
            let put = put(root.path(), &bad, |path| fs::write(path, ""));
            assert!(put.is_err(), "{bad:?}");
        }
        let outside = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(outside.path(), root.path().join("out")).unwrap();
        assert!(put(root.path(), &file("out/x"), |path| fs::write(path, "")).is_err());
        assert!(put(root.path(), &link("ok", "x"), |_| Ok(())).is_ok());
        assert!(put(root.path(), &file("out"), |path| fs::write(path, "1")).is_ok(), "replaced");
        assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
    }
}
