//! The files of a session, as they are listed.

use std::fs::DirBuilder;
use std::io;
use std::path::Path;

use belljar_core::SandboxError;
use serde::Serialize;

use crate::workspace_files::{Entry, Kind, Tree};

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
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

/// Everything below a directory, sorted; links are listed and not followed.
pub(super) fn list(root: &Path) -> Result<Vec<SessionFile>, SandboxError> {
    let entries = Tree::open(root)?.list()?;
    Ok(entries.into_iter().map(SessionFile::from).collect())
}

impl From<Entry> for SessionFile {
    fn from(entry: Entry) -> Self {
        let path = entry.path.display();
        match entry.kind {
            Kind::Directory => Self { path: format!("{path}/"), bytes: 0 },
            Kind::File { bytes } => Self { path: path.to_string(), bytes },
            Kind::Link { .. } => Self { path: path.to_string(), bytes: 0 },
        }
    }
}
