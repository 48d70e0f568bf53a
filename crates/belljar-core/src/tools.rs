//! Tools: host functions a guest may call, as data.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A guest's wish to have a tool run.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct ToolCall {
    /// Names the call within its session; what an answer refers to.
    pub id: u64,
    /// The tool.
    pub name: String,
    /// Arguments by position.
    #[serde(default)]
    pub args: Vec<Value>,
    /// Arguments by name.
    #[serde(default)]
    pub kwargs: Map<String, Value>,
}

/// What a tool gave.
pub type ToolOutcome = Result<Value, ToolFailure>;

/// Why a tool gave nothing. Becomes an exception in the guest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, thiserror::Error)]
#[error("{name}: {message}")]
pub struct ToolFailure {
    /// The exception's name in the guest.
    pub name: FailureName,
    /// What went wrong, in words the guest may read.
    pub message: String,
}

impl ToolFailure {
    /// The tool itself failed.
    #[must_use]
    pub fn new(message: impl Into<String>) -> Self {
        Self { name: FailureName::ToolError, message: message.into() }
    }

    /// The policy allows no more.
    #[must_use]
    pub fn limit(message: impl Into<String>) -> Self {
        Self { name: FailureName::ToolLimitError, message: message.into() }
    }

    /// Whoever answered `input()` has no more to say.
    #[must_use]
    pub fn end_of_input() -> Self {
        Self { name: FailureName::InputRefused, message: "the input has ended".to_owned() }
    }

    /// Nobody answers `input()`.
    #[must_use]
    pub fn no_input() -> Self {
        let message = "the Belljar sandbox does not offer input: nobody is there to answer";
        Self { name: FailureName::InputRefused, message: message.to_owned() }
    }
}

/// The exceptions a failed call can become.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum FailureName {
    /// The tool failed.
    ToolError,
    /// A limit of the policy.
    ToolLimitError,
    /// Nobody answers `input()`.
    InputRefused,
}

impl fmt::Display for FailureName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ToolError => "ToolError",
            Self::ToolLimitError => "ToolLimitError",
            Self::InputRefused => "InputRefused",
        })
    }
}

/// The answer to a call that was waiting when its session was suspended.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolAnswer {
    /// The call's number.
    pub id: u64,
    /// What the tool gave.
    pub outcome: ToolOutcome,
}

/// What an execution used of its tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ToolUsage {
    /// Calls, whatever became of them.
    pub calls: u64,
    /// Bytes of arguments and results, as JSON.
    pub bytes: u64,
    /// How deep this sandbox is nested in `rlm_query`; 0 for the outermost.
    pub depth: u64,
}

/// The most a guest may use of its tools in one execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ToolLimits {
    /// Calls.
    pub calls: u64,
    /// Bytes of arguments and results, as JSON.
    pub bytes: u64,
}

/// Whether a name can be a tool's: a plain ASCII identifier that is no keyword of either language.
#[must_use]
pub fn is_tool_name(name: &str) -> bool {
    let mut chars = name.chars();
    let starts = chars.next().is_some_and(|first| first.is_ascii_alphabetic() || first == '_');
    starts
        && name.len() <= crate::limits::MAX_TOOL_NAME_BYTES
        && chars.all(|char| char.is_ascii_alphanumeric() || char == '_')
        && !KEYWORDS.contains(&name)
}

/// Reserved in Python or JavaScript.
const KEYWORDS: [&str; 63] = [
    "False",
    "None",
    "True",
    "and",
    "as",
    "assert",
    "async",
    "await",
    "break",
    "case",
    "catch",
    "class",
    "const",
    "continue",
    "debugger",
    "def",
    "default",
    "del",
    "delete",
    "do",
    "elif",
    "else",
    "enum",
    "except",
    "export",
    "extends",
    "false",
    "finally",
    "for",
    "from",
    "function",
    "global",
    "if",
    "import",
    "in",
    "instanceof",
    "is",
    "lambda",
    "let",
    "new",
    "nonlocal",
    "not",
    "null",
    "or",
    "pass",
    "raise",
    "return",
    "static",
    "super",
    "switch",
    "this",
    "throw",
    "true",
    "try",
    "typeof",
    "undefined",
    "var",
    "void",
    "while",
    "with",
    "yield",
    "eval",
    "arguments",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tool_names_are_identifiers_in_both_languages() {
        for good in ["llm_query", "approve", "_x1", "Tool"] {
            assert!(is_tool_name(good), "{good}");
        }
        for bad in ["", "1x", "a.b", "a-b", "lambda", "function", "é", "a b", &"x".repeat(200)] {
            assert!(!is_tool_name(bad), "{bad}");
        }
    }
}
