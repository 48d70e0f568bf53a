//! The contract every backend implements.

use std::path::{Path, PathBuf};

use belljar_core::units::format_bytes;
use belljar_core::{
    ExecutionPolicy, GuestError, RuntimeType, SandboxError, SandboxExecutionError, SandboxResult,
    Survives, ToolAnswer, ToolCall, limits,
};
use belljar_host::{Completions, Variable};

use crate::CancelHandle;
use crate::logging::SandboxLogger;
use crate::snapshot::{Files, Snapshot};
use crate::wasm::Links;

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

/// One isolated interpreter. What needs a session is refused by default.
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

    /// The same in a fresh interpreter that has neither the workspace nor added packages on its
    /// search path. A session is not touched by it.
    ///
    /// # Errors
    /// Also where the backend cannot do without them.
    fn execute_without_setup(&mut self, _code: &str) -> Result<SandboxResult, SandboxError> {
        Err(SandboxExecutionError {
            problem: "this backend always sets the search path up".to_owned(),
            survives: Survives::NothingWasRun,
            hint: Some("use the wasm backend, or leave inject_setup as it is".to_owned()),
        }
        .into())
    }

    /// Checks the syntax without executing anything: `None` when the code compiles, else the
    /// interpreter's complaint.
    ///
    /// # Errors
    /// Only when Belljar or the caller failed.
    fn check_code(&mut self, code: &str) -> Result<Option<GuestError>, SandboxError>;

    /// A handle with which another thread can stop the execution that is running.
    fn cancel_handle(&self) -> CancelHandle;

    /// Begins a session: from now on state lives from one execution to the next, and the variable
    /// `context` holds what is given here. A session that was there before is gone.
    ///
    /// # Errors
    /// When the backend or its guest keeps no state, or the context does not fit.
    fn initialize(&mut self, _context: serde_json::Value) -> Result<(), SandboxError> {
        Err(keeps_no_state("a context"))
    }

    /// A variable of the session; `None` when there is none of that name.
    ///
    /// # Errors
    /// Outside a session, or when the value cannot be shown within the limits.
    fn get_variable(&mut self, _name: &str) -> Result<Option<Variable>, SandboxError> {
        Err(keeps_no_state("a variable"))
    }

    /// What could stand at `cursor` in the code, both counted in characters.
    ///
    /// # Errors
    /// Outside a session.
    fn complete(&mut self, _code: &str, _cursor: usize) -> Result<Completions, SandboxError> {
        Err(keeps_no_state("completion"))
    }

    /// The calls that a suspended execution waits for.
    fn pending_calls(&mut self) -> Vec<ToolCall> {
        Vec::new()
    }

    /// Goes on with a suspended execution. Calls without an answer go on waiting.
    ///
    /// # Errors
    /// When none is suspended, or an answer is to a call that does not wait.
    fn resume(&mut self, _answers: Vec<ToolAnswer>) -> Result<SandboxResult, SandboxError> {
        Err(keeps_no_state("resuming"))
    }

    /// The session as a value. It lives on, untouched.
    ///
    /// # Errors
    /// Outside a session, or when the workspace's files are wanted and cannot be copied.
    fn snapshot(&mut self, _files: Files) -> Result<Snapshot, SandboxError> {
        Err(keeps_no_state("a snapshot"))
    }

    /// Becomes the session that a snapshot holds. Files in it are put into this sandbox's
    /// workspace; what else is there remains.
    ///
    /// # Errors
    /// When the snapshot is of another language or guest, needs more memory than the policy gives,
    /// or its files cannot be written. The session is as it was before then.
    fn restore(&mut self, _snapshot: &Snapshot) -> Result<(), SandboxError> {
        Err(keeps_no_state("restoring"))
    }

    /// A second session that goes on from where this one is, in a copy of its workspace. Neither
    /// sees anything of the other.
    ///
    /// # Errors
    /// Outside a session, or when the workspace cannot be copied.
    fn fork(&mut self) -> Result<Box<dyn Sandbox>, SandboxError> {
        Err(keeps_no_state("a fork"))
    }

    /// A fork without a name, whose tools, `input()` and lines are those of `links` instead of this
    /// sandbox's.
    ///
    /// # Errors
    /// As [`fork`](Self::fork).
    fn fork_for(&mut self, _links: Links) -> Result<Box<dyn Sandbox>, SandboxError> {
        Err(keeps_no_state("a fork"))
    }

    /// Ends the session and gives back everything it held. The sandbox can be used again.
    ///
    /// # Errors
    /// When something could not be given back.
    fn destroy(&mut self) -> Result<(), SandboxError> {
        Ok(())
    }

    /// The name of the session, if it has one.
    fn session_id(&self) -> Option<&str> {
        None
    }

    /// Stops the execution that is running, from another thread through [`Sandbox::cancel_handle`].
    /// Does nothing when none runs.
    fn cancel(&self) {
        self.cancel_handle().cancel();
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

/// What a sandbox without sessions says to everything that needs one.
pub(crate) fn keeps_no_state(wanted: &str) -> SandboxError {
    SandboxError::NotInSession { wanted: wanted.to_owned() }
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
    use super::*;

    #[test]
    fn source_over_the_cap_is_refused() {
        assert_eq!(check_source(&"#".repeat(limits::MAX_SOURCE_BYTES)), Ok(()));
        insta::assert_snapshot!(
            check_source(&"#".repeat(limits::MAX_SOURCE_BYTES + 1)).unwrap_err(),
            @"the code cannot be run: it is 16777217 bytes long, and at most 16 MiB are accepted; nothing was run"
        );
    }
}
