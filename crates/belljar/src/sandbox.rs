//! The contract every backend implements.

use std::path::{Path, PathBuf};

use belljar_core::units::format_bytes;
use belljar_core::{ExecutionPolicy, GuestError, RuntimeType, SandboxError, SandboxResult, limits};

use crate::CancelHandle;
use crate::logging::SandboxLogger;

/// What every sandbox has, whatever runs it.
#[derive(Debug, Clone)]
pub struct SandboxBase {
    /// What the caller allows.
    pub policy: ExecutionPolicy,
    /// The workspace on the host.
    pub workspace: PathBuf,
    /// Where events go.
    pub logger: SandboxLogger,
}

impl SandboxBase {
    /// A base with the given parts; without a logger, events go to the program's `tracing`
    /// subscriber.
    #[must_use]
    pub fn new(
        policy: ExecutionPolicy,
        workspace: impl Into<PathBuf>,
        logger: Option<SandboxLogger>,
    ) -> Self {
        Self { policy, workspace: workspace.into(), logger: logger.unwrap_or_default() }
    }
}

/// Stand-in.
#[derive(Debug, Clone, Default)]
#[expect(missing_docs, reason = "stand-in")]
pub struct Variable {
    pub type_name: String,
    pub text: String,
    pub json: Option<serde_json::Value>,
}

/// Stand-in.
#[derive(Debug, Clone, Default)]
#[expect(missing_docs, reason = "stand-in")]
pub struct Completions {
    pub start: usize,
    pub matches: Vec<String>,
}

/// One isolated interpreter.
pub trait Sandbox: Send {
    /// What every sandbox has.
    fn base(&self) -> &SandboxBase;

    /// The language it runs.
    fn runtime(&self) -> RuntimeType;

    /// Runs untrusted code. Whatever the code does, the answer is a result.
    ///
    /// # Errors
    /// Only when Belljar or the caller failed.
    fn execute(&mut self, code: &str) -> Result<SandboxResult, SandboxError>;

    /// Checks the syntax without executing anything: `None` when the code compiles, else the
    /// interpreter's complaint.
    ///
    /// # Errors
    /// Only when Belljar or the caller failed.
    fn check_code(&mut self, code: &str) -> Result<Option<GuestError>, SandboxError>;

    /// A handle with which another thread can stop the execution that is running.
    fn cancel_handle(&self) -> CancelHandle;

    #[expect(missing_docs, reason = "stand-in")]
    fn initialize(&mut self, _context: serde_json::Value) -> Result<(), SandboxError> {
        Ok(())
    }
    #[expect(missing_docs, reason = "stand-in")]
    fn get_variable(&mut self, _name: &str) -> Result<Option<Variable>, SandboxError> {
        Ok(None)
    }
    #[expect(missing_docs, reason = "stand-in")]
    fn complete(&mut self, _code: &str, _cursor: usize) -> Result<Completions, SandboxError> {
        Ok(Completions::default())
    }
    #[expect(missing_docs, reason = "stand-in")]
    fn pending_calls(&self) -> Vec<belljar_core::ToolCall> {
        Vec::new()
    }
    #[expect(missing_docs, reason = "stand-in")]
    fn resume(
        &mut self,
        _answers: Vec<belljar_core::ToolAnswer>,
    ) -> Result<SandboxResult, SandboxError> {
        Err(SandboxError::NotSuspended)
    }
    #[expect(missing_docs, reason = "stand-in")]
    fn snapshot(
        &mut self,
        _files: crate::snapshot::Files,
    ) -> Result<crate::snapshot::Snapshot, SandboxError> {
        Err(SandboxError::NotInSession { wanted: "a snapshot".to_owned() })
    }
    #[expect(missing_docs, reason = "stand-in")]
    fn restore(&mut self, _snapshot: &crate::snapshot::Snapshot) -> Result<(), SandboxError> {
        Ok(())
    }
    #[expect(missing_docs, reason = "stand-in")]
    fn fork(&mut self) -> Result<Box<dyn Sandbox>, SandboxError> {
        Err(SandboxError::NotInSession { wanted: "a fork".to_owned() })
    }
    #[expect(missing_docs, reason = "stand-in")]
    fn session_id(&self) -> Option<&str> {
        None
    }

    /// Whether the code compiles. Executes nothing.
    ///
    /// # Errors
    /// Only when Belljar or the caller failed.
    fn validate_code(&mut self, code: &str) -> Result<bool, SandboxError> {
        self.check_code(code).map(|complaint| complaint.is_none())
    }

    /// What the caller allows.
    fn policy(&self) -> &ExecutionPolicy {
        &self.base().policy
    }

    /// The workspace on the host.
    fn workspace(&self) -> &Path {
        &self.base().workspace
    }

    /// Where events go.
    fn logger(&self) -> &SandboxLogger {
        &self.base().logger
    }

    /// Logs how an execution went.
    fn log_execution_metrics(&self, result: &SandboxResult) {
        self.logger().log_execution_complete(result);
    }
}

/// Refuses source code no guest should be given.
///
/// # Errors
/// When it is larger than [`limits::MAX_SOURCE_BYTES`].
pub fn check_source(code: &str) -> Result<(), SandboxError> {
    if code.len() > limits::MAX_SOURCE_BYTES {
        return Err(SandboxError::Source {
            problem: format!(
                "it is {} bytes long, and at most {} are accepted",
                code.len(),
                format_bytes(limits::MAX_SOURCE_BYTES as u64)
            ),
            hint: Some("put large data into a file in the workspace and read it there".to_owned()),
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use belljar_core::{Meta, Outcome};

    use super::*;

    /// Says that everything went well.
    struct Echo(SandboxBase);

    impl Sandbox for Echo {
        fn base(&self) -> &SandboxBase {
            &self.0
        }

        fn runtime(&self) -> RuntimeType {
            RuntimeType::Python
        }

        fn execute(&mut self, code: &str) -> Result<SandboxResult, SandboxError> {
            let mut result = SandboxResult::new(Outcome::Finished, Meta::default());
            result.stdout = code.to_owned();
            self.log_execution_metrics(&result);
            Ok(result)
        }

        fn cancel_handle(&self) -> CancelHandle {
            CancelHandle::default()
        }

        fn check_code(&mut self, code: &str) -> Result<Option<GuestError>, SandboxError> {
            Ok(code.ends_with('+').then(GuestError::default))
        }
    }

    #[test]
    fn the_trait_can_be_boxed_and_hands_out_its_base() {
        let (logger, log) = SandboxLogger::captured();
        let base = SandboxBase::new(ExecutionPolicy::default(), "/tmp/w", Some(logger));
        let mut sandbox: Box<dyn Sandbox> = Box::new(Echo(base));
        assert_eq!(sandbox.execute("x").unwrap().stdout, "x");
        assert_eq!(sandbox.validate_code("x = 1 +"), Ok(false));
        assert_eq!(sandbox.validate_code("x = 1"), Ok(true));
        assert_eq!(sandbox.policy(), &ExecutionPolicy::default());
        assert_eq!(sandbox.workspace(), Path::new("/tmp/w"));
        assert_eq!(log.events().len(), 1);
    }

    #[test]
    fn source_over_the_cap_is_refused() {
        assert_eq!(check_source(&"#".repeat(limits::MAX_SOURCE_BYTES)), Ok(()));
        insta::assert_snapshot!(
            check_source(&"#".repeat(limits::MAX_SOURCE_BYTES + 1)).unwrap_err(),
            @"the code cannot be run: it is 16777217 bytes long, and at most 16 MiB are accepted; nothing was run"
        );
    }
}
