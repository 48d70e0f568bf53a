//! The directory of all sessions.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use belljar_core::{RuntimeType, SandboxError};

use super::files::private_dir;
use super::record::{SessionRecord, open_here};
use super::{Durability, LOCK_FILE, RECORD_FILE, STATE_FILE, Session, SessionFile, SessionStatus};
use super::{WORKSPACE_DIR, check_id, files, id};
use crate::factory::SandboxConfig;
use crate::home::Home;
use crate::snapshot::Snapshot;
use crate::workspace_files;

/// Directories that are being made. No session's name begins with a dot.
const NEW_PREFIX: &str = ".new-";
/// Directories that are being removed.
const GONE_PREFIX: &str = ".gone-";

/// How often an unused name is looked for.
const NAME_ATTEMPTS: usize = 100;

/// All sessions of a user.
#[derive(Debug, Clone)]
pub struct SessionStore {
    root: PathBuf,
    home: Home,
}

/// A session in a list. One that cannot be read is listed too, with the reason.
#[derive(Debug, Clone, PartialEq)]
pub struct Listed {
    /// Its name.
    pub id: String,
    /// What is known about it.
    pub record: Result<SessionRecord, String>,
    /// Whether a process has it open.
    pub busy: bool,
}

/// What was removed for being idle too long.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Pruned {
    /// The sessions that are gone.
    pub removed: Vec<String>,
    /// Idle for long enough, but waiting for an answer: kept unless asked for.
    pub waiting: Vec<String>,
}

impl SessionStore {
    /// The sessions in Belljar's directory. Nothing is created by asking.
    #[must_use]
    pub fn open(home: &Home) -> Self {
        Self { root: home.sessions(), home: home.clone() }
    }

    /// Makes a session, with this name or a new one, and opens it.
    ///
    /// # Errors
    /// When the name is taken or is no name, or the directory cannot be made.
    pub fn create(
        &self,
        id: Option<&str>,
        language: RuntimeType,
        idle_timeout: Duration,
    ) -> Result<Session, SandboxError> {
        self.make(id, |id, dir| {
            private_dir(&dir.join(WORKSPACE_DIR))?;
            Ok(SessionRecord::new(id, language, idle_timeout))
        })
    }

    /// Opens a session; nobody else can until it is dropped.
    ///
    /// # Errors
    /// When there is none, another process has it open, or its description is damaged.
    pub fn session(&self, id: &str) -> Result<Session, SandboxError> {
        let (dir, lock) = self.lock(id)?;
        let record = self.read_record(id)?;
        Ok(Session::new(dir, self.home.clone(), record, lock))
    }

    /// Where a session's state is, once it was saved. Each time it is another file.
    #[must_use]
    pub fn state_file(&self, id: &str) -> PathBuf {
        self.root.join(id).join(STATE_FILE)
    }

    /// Whether there is a session of that name, damaged or not.
    #[must_use]
    pub fn contains(&self, id: &str) -> bool {
        check_id(id).is_ok() && self.root.join(id).is_dir()
    }

    /// Every session, by name.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub fn list(&self) -> Result<Vec<Listed>, SandboxError> {
        let mut sessions: Vec<Listed> = self
            .names()?
            .into_iter()
            .filter(|name| check_id(name).is_ok())
            .map(|id| Listed {
                record: self.record(&id).map_err(|error| error.to_string()),
                busy: matches!(self.lock(&id), Err(SandboxError::SessionBusy { .. })),
                id,
            })
            .collect();
        sessions.sort_by(|a, b| a.id.cmp(&b.id));
        Ok(sessions)
    }

    /// What is known about a session. Works while another process has it open.
    ///
    /// # Errors
    /// When there is none or its description is damaged.
    pub fn record(&self, id: &str) -> Result<SessionRecord, SandboxError> {
        self.find(id)?;
        self.read_record(id)
    }

    /// The files of a session. Works while another process has it open.
    ///
    /// # Errors
    /// When there is no such session or they cannot be listed.
    pub fn files(&self, id: &str) -> Result<Vec<SessionFile>, SandboxError> {
        let own = self.find(id)?.join(WORKSPACE_DIR);
        let workspace = self.record(id)?.external_workspace.unwrap_or(own);
        files::list(&workspace)
    }

    /// Removes a session with its state and its files, damaged or not.
    ///
    /// # Errors
    /// When there is none, another process has it open, or it cannot be removed.
    pub fn remove(&self, id: &str) -> Result<(), SandboxError> {
        let (dir, _lock) = self.lock(id)?;
        let failed = |error: io::Error| unusable(id, error.to_string(), None);
        // Out of the way in one step, so that it is never seen half removed.
        let gone = self.temporary(GONE_PREFIX).map_err(failed)?;
        fs::rename(&dir, gone.join("session")).map_err(failed)?;
        match fs::remove_dir_all(gone) {
            // Somebody else clears up, too.
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed(error)),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Removes what nobody has used for longer than `idle`, or than each session's own limit.
    /// Sessions that are open are in use. With `waiting`, suspended ones go too.
    ///
    /// # Errors
    /// When the directory cannot be read, or one that should go cannot be removed.
    pub fn prune(&self, idle: Option<Duration>, waiting: bool) -> Result<Pruned, SandboxError> {
        let mut pruned = Pruned::default();
        for listed in self.list()? {
            let Ok(record) = listed.record else { continue };
            if listed.busy || !record.is_stale(idle) {
                continue;
            }
            if record.status == SessionStatus::Suspended && !waiting {
                pruned.waiting.push(listed.id);
                continue;
            }
            match self.remove(&listed.id) {
                Ok(()) => pruned.removed.push(listed.id),
                // Somebody was quicker, one way or the other.
                Err(SandboxError::SessionBusy { .. } | SandboxError::SessionNotFound { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        self.remove_leftovers()?;
        Ok(pruned)
    }

    /// Makes a session that begins as a copy of another, which is untouched.
    ///
    /// # Errors
    /// When there is no such session, it is in use, or the new name is taken.
    pub fn fork(&self, id: &str, new_id: Option<&str>) -> Result<Session, SandboxError> {
        let parent = self.session(id)?;
        self.make(new_id, |new_id, dir| {
            let workspace = dir.join(WORKSPACE_DIR);
            private_dir(&workspace)?;
            workspace_files::copy(&parent.workspace(), &workspace)?;
            let state = parent.dir.join(STATE_FILE);
            if state.try_exists()? {
                fs::copy(state, dir.join(STATE_FILE))?;
            }
            Ok(parent.record.for_fork(new_id))
        })
    }

    /// Makes a session of a snapshot, with its files if it has any.
    ///
    /// # Errors
    /// When the name is taken or the snapshot cannot be restored; then there is no new session.
    pub fn import(
        &self,
        snapshot: &Snapshot,
        id: Option<&str>,
        config: &SandboxConfig,
    ) -> Result<Session, SandboxError> {
        let idle_timeout = Duration::from_secs_f64(config.policy.idle_timeout_seconds);
        let info = snapshot.info();
        let mut session = self.create(id, info.language, idle_timeout)?;
        // A call that waits is answered by whoever resumes it.
        let waiting: Vec<String> = info.pending_calls.into_iter().map(|call| call.name).collect();
        session.defer(&waiting);
        let restored = session.sandbox(config).and_then(|mut sandbox| {
            sandbox.restore(snapshot)?;
            session.save(sandbox.as_mut(), 0)
        });
        if let Err(error) = restored {
            let id = session.id().to_owned();
            drop(session);
            self.remove(&id)?;
            return Err(error);
        }
        Ok(session)
    }

    /// Makes a session's directory, complete and locked before anybody can see it.
    fn make(
        &self,
        wanted: Option<&str>,
        fill: impl Fn(&str, &Path) -> Result<SessionRecord, MakeError>,
    ) -> Result<Session, SandboxError> {
        if let Some(id) = wanted {
            check_id(id)?;
        }
        for _ in 0..NAME_ATTEMPTS {
            let id = wanted.map_or_else(id::generate, str::to_owned);
            if self.root.join(&id).exists() {
                match wanted {
                    Some(_) => return Err(taken(&id)),
                    None => continue,
                }
            }
            let hidden = self.temporary(NEW_PREFIX).map_err(|error| self.no_room(&error))?;
            let made = self.fill_and_show(&id, &hidden, &fill);
            if made.is_err() {
                let _ = fs::remove_dir_all(&hidden);
            }
            match made {
                Ok(session) => return Ok(session),
                Err(MakeError::Io(error)) if is_taken(&error) && wanted.is_none() => {}
                Err(MakeError::Io(error)) if is_taken(&error) => return Err(taken(&id)),
                Err(MakeError::Io(error)) => return Err(unusable(&id, error.to_string(), None)),
                Err(MakeError::Sandbox(error)) => return Err(error),
            }
        }
        Err(unusable("(new)", "no unused name was found".to_owned(), None))
    }

    fn fill_and_show(
        &self,
        id: &str,
        hidden: &Path,
        fill: &impl Fn(&str, &Path) -> Result<SessionRecord, MakeError>,
    ) -> Result<Session, MakeError> {
        let lock = open_lock(hidden)?;
        lock.try_lock().map_err(io::Error::from)?;
        let record = fill(id, hidden)?;
        record.write(&hidden.join(RECORD_FILE), Durability::Disk)?;
        let dir = self.root.join(id);
        // Fails where there is one of this name, since none is ever empty.
        fs::rename(hidden, &dir)?;
        File::open(&self.root)?.sync_all()?;
        Ok(Session::new(dir, self.home.clone(), record, lock))
    }

    /// A directory of our own beside the sessions.
    fn temporary(&self, prefix: &str) -> io::Result<PathBuf> {
        fs::create_dir_all(self.home.root())?;
        match private_dir(&self.root) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            Ok(()) | Err(_) => {}
        }
        let mut builder = tempfile::Builder::new();
        builder.prefix(prefix);
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700));
        Ok(builder.tempdir_in(&self.root)?.keep())
    }

    /// The session's directory and its lock.
    fn lock(&self, id: &str) -> Result<(PathBuf, File), SandboxError> {
        let dir = self.find(id)?;
        let lock = match open_lock(&dir) {
            Ok(lock) => lock,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(missing(id)),
            Err(error) => return Err(unusable(id, error.to_string(), None)),
        };
        take(&lock, id)?;
        // Between finding and locking it, somebody may have removed it.
        if same_file(&lock, &dir.join(LOCK_FILE)) { Ok((dir, lock)) } else { Err(missing(id)) }
    }

    fn find(&self, id: &str) -> Result<PathBuf, SandboxError> {
        check_id(id)?;
        let dir = self.root.join(id);
        if dir.is_dir() { Ok(dir) } else { Err(missing(id)) }
    }

    fn read_record(&self, id: &str) -> Result<SessionRecord, SandboxError> {
        let dir = self.root.join(id);
        SessionRecord::read(&dir.join(RECORD_FILE), id).map_err(|error| {
            unusable(
                id,
                format!("its {RECORD_FILE} is damaged: {error}"),
                Some(format!(
                    "its files are in {}; `belljar session rm {id}` removes all of it",
                    dir.join(WORKSPACE_DIR).display()
                )),
            )
        })
    }

    fn names(&self) -> Result<Vec<String>, SandboxError> {
        let entries = match fs::read_dir(&self.root) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(self.no_room(&error)),
        };
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry.map_err(|error| self.no_room(&error))?;
            if entry.file_type().is_ok_and(|kind| kind.is_dir())
                && let Ok(name) = entry.file_name().into_string()
            {
                names.push(name);
            }
        }
        Ok(names)
    }

    /// What a process that was killed has left half made or half removed.
    fn remove_leftovers(&self) -> Result<(), SandboxError> {
        for name in self.names()? {
            let dir = self.root.join(&name);
            let over = if name.starts_with(GONE_PREFIX) {
                true
            } else if name.starts_with(NEW_PREFIX) {
                open_lock(&dir).is_ok_and(|lock| lock.try_lock().is_ok())
            } else {
                false
            };
            if over {
                // Its own process may be doing the same.
                let _ = fs::remove_dir_all(dir);
            }
        }
        Ok(())
    }

    fn no_room(&self, error: &io::Error) -> SandboxError {
        SandboxError::Cache {
            what: "sessions".to_owned(),
            path: self.root.clone(),
            problem: error.to_string(),
            hint: Some("set BELLJAR_HOME to a directory you can write".to_owned()),
        }
    }
}

/// Why a session could not be made.
enum MakeError {
    Io(io::Error),
    Sandbox(SandboxError),
}

impl From<io::Error> for MakeError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<SandboxError> for MakeError {
    fn from(error: SandboxError) -> Self {
        Self::Sandbox(error)
    }
}

/// Takes a lock. Whoever lists sessions holds each for a moment; that is waited for.
fn take(lock: &File, id: &str) -> Result<(), SandboxError> {
    const ATTEMPTS: usize = 5;
    for attempt in 1..=ATTEMPTS {
        match lock.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::WouldBlock) if attempt < ATTEMPTS => {
                std::thread::sleep(Duration::from_millis(5));
            }
            Err(TryLockError::WouldBlock) => break,
            Err(TryLockError::Error(error)) => return Err(unusable(id, error.to_string(), None)),
        }
    }
    Err(SandboxError::SessionBusy { id: id.to_owned() })
}

fn open_lock(dir: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    open_here(&mut options, &dir.join(LOCK_FILE))
}

fn same_file(open: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let identity = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
    match (open.metadata(), path.symlink_metadata()) {
        (Ok(open), Ok(path)) => identity(open) == identity(path),
        _ => false,
    }
}

fn is_taken(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::AlreadyExists)
}

fn taken(id: &str) -> SandboxError {
    unusable(
        id,
        "there is one of this name already".to_owned(),
        Some(format!("choose another name, or remove it with `belljar session rm {id}`")),
    )
}

fn missing(id: &str) -> SandboxError {
    SandboxError::SessionNotFound { id: id.to_owned() }
}

pub(super) fn unusable(id: &str, problem: String, hint: Option<String>) -> SandboxError {
    SandboxError::Session { id: id.to_owned(), problem, hint }
}
