//! What is written down about a session, beside its state.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use belljar_core::units::format_bytes;
use belljar_core::{GuestImage, RuntimeType, ToolCall, limits};
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};

use super::Durability;

/// The format of the file.
const VERSION: u32 = 1;

/// What a session does while nobody looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SessionStatus {
    /// Waits for code.
    Idle,
    /// Waits, in the middle of a cell, for the answers of tools.
    Suspended,
}

impl SessionStatus {
    /// The name in JSON and in tables.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Suspended => "suspended",
        }
    }
}

/// What is known about a session without waking it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionRecord {
    version: u32,
    /// Its name.
    pub id: String,
    /// Its language.
    pub language: RuntimeType,
    /// The image of its interpreter, once something has run.
    #[serde(default, skip_serializing_if = "GuestImage::is_plain")]
    pub image: GuestImage,
    /// When it was made, in seconds since 1970.
    pub created_unix: u64,
    /// When it was used last.
    pub last_used_unix: u64,
    /// Cells that were run in it.
    pub cells_run: u64,
    /// What it does now.
    pub status: SessionStatus,
    /// The calls it waits for when suspended.
    #[serde(default)]
    pub pending_calls: Vec<ToolCall>,
    /// Tools whose answers come later, by way of `resume`.
    #[serde(default)]
    pub deferred_tools: Vec<String>,
    /// The directory it works in, if not its own.
    #[serde(default)]
    pub external_workspace: Option<PathBuf>,
    /// How long nobody may have used it before it may be removed.
    pub idle_timeout_seconds: f64,
}

impl SessionRecord {
    pub(super) fn new(id: &str, language: RuntimeType, idle_timeout: Duration) -> Self {
        let now = now_unix();
        Self {
            version: VERSION,
            id: id.to_owned(),
            language,
            image: GuestImage::Plain,
            created_unix: now,
            last_used_unix: now,
            cells_run: 0,
            status: SessionStatus::Idle,
            pending_calls: Vec::new(),
            deferred_tools: Vec::new(),
            external_workspace: None,
            idle_timeout_seconds: idle_timeout.as_secs_f64(),
        }
    }

    /// How long ago it was used. A clock that was set back makes that no time at all.
    #[must_use]
    pub fn idle(&self) -> Duration {
        Duration::from_secs(now_unix().saturating_sub(self.last_used_unix))
    }

    /// Whether it has been idle for longer than that, or than it may be itself.
    #[must_use]
    pub fn is_stale(&self, idle: Option<Duration>) -> bool {
        let own = Duration::try_from_secs_f64(self.idle_timeout_seconds).unwrap_or(Duration::MAX);
        self.idle() > idle.unwrap_or(own)
    }

    /// The same state as a session that begins its life now, with files of its own.
    pub(super) fn for_fork(&self, id: &str) -> Self {
        let now = now_unix();
        Self {
            id: id.to_owned(),
            created_unix: now,
            last_used_unix: now,
            external_workspace: None,
            ..self.clone()
        }
    }

    pub(super) fn used_now(&mut self) {
        self.last_used_unix = now_unix().max(self.created_unix);
    }

    /// Reads a record. The error says what is wrong with the file.
    pub(super) fn read(path: &Path, id: &str) -> io::Result<Self> {
        let mut bytes = Vec::new();
        let cap = limits::MAX_SESSION_FILE_BYTES;
        open_here(OpenOptions::new().read(true), path)?.take(cap + 1).read_to_end(&mut bytes)?;
        let damaged = |problem: String| io::Error::new(io::ErrorKind::InvalidData, problem);
        if bytes.len() as u64 > cap {
            return Err(damaged(format!("it is larger than {}", format_bytes(cap))));
        }
        // The version first: the rest may have changed with it.
        let versioned: Versioned =
            serde_json::from_slice(&bytes).map_err(|error| damaged(error.to_string()))?;
        if versioned.version != VERSION {
            return Err(damaged(format!(
                "it has version {}, and this Belljar knows version {VERSION}",
                versioned.version
            )));
        }
        let record: Self =
            serde_json::from_slice(&bytes).map_err(|error| damaged(error.to_string()))?;
        if record.id != id {
            return Err(damaged(format!("it belongs to the session {:?}", record.id)));
        }
        Ok(record)
    }

    /// Replaces the file in one step: whoever reads it finds the old record or the new one.
    pub(super) fn write(&self, path: &Path, durability: Durability) -> io::Result<()> {
        let mut json = serde_json::to_vec(self)?;
        json.push(b'\n');
        if json.len() as u64 > limits::MAX_SESSION_FILE_BYTES {
            return Err(io::Error::other("the calls it waits for are too large to be kept"));
        }
        let dir = path.parent().unwrap_or(Path::new("."));
        let mut file = tempfile::NamedTempFile::new_in(dir)?;
        file.write_all(&json)?;
        match durability {
            Durability::System => file.persist(path).map(drop).map_err(io::Error::from),
            Durability::Disk => {
                file.as_file().sync_all()?;
                file.persist(path)?;
                // The new name has to reach the disk as well.
                File::open(dir)?.sync_all()
            }
        }
    }
}

#[derive(Deserialize)]
struct Versioned {
    version: u32,
}

/// Opens a file of a session, and nothing that a link leads to. A worker of the daemon writes to the
/// directories of its sessions: a pipe there must not keep anybody waiting either.
pub(super) fn open_here(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    const NO_DETOUR: i32 = OFlags::NOFOLLOW.union(OFlags::NONBLOCK).bits().cast_signed();
    let file = options.custom_flags(NO_DETOUR).open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("it is no file")) }
}

pub(super) fn now_unix() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_and_pipes_are_no_records() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        std::fs::write(at("elsewhere"), "{}").unwrap();
        std::os::unix::fs::symlink(at("elsewhere"), at("link")).unwrap();
        std::os::unix::fs::symlink(at("nowhere"), at("dangling")).unwrap();
        let pipe = rustix::fs::FileType::Fifo;
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, at("pipe"), pipe, mode, 0).unwrap();
        for name in ["link", "dangling", "pipe"] {
            assert!(SessionRecord::read(&at(name), "s").is_err(), "{name}");
            let mut making = OpenOptions::new();
            making.read(true).write(true).create(true).truncate(false);
            assert!(open_here(&mut making, &at(name)).is_err(), "{name}");
        }
        assert!(!at("nowhere").exists());
        assert!(open_here(OpenOptions::new().read(true), &at("elsewhere")).is_ok());
    }

    #[test]
    fn a_record_survives_being_written() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("session.json");
        let mut record = SessionRecord::new("s", RuntimeType::Javascript, Duration::from_secs(60));
        record.pending_calls =
            vec![ToolCall { id: 3, name: "approve".into(), ..Default::default() }];
        record.status = SessionStatus::Suspended;
        record.write(&path, Durability::Disk).unwrap();
        assert_eq!(SessionRecord::read(&path, "s").unwrap(), record);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "nothing else is left");
    }

    #[test]
    fn damage_is_described() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("session.json");
        let mut good = Vec::new();
        let record = SessionRecord::new("s", RuntimeType::Python, Duration::from_secs(60));
        serde_json::to_writer(&mut good, &record).unwrap();
        let text = String::from_utf8(good).unwrap();
        let shown: Vec<String> = [
            String::new(),
            text[..text.len() / 2].to_owned(),
            text.replace("\"version\":1", "\"version\":2"),
            text.replace("python", "cobol"),
            text.replace("\"id\":\"s\"", "\"id\":\"t\""),
            "[]".to_owned(),
        ]
        .iter()
        .map(|text| {
            std::fs::write(&path, text).unwrap();
            SessionRecord::read(&path, "s").unwrap_err().to_string()
        })
        .collect();
        insta::assert_snapshot!(shown.join("\n"));
    }

    #[test]
    fn a_session_is_stale_by_its_own_clock_or_by_the_callers() {
        let mut record = SessionRecord::new("s", RuntimeType::Python, Duration::from_secs(100));
        record.last_used_unix = now_unix() - 50;
        assert!(!record.is_stale(None));
        assert!(record.is_stale(Some(Duration::from_secs(10))));
        record.last_used_unix = now_unix() - 200;
        assert!(record.is_stale(None));
        assert!(!record.is_stale(Some(Duration::from_secs(1000))));
        record.last_used_unix = now_unix() + 1000;
        assert!(!record.is_stale(None), "a clock that was set back removes nothing");
    }
}
