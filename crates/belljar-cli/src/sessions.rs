//! Sessions as commands use them: found or made, checked against what was asked for.

use std::path::{Path, PathBuf};
use std::time::Duration;

use belljar::{
    Home, RuntimeType, Sandbox, SandboxConfig, SandboxError, SandboxResult, Session, SessionStore,
    workspace,
};

use crate::settings;

/// A session that is open, and whether it was made for this.
pub(crate) struct Opened {
    pub(crate) session: Session,
    store: SessionStore,
    is_new: bool,
}

impl Opened {
    /// The session of that name, or a new one. What the caller asks for must fit what it is.
    pub(crate) fn open_or_create(
        home: &Home,
        id: &str,
        language: Option<RuntimeType>,
        config: &SandboxConfig,
    ) -> Result<Self, SandboxError> {
        let store = SessionStore::open(home);
        let workspace = named_workspace(config)?;
        let (mut session, is_new) = match store.session(id) {
            Ok(session) => (session, false),
            Err(SandboxError::SessionNotFound { .. }) => {
                let idle = Duration::from_secs_f64(config.policy.idle_timeout_seconds);
                (store.create(Some(id), language.unwrap_or_default(), idle)?, true)
            }
            Err(error) => return Err(error),
        };
        if is_new {
            if let Some(workspace) = &workspace {
                session.work_in(workspace);
            }
        } else {
            check_language(&session, language)?;
            check_workspace(&session, workspace.as_deref())?;
        }
        session.follow(&config.policy);
        Ok(Self { session, store, is_new })
    }

    /// The session of that name.
    pub(crate) fn existing(
        home: &Home,
        id: &str,
        config: &SandboxConfig,
    ) -> Result<Self, SandboxError> {
        let store = SessionStore::open(home);
        let mut session = store.session(id)?;
        check_workspace(&session, named_workspace(config)?.as_deref())?;
        session.follow(&config.policy);
        Ok(Self { session, store, is_new: false })
    }

    /// Whether it was made just now.
    pub(crate) const fn is_new(&self) -> bool {
        self.is_new
    }

    /// Wakes the session, does something in it and saves it. Where that fails, a session that was
    /// made for it is taken away again, and an old one is as it was.
    pub(crate) fn use_once(
        mut self,
        config: &SandboxConfig,
        cells: u64,
        work: impl FnOnce(&mut dyn Sandbox) -> Result<SandboxResult, SandboxError>,
    ) -> Result<SandboxResult, SandboxError> {
        let outcome = self.session.wake(config).and_then(|mut sandbox| {
            let result = work(sandbox.as_mut())?;
            self.session.save(sandbox.as_mut(), cells)?;
            Ok(result)
        });
        if outcome.is_err() {
            self.give_up()?;
        }
        outcome
    }

    /// Takes a session away again that was made for something that failed.
    pub(crate) fn give_up(self) -> Result<(), SandboxError> {
        if !self.is_new {
            return Ok(());
        }
        let id = self.session.id().to_owned();
        drop(self.session);
        self.store.remove(&id)
    }
}

/// The workspace somebody named, as it is known from everywhere.
fn named_workspace(config: &SandboxConfig) -> Result<Option<PathBuf>, SandboxError> {
    settings::has_workspace(&config.policy)
        .then(|| workspace::check_workspace(&config.policy.mount_host_dir))
        .transpose()
}

fn check_language(session: &Session, wanted: Option<RuntimeType>) -> Result<(), SandboxError> {
    let language = session.record().language;
    match wanted {
        Some(wanted) if wanted != language => Err(SandboxError::Session {
            id: session.id().to_owned(),
            problem: format!("its language is {language}, not {wanted}"),
            hint: Some("use another session, or leave --lang away".to_owned()),
        }),
        Some(_) | None => Ok(()),
    }
}

fn check_workspace(session: &Session, wanted: Option<&Path>) -> Result<(), SandboxError> {
    match wanted {
        Some(wanted) if wanted != session.workspace() => Err(SandboxError::Session {
            id: session.id().to_owned(),
            problem: format!("it works in {}", session.workspace().display()),
            hint: Some("leave --workspace away, or use another session".to_owned()),
        }),
        Some(_) | None => Ok(()),
    }
}
