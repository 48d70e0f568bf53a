//! A sandbox whose interpreter is a process: a new one for each execution, or one for a session.

use std::time::{Duration, Instant};

use belljar_core::limits::MAX_LOOK_BYTES;
use belljar_core::{
    Backend, GuestError, Meta, ResolvedPolicy, RuntimeType, SandboxError, SandboxExecutionError,
    SandboxResult, StateAfter, Survives, ToolUsage,
};
use belljar_host::{Answer, CancelHandle, CellEnd, Completions, Desk, Told, Variable, Watch};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::changes::{Listing, Quota, open_up};
use super::interpreter::{CallEnd, Called, Interpreter, Printing};
use super::launch::Launcher;
use super::report::{Execution, report};
use crate::factory::SandboxConfig;
use crate::import_guard::{self, Asked};
use crate::plan::LaunchPlan;
use crate::sandbox::{Sandbox, SandboxBase, check_source};
use crate::surroundings::surroundings;
use crate::wasm::Links;

/// The name code has in tracebacks unless the caller gives it one.
const DEFAULT_CODE_NAME: &str = "<sandbox>";

/// How long an interpreter may take to be ready, which is no time of the user's code.
const STARTING: Duration = Duration::from_secs(60);

/// How long showing a value or completing a name may take.
const LOOKING: Duration = Duration::from_secs(2);

pub(crate) struct ProcessSandbox {
    base: SandboxBase,
    plan: LaunchPlan,
    launcher: Box<dyn Launcher>,
    links: Links,
    code_name: Option<String>,
    session_id: Option<String>,
    cancel: CancelHandle,
    session: Option<Session>,
}

/// State that lives from cell to cell, as long as its process does.
struct Session {
    /// `None` once it had to be ended; the next cell gets a new one.
    running: Option<Running>,
    context: Value,
    cells: u64,
}

/// An interpreter that is ready to run code.
struct Running {
    interpreter: Interpreter,
    version: String,
}

#[derive(Deserialize)]
struct Initialized {
    language_version: String,
}

#[derive(Serialize)]
struct Cell<'a> {
    code: &'a str,
    filename: &'a str,
    value: bool,
    drain: bool,
}

impl ProcessSandbox {
    pub(crate) fn new(
        plan: LaunchPlan,
        config: &SandboxConfig,
        launcher: Box<dyn Launcher>,
    ) -> Self {
        Self {
            base: SandboxBase::new(config.policy.clone(), &plan.workspace, config.logger.clone()),
            plan,
            launcher,
            links: Links::of(config),
            code_name: config.code_name.clone(),
            session_id: config.session_id.clone(),
            cancel: CancelHandle::default(),
            session: None,
        }
    }

    fn policy(&self) -> &ResolvedPolicy {
        &self.plan.policy
    }

    /// A new interpreter that knows where it is.
    fn start(&mut self) -> Result<Running, SandboxError> {
        let launched = self.launcher.launch()?;
        let policy = &self.plan.policy;
        let printing = |max: usize, sink: &Option<_>| Printing {
            max_bytes: max as u64,
            sink: Option::clone(sink),
        };
        let output = [
            printing(policy.stdout_max_bytes(), &self.links.on_stdout),
            printing(policy.stderr_max_bytes(), &self.links.on_stderr),
        ];
        let desk = Desk::new(self.links.call_host(policy, false), policy.tool_limits());
        let interpreter =
            Interpreter::new(launched, output, desk).map_err(|error| self.broke(&error))?;
        let mut running = Running { interpreter, version: String::new() };
        let told =
            surroundings(policy, self.plan.language, self.launcher.path(), &self.links.tools);
        let called =
            self.ask(&mut running, "initialize", &json!({ "surroundings": told }), STARTING)?;
        let ready: Option<Initialized> = match &called.end {
            CallEnd::Answered(answer) => serde_json::from_str(answer.get()).ok(),
            _ => None,
        };
        match ready {
            Some(ready) => running.version = ready.language_version,
            None => return Err(self.not_ready(running, called)),
        }
        Ok(running)
    }

    fn not_ready(&self, mut running: Running, called: Called) -> SandboxError {
        let [_, stderr] = running.interpreter.take_output();
        let said = stderr.finish().text;
        let last = said.lines().last().unwrap_or_default();
        let reason = match called.end {
            CallEnd::Refused(error) => error.message,
            CallEnd::Died(ended) if last.is_empty() => {
                format!("its interpreter was not ready before {ended}")
            }
            CallEnd::Died(ended) => {
                format!("its interpreter was not ready before {ended}, and said: {last}")
            }
            CallEnd::Stopped => format!("its interpreter was not ready within {STARTING:?}"),
            _ => "its interpreter does not speak the protocol".to_owned(),
        };
        SandboxError::BackendUnavailable {
            backend: self.launcher.backend(),
            reason,
            hint: Some("`belljar doctor` shows what works here".to_owned()),
        }
    }

    /// Asks something that is no execution: nothing is counted, no tool may be called.
    fn ask(
        &self,
        running: &mut Running,
        method: &str,
        params: &impl Serialize,
        patience: Duration,
    ) -> Result<Called, SandboxError> {
        let control = self.cancel.control();
        let interpreter = &mut running.interpreter;
        let mut watch = Watch::woken_by(&control, patience, interpreter.waker());
        interpreter.desk_mut().set_closed(true);
        let mut unlimited = Quota::unlimited(&self.plan.workspace);
        let called = interpreter.call(method, params, &mut watch, &mut unlimited);
        interpreter.desk_mut().set_closed(false);
        called.map_err(|error| self.broke(&error))
    }

    /// What is in the workspace. One that cannot be watched is refused before anything is started.
    fn look_at_workspace(&self) -> Result<Listing, SandboxError> {
        let listing = Listing::of(&self.plan.workspace);
        if listing.is_whole() {
            return Ok(listing);
        }
        Err(SandboxError::Workspace {
            path: self.plan.workspace.clone(),
            problem: "it holds more than can be watched, is too deep, or has directories that \
                      cannot be read"
                .to_owned(),
            hint: Some("clean it up, or use another workspace".to_owned()),
        })
    }

    /// Runs a cell and tells what came of it; the interpreter too, if it lives.
    fn run(
        &self,
        mut running: Running,
        cell: &Cell<'_>,
        (started, before): (Instant, Listing),
        in_session: bool,
    ) -> Result<(SandboxResult, Option<Running>), SandboxError> {
        let policy = self.policy();
        let workspace = self.plan.workspace.as_path();
        let mut quota = Quota::new(
            workspace,
            &before,
            policy.workspace_max_bytes(),
            policy.workspace_max_files(),
        );
        let control = self.cancel.control();
        let interpreter = &mut running.interpreter;
        interpreter.desk_mut().begin_execution();
        let called = {
            let mut watch = Watch::woken_by(&control, policy.timeout(), interpreter.waker());
            interpreter.call("execute", cell, &mut watch, &mut quota)
        };
        let called = called.map_err(|error| self.broke(&error))?;
        interpreter.desk_mut().end_execution();
        let tools = ToolUsage { depth: self.links.tools.depth(), ..interpreter.desk_mut().usage() };
        let answer = answer(&called.end);
        let alive = answer.is_some();
        if !alive || !in_session {
            interpreter.process_mut().end();
        }
        let after = Listing::of(workspace);
        let lives_on = alive && in_session;
        if !lives_on && !after.is_whole() {
            open_up(workspace);
        }
        let state = if alive { StateAfter::Kept } else { StateAfter::Lost };
        let execution = Execution {
            answer,
            called,
            output: interpreter.take_output(),
            changes: before.changes_to(&after),
            over_quota: quota.is_exceeded_by(&after),
            tools,
            elapsed: started.elapsed(),
            peak_memory_bytes: interpreter.process_mut().peak_memory_bytes(),
            state: in_session.then_some(state),
            meta: self.meta(&mut running),
            workspace: workspace.display().to_string(),
        };
        let result = report(execution, policy, &self.base.logger);
        Ok((result, Some(running).filter(|_| alive)))
    }

    fn meta(&self, running: &mut Running) -> Meta {
        Meta {
            runtime: self.launcher.backend().runtime_name().to_owned(),
            language: self.plan.language,
            language_version: Some(running.version.clone()),
            session_id: self.session.as_ref().and(self.session_id.clone()),
            isolation: running.interpreter.process_mut().layers(),
            fallback_from: self.plan.fallback_from.map(|backend| backend.to_string()),
            ..Meta::default()
        }
    }

    fn execute_in_session(&mut self, code: &str) -> Result<SandboxResult, SandboxError> {
        let begun = (Instant::now(), self.look_at_workspace()?);
        let running = self.session_interpreter()?;
        let cells = self.session.as_ref().map_or(0, |session| session.cells);
        let numbered = format!("<cell {}>", cells.saturating_add(1));
        let filename = self.code_name.as_deref().unwrap_or(&numbered);
        let cell = Cell { code, filename, value: true, drain: false };
        let (result, running) = self.run(running, &cell, begun, true)?;
        if let Some(session) = &mut self.session {
            session.running = running;
            session.cells = session.cells.saturating_add(1);
        }
        Ok(result)
    }

    /// The session's interpreter, out of its place; a new one where the last had to be ended.
    fn session_interpreter(&mut self) -> Result<Running, SandboxError> {
        let Some(session) = &mut self.session else {
            return Err(SandboxError::NotInSession { wanted: "an execution".to_owned() });
        };
        if let Some(running) = session.running.take() {
            return Ok(running);
        }
        let context = session.context.clone();
        let mut running = self.start()?;
        let define = json!({ "variables": { "context": context } });
        let called = self.ask(&mut running, "define", &define, STARTING)?;
        if matches!(answer(&called.end), Some(answer) if answer.end == CellEnd::Finished) {
            return Ok(running);
        }
        Err(SandboxExecutionError {
            problem: "the context does not fit into the sandbox".to_owned(),
            survives: Survives::NothingWasRun,
            hint: Some("raise memory_bytes, or put it into a file in the workspace".to_owned()),
        }
        .into())
    }

    /// Looks at the session. `None` when it cannot be shown; the session is gone then.
    fn look<T>(
        &mut self,
        wanted: &str,
        method: &str,
        params: &Value,
        parse: fn(&[u8]) -> Option<T>,
    ) -> Result<Option<T>, SandboxError> {
        if self.session.is_none() {
            return Err(SandboxError::NotInSession { wanted: wanted.to_owned() });
        }
        let mut running = self.session_interpreter()?;
        let patience = LOOKING.min(self.policy().timeout());
        let called = self.ask(&mut running, method, params, patience)?;
        let found = match &called.end {
            CallEnd::Answered(found) => Some(found),
            _ => None,
        };
        let lives = matches!(called.end, CallEnd::Answered(_) | CallEnd::Refused(_));
        if let Some(session) = &mut self.session {
            session.running = Some(running).filter(|_| lives);
        }
        let small = found.filter(|found| found.get().len() <= MAX_LOOK_BYTES);
        Ok(small.and_then(|found| parse(found.get().as_bytes())))
    }

    fn broke(&self, error: &dyn std::error::Error) -> SandboxError {
        SandboxError::Internal {
            problem: format!("the {} backend: {error}", self.launcher.backend()),
            survives: Survives::OtherSandboxes,
        }
    }
}

fn answer(end: &CallEnd) -> Option<Answer> {
    let CallEnd::Answered(answer) = end else { return None };
    match Told::parse(RawValue::get(answer).as_bytes()) {
        Some(Told::Ended(answer)) => Some(answer),
        Some(Told::Waiting { .. }) | None => None,
    }
}

impl Sandbox for ProcessSandbox {
    fn base(&self) -> &SandboxBase {
        &self.base
    }

    fn runtime(&self) -> RuntimeType {
        self.launcher.language()
    }

    fn execute(&mut self, code: &str) -> Result<SandboxResult, SandboxError> {
        check_source(code)?;
        self.base.logger.log_execution_start(self.runtime(), &self.base.policy, code);
        let asked = Asked {
            code,
            plan: &self.plan,
            session: self.session.as_ref().map(|_| self.session_id.as_deref()),
            depth: self.links.tools.depth(),
        };
        let result = if let Some(blocked) = import_guard::blocked(&asked, &self.base.logger) {
            blocked
        } else if self.session.is_some() {
            self.execute_in_session(code)?
        } else {
            let begun = (Instant::now(), self.look_at_workspace()?);
            let running = self.start()?;
            let filename = self.code_name.clone().unwrap_or_else(|| DEFAULT_CODE_NAME.to_owned());
            let cell = Cell { code, filename: &filename, value: true, drain: true };
            self.run(running, &cell, begun, false)?.0
        };
        self.log_execution_metrics(&result);
        Ok(result)
    }

    fn check_code(&mut self, code: &str) -> Result<Option<GuestError>, SandboxError> {
        check_source(code)?;
        let mut running = self.start()?;
        let params = json!({ "code": code, "filename": DEFAULT_CODE_NAME });
        let called = self.ask(&mut running, "validate", &params, self.policy().timeout())?;
        match answer(&called.end) {
            Some(answer) if called.stop.is_none() => Ok(answer.error),
            _ => Err(SandboxExecutionError {
                problem: "the code is too large or too deep to be compiled within the limits"
                    .to_owned(),
                survives: Survives::NothingWasRun,
                hint: Some("raise memory_bytes or timeout_seconds".to_owned()),
            }
            .into()),
        }
    }

    fn cancel_handle(&self) -> CancelHandle {
        if self.launcher.interruptible() { self.cancel.clone() } else { CancelHandle::default() }
    }

    fn initialize(&mut self, context: Value) -> Result<(), SandboxError> {
        self.session = Some(Session { running: None, context, cells: 0 });
        match self.session_interpreter() {
            Ok(running) => {
                if let Some(session) = &mut self.session {
                    session.running = Some(running);
                }
                Ok(())
            }
            Err(error) => {
                self.session = None;
                Err(error)
            }
        }
    }

    fn get_variable(&mut self, name: &str) -> Result<Option<Variable>, SandboxError> {
        self.look("a variable", "inspect", &json!({ "name": name }), Variable::parse)?.ok_or_else(
            || {
                SandboxExecutionError {
                    problem: format!("the variable {name:?} cannot be shown within the limits"),
                    survives: Survives::SandboxAsBefore,
                    hint: Some("look at a part of it with a cell of its own".to_owned()),
                }
                .into()
            },
        )
    }

    fn complete(&mut self, code: &str, cursor: usize) -> Result<Completions, SandboxError> {
        check_source(code)?;
        let params = json!({ "code": code, "cursor": cursor });
        Ok(self.look("completion", "complete", &params, Completions::parse)?.unwrap_or_default())
    }

    fn snapshot(&mut self, _: crate::Files) -> Result<crate::Snapshot, SandboxError> {
        Err(cannot_be_saved(self.launcher.backend()))
    }

    fn restore(&mut self, _: &crate::Snapshot) -> Result<(), SandboxError> {
        Err(cannot_be_saved(self.launcher.backend()))
    }

    fn fork(&mut self) -> Result<Box<dyn Sandbox>, SandboxError> {
        Err(cannot_be_saved(self.launcher.backend()))
    }

    fn fork_for(&mut self, _: crate::wasm::Links) -> Result<Box<dyn Sandbox>, SandboxError> {
        Err(cannot_be_saved(self.launcher.backend()))
    }

    fn destroy(&mut self) -> Result<(), SandboxError> {
        self.session = None;
        Ok(())
    }

    fn session_id(&self) -> Option<&str> {
        self.session.as_ref().and(self.session_id.as_deref())
    }
}

fn cannot_be_saved(backend: Backend) -> SandboxError {
    SandboxError::Snapshot {
        path: None,
        problem: format!("sessions of the {backend} backend cannot be saved or forked"),
        hint: Some("use the wasm backend for that".to_owned()),
    }
}
