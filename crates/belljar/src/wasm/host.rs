//! The host layer: an interpreter, its directories and its tools, ready to run untrusted code.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use belljar_core::{
    GuestImage, ResolvedPolicy, SandboxError, SandboxExecutionError, SandboxResult, Survives,
};
use belljar_host::{CallHost, CancelHandle, LineSink};
use belljar_wasm::{
    Cell, CommandGuest, EngineError, Grant, Interpreter, Limits, Mount, Overlay, Quota, Ran, Setup,
    Surroundings, open_directory,
};

use super::failure::failure;
use super::report::{Execution, report};
use super::{guests, image};
use crate::factory::SandboxConfig;
use crate::import_guard::{self, Asked};
use crate::logging::SandboxLogger;
use crate::plan::{Guest, LaunchPlan, SITE_PACKAGES_DIR};
use crate::surroundings::surroundings;
use crate::tools::{InputSource, ToolServer, Tools};

/// Fuel of a policy that sets none: more than any time-out allows.
const UNLIMITED_FUEL: u64 = u64::MAX / 4;

/// The name code has in tracebacks unless the caller gives it one.
pub(super) const DEFAULT_CODE_NAME: &str = "<sandbox>";

/// What custom guests find their program under, below the workspace's mount.
const USER_CODE: &str = "user_code.py";

/// The interpreter, the directories and the tools of a plan, ready for any number of runs.
pub struct WasmHost {
    guest: LoadedGuest,
    mounts: Vec<Mount>,
    plan: LaunchPlan,
    cancel: CancelHandle,
    links: Links,
}

enum LoadedGuest {
    Embedded(Arc<Interpreter>),
    Command(CommandGuest),
}

/// How long an interpreter is meant to live.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Lifetime {
    OneRun,
    Session,
}

/// What connects a guest to the program that runs it.
#[derive(Clone, Default)]
pub struct Links {
    /// Functions it may call.
    pub tools: Tools,
    /// Who answers `input()`.
    pub input: Option<InputSource>,
    /// Told each line of stdout while the guest runs.
    pub on_stdout: Option<LineSink>,
    /// Told each line of stderr.
    pub on_stderr: Option<LineSink>,
}

impl Links {
    /// Those a configuration names.
    #[must_use]
    pub fn of(config: &SandboxConfig) -> Self {
        Self {
            tools: config.tools.clone(),
            input: config.on_input.clone(),
            on_stdout: config.on_stdout.clone(),
            on_stderr: config.on_stderr.clone(),
        }
    }

    /// Who serves a guest's calls, if it may call anybody. `can_wait` says whether it can be
    /// suspended until an answer comes.
    pub(crate) fn call_host(
        &self,
        policy: &ResolvedPolicy,
        can_wait: bool,
    ) -> Option<Arc<dyn CallHost>> {
        let Self { tools, input, .. } = self;
        let served = !tools.names().is_empty() || input.is_some();
        served.then(|| -> Arc<dyn CallHost> {
            let depth = policy.max_rlm_depth();
            Arc::new(ToolServer::new(tools.clone(), input.clone(), depth, can_wait))
        })
    }
}

/// How to run one piece of code.
#[derive(Clone, Copy, Debug)]
pub struct RunOptions<'a> {
    /// Whether the workspace and added packages are on `sys.path`.
    pub inject_setup: bool,
    /// The name the code has in tracebacks.
    pub filename: &'a str,
}

impl Default for RunOptions<'_> {
    fn default() -> Self {
        Self { inject_setup: true, filename: DEFAULT_CODE_NAME }
    }
}

impl WasmHost {
    /// Loads the plan's interpreter and opens its directories. The image is the one that the policy
    /// names; without a name it is the plain one.
    ///
    /// # Errors
    /// When the interpreter is missing or broken, or a directory cannot be opened.
    pub fn new(
        plan: LaunchPlan,
        cache_dir: &Path,
        cancel: CancelHandle,
    ) -> Result<Self, SandboxError> {
        let image = image::fixed(&plan).unwrap_or_default();
        Self::with_image(plan, image, cache_dir, cancel)
    }

    pub(super) fn with_image(
        plan: LaunchPlan,
        image: GuestImage,
        cache_dir: &Path,
        cancel: CancelHandle,
    ) -> Result<Self, SandboxError> {
        let guest = match &plan.guest {
            Guest::Embedded => {
                let guest = guests::embedded(plan.language, image, cache_dir);
                LoadedGuest::Embedded(guest.map_err(failure)?)
            }
            Guest::File(path) | Guest::Program(path) | Guest::Daemon(path) => {
                LoadedGuest::Command(guests::command(path, cache_dir).map_err(failure)?)
            }
            Guest::Image(_) | Guest::Service => {
                return Err(crate::factory::unavailable(plan.backend));
            }
        };
        let open = |mount: &crate::plan::Mount| {
            let dir = open_directory(&mount.host).map_err(|source| {
                failure(EngineError::Mount { path: mount.host.clone(), source })
            })?;
            Ok(Mount { guest_path: mount.guest.clone(), dir, writable: mount.writable })
        };
        let mounts = plan.mounts.iter().map(open).collect::<Result<_, SandboxError>>()?;
        Ok(Self { guest, mounts, plan, cancel, links: Links::default() })
    }

    /// The same with tools and listeners.
    #[must_use]
    pub fn linked(self, links: Links) -> Self {
        Self { links, ..self }
    }

    pub(super) fn plan(&self) -> &LaunchPlan {
        &self.plan
    }

    pub(super) fn tools(&self) -> &Tools {
        &self.links.tools
    }

    /// The interpreter, if it is one of ours: others keep no state.
    pub(super) fn interpreter(&self) -> Option<&Arc<Interpreter>> {
        match &self.guest {
            LoadedGuest::Embedded(guest) => Some(guest),
            LoadedGuest::Command(_) => None,
        }
    }

    /// The image that runs here.
    pub(super) fn image(&self) -> GuestImage {
        self.interpreter().map(|guest| guest.image()).unwrap_or_default()
    }

    pub(super) fn policy(&self) -> &ResolvedPolicy {
        &self.plan.policy
    }

    pub(super) fn language_version(&self) -> Option<String> {
        match &self.guest {
            LoadedGuest::Embedded(guest) => Some(guest.language_version().to_owned()),
            LoadedGuest::Command(_) => None,
        }
    }

    fn memory_bytes(&self) -> u64 {
        self.policy().memory_bytes().unwrap_or(belljar_core::limits::MAX_MEMORY_BYTES)
    }

    pub(super) fn limits(&self) -> Limits {
        let fuel = self.policy().fuel_budget().unwrap_or(UNLIMITED_FUEL);
        Limits { fuel, timeout: self.policy().timeout() }
    }

    fn grant(&self) -> Grant {
        let policy = self.policy();
        Grant {
            mounts: self.mounts.clone(),
            overlay: None,
            args: Vec::new(),
            env: Vec::new(),
            stdout_max_bytes: policy.stdout_max_bytes() as u64,
            stderr_max_bytes: policy.stderr_max_bytes() as u64,
            quota: Quota {
                bytes: policy.workspace_max_bytes().unwrap_or(u64::MAX),
                files: policy.workspace_max_files().unwrap_or(u64::MAX),
            },
            deterministic: policy.deterministic(),
            undated_files: false,
            on_stdout: self.links.on_stdout.clone(),
            on_stderr: self.links.on_stderr.clone(),
        }
    }

    /// What a live interpreter is given.
    pub(super) fn setup(&self, lifetime: Lifetime) -> Setup {
        let policy = self.policy();
        let host = self.links.call_host(policy, lifetime == Lifetime::Session);
        Setup {
            grant: self.grant(),
            host,
            tool_limits: policy.tool_limits(),
            memory_bytes: self.memory_bytes(),
            cancel: self.cancel.clone(),
        }
    }

    /// What the interpreter is told when it wakes up.
    pub(super) fn surroundings(&self, inject_setup: bool, renewed: bool) -> Surroundings {
        let workspace = self.policy().guest_mount_path();
        let path = if inject_setup {
            vec![workspace.to_owned(), format!("{workspace}/{SITE_PACKAGES_DIR}")]
        } else {
            Vec::new()
        };
        let told = surroundings(self.policy(), self.plan.language, path, &self.links.tools);
        Surroundings { renewed, ..told }
    }

    /// Compiles without running: the interpreter's complaint, or none.
    ///
    /// # Errors
    /// When the code cannot be judged: a limit was hit first, or the guest is not ours.
    pub fn check(&self, code: &str) -> Result<Option<belljar_core::GuestError>, SandboxError> {
        let LoadedGuest::Embedded(guest) = &self.guest else {
            return Err(SandboxExecutionError {
                problem: "a custom interpreter cannot check code without running it".to_owned(),
                survives: Survives::NothingWasRun,
                hint: Some("leave wasm_binary_path away for checks".to_owned()),
            }
            .into());
        };
        let mut live = guest.live(self.setup(Lifetime::OneRun)).map_err(failure)?;
        let ran = live.validate(code, DEFAULT_CODE_NAME, self.limits()).map_err(failure)?;
        match ran.answer {
            Some(answer) if ran.called.stop.is_none() => Ok(answer.error),
            _ => Err(SandboxExecutionError {
                problem: "the code is too large or too deep to be compiled within the limits"
                    .to_owned(),
                survives: Survives::NothingWasRun,
                hint: Some("raise memory_bytes, fuel_budget or timeout_seconds".to_owned()),
            }
            .into()),
        }
    }
}

/// Runs untrusted code in a fresh interpreter. Whatever the code does, the answer is a result.
///
/// One run at a time per host: runs share its cancel handle. Other hosts run beside it freely.
///
/// # Errors
/// Only when Belljar failed.
pub fn run_untrusted(
    code: &str,
    host: &WasmHost,
    options: RunOptions<'_>,
    logger: &SandboxLogger,
) -> Result<SandboxResult, SandboxError> {
    let asked = Asked { code, plan: &host.plan, session: None, depth: host.tools().depth() };
    match import_guard::blocked(&asked, logger) {
        Some(blocked) => Ok(blocked),
        None => run_examined(code, host, options, logger),
    }
}

/// The same for code that the import guard let pass.
pub(super) fn run_examined(
    code: &str,
    host: &WasmHost,
    options: RunOptions<'_>,
    logger: &SandboxLogger,
) -> Result<SandboxResult, SandboxError> {
    let started = Instant::now();
    let (ran, traces) = match &host.guest {
        LoadedGuest::Embedded(guest) => {
            let mut live = guest.live(host.setup(Lifetime::OneRun)).map_err(failure)?;
            let cell = Cell {
                code,
                filename: options.filename,
                value: true,
                drain: true,
                surroundings: Some(&host.surroundings(options.inject_setup, false)),
            };
            let ran = live.execute(cell, host.limits()).map_err(failure)?;
            (ran, live.take_traces().map_err(failure)?)
        }
        LoadedGuest::Command(guest) => {
            let run = run_command(guest, host, code)?;
            let tools = belljar_core::ToolUsage::default();
            (Ran { called: run.called, answer: None, pending: Vec::new(), tools }, run.traces)
        }
    };
    let execution = Execution { ran, traces, elapsed: started.elapsed(), session: None };
    Ok(report(host, execution, logger))
}

fn run_command(
    guest: &CommandGuest,
    host: &WasmHost,
    code: &str,
) -> Result<belljar_wasm::CommandRun, SandboxError> {
    let policy = host.policy();
    let grant = Grant {
        overlay: Some(Overlay {
            mount: 0,
            name: USER_CODE.to_owned(),
            contents: code.as_bytes().into(),
        }),
        args: policy.argv().to_vec(),
        env: policy.env().iter().map(|(name, value)| (name.clone(), value.clone())).collect(),
        ..host.grant()
    };
    guest.run(grant, host.memory_bytes(), host.limits(), &host.cancel).map_err(failure)
}
