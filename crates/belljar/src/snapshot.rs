//! A session as a value: forked, kept, written to a file.

use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use belljar_core::units::format_bytes;
use belljar_core::{GuestImage, ResolvedPolicy, RuntimeType, SandboxError, ToolCall};
use belljar_wasm::Frozen;
use serde::Serialize;
use tempfile::TempDir;

use crate::home::Home;
use crate::sessions::Durability;
use crate::{snapshot_file, workspace_files};

/// Whether the files of the workspace go with a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Files {
    /// A copy of them, as they are now.
    With,
    /// They stay where they are.
    Without,
}

/// A session at some time. Cheap to clone; any number of sessions can go on from it.
#[derive(Clone)]
pub struct Snapshot {
    pub(crate) frozen: Frozen,
    pub(crate) facts: Facts,
    pub(crate) files: Option<Arc<TempDir>>,
}

/// What else is known about the session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Facts {
    pub(crate) language: RuntimeType,
    pub(crate) session_id: Option<String>,
    pub(crate) cells: u64,
    pub(crate) created_unix: u64,
}

/// A snapshot in numbers.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SnapshotInfo {
    /// The language.
    pub language: RuntimeType,
    /// The interpreter's version.
    pub language_version: String,
    /// The image of the interpreter.
    #[serde(skip_serializing_if = "GuestImage::is_plain")]
    pub image: GuestImage,
    /// The session it was taken from, if that has a name.
    pub session_id: Option<String>,
    /// Cells the session had run.
    pub cells: u64,
    /// When it was taken, in seconds since 1970.
    pub created_unix: u64,
    /// How large the interpreter's memory is.
    pub memory_bytes: u64,
    /// Bytes of it that differ from a fresh interpreter.
    pub changed_bytes: u64,
    /// Whether the workspace's files are in it.
    pub has_files: bool,
    /// The calls it waits for.
    pub pending_calls: Vec<ToolCall>,
}

impl Snapshot {
    pub(crate) fn new(
        frozen: Frozen,
        language: RuntimeType,
        session_id: Option<String>,
        cells: u64,
        files: Option<TempDir>,
    ) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let facts = Facts { language, session_id, cells, created_unix: now.as_secs() };
        Self { frozen, facts, files: files.map(Arc::new) }
    }

    /// Writes it to a file, whole or not at all.
    ///
    /// # Errors
    /// When the file cannot be written; one that was there before is as it was.
    pub fn write(&self, path: &Path) -> Result<(), SandboxError> {
        snapshot_file::write(self, path, Durability::Disk)
    }

    /// The same, as durable as that.
    pub(crate) fn write_with(
        &self,
        path: &Path,
        durability: Durability,
    ) -> Result<(), SandboxError> {
        snapshot_file::write(self, path, durability)
    }

    /// Reads a file. Everything in it is checked first.
    ///
    /// # Errors
    /// When it is damaged, cut short, of another version or for another guest.
    pub fn read(path: &Path, home: &Home) -> Result<Self, SandboxError> {
        snapshot_file::read(path, home)
    }

    /// The image of its interpreter: a session goes on in no other.
    #[must_use]
    pub fn image(&self) -> GuestImage {
        self.frozen.interpreter().image()
    }

    /// What is known about it.
    #[must_use]
    pub fn info(&self) -> SnapshotInfo {
        SnapshotInfo {
            language: self.facts.language,
            language_version: self.frozen.interpreter().language_version().to_owned(),
            image: self.image(),
            session_id: self.facts.session_id.clone(),
            cells: self.facts.cells,
            created_unix: self.facts.created_unix,
            memory_bytes: self.frozen.memory_bytes(),
            changed_bytes: self.frozen.held_bytes(),
            has_files: self.files.is_some(),
            pending_calls: self.frozen.pending().to_vec(),
        }
    }

    /// Puts its files into a workspace, if it has any and the policy has room for them.
    pub(crate) fn unpack_files(
        &self,
        workspace: &Path,
        policy: &ResolvedPolicy,
    ) -> Result<(), SandboxError> {
        let Some(files) = &self.files else { return Ok(()) };
        let (bytes, count) = workspace_files::size(files.path())?;
        let over = |limit: Option<u64>, used: u64| limit.is_some_and(|limit| used > limit);
        if over(policy.workspace_max_bytes(), bytes) || over(policy.workspace_max_files(), count) {
            return Err(SandboxError::Snapshot {
                path: None,
                problem: format!(
                    "its {count} files of {} together are more than the policy gives a workspace",
                    format_bytes(bytes)
                ),
                hint: Some("raise workspace_max_bytes or workspace_max_files".to_owned()),
            });
        }
        workspace_files::copy(files.path(), workspace)
    }
}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Snapshot").field("facts", &self.facts).finish_non_exhaustive()
    }
}
