//! Stand-in until the engine's snapshots are merged.
#![expect(missing_docs, reason = "stand-in")]

use std::path::Path;

use belljar_core::{RuntimeType, SandboxError, ToolCall};

use crate::home::Home;

#[derive(Debug, Clone)]
pub struct Snapshot {
    info: SnapshotInfo,
}

#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub struct SnapshotInfo {
    pub language: RuntimeType,
    pub language_version: String,
    pub created_unix: u64,
    pub memory_bytes: u64,
    pub pages: u64,
    pub files: bool,
    pub session_id: Option<String>,
    pub pending_calls: Vec<ToolCall>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Files {
    With,
    Without,
}

impl Snapshot {
    pub fn write(&self, path: &Path) -> Result<(), SandboxError> {
        std::fs::write(path, serde_json::to_vec(&self.info).unwrap_or_default()).map_err(|e| {
            SandboxError::Snapshot { path: Some(path.into()), problem: e.to_string(), hint: None }
        })
    }
    pub fn read(path: &Path, _home: &Home) -> Result<Snapshot, SandboxError> {
        let bad = |problem: String| SandboxError::Snapshot {
            path: Some(path.into()),
            problem,
            hint: None,
        };
        let bytes = std::fs::read(path).map_err(|e| bad(e.to_string()))?;
        Ok(Snapshot { info: serde_json::from_slice(&bytes).map_err(|e| bad(e.to_string()))? })
    }
    pub fn info(&self) -> SnapshotInfo {
        self.info.clone()
    }
}
