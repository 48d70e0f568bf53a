//! The sessions of one client, by the names they have for it.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use belljar::RuntimeType;
use belljar::core::protocol::methods::SandboxId;
use belljar::sessions::check_id;
use schemars::JsonSchema;
use serde::Serialize;

use super::problem::{NO_SESSION, Problem, SESSION_EXISTS, TOO_MANY_SESSIONS};

pub(crate) struct Session {
    pub(crate) id: String,
    pub(crate) language: RuntimeType,
    pub(crate) sandbox: SandboxId,
    /// Held by whoever uses it: calls wait for each other, in their order.
    pub(crate) turn: tokio::sync::Mutex<()>,
    pub(crate) executions: AtomicU64,
    used: Mutex<Instant>,
}

impl Session {
    pub(crate) fn touch(&self) {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    fn idle(&self) -> Duration {
        self.used.lock().unwrap_or_else(PoisonError::into_inner).elapsed()
    }

    pub(crate) fn info(&self) -> SessionInfo {
        let running = self.turn.try_lock().is_err();
        SessionInfo {
            session_id: self.id.clone(),
            language: self.language,
            executions: self.executions.load(Ordering::Relaxed),
            running,
            idle_seconds: if running { 0 } else { self.idle().as_secs() },
        }
    }
}

/// What is told about a session.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct SessionInfo {
    /// The session's name.
    pub(crate) session_id: String,
    /// Its language.
    pub(crate) language: RuntimeType,
    /// Executions in it so far.
    pub(crate) executions: u64,
    /// Whether code runs in it now.
    pub(crate) running: bool,
    /// Seconds since it was used last.
    pub(crate) idle_seconds: u64,
}

/// Those of one client.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct SessionList {
    /// The sessions of this client.
    pub(crate) sessions: Vec<SessionInfo>,
}

pub(crate) struct Sessions {
    max: usize,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    last: u64,
    /// `None` while a session is being made.
    sessions: BTreeMap<String, Option<Arc<Session>>>,
}

impl Sessions {
    pub(crate) fn new(max: usize) -> Self {
        Self { max, known: Mutex::default() }
    }

    /// A name for a new session, taken until [`Reserved`] is dropped.
    pub(crate) fn reserve(&self, wanted: Option<String>) -> Result<Reserved<'_>, Problem> {
        let mut known = self.known();
        if known.sessions.len() >= self.max {
            let problem = format!("there are {} sessions, and no more may be", self.max);
            return Err(Problem::new(TOO_MANY_SESSIONS, problem).hint("end one first"));
        }
        let id = match wanted {
            Some(id) => {
                check_id(&id)?;
                id
            }
            None => known.unused_name(),
        };
        match known.sessions.entry(id.clone()) {
            Entry::Occupied(_) => {
                let problem = format!("there is a session `{id}` already");
                Err(Problem::new(SESSION_EXISTS, problem)
                    .hint("choose another session_id, or none"))
            }
            Entry::Vacant(place) => {
                place.insert(None);
                Ok(Reserved { sessions: self, id })
            }
        }
    }

    pub(crate) fn get(&self, id: &str) -> Result<Arc<Session>, Problem> {
        let found = self.known().sessions.get(id).cloned().flatten();
        found.ok_or_else(|| unknown(id))
    }

    /// A session nobody finds any more.
    pub(crate) fn take(&self, id: &str) -> Result<Arc<Session>, Problem> {
        let mut known = self.known();
        match known.sessions.entry(id.to_owned()) {
            Entry::Occupied(entry) if entry.get().is_some() => {
                entry.remove().ok_or_else(|| unknown(id))
            }
            Entry::Occupied(_) | Entry::Vacant(_) => Err(unknown(id)),
        }
    }

    pub(crate) fn all(&self) -> Vec<Arc<Session>> {
        self.known().sessions.values().flatten().cloned().collect()
    }

    /// The one that nobody uses and was unused for longest, which nobody finds any more.
    #[cfg(unix)]
    pub(crate) fn take_oldest(&self) -> Option<Arc<Session>> {
        let mut unused = self.all();
        unused.retain(|session| session.turn.try_lock().is_ok());
        let oldest = unused.into_iter().max_by_key(|session| session.idle())?;
        self.take(&oldest.id).ok()
    }

    /// Those nobody has used for so long, which nobody finds any more.
    pub(crate) fn take_idle(&self, longest: Duration) -> Vec<Arc<Session>> {
        let idle =
            |session: &Arc<Session>| session.turn.try_lock().is_ok() && session.idle() >= longest;
        let gone: Vec<_> = self.all().into_iter().filter(idle).collect();
        gone.into_iter().filter_map(|session| self.take(&session.id).ok()).collect()
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    fn unused_name(&mut self) -> String {
        loop {
            self.last += 1;
            let name = format!("session-{}", self.last);
            if !self.sessions.contains_key(&name) {
                return name;
            }
        }
    }
}

/// A name, until its session is there or cannot be made.
pub(crate) struct Reserved<'a> {
    sessions: &'a Sessions,
    id: String,
}

impl Reserved<'_> {
    pub(crate) fn fill(self, language: RuntimeType, sandbox: SandboxId) -> Arc<Session> {
        let session = Arc::new(Session {
            id: self.id.clone(),
            language,
            sandbox,
            turn: tokio::sync::Mutex::default(),
            executions: AtomicU64::new(0),
            used: Mutex::new(Instant::now()),
        });
        self.sessions.known().sessions.insert(self.id.clone(), Some(Arc::clone(&session)));
        session
    }
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        let mut known = self.sessions.known();
        if matches!(known.sessions.get(&self.id), Some(None)) {
            known.sessions.remove(&self.id);
        }
    }
}

fn unknown(id: &str) -> Problem {
    const SHOWN: usize = 80;
    let shown = &id[..id.floor_char_boundary(SHOWN)];
    Problem::new(NO_SESSION, format!("there is no session {shown:?}; nothing was run"))
        .hint("make one first; unused ones end after a while")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(outcome: Result<Reserved<'_>, Problem>) -> String {
        outcome.map(|_| ()).unwrap_err().to_string()
    }

    #[test]
    fn names_are_taken_once_and_free_again() {
        let sessions = Sessions::new(2);
        let wanted = sessions.reserve(Some("session-1".to_owned())).unwrap();
        assert!(sessions.get("session-1").is_err(), "it is not there yet");
        assert!(sessions.take("session-1").is_err());
        insta::assert_snapshot!(problem(sessions.reserve(Some("session-1".to_owned()))), @"
        error: there is a session `session-1` already
        hint: choose another session_id, or none
        ");
        wanted.fill(RuntimeType::Python, 1);
        let made_up = sessions.reserve(None).unwrap();
        insta::assert_snapshot!(problem(sessions.reserve(None)), @"
        error: there are 2 sessions, and no more may be
        hint: end one first
        ");
        drop(made_up);
        let second = sessions.reserve(None).unwrap().fill(RuntimeType::Javascript, 2);
        assert_eq!(second.id, "session-3");
        assert_eq!(sessions.take("session-1").unwrap().sandbox, 1);
        assert!(sessions.get("session-1").is_err());
        assert!(problem(sessions.reserve(Some("../up".to_owned()))).contains("no name"));
    }

    #[test]
    fn idle_ones_end_and_busy_ones_do_not() {
        let sessions = Sessions::new(9);
        let busy = sessions.reserve(None).unwrap().fill(RuntimeType::Python, 1);
        sessions.reserve(None).unwrap().fill(RuntimeType::Python, 2);
        assert!(sessions.take_idle(Duration::from_secs(60)).is_empty());
        let _turn = busy.turn.try_lock().unwrap();
        let gone = sessions.take_idle(Duration::ZERO);
        assert_eq!(gone.iter().map(|session| session.sandbox).collect::<Vec<_>>(), [2]);
        assert_eq!(sessions.all().len(), 1);
    }
}
