//! Sessions that outlive their process: state, files and description of each in a directory.
//!
//! ```text
//! ~/.belljar/sessions/ID/
//!   session.json    what is known without waking it
//!   state.belljar   the snapshot; absent until something has run
//!   workspace/      its files
//!   lock            held by the process that has it open
//! ```

mod files;
mod id;
mod record;
mod store;

#[cfg(test)]
mod tests;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use belljar_core::{ExecutionPolicy, SandboxError, ToolCall};

use crate::factory::{SandboxConfig, create_sandbox};
use crate::home::Home;
use crate::sandbox::Sandbox;
use crate::snapshot::{Files, Snapshot};

pub use files::SessionFile;
pub use id::check_id;
pub use record::{SessionRecord, SessionStatus};
pub use store::{Listed, Pruned, SessionStore};

/// The description of a session.
const RECORD_FILE: &str = "session.json";
/// Its state.
const STATE_FILE: &str = "state.belljar";
/// Its files.
const WORKSPACE_DIR: &str = "workspace";
/// Held as long as somebody has it open.
const LOCK_FILE: &str = "lock";

/// How far a session has got when [`Session::save`] comes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// On the disk.
    #[default]
    Disk,
    /// With the system, which writes it in its own time: it outlives this process, whatever becomes
    /// of it, and may be lost when the machine loses its power.
    System,
}

/// A session that this process has open. No other can open it until this is dropped.
#[derive(Debug)]
pub struct Session {
    dir: PathBuf,
    home: Home,
    record: SessionRecord,
    durability: Durability,
    /// Released by the system even when the process is killed.
    _lock: File,
}

impl Session {
    const fn new(dir: PathBuf, home: Home, record: SessionRecord, lock: File) -> Self {
        Self { dir, home, record, durability: Durability::Disk, _lock: lock }
    }

    /// Its name.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.record.id
    }

    /// What is known about it.
    #[must_use]
    pub const fn record(&self) -> &SessionRecord {
        &self.record
    }

    /// The directory the guest works in.
    #[must_use]
    pub fn workspace(&self) -> PathBuf {
        self.record.external_workspace.clone().unwrap_or_else(|| self.dir.join(WORKSPACE_DIR))
    }

    /// Has the session work in a directory of the caller's from now on.
    pub fn work_in(&mut self, directory: &Path) {
        self.record.external_workspace = Some(directory.to_owned());
    }

    /// How far it has got when it is saved, from now on.
    pub const fn keep(&mut self, durability: Durability) {
        self.durability = durability;
    }

    /// Adds tools whose answers come later.
    pub fn defer(&mut self, names: &[String]) {
        for name in names {
            if !self.record.deferred_tools.contains(name) {
                self.record.deferred_tools.push(name.clone());
            }
        }
    }

    /// Its state, if it has been saved.
    ///
    /// # Errors
    /// When the file is damaged or of another version.
    pub fn load(&self) -> Result<Option<Snapshot>, SandboxError> {
        let path = self.dir.join(STATE_FILE);
        match path.try_exists() {
            Ok(false) => Ok(None),
            Ok(true) => Snapshot::read(&path, &self.home).map(Some),
            Err(error) => Err(self.unusable(&error)),
        }
    }

    /// Wakes the session: a sandbox with its language, files and state. Of the configuration, those
    /// three are the session's own, whatever it says.
    ///
    /// # Errors
    /// When the state is damaged or the sandbox cannot be made.
    pub fn wake(&self, config: &SandboxConfig) -> Result<Box<dyn Sandbox>, SandboxError> {
        let mut sandbox = self.sandbox(config)?;
        match self.load()? {
            Some(snapshot) => sandbox.restore(&snapshot)?,
            None => sandbox.initialize(serde_json::Value::Null)?,
        }
        Ok(sandbox)
    }

    /// A sandbox with its language and files, and no state yet.
    fn sandbox(&self, config: &SandboxConfig) -> Result<Box<dyn Sandbox>, SandboxError> {
        create_sandbox(&SandboxConfig {
            runtime: self.record.language,
            workspace: Some(self.workspace()),
            session_id: Some(self.id().to_owned()),
            home: Some(self.home.clone()),
            ..config.clone()
        })
    }

    /// Writes the session with its files into a snapshot, from which it can be restored anywhere.
    ///
    /// # Errors
    /// When its state is damaged or the file cannot be written.
    pub fn export(&self, config: &SandboxConfig, path: &Path) -> Result<(), SandboxError> {
        self.wake(config)?.snapshot(Files::With)?.write(path)
    }

    /// Saves the session as it is after `cells` more cells. Whatever goes wrong, what was saved
    /// before is still there.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn save(&mut self, sandbox: &mut dyn Sandbox, cells: u64) -> Result<(), SandboxError> {
        let snapshot = sandbox.snapshot(Files::Without)?;
        snapshot.write_with(&self.dir.join(STATE_FILE), self.durability)?;
        self.record.cells_run += cells;
        self.record.image = snapshot.image();
        self.note(sandbox.pending_calls())
    }

    /// Follows the policy the session is used with.
    pub fn follow(&mut self, policy: &ExecutionPolicy) {
        self.record.idle_timeout_seconds = policy.idle_timeout_seconds;
    }

    /// Writes down that the session was used just now, and what it waits for.
    fn note(&mut self, pending: Vec<ToolCall>) -> Result<(), SandboxError> {
        self.record.status =
            if pending.is_empty() { SessionStatus::Idle } else { SessionStatus::Suspended };
        self.record.pending_calls = pending;
        self.record.used_now();
        let path = self.dir.join(RECORD_FILE);
        self.record.write(&path, self.durability).map_err(|error| self.unusable(&error))
    }

    /// The files of its workspace.
    ///
    /// # Errors
    /// When they cannot be listed.
    pub fn files(&self) -> Result<Vec<SessionFile>, SandboxError> {
        files::list(&self.workspace())
    }

    fn unusable(&self, error: &io::Error) -> SandboxError {
        store::unusable(self.id(), error.to_string(), None)
    }
}
