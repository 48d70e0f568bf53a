//! What can be asked for and what is given: the bodies of requests and answers.

use belljar::core::protocol::methods::FileEntry;
use belljar::{Preset, RuntimeType};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Code for a fresh sandbox.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ExecutionRequest {
    /// The source. The value of its last expression is part of the result.
    pub(super) code: String,
    /// The language; python when absent.
    #[serde(default)]
    pub(super) language: RuntimeType,
    /// Seconds until it is stopped; as the policy says when absent.
    #[serde(default)]
    pub(super) timeout: Option<f64>,
    /// What the policy starts from; `agent` when absent.
    #[serde(default)]
    pub(super) preset: Option<Preset>,
    /// The fields of a policy file that differ from the preset.
    #[serde(default)]
    pub(super) policy: Map<String, Value>,
}

/// A session to be made.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SessionRequest {
    /// Its name: ASCII letters, digits, `_` and `-`. One is made up when absent.
    #[serde(default)]
    pub(super) session_id: Option<String>,
    /// The language; python when absent.
    #[serde(default)]
    pub(super) language: RuntimeType,
    /// What the policy starts from; `agent` when absent.
    #[serde(default)]
    pub(super) preset: Option<Preset>,
    /// The fields of a policy file that differ from the preset.
    #[serde(default)]
    pub(super) policy: Map<String, Value>,
    /// What the variable `context` holds.
    #[serde(default)]
    pub(super) context: Value,
}

/// Code for a session.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CodeRequest {
    /// The source.
    pub(super) code: String,
    /// Seconds until it is stopped, if fewer than the session's policy gives.
    #[serde(default)]
    pub(super) timeout: Option<f64>,
}

/// A fork to be made.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ForkRequest {
    /// Its name; one is made up when absent.
    #[serde(default)]
    pub(super) session_id: Option<String>,
}

/// What is in a workspace.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct FileListing {
    /// By path.
    pub(super) files: Vec<FileEntry>,
}

/// What was stopped.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Cancelled {
    /// How many executions.
    pub(super) cancelled: usize,
}

/// How the daemon is.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Health {
    /// Whether code can be run now.
    pub(super) ready: bool,
    /// Whether the daemon is about to end.
    pub(super) stopping: bool,
    /// The version of Belljar.
    pub(super) belljar: String,
    /// Workers that can be used.
    pub(super) workers_ready: usize,
    /// Workers there should be.
    pub(super) workers: usize,
}

/// A line that was printed, while code runs.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct PrintedLine<'a> {
    /// The line, with its end.
    pub(super) text: &'a str,
}

/// Lines that were printed while too many waited to be read. The result holds them.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Missed {
    /// How many.
    pub(super) lines: u64,
}
