//! What can be asked for: the arguments of every tool.

use belljar::{ImageChoice, RuntimeType};
use schemars::JsonSchema;
use serde::Deserialize;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RunPythonCode {
    /// Python source. Print what you want to see.
    pub(super) code: String,
    /// Seconds until it is stopped; 30 when absent, at most 600.
    #[serde(default)]
    pub(super) timeout: Option<f64>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ExecuteCode {
    /// The source. The value of its last expression is part of the result, and `await` works at the
    /// top level.
    pub(super) code: String,
    /// The language: python when absent, or the session's.
    #[serde(default)]
    pub(super) language: Option<RuntimeType>,
    /// A session from create_session or fork_session, whose variables and files are there and live
    /// on. Without one the code runs in a fresh sandbox that is removed afterwards.
    #[serde(default)]
    pub(super) session_id: Option<String>,
    /// Seconds until it is stopped; 30 when absent, at most 600.
    #[serde(default)]
    pub(super) timeout: Option<f64>,
    /// What Python has in it, in a fresh sandbox: data is with numpy, pandas and matplotlib, plain is without;
    /// auto, when absent, is the one that has what the code imports. A session has its own.
    #[serde(default)]
    pub(super) image: Option<ImageChoice>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CreateSession {
    /// The language: python when absent.
    #[serde(default)]
    pub(super) language: Option<RuntimeType>,
    /// The name it shall have: ASCII letters, digits, `_` and `-`. One is made up when absent.
    #[serde(default)]
    pub(super) session_id: Option<String>,
    /// What its Python has in it: data is with numpy, pandas and matplotlib, plain is without; auto, when absent,
    /// is the one that has what the first code in it imports.
    #[serde(default)]
    pub(super) image: Option<ImageChoice>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct OfSession {
    /// The session.
    pub(super) session_id: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Nothing {}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct GetVariable {
    /// The session.
    pub(super) session_id: String,
    /// The variable's name.
    pub(super) name: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ReadFile {
    /// The session.
    pub(super) session_id: String,
    /// The file's path in the session's workspace, for example data/table.csv.
    pub(super) path: String,
    /// The byte to begin with: next_offset of the call before, for what did not fit into it.
    #[serde(default)]
    pub(super) offset: u64,
    /// How many bytes; 262144 when absent, at most 4194304.
    #[serde(default)]
    pub(super) length: Option<u64>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct WriteFile {
    /// The session.
    pub(super) session_id: String,
    /// The file's path in the session's workspace, for example data/table.csv. Directories above it
    /// are made.
    pub(super) path: String,
    /// What it shall hold: at most 4 MiB.
    pub(super) content: String,
    /// How content is written: utf-8 (text as it is, when absent) or base64 (for any bytes).
    #[serde(default)]
    pub(super) encoding: Encoding,
}

/// How bytes are written as text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, Deserialize, JsonSchema)]
pub(super) enum Encoding {
    /// Text as it is.
    #[default]
    #[serde(rename = "utf-8")]
    Utf8,
    /// Base64.
    #[serde(rename = "base64")]
    Base64,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CancelExecution {
    /// The session whose execution is stopped; all executions of this client when absent.
    #[serde(default)]
    pub(super) session_id: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ValidateCode {
    /// The source. It is not executed.
    pub(super) code: String,
    /// The language: python when absent.
    #[serde(default)]
    pub(super) language: Option<RuntimeType>,
}
