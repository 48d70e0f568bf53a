//! A sandbox in a daemon.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use belljar_core::limits::{MAX_BEGUN_CALLS, MAX_COMPLETIONS};
use belljar_core::protocol::methods::{
    AnswerForm, COMPLETE, CREATE, CodeParams, CompleteParams, Completed, CreateParams, Created,
    DESTROY, EXECUTE, FORK, GET_VARIABLE, INITIALIZE, InitializeParams, Looked, NameParams,
    RESTORE, RESUME, RestoreParams, ResumeParams, SNAPSHOT, SandboxParams, SnapshotParams,
    Snapshotted, VALIDATE, Validated, VariableForm,
};
use belljar_core::{
    Backend, Field, GuestError, RuntimeType, SandboxError, SandboxExecutionError, SandboxResult,
    Status, Survives, ToolAnswer, ToolCall,
};
use belljar_host::{CancelHandle, Completions, Variable};
use serde::Serialize;
use serde_json::Value;
use tempfile::TempDir;

use super::connection::Connection;
use super::errors::{self, Request};
use super::mirror::Mirror;
use super::place::{PATIENCE, Place, ask};
use super::snapshots;
use super::talk::{Call, Listener};
use crate::factory::SandboxConfig;
use crate::home::Home;
use crate::plan::{Guest, LaunchPlan};
use crate::sandbox::{Sandbox, SandboxBase, check_source};
use crate::sessions::check_id;
use crate::snapshot::{Files, Snapshot};
use crate::wasm::Links;
use crate::workspace_files;

/// Runs code in a Belljar daemon, each piece in a fresh interpreter or, once a session has begun,
/// all in the same. It has what the wasm backend has; forks share its connection.
///
/// A workspace that the caller names is copied to the daemon when it is first needed, and what an
/// execution does there is done here as well. Without one the files stay with the daemon, and
/// [`Sandbox::workspace`] is empty.
pub struct DaemonSandbox {
    base: SandboxBase,
    plan: LaunchPlan,
    socket: PathBuf,
    home: Home,
    params: CreateParams,
    links: Links,
    listener: Listener,
    session_id: Option<String>,
    cancel: CancelHandle,
    state: State,
    mirror: Option<Mirror>,
    /// Removed when the sandbox is: the workspace of a fork.
    own_workspace: Option<TempDir>,
}

struct State {
    /// `None` until it is needed again.
    place: Option<Arc<Place>>,
    in_session: bool,
}

impl DaemonSandbox {
    /// The session of that name which the daemon keeps, or a new one. Its state is kept after every
    /// execution, and outlives this sandbox and the daemon.
    ///
    /// # Errors
    /// When no daemon answers, the name is none, or somebody else has the session open.
    pub fn named(config: &SandboxConfig, session: &str) -> Result<Self, SandboxError> {
        check_id(session)?;
        let config = SandboxConfig { backend: Backend::Daemon, ..config.clone() };
        Self::from_plan(LaunchPlan::new(&config)?, &config, Some(session))
    }

    pub(crate) fn from_plan(
        plan: LaunchPlan,
        config: &SandboxConfig,
        session: Option<&str>,
    ) -> Result<Self, SandboxError> {
        let Guest::Daemon(socket) = &plan.guest else {
            return Err(crate::factory::unavailable(plan.backend));
        };
        let links = Links::of(config);
        let mut sandbox = Self {
            base: SandboxBase::new(config.policy.clone(), &plan.workspace, config.logger.clone()),
            socket: socket.clone(),
            home: config.home()?,
            params: create_params(config, &links, session),
            listener: Listener::new(&links, &plan.policy),
            links,
            session_id: session.map(str::to_owned).or_else(|| config.session_id.clone()),
            cancel: CancelHandle::default(),
            state: State { place: None, in_session: false },
            mirror: (!plan.mounts.is_empty()).then(|| Mirror::new(&plan.workspace, false)),
            own_workspace: None,
            plan,
        };
        sandbox.place()?;
        Ok(sandbox)
    }

    /// Where the sandbox is; a new one where there is none, or none any more. A session that went
    /// with its connection is not replaced by something that knows nothing.
    fn place(&mut self) -> Result<Arc<Place>, SandboxError> {
        let named = self.params.session.is_some();
        let why = match &self.state.place {
            Some(place) => match place.connection.lost() {
                None => return Ok(Arc::clone(place)),
                Some(why) => why,
            },
            None => "the daemon has ended the sandbox".to_owned(),
        };
        if self.state.in_session && !named {
            return Err(errors::lost(why, Survives::NothingWasRun));
        }
        let (connection, _) = Connection::open(&self.socket)?;
        let created: Created = ask(&connection, CREATE, &self.params)?;
        let place = Arc::new(Place { connection, sandbox: created.sandbox });
        match &mut self.mirror {
            Some(mirror) if named && created.cells > 0 => mirror.rejoin(&place)?,
            Some(mirror) => mirror.forget(),
            None => {}
        }
        self.state = State { place: Some(Arc::clone(&place)), in_session: named };
        Ok(place)
    }

    /// The same for something new: what was there before does not matter.
    fn new_place(&mut self) -> Result<Arc<Place>, SandboxError> {
        let there = |place: &Arc<Place>| place.connection.lost().is_none();
        if !self.state.place.as_ref().is_some_and(there) {
            self.state = State { place: None, in_session: false };
        }
        self.place()
    }

    /// The same with the caller's files in it.
    fn furnished(&mut self) -> Result<Arc<Place>, SandboxError> {
        let place = self.place()?;
        if let Some(mirror) = &mut self.mirror {
            let sent = mirror.send(&place);
            sent.map_err(|error| self.refused(&place, error))?;
        }
        Ok(place)
    }

    fn in_session(&self, wanted: &str) -> Result<(), SandboxError> {
        if self.state.in_session {
            return Ok(());
        }
        Err(SandboxError::NotInSession { wanted: wanted.to_owned() })
    }

    /// Runs code, or goes on with it, and brings what came of it here.
    fn run(
        &mut self,
        place: &Arc<Place>,
        method: &str,
        params: &impl Serialize,
    ) -> Result<SandboxResult, SandboxError> {
        let call = Call {
            connection: &place.connection,
            sandbox: Some(place.sandbox),
            patience: self.plan.policy.timeout().saturating_add(PATIENCE),
            cancel: &self.cancel,
        };
        let answer = call.run(method, params, Some(&mut self.listener));
        let answer =
            answer.map_err(|failure| self.refused(place, errors::error(failure, Request::Runs)))?;
        let mut result: SandboxResult = serde_json::from_str(answer.get())
            .map_err(|_| errors::nonsense(method, Request::Runs))?;
        result.pending_calls.truncate(MAX_BEGUN_CALLS);
        result.workspace_path = self.base.workspace.display().to_string();
        Backend::Daemon.runtime_name().clone_into(&mut result.meta.runtime);
        result.meta.session_id = self.session_id().map(str::to_owned);
        if let Some(mirror) = &mut self.mirror {
            let fetched = mirror.fetch(place, &result);
            fetched.map_err(|error| unfetched(self.refused(place, error), &result))?;
        }
        if is_lost_with_its_worker(&result) && self.params.session.is_none() {
            self.state.place = None;
        }
        self.log_execution_metrics(&result);
        Ok(result)
    }

    /// An error that names calls has their numbers only in its words; the daemon knows them. After
    /// one that says that the sandbox is gone, nobody looks for it there.
    fn refused(&mut self, place: &Place, error: SandboxError) -> SandboxError {
        if errors::is_gone(&error, self.params.session.is_some()) {
            self.state.place = None;
        }
        match error {
            SandboxError::Remote { kind, .. } if kind == "suspended" => SandboxError::Suspended {
                pending: place.pending().iter().map(|call| call.id).collect(),
            },
            other => other,
        }
    }

    fn fork_as(
        &mut self,
        links: Links,
        id: Option<String>,
    ) -> Result<Box<dyn Sandbox>, SandboxError> {
        self.in_session("a fork")?;
        let place = self.furnished()?;
        let workspace = self.mirror.as_ref().map(|mirror| copied(mirror.root())).transpose()?;
        let params = SandboxParams { sandbox: place.sandbox };
        let created: Created =
            place.ask(FORK, &params).map_err(|error| self.refused(&place, error))?;
        let connection = Arc::clone(&place.connection);
        let fork = Place { connection, sandbox: created.sandbox };
        Ok(Box::new(self.beside(fork, workspace, links, id)))
    }

    /// A sandbox of its own kind at another place.
    fn beside(
        &self,
        place: Place,
        workspace: Option<TempDir>,
        links: Links,
        session_id: Option<String>,
    ) -> Self {
        let mut plan = self.plan.clone();
        if let (Some(workspace), Some(mount)) = (&workspace, plan.mounts.first_mut()) {
            plan.workspace = workspace.path().to_owned();
            mount.host.clone_from(&plan.workspace);
        }
        Self {
            base: SandboxBase { workspace: plan.workspace.clone(), ..self.base.clone() },
            socket: self.socket.clone(),
            home: self.home.clone(),
            params: CreateParams { session: None, ..self.params.clone() },
            listener: Listener::new(&links, &plan.policy),
            links,
            session_id,
            cancel: CancelHandle::default(),
            state: State { place: Some(Arc::new(place)), in_session: true },
            mirror: workspace.as_ref().map(|workspace| Mirror::new(workspace.path(), true)),
            own_workspace: workspace,
            plan,
        }
    }
}

/// What the daemon is asked for: wasm, which enforces what was promised for it.
fn create_params(config: &SandboxConfig, links: &Links, session: Option<&str>) -> CreateParams {
    let mut policy = config.policy.explicit();
    // Directories of this machine, which nobody sees there.
    for field in [Field::MountHostDir, Field::MountDataDir] {
        policy.remove(field.name());
    }
    CreateParams {
        language: config.runtime,
        backend: Some(Backend::Wasm),
        preset: Some(config.policy.base()),
        policy,
        code_name: config.code_name.clone(),
        session: session.map(str::to_owned),
        tools: links.tools.names_of(false),
        deferred_tools: links.tools.names_of(true),
        tool_docs: links.tools.docs().clone(),
        depth: links.tools.depth(),
        input: links.input.is_some(),
        stream: links.on_stdout.is_some() || links.on_stderr.is_some(),
        ..CreateParams::default()
    }
}

/// Whether a result is the daemon's own, about a worker that is gone.
fn is_lost_with_its_worker(result: &SandboxResult) -> bool {
    result.status() == Status::Crashed
        && result.error.as_ref().is_some_and(|error| error.name == "WorkerLost")
}

/// The code ran, whatever the error says about itself.
fn unfetched(error: SandboxError, result: &SandboxResult) -> SandboxError {
    let ran = format!("the code ended with status {}, but not all of its files", result.status());
    match error {
        SandboxError::ConnectionLost { problem, .. } => {
            errors::lost(format!("{problem}; {ran} were here"), Survives::OtherSandboxes)
        }
        SandboxError::Workspace { path, problem, hint } => SandboxExecutionError {
            problem: format!("{ran} could be brought here: {}: {problem}", path.display()),
            survives: Survives::SandboxAsAfter,
            hint: hint.or_else(|| Some("what is missing comes with the next execution".to_owned())),
        }
        .into(),
        other => SandboxExecutionError {
            problem: format!("{ran} could be brought here: {other}"),
            survives: Survives::SandboxAsAfter,
            hint: other.hint(),
        }
        .into(),
    }
}

impl Sandbox for DaemonSandbox {
    fn base(&self) -> &SandboxBase {
        &self.base
    }

    fn runtime(&self) -> RuntimeType {
        self.plan.language
    }

    fn execute(&mut self, code: &str) -> Result<SandboxResult, SandboxError> {
        check_source(code)?;
        self.base.logger.log_execution_start(self.runtime(), &self.base.policy, code);
        let place = self.furnished()?;
        let params = CodeParams { sandbox: place.sandbox, code: code.to_owned() };
        self.run(&place, EXECUTE, &params)
    }

    fn check_code(&mut self, code: &str) -> Result<Option<GuestError>, SandboxError> {
        check_source(code)?;
        let place = self.place()?;
        let params = CodeParams { sandbox: place.sandbox, code: code.to_owned() };
        let call = Call {
            connection: &place.connection,
            sandbox: Some(place.sandbox),
            patience: self.plan.policy.timeout().saturating_add(PATIENCE),
            cancel: &self.cancel,
        };
        let answer = call
            .run(VALIDATE, &params, None)
            .map_err(|failure| self.refused(&place, errors::error(failure, Request::Looks)))?;
        let validated: Validated = serde_json::from_str(answer.get())
            .map_err(|_| errors::nonsense(VALIDATE, Request::Looks))?;
        Ok(validated.error)
    }

    fn cancel_handle(&self) -> CancelHandle {
        self.cancel.clone()
    }

    fn initialize(&mut self, context: Value) -> Result<(), SandboxError> {
        let place = self.new_place()?;
        let params = InitializeParams { sandbox: place.sandbox, context };
        place.ask::<()>(INITIALIZE, &params).map_err(|error| self.refused(&place, error))?;
        self.state.in_session = true;
        Ok(())
    }

    fn get_variable(&mut self, name: &str) -> Result<Option<Variable>, SandboxError> {
        self.in_session("a variable")?;
        let place = self.place()?;
        let params = NameParams { sandbox: place.sandbox, name: name.to_owned() };
        let looked: Looked =
            place.ask(GET_VARIABLE, &params).map_err(|error| self.refused(&place, error))?;
        Ok(looked.variable.map(|VariableForm { type_name, text, has_json, json }| Variable {
            type_name,
            text,
            json: has_json.then_some(json),
        }))
    }

    fn complete(&mut self, code: &str, cursor: usize) -> Result<Completions, SandboxError> {
        check_source(code)?;
        self.in_session("completion")?;
        let place = self.place()?;
        let params = CompleteParams { sandbox: place.sandbox, code: code.to_owned(), cursor };
        let Completed { start, mut matches } =
            place.ask(COMPLETE, &params).map_err(|error| self.refused(&place, error))?;
        matches.truncate(MAX_COMPLETIONS);
        Ok(Completions { start, matches })
    }

    fn pending_calls(&mut self) -> Vec<ToolCall> {
        match self.state.in_session.then(|| self.place()) {
            Some(Ok(place)) => place.pending(),
            Some(Err(_)) | None => Vec::new(),
        }
    }

    fn resume(&mut self, answers: Vec<ToolAnswer>) -> Result<SandboxResult, SandboxError> {
        self.in_session("to be resumed")?;
        let place = self.furnished()?;
        let answers = answers.into_iter().map(AnswerForm::from).collect();
        self.run(&place, RESUME, &ResumeParams { sandbox: place.sandbox, answers })
    }

    fn snapshot(&mut self, files: Files) -> Result<Snapshot, SandboxError> {
        self.in_session("a snapshot")?;
        let place = self.furnished()?;
        let files = matches!(files, Files::With);
        let mut snapshot = place
            .ask(SNAPSHOT, &SnapshotParams { sandbox: place.sandbox, files })
            .and_then(|kept: Snapshotted| snapshots::download(&place, kept, &self.home))
            .map_err(|error| self.refused(&place, error))?;
        snapshot.facts.session_id.clone_from(&self.session_id);
        Ok(snapshot)
    }

    fn restore(&mut self, snapshot: &Snapshot) -> Result<(), SandboxError> {
        let language = snapshot.facts.language;
        if language != self.plan.language {
            return Err(SandboxError::Snapshot {
                path: None,
                problem: format!("it is of a {language} session, and this is {}", self.runtime()),
                hint: Some(format!("restore it with the language {language}")),
            });
        }
        self.new_place()?;
        let place = self.furnished()?;
        snapshots::upload(&place, snapshot)
            .and_then(|kept| {
                let params = RestoreParams { sandbox: place.sandbox, snapshot: kept.snapshot };
                place.ask::<()>(RESTORE, &params)
            })
            .map_err(|error| self.refused(&place, error))?;
        self.state.in_session = true;
        match &self.mirror {
            // What it brought there belongs here, too.
            Some(mirror) => snapshot.unpack_files(mirror.root(), &self.plan.policy),
            None => Ok(()),
        }
    }

    fn fork(&mut self) -> Result<Box<dyn Sandbox>, SandboxError> {
        self.fork_as(self.links.clone(), self.session_id.clone())
    }

    fn fork_for(&mut self, links: Links) -> Result<Box<dyn Sandbox>, SandboxError> {
        self.fork_as(links, None)
    }

    fn destroy(&mut self) -> Result<(), SandboxError> {
        let place = self.state.place.take();
        self.state.in_session = false;
        if let Some(mirror) = &mut self.mirror {
            mirror.forget();
        }
        // Once it is answered, everything is given back; without a connection it was before.
        let ended = place.filter(|place| place.connection.lost().is_none());
        let ended =
            ended.map(|place| place.ask::<()>(DESTROY, &SandboxParams { sandbox: place.sandbox }));
        if let Some(workspace) = self.own_workspace.take() {
            workspace.close().map_err(|error| SandboxError::Workspace {
                path: self.base.workspace.clone(),
                problem: format!("it cannot be removed: {error}"),
                hint: None,
            })?;
        }
        match ended {
            Some(Err(error @ SandboxError::Remote { .. })) => Err(error),
            _ => Ok(()),
        }
    }

    fn session_id(&self) -> Option<&str> {
        self.session_id.as_deref().filter(|_| self.state.in_session)
    }
}

/// A copy of a workspace, for a fork.
fn copied(workspace: &Path) -> Result<TempDir, SandboxError> {
    let copy = workspace_files::temporary()?;
    workspace_files::copy(workspace, copy.path())?;
    Ok(copy)
}
