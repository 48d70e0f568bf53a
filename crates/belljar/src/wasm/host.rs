//! The host layer: one piece of untrusted code in one fresh interpreter.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use belljar_core::text::CappedText;
use belljar_core::{
    Backend, Meta, ResolvedPolicy, RuntimeType, SandboxError, SandboxExecutionError, SandboxResult,
    Survives,
};
use belljar_wasm::{
    Called, CancelHandle, Cell, CommandGuest, EngineError, Grant, Limits, Mount, Overlay,
    PythonGuest, Quota, Surroundings, Traces, open_directory,
};

use super::guests;
use super::outcome::{Verdict, judge};
use crate::execution_id;
use crate::logging::{SandboxLogger, SecurityEvent};
use crate::plan::{Guest, LaunchPlan, SITE_PACKAGES_DIR};

/// The layers that hold for every guest of this backend.
const ISOLATION: [&str; 4] = ["wasm", "wasi", "fuel", "memory_limit"];

/// Fuel of a policy that sets none: more than any time-out allows.
const UNLIMITED_FUEL: u64 = u64::MAX / 4;

/// The name code has in tracebacks unless the caller gives it one.
pub(super) const DEFAULT_CODE_NAME: &str = "<sandbox>";

/// What custom guests find their program under, below the workspace's mount.
const USER_CODE: &str = "user_code.py";

/// The interpreter and the directories of a plan, ready for any number of runs.
pub struct PythonHost {
    guest: LoadedGuest,
    mounts: Vec<Mount>,
    plan: LaunchPlan,
    cancel: CancelHandle,
}

enum LoadedGuest {
    Embedded(Arc<PythonGuest>),
    Command(CommandGuest),
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

impl PythonHost {
    /// Loads the plan's interpreter and opens its directories.
    ///
    /// # Errors
    /// When the interpreter is missing or broken, or a directory cannot be opened.
    pub fn new(
        plan: LaunchPlan,
        cache_dir: &Path,
        cancel: CancelHandle,
    ) -> Result<Self, SandboxError> {
        let guest = match &plan.guest {
            Guest::Embedded => LoadedGuest::Embedded(guests::python(cache_dir).map_err(failure)?),
            Guest::File(path) => {
                LoadedGuest::Command(guests::command(path, cache_dir).map_err(failure)?)
            }
        };
        let open = |mount: &crate::plan::Mount| {
            let dir = open_directory(&mount.host).map_err(|source| {
                failure(EngineError::Mount { path: mount.host.clone(), source })
            })?;
            Ok(Mount { guest_path: mount.guest.clone(), dir, writable: mount.writable })
        };
        let mounts = plan.mounts.iter().map(open).collect::<Result<_, SandboxError>>()?;
        Ok(Self { guest, mounts, plan, cancel })
    }

    fn policy(&self) -> &ResolvedPolicy {
        &self.plan.policy
    }

    fn language_version(&self) -> Option<String> {
        match &self.guest {
            LoadedGuest::Embedded(guest) => Some(guest.language_version().to_owned()),
            LoadedGuest::Command(_) => None,
        }
    }

    fn memory_bytes(&self) -> u64 {
        self.policy().memory_bytes().unwrap_or(belljar_core::limits::MAX_MEMORY_BYTES)
    }

    fn limits(&self) -> Limits {
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
        }
    }

    /// What the interpreter is told when it wakes up.
    fn surroundings(&self, inject_setup: bool) -> Surroundings {
        let policy = self.policy();
        let workspace = policy.guest_mount_path();
        let path = if inject_setup {
            vec![workspace.to_owned(), format!("{workspace}/{SITE_PACKAGES_DIR}")]
        } else {
            Vec::new()
        };
        Surroundings {
            env: policy.env().clone(),
            workspace: workspace.to_owned(),
            path,
            argv: script_arguments(policy.argv()),
        }
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
        let mut instance =
            guest.instance(self.grant(), self.memory_bytes(), &self.cancel).map_err(failure)?;
        let (called, answer) =
            instance.validate(code, DEFAULT_CODE_NAME, self.limits()).map_err(failure)?;
        match answer {
            Some(answer) if called.stop.is_none() => Ok(answer.error),
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
pub fn run_untrusted_python(
    code: &str,
    host: &PythonHost,
    options: RunOptions<'_>,
    logger: &SandboxLogger,
) -> Result<SandboxResult, SandboxError> {
    let started = Instant::now();
    let (called, answer, traces) = match &host.guest {
        LoadedGuest::Embedded(guest) => {
            let mut instance =
                guest.instance(host.grant(), host.memory_bytes(), &host.cancel).map_err(failure)?;
            let cell = Cell {
                code,
                filename: options.filename,
                value: true,
                surroundings: Some(&host.surroundings(options.inject_setup)),
            };
            let (called, answer) = instance.execute(cell, host.limits()).map_err(failure)?;
            (called, answer, instance.take_traces())
        }
        LoadedGuest::Command(guest) => {
            let run = run_command(guest, host, code)?;
            (run.called, None, run.traces)
        }
    };
    let elapsed = started.elapsed();
    let verdict = judge(&called, answer.as_ref(), &traces, host.policy(), elapsed);
    log_events(logger, &verdict, &traces);
    let mut result = assemble(host, verdict, &called, traces, elapsed);
    result.result = answer.and_then(|answer| answer.value);
    Ok(result)
}

fn run_command(
    guest: &CommandGuest,
    host: &PythonHost,
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

fn assemble(
    host: &PythonHost,
    verdict: Verdict,
    called: &Called,
    traces: Traces,
    elapsed: Duration,
) -> SandboxResult {
    let policy = host.policy();
    let stdout = traces.stdout.finish();
    let stderr = with_notice(traces.stderr.finish(), verdict.notice, policy.stderr_max_bytes());
    let meta = Meta {
        runtime: Backend::Wasm.runtime_name().to_owned(),
        language: RuntimeType::Python,
        language_version: host.language_version(),
        execution_id: execution_id::next(),
        truncated: stdout.truncated || stderr.truncated,
        resource_limits: policy.resource_limits(),
        isolation: ISOLATION.map(str::to_owned).to_vec(),
        ..Meta::default()
    };
    let mut result = SandboxResult::new(verdict.outcome, meta);
    result.stdout = stdout.text;
    result.stderr = stderr.text;
    result.duration_ms = elapsed.as_secs_f64() * 1000.0;
    result.fuel_consumed = Some(called.fuel_used);
    result.memory_used_bytes = Some(called.memory_peak_bytes as u64);
    result.files_created = traces.delta.created;
    result.files_modified = traces.delta.modified;
    result.files_deleted = traces.delta.deleted;
    result.workspace_path = host.plan.workspace.display().to_string();
    result
}

/// Ends stderr with the notice; the guest's own words make room for it.
fn with_notice(stderr: CappedText, notice: Option<String>, cap: usize) -> CappedText {
    let Some(notice) = notice else { return stderr };
    let mut text = stderr.text;
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    let own = CappedText::new(text, cap.saturating_sub(notice.len() + 1));
    let truncated = stderr.truncated || own.truncated;
    let all = CappedText::new(format!("{}{notice}\n", own.text), cap);
    CappedText { truncated: truncated || all.truncated, text: all.text }
}

fn log_events(logger: &SandboxLogger, verdict: &Verdict, traces: &Traces) {
    if let Some(event) = verdict.event {
        logger.log_security_event(event, verdict.notice.as_deref().unwrap_or_default());
    }
    if let Some(path) = &traces.denials.first {
        let count = traces.denials.count;
        let detail = format!("{count} attempts to reach outside, the first at {path:?}");
        logger.log_security_event(SecurityEvent::FilesystemDenied, &detail);
    }
}

/// What the script itself gets of an interpreter's command line.
fn script_arguments(argv: &[String]) -> Vec<String> {
    let mut own: Vec<String> = argv.iter().skip(1).cloned().collect();
    if own.ends_with(&["-X".to_owned(), "utf8".to_owned()]) {
        own.truncate(own.len() - 2);
    }
    own
}

/// An engine's error in the library's words.
fn failure(error: EngineError) -> SandboxError {
    let problem = error.to_string();
    match error {
        EngineError::Binary { path, problem, .. } => SandboxError::ArtifactNotFound {
            what: "the interpreter".to_owned(),
            path,
            problem,
            hint: Some(
                "give a WASI build of Python as wasm_binary_path, or none to use the embedded one"
                    .to_owned(),
            ),
        },
        EngineError::Mount { path, source } => {
            SandboxError::Workspace { path, problem: source.to_string(), hint: None }
        }
        EngineError::Cache { path, problem } => SandboxError::Cache {
            what: "compiled guests".to_owned(),
            path,
            problem,
            hint: Some("set BELLJAR_HOME to a directory that only you can write".to_owned()),
        },
        EngineError::MemoryTooSmall { needed, .. } => belljar_core::PolicyValidationError::single(
            "memory_bytes",
            format!("must be at least {needed}, which the interpreter itself needs"),
            None,
        )
        .into(),
        EngineError::RequestTooLarge { .. } => SandboxError::Source { problem, hint: None },
        EngineError::Io(_) => {
            SandboxExecutionError { problem, survives: Survives::OtherSandboxes, hint: None }.into()
        }
        EngineError::Engine(_) | EngineError::Abi(_) => {
            SandboxError::Internal { problem, survives: Survives::OtherSandboxes }
        }
    }
}
