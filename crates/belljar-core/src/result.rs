//! What one execution gave: one shape for every backend and language.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::image::GuestImage;
use crate::language::RuntimeType;
use crate::policy::Network;
use crate::tools::{ToolCall, ToolUsage};

/// How an execution ended.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Ran to its end.
    Ok,
    /// Ended by an uncaught error or by its own non-zero exit code.
    Error,
    /// Stopped by the clock.
    Timeout,
    /// Stopped when its fuel was used up.
    OutOfFuel,
    /// Ended by the memory limit.
    OutOfMemory,
    /// Stopped for flooding its output.
    OutputLimit,
    /// Ended by the workspace's quota.
    Quota,
    /// Refused before it ran.
    Blocked,
    /// Stopped by the caller.
    Cancelled,
    /// Waiting for a tool; can be resumed.
    Suspended,
    /// The interpreter itself broke.
    Crashed,
}

impl Status {
    /// The name in JSON.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Error => "error",
            Self::Timeout => "timeout",
            Self::OutOfFuel => "out_of_fuel",
            Self::OutOfMemory => "out_of_memory",
            Self::OutputLimit => "output_limit",
            Self::Quota => "quota",
            Self::Blocked => "blocked",
            Self::Cancelled => "cancelled",
            Self::Suspended => "suspended",
            Self::Crashed => "crashed",
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Why an execution did not get to its end by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "each variant is the Status of the same name, documented there")]
pub enum Stop {
    Timeout,
    OutOfFuel,
    OutOfMemory,
    OutputLimit,
    Quota,
    Blocked,
    Cancelled,
    Suspended,
    Crashed,
}

impl Stop {
    /// Every one.
    pub const ALL: [Self; 9] = [
        Self::Timeout,
        Self::OutOfFuel,
        Self::OutOfMemory,
        Self::OutputLimit,
        Self::Quota,
        Self::Blocked,
        Self::Cancelled,
        Self::Suspended,
        Self::Crashed,
    ];

    const fn status(self) -> Status {
        match self {
            Self::Timeout => Status::Timeout,
            Self::OutOfFuel => Status::OutOfFuel,
            Self::OutOfMemory => Status::OutOfMemory,
            Self::OutputLimit => Status::OutputLimit,
            Self::Quota => Status::Quota,
            Self::Blocked => Status::Blocked,
            Self::Cancelled => Status::Cancelled,
            Self::Suspended => Status::Suspended,
            Self::Crashed => Status::Crashed,
        }
    }
}

/// The exit code of code that was refused before it ran: as if its first line had failed.
const BLOCKED_EXIT_CODE: i32 = 1;

/// The exit code of an execution that was stopped.
pub const STOPPED_EXIT_CODE: i32 = -1;

/// The one thing `success`, `status`, `exit_code`, `error` and `meta.timed_out` are derived from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Ran to its end.
    Finished,
    /// Asked to exit with this code; zero is success.
    Exited(i32),
    /// Ended by an uncaught error.
    Raised(GuestError),
    /// Was stopped. The error, if any, is what the guest or the host has to say about it.
    Stopped(Stop, Option<GuestError>),
}

/// An uncaught error of the guest.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct GuestError {
    /// The exception's class, such as `ValueError`.
    pub name: String,
    /// Its message.
    pub message: String,
    /// The traceback with the user's lines only.
    pub traceback: String,
}

/// The value of a cell's last expression.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct CellValue {
    /// As the interpreter would print it.
    pub text: String,
    /// As JSON, where it can be.
    #[serde(default)]
    pub json: Option<serde_json::Value>,
    /// Rich forms by MIME type; binary ones in base64.
    #[serde(default)]
    pub mime: BTreeMap<String, String>,
}

/// The limits that held during an execution. `None` where the backend cannot enforce one.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ResourceLimits {
    /// Fuel.
    pub fuel_budget: Option<u64>,
    /// Memory in bytes.
    pub memory_bytes: Option<u64>,
    /// Wall-clock seconds.
    pub timeout_seconds: f64,
    /// Bytes of standard output kept.
    pub stdout_max_bytes: u64,
    /// Bytes of standard error kept.
    pub stderr_max_bytes: u64,
    /// Bytes in the workspace.
    pub workspace_max_bytes: Option<u64>,
    /// Files in the workspace.
    pub workspace_max_files: Option<u64>,
    /// Processes.
    pub max_processes: Option<u64>,
    /// Calls of tools.
    pub max_tool_calls: Option<u64>,
    /// Bytes of arguments and results of tools, as JSON.
    pub max_tool_bytes: Option<u64>,
    /// How deep `rlm_query` may be nested.
    pub max_rlm_depth: Option<u64>,
    /// Network access.
    pub network: Option<Network>,
}

/// What became of a session's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StateAfter {
    /// Everything the code did to it is there.
    Kept,
    /// It is what it was before the code ran.
    RolledBack,
    /// It is gone: the interpreter had to be ended. The next cell starts anew, with the context.
    Lost,
}

/// Facts about an execution that are not its outcome.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Meta {
    /// The backend: `wasm`, `local`, `docker` and so on.
    pub runtime: String,
    /// The language.
    pub language: RuntimeType,
    /// The interpreter's version.
    pub language_version: Option<String>,
    /// The session, if it has a name.
    pub session_id: Option<String>,
    /// Names this execution in logs and artifacts.
    pub execution_id: String,
    /// Whether standard output or standard error was cut.
    pub truncated: bool,
    /// Whether the clock stopped it.
    pub timed_out: bool,
    /// What became of the session's state; `None` outside sessions.
    pub state: Option<StateAfter>,
    /// What was used of the tools.
    pub tools: ToolUsage,
    /// Imports that were refused.
    pub blocked_imports: Vec<String>,
    /// The limits that held.
    pub resource_limits: ResourceLimits,
    /// The layers of isolation that really held.
    pub isolation: Vec<String>,
    /// The backend that was asked for, where it was not there and `runtime` stood in for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fallback_from: Option<String>,
    /// The image of the interpreter, where it is not the plain one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<GuestImage>,
}

/// What one execution gave.
///
/// `success`, `status` and `exit_code` come from one [`Outcome`] and cannot disagree; the rest are
/// plain fields.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SandboxResult {
    #[serde(flatten)]
    end: End,
    /// Captured standard output, capped; invalid UTF-8 is replaced.
    pub stdout: String,
    /// Captured standard error, capped; invalid UTF-8 is replaced.
    pub stderr: String,
    /// The uncaught error, if any.
    pub error: Option<GuestError>,
    /// The value of the last expression, if there is one.
    pub result: Option<CellValue>,
    /// The calls a suspended execution waits for.
    #[serde(default)]
    pub pending_calls: Vec<ToolCall>,
    /// Wall-clock milliseconds.
    pub duration_ms: f64,
    /// Fuel used, where the backend counts it.
    pub fuel_consumed: Option<u64>,
    /// Most memory used, where the backend knows it.
    pub memory_used_bytes: Option<u64>,
    /// Paths created, relative to the workspace, sorted.
    pub files_created: Vec<String>,
    /// Paths modified, relative to the workspace, sorted.
    pub files_modified: Vec<String>,
    /// Paths deleted, relative to the workspace, sorted.
    pub files_deleted: Vec<String>,
    /// The workspace on the host.
    pub workspace_path: String,
    /// Everything else.
    pub meta: Meta,
}

/// The part of a result that has to be consistent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "UncheckedEnd")]
struct End {
    /// True only when the code ran to its end without an uncaught error.
    success: bool,
    /// How it ended.
    status: Status,
    /// 0 ok, 1 error or blocked, the guest's own code when it exited, -1 when it was stopped.
    exit_code: i32,
}

/// The same as it comes from outside, and what the schema describes.
#[derive(Deserialize, JsonSchema)]
struct UncheckedEnd {
    /// True only when the code ran to its end without an uncaught error.
    success: bool,
    /// How it ended.
    status: Status,
    /// 0 ok, 1 error or blocked, the guest's own code when it exited, -1 when it was stopped.
    exit_code: i32,
}

impl TryFrom<UncheckedEnd> for End {
    type Error = String;

    fn try_from(end: UncheckedEnd) -> Result<Self, String> {
        let UncheckedEnd { success, status, exit_code } = end;
        let consistent = match status {
            Status::Ok => success && exit_code == 0,
            Status::Error => !success && exit_code != 0,
            Status::Blocked => !success && exit_code == BLOCKED_EXIT_CODE,
            Status::Timeout
            | Status::OutOfFuel
            | Status::OutOfMemory
            | Status::OutputLimit
            | Status::Quota
            | Status::Cancelled
            | Status::Suspended
            | Status::Crashed => !success && exit_code == STOPPED_EXIT_CODE,
        };
        if consistent {
            Ok(Self { success, status, exit_code })
        } else {
            Err(format!(
                "a result with success {success}, status {status} and exit_code {exit_code} \
                 contradicts itself"
            ))
        }
    }
}

impl SandboxResult {
    /// A result with this outcome; the caller fills in the rest. Sets `error` and
    /// `meta.timed_out` accordingly.
    #[must_use]
    pub fn new(outcome: Outcome, meta: Meta) -> Self {
        let (status, exit_code, error) = match outcome {
            Outcome::Finished | Outcome::Exited(0) => (Status::Ok, 0, None),
            Outcome::Exited(code) => (Status::Error, code, None),
            Outcome::Raised(error) => (Status::Error, 1, Some(error)),
            Outcome::Stopped(Stop::Blocked, error) => (Status::Blocked, BLOCKED_EXIT_CODE, error),
            Outcome::Stopped(stop, error) => (stop.status(), STOPPED_EXIT_CODE, error),
        };
        Self {
            end: End { success: status == Status::Ok, status, exit_code },
            stdout: String::new(),
            stderr: String::new(),
            error,
            result: None,
            pending_calls: Vec::new(),
            duration_ms: 0.0,
            fuel_consumed: None,
            memory_used_bytes: None,
            files_created: Vec::new(),
            files_modified: Vec::new(),
            files_deleted: Vec::new(),
            workspace_path: String::new(),
            meta: Meta { timed_out: status == Status::Timeout, ..meta },
        }
    }

    /// True only when the code ran to its end without an uncaught error.
    #[must_use]
    pub const fn success(&self) -> bool {
        self.end.success
    }

    /// How it ended.
    #[must_use]
    pub const fn status(&self) -> Status {
        self.end.status
    }

    /// 0 ok, 1 error or blocked, the guest's own code when it exited, -1 when it was stopped.
    #[must_use]
    pub const fn exit_code(&self) -> i32 {
        self.end.exit_code
    }

    /// Wall-clock seconds.
    #[must_use]
    pub fn duration(&self) -> f64 {
        self.duration_ms / 1000.0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn full() -> SandboxResult {
        let error = GuestError {
            name: "ValueError".into(),
            message: "test".into(),
            traceback: "Traceback …\n".into(),
        };
        let mut result = SandboxResult::new(
            Outcome::Raised(error),
            Meta {
                runtime: "wasm".into(),
                language_version: Some("3.13.1".into()),
                execution_id: "e1".into(),
                isolation: vec!["wasm".into()],
                resource_limits: ResourceLimits {
                    fuel_budget: Some(2_000_000_000),
                    timeout_seconds: 30.0,
                    network: Some(Network::Denied),
                    ..ResourceLimits::default()
                },
                ..Meta::default()
            },
        );
        result.stdout = "Hello".into();
        result.result = Some(CellValue {
            text: "[1]".into(),
            json: Some(serde_json::json!([1, {"a": null}])),
            mime: [("text/html".into(), "<b>1</b>".into())].into(),
        });
        result.duration_ms = 1.25;
        result.fuel_consumed = Some(1_000_000);
        result.memory_used_bytes = Some(u64::MAX);
        result.files_created = vec!["output.csv".into()];
        result.workspace_path = "/tmp/sandbox-abc123".into();
        result
    }

    #[test]
    fn json_has_the_documented_names_and_round_trips() {
        let result = full();
        insta::assert_json_snapshot!(result);
        let text = serde_json::to_string(&result).unwrap();
        assert_eq!(serde_json::from_str::<SandboxResult>(&text).unwrap(), result);
    }

    #[test]
    fn a_result_that_contradicts_itself_is_refused() {
        let mut json = serde_json::to_value(full()).unwrap();
        json["success"] = true.into();
        assert_eq!(
            serde_json::from_value::<SandboxResult>(json).unwrap_err().to_string(),
            "a result with success true, status error and exit_code 1 contradicts itself"
        );
    }

    #[test]
    fn every_stop_is_a_failure_with_exit_code_minus_one() {
        for stop in Stop::ALL.into_iter().filter(|stop| *stop != Stop::Blocked) {
            let result = SandboxResult::new(Outcome::Stopped(stop, None), Meta::default());
            assert!(!result.success());
            assert_eq!(result.exit_code(), STOPPED_EXIT_CODE);
            assert_eq!(result.meta.timed_out, stop == Stop::Timeout);
            let json = serde_json::to_value(&result).unwrap();
            assert_eq!(json["status"], result.status().as_str());
        }
    }

    #[test]
    fn code_that_was_blocked_failed_like_an_uncaught_error() {
        let result = SandboxResult::new(Outcome::Stopped(Stop::Blocked, None), Meta::default());
        let end = (result.success(), result.status(), result.exit_code());
        assert_eq!(end, (false, Status::Blocked, 1));
        let text = serde_json::to_string(&result).unwrap();
        assert_eq!(serde_json::from_str::<SandboxResult>(&text).unwrap(), result);
    }

    #[test]
    fn exiting_with_zero_is_success_and_with_three_is_three() {
        assert!(SandboxResult::new(Outcome::Exited(0), Meta::default()).success());
        let three = SandboxResult::new(Outcome::Exited(3), Meta::default());
        assert_eq!((three.status(), three.exit_code()), (Status::Error, 3));
    }

    #[test]
    fn duration_is_a_view_in_seconds() {
        let mut result = full();
        result.duration_ms = 1500.0;
        assert!((result.duration() - 1.5).abs() < f64::EPSILON);
    }

    proptest! {
        #[test]
        fn any_text_round_trips(stdout in any::<String>(), code in any::<i32>(), ms in 0.0f64..1e12) {
            let mut result = SandboxResult::new(Outcome::Exited(code), Meta::default());
            result.stdout = stdout;
            result.duration_ms = ms;
            let text = serde_json::to_string(&result).unwrap();
            prop_assert_eq!(serde_json::from_str::<SandboxResult>(&text).unwrap(), result);
        }
    }
}
