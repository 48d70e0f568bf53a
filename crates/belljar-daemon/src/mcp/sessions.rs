//! The sessions of one client, by the names they have for it.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use belljar::RuntimeType;
use belljar::core::protocol::methods::SandboxId;
use belljar::sessions::check_id;

use super::answers::SessionInfo;
use super::problem::Problem;

pub(super) struct Session {
    pub(super) id: String,
    pub(super) language: RuntimeType,
    pub(super) sandbox: SandboxId,
    /// Held by whoever uses it: calls wait for each other, in their order.
    pub(super) turn: tokio::sync::Mutex<()>,
    pub(super) executions: AtomicU64,
    used: Mutex<Instant>,
}

impl Session {
    pub(super) fn touch(&self) {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    fn idle(&self) -> Duration {
        self.used.lock().unwrap_or_else(PoisonError::into_inner).elapsed()
    }

    pub(super) fn info(&self) -> SessionInfo {
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

pub(super) struct Sessions {
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
    pub(super) fn new(max: usize) -> Self {
        Self { max, known: Mutex::default() }
    }

    /// A name for a new session, taken until [`Reserved`] is dropped.
    pub(super) fn reserve(&self, wanted: Option<String>) -> Result<Reserved<'_>, Problem> {
        let mut known = self.known();
        if known.sessions.len() >= self.max {
            let problem = format!("there are {} sessions, and no more may be", self.max);
            return Err(Problem::new(problem).hint("end one with destroy_session"));
        }
        let id = match wanted {
            Some(id) => {
                check_id(&id)?;
                id
            }
            None => known.unused_name(),
        };
        match known.sessions.entry(id.clone()) {
            Entry::Occupied(_) => Err(Problem::new(format!("there is a session `{id}` already"))
                .hint("choose another session_id, or none")),
            Entry::Vacant(place) => {
                place.insert(None);
                Ok(Reserved { sessions: self, id })
            }
        }
    }

    pub(super) fn get(&self, id: &str) -> Result<Arc<Session>, Problem> {
        let found = self.known().sessions.get(id).cloned().flatten();
        found.ok_or_else(|| unknown(id))
    }

    /// A session nobody finds any more.
    pub(super) fn take(&self, id: &str) -> Result<Arc<Session>, Problem> {
        let mut known = self.known();
        match known.sessions.entry(id.to_owned()) {
            Entry::Occupied(entry) if entry.get().is_some() => {
                entry.remove().ok_or_else(|| unknown(id))
            }
            Entry::Occupied(_) | Entry::Vacant(_) => Err(unknown(id)),
        }
    }

    pub(super) fn all(&self) -> Vec<Arc<Session>> {
        self.known().sessions.values().flatten().cloned().collect()
    }

    /// Those nobody has used for so long, which nobody finds any more.
    pub(super) fn take_idle(&self, longest: Duration) -> Vec<Arc<Session>> {
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
pub(super) struct Reserved<'a> {
    sessions: &'a Sessions,
    id: String,
}

impl Reserved<'_> {
    pub(super) fn fill(self, language: RuntimeType, sandbox: SandboxId) -> Arc<Session> {
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
    Problem::new(format!("there is no session {shown:?}; nothing was run"))
        .hint("make one with create_session; unused ones end after a while")
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
        hint: end one with destroy_session
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
