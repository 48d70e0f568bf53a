//! From a client's parameters to a sandbox.

use std::sync::Arc;
use std::time::Duration;

use belljar::wasm::Links;
use belljar::{
    ExecutionPolicy, Field, LineSink, PolicyLayer, Sandbox, SandboxConfig, SandboxError, Session,
    SessionStore, Tools, create_sandbox, workspace,
};
use belljar_core::protocol::methods::{
    CreateParams, INPUT, InputParams, Line, STDERR, STDOUT, TOOL_CALL, ToolParams,
};
use serde_json::Value;
use tempfile::TempDir;

use super::seat::Room;

/// A sandbox, with what has to live as long as it does.
pub(super) struct Guest {
    pub(super) sandbox: Box<dyn Sandbox>,
    /// Kept after every execution.
    pub(super) session: Option<Session>,
    temporary: Option<TempDir>,
    params: CreateParams,
}

impl Guest {
    /// Ends it. What was made for it is gone before anybody hears that it has ended.
    pub(super) fn destroy(&mut self) -> Result<(), SandboxError> {
        let ended = self.sandbox.destroy();
        drop(self.temporary.take());
        ended
    }

    /// What a fork is made from: the same, without a name and in a workspace of its own.
    fn fork_params(&self) -> CreateParams {
        let mut params = CreateParams { session: None, workspace: None, ..self.params.clone() };
        params.policy.remove(Field::MountHostDir.name());
        if let Some(session) = &self.session {
            params.deferred_tools.clone_from(&session.record().deferred_tools);
        }
        params
    }
}

pub(super) fn make(room: &Room, params: CreateParams) -> Result<Guest, SandboxError> {
    let layer = PolicyLayer::from_json(&Value::Object(params.policy.clone()))?;
    let policy = ExecutionPolicy::build(params.preset.unwrap_or(room.offer.preset), [layer])?;
    let session =
        params.session.as_deref().map(|id| open(room, id, &params, &policy)).transpose()?;
    let backend = params.backend.unwrap_or(room.offer.backend);
    let docker = room.offer.docker.clone();
    let named = params.workspace.is_some() || policy.is_explicit(Field::MountHostDir);
    let temporary = (session.is_none() && !named)
        .then(|| workspace::temporary(backend, &docker))
        .transpose()?;
    let Links { tools, input, on_stdout, on_stderr } = links(room, &params, session.as_ref())?;
    let config = SandboxConfig {
        runtime: params.language,
        backend,
        docker,
        policy,
        workspace: temporary.as_ref().map(|dir| dir.path().to_owned()).or(params.workspace.clone()),
        home: Some(room.offer.home.clone()),
        code_name: params.code_name.clone(),
        wasm_binary_path: params.wasm_binary_path.clone(),
        python: params.python.clone(),
        index_url: params.index_url.clone(),
        use_worker: params.use_worker,
        tools,
        on_input: input,
        on_stdout,
        on_stderr,
        ..SandboxConfig::default()
    };
    let sandbox = match &session {
        Some(session) => session.wake(&config)?,
        None => create_sandbox(&config)?,
    };
    Ok(Guest { sandbox, session, temporary, params })
}

/// A guest that goes on from where another is, and tells and asks in its own name.
pub(super) fn fork(parent: &mut Guest, room: &Room) -> Result<Guest, SandboxError> {
    let params = parent.fork_params();
    let sandbox = parent.sandbox.fork_for(links(room, &params, None)?)?;
    Ok(Guest { sandbox, session: None, temporary: None, params })
}

/// The session of that name, or a new one.
fn open(
    room: &Room,
    id: &str,
    params: &CreateParams,
    policy: &ExecutionPolicy,
) -> Result<Session, SandboxError> {
    let store = SessionStore::open(&room.offer.home);
    let mut session = match store.session(id) {
        Err(SandboxError::SessionNotFound { .. }) => {
            let idle = Duration::try_from_secs_f64(policy.idle_timeout_seconds);
            let mut session =
                store.create(Some(id), params.language, idle.unwrap_or(Duration::MAX))?;
            if let Some(workspace) = &params.workspace {
                session.work_in(&workspace::check_workspace(workspace)?);
            }
            session
        }
        found => found?,
    };
    if session.record().language != params.language {
        return Err(SandboxError::Session {
            id: id.to_owned(),
            problem: format!("its language is {}", session.record().language),
            hint: Some("use another session, or name its language".to_owned()),
        });
    }
    session.keep(room.offer.durability);
    session.defer(&params.deferred_tools);
    session.follow(policy);
    Ok(session)
}

fn links(
    room: &Room,
    params: &CreateParams,
    session: Option<&Session>,
) -> Result<Links, SandboxError> {
    Ok(Links {
        tools: tools(room, params, session)?,
        input: params.input.then(|| input(room)),
        on_stdout: params.stream.then(|| lines(room, STDOUT)),
        on_stderr: params.stream.then(|| lines(room, STDERR)),
    })
}

fn tools(
    room: &Room,
    params: &CreateParams,
    session: Option<&Session>,
) -> Result<Tools, SandboxError> {
    let mut tools = Tools::new();
    for name in &params.tools {
        let (calls, sandbox) = (Arc::clone(&room.calls), room.number);
        tools = tools.with(name, move |request| {
            let params = ToolParams {
                sandbox,
                name: request.call.name.clone(),
                args: request.call.args.clone(),
                kwargs: request.call.kwargs.clone(),
                depth: request.depth,
            };
            calls.ask(TOOL_CALL, &params, || request.cancelled())
        })?;
    }
    let deferred = session.map_or(&params.deferred_tools, |open| &open.record().deferred_tools);
    for name in deferred.iter().filter(|name| !params.tools.contains(name)) {
        tools = tools.deferred(name)?;
    }
    for (name, doc) in &params.tool_docs {
        tools = tools.documented(name, doc.clone())?;
    }
    Ok(tools.at_depth(params.depth))
}

fn lines(room: &Room, stream: &'static str) -> LineSink {
    let (out, sandbox) = (room.out.clone(), room.number);
    Arc::new(move |text| out.tell(stream, &Line { sandbox, text: text.to_owned() }))
}

fn input(room: &Room) -> belljar::InputSource {
    let (calls, sandbox) = (Arc::clone(&room.calls), room.number);
    Arc::new(move |request| {
        let params = InputParams { sandbox, prompt: request.prompt.clone() };
        match calls.ask(INPUT, &params, || request.cancelled()) {
            Ok(Value::String(line)) => Some(line),
            Ok(_) | Err(_) => None,
        }
    })
}
