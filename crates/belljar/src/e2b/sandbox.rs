//! A sandbox of the service behind the trait all backends have.

use std::sync::Arc;
use std::time::{Duration, Instant};

use belljar_core::{
    Backend, GuestError, Meta, Outcome, RuntimeType, SandboxError, SandboxResult, StateAfter,
    Survives, ToolUsage,
};
use belljar_host::{CancelHandle, CellEnd, Output, StopCause, Variable};
use serde_json::{Map, Value, json};
use ureq::http::Method;

use super::driver::{self, Account};
use super::execution::{self, Told};
use super::files::{self, Changes, Listing};
use super::service::{INTERPRETER_PORT, Remote, Service, refused};
use crate::e2b_settings::E2bSettings;
use crate::execution_id;
use crate::factory::SandboxConfig;
use crate::import_guard::{self, Asked};
use crate::plan::LaunchPlan;
use crate::sandbox::{Sandbox, SandboxBase, check_source, keeps_no_state};
use crate::verdict::{Verdict, with_notice};
use crate::wasm::Links;

/// A sandbox lives so long beyond the code that runs in it.
const SLACK_SECONDS: u64 = 300;
/// The longest time that E2B gives at once.
const MAX_SECONDS: u64 = 3600;
/// What code is called in tracebacks that has no other name.
const DEFAULT_CODE_NAME: &str = "<sandbox>";

/// Runs code in a sandbox of E2B's, or of a service like it: each piece in a context of its own or,
/// once a session has begun, all in the same. The sandbox there is made when it is first needed, and
/// ended with this one.
pub struct E2bSandbox {
    base: SandboxBase,
    plan: LaunchPlan,
    service: Service,
    links: Links,
    session_id: Option<String>,
    cancel: CancelHandle,
    remote: Option<Arc<Remote>>,
    /// The context of the session, if one has begun.
    context: Option<String>,
    /// How many cells the session has run.
    cells: u64,
    code_name: Option<String>,
}

/// What is sent to be run.
enum Sent<'a> {
    /// The user's code.
    Code { code: &'a str, name: &'a str },
    /// Something of ours.
    Own(String),
}

impl E2bSandbox {
    pub(crate) fn from_plan(
        plan: LaunchPlan,
        config: &SandboxConfig,
    ) -> Result<Self, SandboxError> {
        let links = Links::of(config);
        if !links.tools.names().is_empty() || links.input.is_some() {
            return Err(SandboxError::BackendUnavailable {
                backend: Backend::E2b,
                reason: "code there cannot call tools of this machine, or ask it for input".into(),
                hint: Some("use the wasm backend for tools".to_owned()),
            });
        }
        let mut sandbox = Self {
            base: SandboxBase::new(config.policy.clone(), &plan.workspace, config.logger.clone()),
            service: Service::new(config.e2b.clone().map_or_else(E2bSettings::from_env, Ok)?),
            links,
            session_id: config.session_id.clone(),
            cancel: CancelHandle::default(),
            remote: None,
            context: None,
            cells: 0,
            code_name: config.code_name.clone(),
            plan,
        };
        // Whether a key is accepted is better known now than later.
        sandbox.remote()?;
        Ok(sandbox)
    }

    fn seconds(&self) -> u64 {
        let needed = self.plan.policy.timeout().as_secs().saturating_add(SLACK_SECONDS);
        needed.min(MAX_SECONDS)
    }

    /// The sandbox there, with the workspace's files in it.
    fn remote(&mut self) -> Result<Arc<Remote>, SandboxError> {
        if let Some(remote) = &self.remote {
            return Ok(Arc::clone(remote));
        }
        let remote = Arc::new(self.service.create(self.seconds())?);
        if !self.plan.mounts.is_empty() {
            files::send(&remote, &self.plan.workspace)?;
        }
        self.remote = Some(Arc::clone(&remote));
        Ok(remote)
    }

    /// The same, alive for as long as code may run. One that has ended is replaced, unless it held a
    /// session.
    fn awake(&mut self) -> Result<Arc<Remote>, SandboxError> {
        let remote = self.remote()?;
        match remote.keep_alive(self.seconds()) {
            Ok(()) => Ok(remote),
            Err(SandboxError::ConnectionLost { .. }) if self.context.is_none() => {
                self.remote = None;
                self.remote()
            }
            Err(error) => Err(error),
        }
    }

    fn new_context(&self, remote: &Remote) -> Result<String, SandboxError> {
        let body = json!({ "language": self.plan.language }).to_string().into_bytes();
        let kind = ("application/json", body);
        let answer = remote.ask(Method::POST, INTERPRETER_PORT, "/contexts", kind)?;
        let id = answer.json().and_then(|context| context["id"].as_str().map(str::to_owned));
        let plain = |id: &String| id.bytes().all(|it| it.is_ascii_alphanumeric() || it == b'-');
        match id.filter(plain) {
            Some(id) if answer.status == 200 => Ok(id),
            _ => Err(refused(answer.status, &answer, "nothing was run")),
        }
    }

    fn end_context(remote: &Remote, id: &str) {
        let path = format!("/contexts/{id}");
        let kind = ("application/json", Vec::new());
        // It ends with the sandbox at the latest.
        drop(remote.ask(Method::DELETE, INTERPRETER_PORT, &path, kind));
    }

    fn run(&mut self, sent: &Sent<'_>) -> Result<SandboxResult, SandboxError> {
        let started = Instant::now();
        let remote = self.awake()?;
        let before = files::list(&remote)?;
        let (context, own) = match &self.context {
            Some(context) => (context.clone(), false),
            None => (self.new_context(&remote)?, true),
        };
        let mut output = self.output();
        let ran = self.told_in(&remote, &context, sent, &mut output);
        if own {
            Self::end_context(&remote, &context);
        }
        let told = ran?;
        let changes = self.bring(&remote, &before)?;
        Ok(self.report(told, output, changes, started.elapsed()))
    }

    fn output(&self) -> [Output; 2] {
        let policy = &self.plan.policy;
        let cap = |bytes: usize| u64::try_from(bytes).unwrap_or(u64::MAX);
        [
            Output::new(cap(policy.stdout_max_bytes()), self.links.on_stdout.clone()),
            Output::new(cap(policy.stderr_max_bytes()), self.links.on_stderr.clone()),
        ]
    }

    /// Runs something in a context. What awaits is gone on with in the loop there; no code is sent
    /// twice.
    fn told_in(
        &self,
        remote: &Arc<Remote>,
        context: &str,
        sent: &Sent<'_>,
        output: &mut [Output; 2],
    ) -> Result<Told, SandboxError> {
        let code = match sent {
            Sent::Code { code, name } if self.plan.language == RuntimeType::Python => {
                driver::running(code, name)?
            }
            Sent::Code { code, .. } => (*code).to_owned(),
            Sent::Own(code) => code.clone(),
        };
        let control = self.cancel.control();
        let until = Instant::now() + self.plan.policy.timeout();
        let mut run = |code: String| {
            let body = Map::from_iter([
                ("code".to_owned(), json!(code)),
                ("context_id".to_owned(), json!(context)),
                ("env_vars".to_owned(), json!(self.plan.policy.env())),
            ]);
            let left = until.saturating_duration_since(Instant::now());
            execution::run(remote, body, &control, left, output)
        };
        let told = run(code)?;
        match told.account.as_deref().and_then(Account::parse) {
            Some(Account::Awaits) => run(driver::going_on()),
            Some(Account::Ended(_)) | None => Ok(told),
        }
    }

    /// What was done with files there, here as well.
    fn bring(&self, remote: &Remote, before: &Listing) -> Result<Changes, SandboxError> {
        let now = files::list(remote)?;
        let changes = Changes::between(before, &now);
        if !self.plan.mounts.is_empty() {
            files::fetch(remote, &self.plan.workspace, &changes, &now)?;
        }
        Ok(changes)
    }

    fn report(
        &self,
        told: Told,
        output: [Output; 2],
        changes: Changes,
        elapsed: Duration,
    ) -> SandboxResult {
        let policy = &self.plan.policy;
        let language_version = told.account.as_deref().and_then(driver::version);
        let verdict = judge(&told, policy);
        verdict.log(&self.base.logger);
        let [mut stdout, mut stderr] = output;
        // The driver has printed it already, and so have some services.
        if let (Outcome::Raised(error), None, None) = (&verdict.outcome, told.stop, &told.account)
            && !stderr.ends_with(&error.traceback)
        {
            stderr.write(error.traceback.as_bytes());
        }
        let stdout = stdout.take().finish();
        let stderr = with_notice(stderr.take().finish(), verdict.notice, policy.stderr_max_bytes());
        let meta = Meta {
            runtime: Backend::E2b.runtime_name().to_owned(),
            language: self.plan.language,
            language_version,
            session_id: self.context.as_ref().and(self.session_id.clone()),
            execution_id: execution_id::next(),
            truncated: stdout.truncated || stderr.truncated,
            state: self.context.as_ref().map(|_| StateAfter::Kept),
            tools: ToolUsage::default(),
            resource_limits: policy.resource_limits(),
            // What holds there is the service's; nobody here can look.
            isolation: vec!["e2b".to_owned()],
            ..Meta::default()
        };
        let mut result = SandboxResult::new(verdict.outcome, meta);
        result.stdout = stdout.text;
        result.stderr = stderr.text;
        result.result = match told.account.as_deref().and_then(Account::parse) {
            Some(Account::Ended(answer)) => answer.value,
            Some(Account::Awaits) | None => told.value,
        };
        result.duration_ms = elapsed.as_secs_f64() * 1000.0;
        result.files_created = changes.created;
        result.files_modified = changes.modified;
        result.files_deleted = changes.deleted;
        result.workspace_path = self.plan.workspace.display().to_string();
        result
    }
}

fn judge(told: &Told, policy: &belljar_core::ResolvedPolicy) -> Verdict {
    match told.stop {
        Some(StopCause::Timeout) => return Verdict::timeout(policy, told.error.clone()),
        Some(StopCause::Cancelled) => return Verdict::cancelled(told.error.clone()),
        None if told.flooded => return Verdict::output_flood(),
        None => {}
    }
    if let Some(Account::Ended(answer)) = told.account.as_deref().and_then(Account::parse) {
        return Verdict::ended(match (answer.end, answer.error) {
            (CellEnd::Finished, _) => Outcome::Finished,
            (CellEnd::Exited, _) => Outcome::Exited(answer.exit_code.into()),
            (CellEnd::Raised | CellEnd::OutOfMemory | CellEnd::NoSpace, error) => {
                Outcome::Raised(error.unwrap_or_default())
            }
        });
    }
    match &told.error {
        None => Verdict::ended(Outcome::Finished),
        Some(error) if error.name == "SystemExit" => {
            Verdict::ended(Outcome::Exited(error.message.trim().parse().unwrap_or(1)))
        }
        Some(error) => Verdict::ended(Outcome::Raised(error.clone())),
    }
}

impl Sandbox for E2bSandbox {
    fn base(&self) -> &SandboxBase {
        &self.base
    }

    fn runtime(&self) -> RuntimeType {
        self.plan.language
    }

    fn execute(&mut self, code: &str) -> Result<SandboxResult, SandboxError> {
        check_source(code)?;
        self.base.logger.log_execution_start(self.runtime(), &self.base.policy, code);
        let session = self.context.as_ref().map(|_| self.session_id.as_deref());
        let asked = Asked { code, plan: &self.plan, session, depth: 0 };
        if let Some(result) = import_guard::blocked(&asked, &self.base.logger) {
            self.log_execution_metrics(&result);
            return Ok(result);
        }
        let numbered = format!("<cell {}>", self.cells.saturating_add(1));
        let unnamed = if self.context.is_some() { &*numbered } else { DEFAULT_CODE_NAME };
        let name = self.code_name.clone().unwrap_or_else(|| unnamed.to_owned());
        let result = self.run(&Sent::Code { code, name: &name })?;
        self.cells = self.cells.saturating_add(1);
        self.log_execution_metrics(&result);
        Ok(result)
    }

    /// Python's own `compile`, in a context of its own. JavaScript has none.
    fn check_code(&mut self, code: &str) -> Result<Option<GuestError>, SandboxError> {
        check_source(code)?;
        if self.plan.language != RuntimeType::Python {
            return Err(SandboxError::BackendUnavailable {
                backend: Backend::E2b,
                reason: "it can look at the syntax of Python only".to_owned(),
                hint: Some("use the wasm backend".to_owned()),
            });
        }
        let session = self.context.take();
        let ran = self.run(&Sent::Own(driver::checking(code, DEFAULT_CODE_NAME)?));
        self.context = session;
        Ok(ran?.error)
    }

    fn cancel_handle(&self) -> CancelHandle {
        self.cancel.clone()
    }

    fn initialize(&mut self, context: Value) -> Result<(), SandboxError> {
        let remote = self.awake()?;
        if let Some(before) = self.context.take() {
            Self::end_context(&remote, &before);
        }
        let id = self.new_context(&remote)?;
        self.context = Some(id);
        let text = serde_json::to_string(&context.to_string()).unwrap_or_default();
        let code = match self.plan.language {
            RuntimeType::Python => format!("context = __import__('json').loads({text})"),
            RuntimeType::Javascript => format!("var context = JSON.parse({text})"),
        };
        self.cells = 0;
        match self.run(&Sent::Own(code))?.error {
            None => Ok(()),
            Some(error) => Err(SandboxError::Protocol {
                problem: format!(
                    "the context was refused there: {}: {}",
                    error.name, error.message
                ),
                survives: Survives::NothingWasRun,
            }),
        }
    }

    fn get_variable(&mut self, name: &str) -> Result<Option<Variable>, SandboxError> {
        let Some(context) = self.context.clone() else { return Err(keeps_no_state("a variable")) };
        if self.plan.language != RuntimeType::Python {
            return Err(SandboxError::BackendUnavailable {
                backend: Backend::E2b,
                reason: "it can look at variables of Python only".to_owned(),
                hint: Some("use the wasm backend".to_owned()),
            });
        }
        let (remote, mut unheard) = (self.awake()?, self.output());
        let sent = Sent::Own(driver::inspecting(name)?);
        let told = self.told_in(&remote, &context, &sent, &mut unheard)?;
        told.account.as_deref().and_then(driver::variable).ok_or_else(|| SandboxError::Protocol {
            problem: format!("the service does not show {name}"),
            survives: Survives::NothingWasRun,
        })
    }

    fn destroy(&mut self) -> Result<(), SandboxError> {
        self.context = None;
        // Dropping the last one ends it there.
        self.remote = None;
        Ok(())
    }

    fn session_id(&self) -> Option<&str> {
        self.context.as_ref().and(self.session_id.as_deref())
    }
}
