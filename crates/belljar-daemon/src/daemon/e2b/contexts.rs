//! Contexts: interpreters with state, each a named session of the daemon's in the sandbox's home.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use belljar::core::limits::{MAX_FUEL_BUDGET, MAX_TIMEOUT_SECONDS};
use belljar::core::protocol::methods::CreateParams;
use belljar::{ImageChoice, RuntimeType};
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use super::place::{self, HOME};
use super::record::{self, Context};
use super::registry::{Sandbox, random};
use super::{DATA_TEMPLATE, E2b};
use crate::desk::{Desk, Problem, Session, Wanted, problem};

/// Contexts of one sandbox.
const MAX_CONTEXTS: usize = 64;
/// Random bytes of a context's name.
const ID_BYTES: usize = 16;
/// Files that code may make in a home.
const MAX_FILES: u64 = 100_000;
/// Where a worker finds its own directory in its jail.
const WORKER_HOME: &str = "/app";
/// How often a session is looked for that somebody else opens at the moment.
const TRIES: usize = 3;

/// Why there is no context.
pub(super) enum NoContext {
    Unknown(String),
    Language(String),
    Refused(Problem),
}

impl From<Problem> for NoContext {
    fn from(problem: Problem) -> Self {
        Self::Refused(problem)
    }
}

/// A language as clients call it.
pub(super) fn language(name: &str) -> Result<RuntimeType, NoContext> {
    match name.to_ascii_lowercase().as_str() {
        "" | "python" => Ok(RuntimeType::Python),
        "javascript" | "js" => Ok(RuntimeType::Javascript),
        other => Err(NoContext::Language(super::registry::shown(other))),
    }
}

impl E2b {
    pub(super) fn find_context(&self, sandbox: &Sandbox, id: &str) -> Result<Context, NoContext> {
        let contexts = sandbox.record().contexts;
        let found = contexts.into_iter().find(|context| context.id == id);
        found.ok_or_else(|| NoContext::Unknown(super::registry::shown(id)))
    }

    /// The context for code that names none.
    pub(super) fn default_context(
        &self,
        sandbox: &Sandbox,
        language: RuntimeType,
    ) -> Result<Context, NoContext> {
        let is_it = |context: &&Context| context.default && context.language == language;
        if let Some(found) = sandbox.record().contexts.iter().find(is_it) {
            return Ok(found.clone());
        }
        self.add_context(sandbox, language, HOME, true)
    }

    pub(super) fn add_context(
        &self,
        sandbox: &Sandbox,
        language: RuntimeType,
        cwd: &str,
        default: bool,
    ) -> Result<Context, NoContext> {
        let failed = |failure: super::errors::Failure| Problem::failed(failure.message);
        let id = random(ID_BYTES).map_err(failed)?;
        let added = sandbox.change(|record| {
            // Somebody else may have been quicker.
            let is_it = |context: &&Context| context.default && context.language == language;
            if let Some(found) = record.contexts.iter().find(is_it).filter(|_| default) {
                return Ok(found.clone());
            }
            if record.contexts.len() >= MAX_CONTEXTS {
                let problem = format!("there are {MAX_CONTEXTS} contexts, and no more may be");
                return Err(Problem::new(problem::TOO_MANY_SESSIONS, problem));
            }
            let session = next_session(record);
            let cwd = cwd.to_owned();
            let (executions, started) = (0, false);
            let context = Context { id, language, cwd, session, default, executions, started };
            record.contexts.push(context.clone());
            Ok(context)
        })?;
        record::keep(&self.folder, &sandbox.record());
        Ok(added)
    }

    /// Ends a context and what runs in it. A restarted one goes on under the same name without state.
    pub(super) async fn end_context(
        &self,
        sandbox: &Sandbox,
        id: &str,
        restart: bool,
    ) -> Result<(), NoContext> {
        let before = self.find_context(sandbox, id)?;
        let slot = sandbox.change(|record| {
            let session = next_session(record);
            if restart {
                for context in record.contexts.iter_mut().filter(|context| context.id == id) {
                    (context.session, context.executions) = (session.clone(), 0);
                    context.started = false;
                }
            } else {
                record.contexts.retain(|context| context.id != id);
            }
            record.slot
        });
        record::keep(&self.folder, &sandbox.record());
        self.leave_session(&sandbox.owner, &before.session).await;
        self.discard(slot, "sessions", &before.session);
        self.hub.forget_session(&before.session);
        if restart && before.cwd != HOME {
            self.go_to(sandbox, &before).await?;
        }
        Ok(())
    }

    /// Has a context work in its directory from now on.
    pub(super) async fn go_to(
        &self,
        sandbox: &Sandbox,
        context: &Context,
    ) -> Result<(), NoContext> {
        let context = self.find_context(sandbox, &context.id)?;
        if context.language != RuntimeType::Python {
            let problem = format!("{} contexts work in {HOME}", context.language);
            return Err(Problem::invalid(problem).into());
        }
        let cwd = serde_json::to_string(&context.cwd).unwrap_or_default();
        let code = format!("__import__('os').chdir({cwd})");
        let result = self.run_quietly(sandbox, &context, code).await?;
        match result.error {
            Some(error) => {
                Err(Problem::invalid(format!("cwd: {}: {}", error.name, error.message)).into())
            }
            None => Ok(()),
        }
    }

    /// Runs something of ours in a context, whoever waits for it.
    pub(super) async fn run_quietly(
        &self,
        sandbox: &Sandbox,
        context: &Context,
        code: String,
    ) -> Result<belljar::SandboxResult, Problem> {
        let gone = CancellationToken::new();
        if let Some(python) = self.native_python(sandbox, context) {
            return self.run_natively(sandbox, context, &python, (code, None, &gone)).await;
        }
        let (desk, session) = self.session(sandbox, context).await?;
        desk.run_in(&session, None, Wanted { code, gone: &gone, listener: None }).await
    }

    /// The session of a context, awake, if its sandbox is.
    pub(super) async fn session(
        &self,
        sandbox: &Sandbox,
        context: &Context,
    ) -> Result<(Arc<Desk>, Arc<Session>), Problem> {
        self.woken(sandbox, context, Sandbox::is_running).await
    }

    /// The session of a context, also of a sandbox that does not run; the caller puts it away.
    pub(super) async fn session_of_any(
        &self,
        sandbox: &Sandbox,
        context: &Context,
    ) -> Result<(Arc<Desk>, Arc<Session>), Problem> {
        self.woken(sandbox, context, |_| true).await
    }

    async fn woken(
        &self,
        sandbox: &Sandbox,
        context: &Context,
        may_wake: impl Fn(&Sandbox) -> bool,
    ) -> Result<(Arc<Desk>, Arc<Session>), Problem> {
        let desk = self.tenant(&sandbox.owner).desk(&self.house);
        for _ in 0..TRIES {
            if let Ok(session) = desk.sessions.get(&context.session) {
                session.touch();
                return Ok((desk, session));
            }
            let _opening = sandbox.opening.lock().await;
            if !may_wake(sandbox) {
                return Err(Problem::new(problem::NO_SESSION, "the sandbox is not running"));
            }
            let params = self.params(sandbox, context);
            // As long as this lives the session is made where the sandbox's files are.
            let _making = self
                .hub
                .making_at(&context.session, sandbox.slot())
                .map_err(|error| Problem::failed(error.message))?;
            match desk.wake_session(&params, &context.session).await {
                Ok(session) => return Ok((desk, session)),
                Err(problem) if problem.code == problem::SESSION_EXISTS => {}
                Err(problem) if problem.code == problem::TOO_MANY_SESSIONS => {
                    desk.put_away_oldest().await?;
                }
                Err(problem) => return Err(problem),
            }
        }
        Err(Problem::busy("the context is being opened and closed"))
    }

    /// Puts a session away; its state is on disk.
    pub(super) async fn leave_session(&self, owner: &str, session: &str) {
        self.interpreters.end(session);
        let desk = self.tenant(owner).desk(&self.house);
        match desk.destroy_session(session).await {
            Ok(()) => {}
            Err(problem) if problem.code == problem::NO_SESSION => {}
            Err(problem) => tracing::warn!(%problem, session, "a session was not left in order"),
        }
    }

    fn params(&self, sandbox: &Sandbox, context: &Context) -> CreateParams {
        let record = sandbox.record();
        CreateParams {
            language: context.language,
            session: Some(context.session.clone()),
            workspace: Some(self.home_in_worker(&record)),
            policy: self.policy(&record.env, image(&record.template, context.language)),
            stream: true,
            ..CreateParams::default()
        }
    }

    /// Where a worker finds a sandbox's home.
    fn home_in_worker(&self, record: &record::Record) -> PathBuf {
        let worker = if self.hub.confined {
            PathBuf::from(WORKER_HOME)
        } else {
            self.directory_of(record.slot)
        };
        place::root_path(&worker, &record.id).join(&HOME[1..])
    }

    /// What code in contexts may do: its client decides for how long.
    fn policy(&self, env: &BTreeMap<String, String>, image: ImageChoice) -> Map<String, Value> {
        let limits = &self.hub.limits;
        let mut all = BTreeMap::from([("HOME".to_owned(), HOME.to_owned())]);
        all.insert("USER".to_owned(), "user".to_owned());
        all.insert("E2B_SANDBOX".to_owned(), "true".to_owned());
        all.extend(env.clone());
        let policy = json!({
            "guest_mount_path": HOME,
            "env": all,
            "timeout_seconds": MAX_TIMEOUT_SECONDS,
            "fuel_budget": MAX_FUEL_BUDGET,
            "memory_bytes": limits.e2b_code_memory_bytes,
            "workspace_max_bytes": limits.e2b_disk_bytes,
            "workspace_max_files": MAX_FILES,
            "image": image,
        });
        policy.as_object().cloned().unwrap_or_default()
    }
}

/// What a template's contexts have in them.
fn image(template: &str, language: RuntimeType) -> ImageChoice {
    match language {
        RuntimeType::Python if template == DATA_TEMPLATE => ImageChoice::Data,
        RuntimeType::Python | RuntimeType::Javascript => ImageChoice::Auto,
    }
}

pub(super) fn next_session(record: &mut record::Record) -> String {
    record.last_session += 1;
    format!("e2b-{}-{}", record.id, record.last_session)
}
