//! What is known of a sandbox, and kept on disk so that it outlives the daemon.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use belljar::RuntimeType;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::time;

/// The version of the agent that clients are told: newer ones have abilities that older lack.
pub(super) const AGENT_VERSION: &str = "0.6.13";
/// Who serves.
const CLIENT_ID: &str = "belljar";
/// The longest record that is read.
const MAX_RECORD_BYTES: u64 = 4 * 1024 * 1024;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Record {
    pub(super) id: String,
    /// Whose it is, by the name of the key.
    pub(super) owner: String,
    pub(super) template: String,
    pub(super) metadata: BTreeMap<String, String>,
    pub(super) env: BTreeMap<String, String>,
    /// What requests to the sandbox itself have to carry.
    pub(super) token: String,
    pub(super) started_ms: u64,
    pub(super) end_ms: u64,
    pub(super) phase: Phase,
    #[serde(default)]
    pub(super) kind: Kind,
    pub(super) on_timeout: OnTimeout,
    pub(super) auto_resume: bool,
    /// In which worker's directory it is.
    pub(super) slot: usize,
    pub(super) contexts: Vec<Context>,
    /// Numbers of sessions are used once.
    pub(super) last_session: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Phase {
    Running,
    Paused,
    /// It is being removed, and nothing of it is used any more.
    Ended,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum OnTimeout {
    Kill,
    Pause,
}

/// What a record is about.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Kind {
    #[default]
    Sandbox,
    /// A copy of one, of which sandboxes are made.
    Snapshot { of: String, name: Option<String> },
}

/// An interpreter with state.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Context {
    pub(super) id: String,
    pub(super) language: RuntimeType,
    pub(super) cwd: String,
    /// The name of its session among the daemon's; another one after each restart.
    pub(super) session: String,
    /// Whether it is the one for code that names none.
    pub(super) default: bool,
    /// Executions so far.
    pub(super) executions: u64,
    /// Whether a Python of the machine was started for it, which has its state.
    #[serde(default)]
    pub(super) started: bool,
}

impl Record {
    /// Changes from one phase to another; whether it was in the one.
    pub(super) fn become_instead(&mut self, from: Phase, to: Phase) -> bool {
        let changes = self.phase == from;
        if changes {
            self.phase = to;
        }
        changes
    }

    /// As the answer to a create, a connect or a fork.
    pub(super) fn sandbox(&self) -> Value {
        json!({
            "templateID": self.template,
            "sandboxID": self.id,
            "clientID": CLIENT_ID,
            "envdVersion": AGENT_VERSION,
            "envdAccessToken": self.token,
            "domain": null,
        })
    }

    pub(super) fn listed(&self, size: &Size) -> Value {
        json!({
            "templateID": self.template,
            "sandboxID": self.id,
            "clientID": CLIENT_ID,
            "startedAt": time::rfc3339(self.started_ms),
            "endAt": time::rfc3339(self.end_ms),
            "envdVersion": AGENT_VERSION,
            "cpuCount": size.cores,
            "memoryMB": size.memory_bytes / 1_000_000,
            "diskSizeMB": size.disk_bytes / 1_000_000,
            "state": self.phase.word(),
            "metadata": self.metadata,
        })
    }

    pub(super) fn detail(&self, size: &Size) -> Value {
        let mut detail = self.listed(size);
        let on_timeout = match self.on_timeout {
            OnTimeout::Kill => "kill",
            OnTimeout::Pause => "pause",
        };
        detail["lifecycle"] = json!({ "autoResume": self.auto_resume, "onTimeout": on_timeout });
        detail["allowInternetAccess"] = json!(false);
        detail["envdAccessToken"] = json!(self.token);
        detail
    }
}

/// What a sandbox has.
#[derive(Debug, Clone, Copy)]
pub(super) struct Size {
    pub(super) cores: usize,
    pub(super) memory_bytes: u64,
    pub(super) disk_bytes: u64,
}

impl Phase {
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Ended => "ended",
        }
    }
}

fn path_of(folder: &Path, id: &str) -> PathBuf {
    folder.join(format!("{id}.json"))
}

/// Writes a record down, or removes it. A record that cannot be written is lost with the daemon, and
/// the log says so.
pub(super) fn keep(folder: &Path, record: &Record) {
    let written = serde_json::to_vec(record).map_err(std::io::Error::other).and_then(|text| {
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        file.write_all(&text)?;
        file.persist(path_of(folder, &record.id)).map_err(|error| error.error)?;
        Ok(())
    });
    if let Err(error) = written {
        tracing::warn!(%error, sandbox = record.id, "an E2B sandbox is not written down");
    }
}

pub(super) fn forget(folder: &Path, id: &str) {
    // It may never have been written.
    let _ = std::fs::remove_file(path_of(folder, id));
}

/// All that were written down.
pub(super) fn all(folder: &Path) -> Vec<Record> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let paths = entries.flatten().map(|entry| entry.path());
    let records = paths.filter(|path| path.extension().is_some_and(|it| it == "json"));
    records
        .filter_map(|path| {
            if path.metadata().ok()?.len() > MAX_RECORD_BYTES {
                return None;
            }
            let read = serde_json::from_slice(&std::fs::read(&path).ok()?);
            read.inspect_err(|error| tracing::warn!(%error, path = %path.display(), "no record"))
                .ok()
        })
        .collect()
}
