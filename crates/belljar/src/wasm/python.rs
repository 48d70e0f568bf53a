//! `PythonSandbox`: CPython on wasm.

use std::path::PathBuf;

use belljar_core::{ExecutionPolicy, GuestError, RuntimeType, SandboxError, SandboxResult};

use super::host::{DEFAULT_CODE_NAME, PythonHost, RunOptions, run_untrusted_python};
use crate::CancelHandle;
use crate::factory::SandboxConfig;
use crate::plan::{Guest, LaunchPlan};
use crate::sandbox::{Sandbox, SandboxBase, check_source};

/// Runs each piece of Python code in a fresh CPython.
///
/// The interpreter is loaded when it is first needed and then kept.
pub struct PythonSandbox {
    base: SandboxBase,
    plan: LaunchPlan,
    cache_dir: PathBuf,
    code_name: String,
    cancel: CancelHandle,
    host: Option<PythonHost>,
}

impl PythonSandbox {
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

    /// A sandbox as configured.
    ///
    /// # Errors
    /// As for [`PythonSandbox::new`].
    pub fn from_config(config: &SandboxConfig) -> Result<Self, SandboxError> {
        let plan = LaunchPlan::new(config)?;
        Self::from_plan(plan, config)
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
            code_name: config.code_name.clone().unwrap_or_else(|| DEFAULT_CODE_NAME.to_owned()),
            cancel: CancelHandle::default(),
            host: None,
        })
    }

    /// The interpreter that is or will be used; `None` stands for the embedded one.
    #[must_use]
    pub fn wasm_binary_path(&self) -> Option<&std::path::Path> {
        match &self.plan.guest {
            Guest::Embedded => None,
            Guest::File(path) => Some(path),
        }
    }

    /// Like `execute`, with a say in how.
    ///
    /// # Errors
    /// Only when Belljar or the caller failed.
    pub fn execute_with(
        &mut self,
        code: &str,
        options: RunOptions<'_>,
    ) -> Result<SandboxResult, SandboxError> {
        check_source(code)?;
        self.base.logger.log_execution_start(RuntimeType::Python, &self.base.policy, code);
        self.load()?;
        let result = run_untrusted_python(code, self.loaded()?, options, &self.base.logger)?;
        self.log_execution_metrics(&result);
        Ok(result)
    }

    /// Loads the interpreter now instead of with the first execution.
    ///
    /// # Errors
    /// When it is missing or broken.
    pub fn load(&mut self) -> Result<(), SandboxError> {
        if self.host.is_none() {
            self.host =
                Some(PythonHost::new(self.plan.clone(), &self.cache_dir, self.cancel.clone())?);
        }
        Ok(())
    }

    fn loaded(&self) -> Result<&PythonHost, SandboxError> {
        self.host.as_ref().ok_or_else(|| SandboxError::Internal {
            problem: "the interpreter was not loaded".to_owned(),
            survives: belljar_core::Survives::NothingWasRun,
        })
    }
}

impl Sandbox for PythonSandbox {
    fn base(&self) -> &SandboxBase {
        &self.base
    }

    fn runtime(&self) -> RuntimeType {
        RuntimeType::Python
    }

    fn execute(&mut self, code: &str) -> Result<SandboxResult, SandboxError> {
        let filename = self.code_name.clone();
        self.execute_with(code, RunOptions { filename: &filename, ..RunOptions::default() })
    }

    fn cancel_handle(&self) -> CancelHandle {
        self.cancel.clone()
    }

    fn check_code(&mut self, code: &str) -> Result<Option<GuestError>, SandboxError> {
        check_source(code)?;
        self.load()?;
        self.loaded()?.check(code)
    }
}
