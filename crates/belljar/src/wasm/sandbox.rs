//! `PythonSandbox` and `JavaScriptSandbox`: interpreters on wasm.

use std::marker::PhantomData;
use std::path::PathBuf;
use std::sync::Arc;

use belljar_core::{
    ExecutionPolicy, GuestError, GuestImage, RuntimeType, SandboxError, SandboxResult, ToolAnswer,
    ToolCall,
};
use belljar_host::{Completions, Variable};

use super::fork_directories::{ForkDirectories, ForkDirectory};
use super::host::{DEFAULT_CODE_NAME, Links, RunOptions, WasmHost, run_examined};
use super::image::{self, Search};
use super::session::Session;
use crate::CancelHandle;
use crate::factory::SandboxConfig;
use crate::import_guard::{self, Asked};
use crate::plan::{Guest, LaunchPlan};
use crate::sandbox::{Sandbox, SandboxBase, check_source};
use crate::snapshot::{Files, Snapshot};
use crate::workspace_files;

/// CPython on wasm.
pub type PythonSandbox = WasmSandbox<Python>;

/// QuickJS on wasm.
pub type JavaScriptSandbox = WasmSandbox<JavaScript>;

/// What a sandbox runs, as a type.
pub trait Language: Send + 'static {
    /// The same as a value.
    const RUNTIME: RuntimeType;
}

/// The language Python.
pub enum Python {}

impl Language for Python {
    const RUNTIME: RuntimeType = RuntimeType::Python;
}

/// The language JavaScript.
pub enum JavaScript {}

impl Language for JavaScript {
    const RUNTIME: RuntimeType = RuntimeType::Javascript;
}

/// Runs code in an interpreter inside the WebAssembly engine: each piece in a fresh one, or, once a
/// session has begun, all in the same.
///
/// The interpreter is loaded when it is first needed and then kept.
pub struct WasmSandbox<L> {
    base: SandboxBase,
    plan: LaunchPlan,
    cache_dir: PathBuf,
    code_name: Option<String>,
    session_id: Option<String>,
    links: Links,
    cancel: CancelHandle,
    hosts: Hosts,
    session: Option<Session>,
    /// The context of a session that has run nothing yet: its first cell may choose its image.
    undecided: Option<serde_json::Value>,
    /// Given up when the sandbox is: the workspace of a fork.
    own_workspace: Option<ForkDirectory>,
    /// For its forks.
    fork_directories: Arc<ForkDirectories>,
    language: PhantomData<L>,
}

/// One for each image, loaded when it is first needed.
#[derive(Default)]
struct Hosts {
    plain: Option<WasmHost>,
    data: Option<WasmHost>,
}

impl Hosts {
    const fn of(&self, image: GuestImage) -> Option<&WasmHost> {
        match image {
            GuestImage::Plain => self.plain.as_ref(),
            GuestImage::Data => self.data.as_ref(),
        }
    }

    const fn place(&mut self, image: GuestImage) -> &mut Option<WasmHost> {
        match image {
            GuestImage::Plain => &mut self.plain,
            GuestImage::Data => &mut self.data,
        }
    }
}

impl<L: Language> WasmSandbox<L> {
    /// A sandbox with the embedded interpreter, or the one in Belljar's directory if there is one.
    ///
    /// # Errors
    /// When the policy cannot be enforced or the workspace cannot be used.
    pub fn new(
        policy: ExecutionPolicy,
        workspace: impl Into<PathBuf>,
    ) -> Result<Self, SandboxError> {
        let workspace = Some(workspace.into());
        Self::from_config(&SandboxConfig { policy, workspace, ..SandboxConfig::default() })
    }

    /// A sandbox as configured, whatever language the configuration names.
    ///
    /// # Errors
    /// As for [`WasmSandbox::new`].
    pub fn from_config(config: &SandboxConfig) -> Result<Self, SandboxError> {
        let config = SandboxConfig { runtime: L::RUNTIME, ..config.clone() };
        let plan = LaunchPlan::new(&config)?;
        Self::from_plan(plan, &config)
    }

    pub(crate) fn from_plan(
        plan: LaunchPlan,
        config: &SandboxConfig,
    ) -> Result<Self, SandboxError> {
        let base = SandboxBase::new(config.policy.clone(), &plan.workspace, config.logger.clone());
        Ok(Self {
            base,
            plan,
            cache_dir: config.home()?.cache(),
            code_name: config.code_name.clone(),
            session_id: config.session_id.clone(),
            links: Links::of(config),
            cancel: CancelHandle::default(),
            hosts: Hosts::default(),
            session: None,
            undecided: None,
            own_workspace: None,
            fork_directories: Arc::default(),
            language: PhantomData,
        })
    }

    /// The interpreter that is or will be used; `None` stands for the embedded one.
    #[must_use]
    pub fn wasm_binary_path(&self) -> Option<&std::path::Path> {
        match &self.plan.guest {
            Guest::Embedded | Guest::Image(_) | Guest::Daemon(_) | Guest::Service => None,
            Guest::File(path) | Guest::Program(path) => Some(path),
        }
    }

    /// Runs code in a fresh interpreter, with a say in how. A session is not touched by it.
    ///
    /// # Errors
    /// Only when Belljar or the caller failed.
    pub fn execute_with(
        &mut self,
        code: &str,
        options: RunOptions<'_>,
    ) -> Result<SandboxResult, SandboxError> {
        check_source(code)?;
        self.base.logger.log_execution_start(L::RUNTIME, &self.base.policy, code);
        let result = match self.blocked(code, None) {
            Some(blocked) => blocked,
            None => {
                let search =
                    if options.inject_setup { Search::Everywhere } else { Search::ImageOnly };
                let logger = self.base.logger.clone();
                let host = self.load_image(image::for_code(&self.plan, code, search))?;
                run_examined(code, host, options, &logger)?
            }
        };
        self.log_execution_metrics(&result);
        Ok(result)
    }

    /// The result of code that must not run.
    fn blocked(&self, code: &str, session: Option<Option<&str>>) -> Option<SandboxResult> {
        let asked = Asked { code, plan: &self.plan, session, depth: self.links.tools.depth() };
        import_guard::blocked(&asked, &self.base.logger)
    }

    /// Loads the interpreter now instead of with the first execution.
    ///
    /// # Errors
    /// When it is missing or broken.
    pub fn load(&mut self) -> Result<(), SandboxError> {
        self.load_image(self.usual_image()).map(drop)
    }

    /// The image of what names none: the policy's, or the plain one.
    fn usual_image(&self) -> GuestImage {
        image::fixed(&self.plan).unwrap_or_default()
    }

    fn load_image(&mut self, image: GuestImage) -> Result<&WasmHost, SandboxError> {
        let place = self.hosts.place(image);
        if place.is_none() {
            let (plan, cancel) = (self.plan.clone(), self.cancel.clone());
            let loaded = WasmHost::with_image(plan, image, &self.cache_dir, cancel)?;
            *place = Some(loaded.linked(self.links.clone()));
        }
        place.as_ref().ok_or_else(|| SandboxError::Internal {
            problem: "the interpreter was not loaded".to_owned(),
            survives: belljar_core::Survives::NothingWasRun,
        })
    }

    /// A session that has run nothing yet begins anew where its first cell finds what it imports.
    /// Nobody has seen the other: it held nothing but its context.
    fn settle_image(&mut self, code: &str) -> Result<(), SandboxError> {
        let Some(context) = self.undecided.take() else { return Ok(()) };
        let image = image::for_code(&self.plan, code, Search::Everywhere);
        let begun = match image {
            GuestImage::Plain => Ok(()),
            GuestImage::Data => self.begin(image, &context),
        };
        if begun.is_err() {
            self.undecided = Some(context);
        }
        begun
    }

    fn begin(
        &mut self,
        image: GuestImage,
        context: &serde_json::Value,
    ) -> Result<(), SandboxError> {
        let id = self.session_id.clone();
        self.session = Some(Session::begin(self.load_image(image)?, id, context)?);
        Ok(())
    }

    /// The session and what it needs to run.
    fn session(&mut self, wanted: &str) -> Result<(&mut Session, &WasmHost), SandboxError> {
        let found = self.session.as_mut().and_then(|session| {
            let host = self.hosts.of(session.image())?;
            Some((session, host))
        });
        found.ok_or_else(|| SandboxError::NotInSession { wanted: wanted.to_owned() })
    }

    fn fork_as(
        &mut self,
        links: Links,
        id: Option<String>,
    ) -> Result<Box<dyn Sandbox>, SandboxError> {
        let (session, _) = self.session("a fork")?;
        let (frozen, cells) = (session.freeze()?, session.cells());
        let workspace = self.fork_directories.take()?;
        workspace_files::copy(&self.base.workspace, workspace.path())?;
        let mut fork = Self { links, session_id: id.clone(), ..self.beside(workspace) };
        let host = fork.load_image(frozen.interpreter().image())?;
        fork.session = Some(Session::continue_from(host, id, &frozen, cells)?);
        Ok(Box::new(fork))
    }

    /// A sandbox of its own kind with another workspace, which it owns.
    fn beside(&self, workspace: ForkDirectory) -> Self {
        let mut plan = self.plan.clone();
        plan.workspace = workspace.path().to_owned();
        if let Some(mount) = plan.mounts.first_mut() {
            mount.host.clone_from(&plan.workspace);
        }
        let base = SandboxBase { workspace: plan.workspace.clone(), ..self.base.clone() };
        Self {
            base,
            plan,
            cache_dir: self.cache_dir.clone(),
            code_name: self.code_name.clone(),
            session_id: self.session_id.clone(),
            links: self.links.clone(),
            cancel: CancelHandle::default(),
            hosts: Hosts::default(),
            session: None,
            undecided: None,
            own_workspace: Some(workspace),
            fork_directories: Arc::clone(&self.fork_directories),
            language: PhantomData,
        }
    }
}

impl<L: Language> Sandbox for WasmSandbox<L> {
    fn base(&self) -> &SandboxBase {
        &self.base
    }

    fn runtime(&self) -> RuntimeType {
        L::RUNTIME
    }

    fn execute(&mut self, code: &str) -> Result<SandboxResult, SandboxError> {
        let name = self.code_name.clone();
        if self.session.is_none() {
            let filename = name.as_deref().unwrap_or(DEFAULT_CODE_NAME);
            return self.execute_with(code, RunOptions { filename, ..RunOptions::default() });
        }
        check_source(code)?;
        let logger = self.base.logger.clone();
        logger.log_execution_start(L::RUNTIME, &self.base.policy, code);
        let result = match self.blocked(code, Some(self.session_id())) {
            Some(blocked) => blocked,
            None => {
                self.settle_image(code)?;
                let (session, host) = self.session("an execution")?;
                session.execute(host, code, name.as_deref(), &logger)?
            }
        };
        self.log_execution_metrics(&result);
        Ok(result)
    }

    fn execute_without_setup(&mut self, code: &str) -> Result<SandboxResult, SandboxError> {
        let name = self.code_name.clone();
        let filename = name.as_deref().unwrap_or(DEFAULT_CODE_NAME);
        self.execute_with(code, RunOptions { filename, inject_setup: false })
    }

    fn check_code(&mut self, code: &str) -> Result<Option<GuestError>, SandboxError> {
        check_source(code)?;
        // Every image has the same grammar.
        self.load_image(self.usual_image())?.check(code)
    }

    fn cancel_handle(&self) -> CancelHandle {
        self.cancel.clone()
    }

    fn initialize(&mut self, context: serde_json::Value) -> Result<(), SandboxError> {
        self.begin(self.usual_image(), &context)?;
        self.undecided = image::fixed(&self.plan).is_none().then_some(context);
        Ok(())
    }

    fn get_variable(&mut self, name: &str) -> Result<Option<Variable>, SandboxError> {
        let (session, host) = self.session("a variable")?;
        session.variable(host, name)
    }

    fn complete(&mut self, code: &str, cursor: usize) -> Result<Completions, SandboxError> {
        check_source(code)?;
        let (session, host) = self.session("completion")?;
        session.complete(host, code, cursor)
    }

    fn pending_calls(&mut self) -> Vec<ToolCall> {
        self.session.as_mut().map_or_else(Vec::new, Session::pending)
    }

    fn resume(&mut self, answers: Vec<ToolAnswer>) -> Result<SandboxResult, SandboxError> {
        let logger = self.base.logger.clone();
        let (session, host) = self.session("to be resumed")?;
        let result = session.resume(host, answers, &logger)?;
        self.log_execution_metrics(&result);
        Ok(result)
    }

    fn snapshot(&mut self, files: Files) -> Result<Snapshot, SandboxError> {
        let copied = match files {
            Files::Without => None,
            Files::With => {
                let copy = workspace_files::temporary()?;
                workspace_files::copy(&self.base.workspace, copy.path())?;
                Some(copy)
            }
        };
        let id = self.session_id.clone();
        let (session, _) = self.session("a snapshot")?;
        Ok(Snapshot::new(session.freeze()?, L::RUNTIME, id, session.cells(), copied))
    }

    fn restore(&mut self, snapshot: &Snapshot) -> Result<(), SandboxError> {
        let language = snapshot.facts.language;
        if language != L::RUNTIME {
            return Err(SandboxError::Snapshot {
                path: None,
                problem: format!("it is of a {language} session, and this is {}", L::RUNTIME),
                hint: Some(format!("restore it with the language {language}")),
            });
        }
        let image = snapshot.image();
        let choice = self.plan.policy.image();
        if !choice.allows(image) {
            return Err(SandboxError::Snapshot {
                path: None,
                problem: format!("it is of a session with the image {image}, not {choice}"),
                hint: Some(format!("restore it with the image {image}, or name none")),
            });
        }
        self.load_image(image)?;
        // Files first: descriptors of the session are opened again.
        snapshot.unpack_files(&self.base.workspace, &self.plan.policy)?;
        let (id, cells) = (self.session_id.clone(), snapshot.facts.cells);
        let host = self.load_image(image)?;
        self.session = Some(Session::continue_from(host, id, &snapshot.frozen, cells)?);
        self.undecided = None;
        Ok(())
    }

    fn fork(&mut self) -> Result<Box<dyn Sandbox>, SandboxError> {
        self.fork_as(self.links.clone(), self.session_id.clone())
    }

    fn fork_for(&mut self, links: Links) -> Result<Box<dyn Sandbox>, SandboxError> {
        self.fork_as(links, None)
    }

    fn destroy(&mut self) -> Result<(), SandboxError> {
        self.session = None;
        match self.own_workspace.take() {
            Some(workspace) => workspace.close().map_err(|error| SandboxError::Workspace {
                path: self.base.workspace.clone(),
                problem: format!("it cannot be removed: {error}"),
                hint: None,
            }),
            None => Ok(()),
        }
    }

    fn session_id(&self) -> Option<&str> {
        self.session.as_ref().and_then(Session::id)
    }
}
