//! Copying and listing the files of a session.

use std::fs::{self, DirBuilder};
use std::io;
use std::path::Path;

use belljar_core::limits;
use serde::Serialize;

/// A file of a session's workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SessionFile {
    /// Relative to the workspace; directories end with `/`.
    pub path: String,
    /// Its size in bytes; 0 for what is no file.
    pub bytes: u64,
}

/// A directory only its owner can enter.
pub(super) fn private_dir(path: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

/// Copies what a guest can have made: directories, files and links, as they are. Anything else in a
/// workspace was put there by somebody else and is left out.
pub(super) fn copy_tree(from: &Path, to: &Path) -> io::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type()?;
        if kind.is_symlink() {
            copy_link(&source, &target)?;
        } else if kind.is_dir() {
            private_dir(&target)?;
            copy_tree(&source, &target)?;
        } else if kind.is_file() {
            fs::copy(&source, &target)?;
        }
    }
    Ok(())
}

#[cfg(unix)]
fn copy_link(source: &Path, target: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(fs::read_link(source)?, target)
}

#[cfg(not(unix))]
fn copy_link(_: &Path, _: &Path) -> io::Result<()> {
    Ok(())
}

/// Everything below a directory, sorted; links are listed and not followed.
pub(super) fn list_tree(root: &Path) -> io::Result<Vec<SessionFile>> {
    let mut found = Vec::new();
    collect(root, "", &mut found)?;
    found.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(found)
}

fn collect(dir: &Path, prefix: &str, found: &mut Vec<SessionFile>) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        if found.len() >= limits::MAX_LISTED_FILES {
            return Ok(());
        }
        let entry = entry?;
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        let metadata = entry.metadata()?;
        if metadata.is_dir() {
            let below = format!("{name}/");
            collect(&entry.path(), &below, found)?;
            found.push(SessionFile { path: below, bytes: 0 });
        } else {
            let bytes = if metadata.is_file() { metadata.len() } else { 0 };
            found.push(SessionFile { path: name, bytes });
        }
    }
    Ok(())
}
