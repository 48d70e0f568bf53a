//! Tools: host functions a guest may call, as data.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::limits;
use crate::units::format_bytes;

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

/// What a tool is said to be, for the code that may call it. Plain text: nothing in it is run.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ToolDoc {
    /// What it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub doc: Option<String>,
    /// Its parameters and its result, on one line: `(article: str, n: int = 1) -> int`. Python's
    /// `inspect.signature` gives it if it is one of Python's; else it is only shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
}

impl ToolDoc {
    /// Both.
    #[must_use]
    pub fn new(doc: impl Into<String>, signature: impl Into<String>) -> Self {
        Self { doc: Some(doc.into()), signature: Some(signature.into()) }
    }

    /// How many bytes it is.
    #[must_use]
    pub fn bytes(&self) -> usize {
        [&self.doc, &self.signature].into_iter().flatten().map(String::len).sum()
    }

    /// What is wrong with it, if anything.
    ///
    /// # Errors
    /// The problem, in words.
    pub fn check(&self) -> Result<(), String> {
        let doc = self.doc.as_deref().unwrap_or_default();
        check_text("its documentation", doc, limits::MAX_TOOL_DOC_BYTES, &['\n', '\t'])?;
        let signature = self.signature.as_deref().unwrap_or_default();
        check_text("its signature", signature, limits::MAX_TOOL_SIGNATURE_BYTES, &[])
    }
}

/// Control characters have no business in what people and models read.
fn check_text(what: &str, text: &str, max: usize, allowed: &[char]) -> Result<(), String> {
    if text.len() > max {
        let [is, most] = [text.len(), max].map(|bytes| format_bytes(bytes as u64));
        return Err(format!("{what} is {is} long, and {most} is the most"));
    }
    match text.chars().find(|char| char.is_control() && !allowed.contains(char)) {
        Some(char) => Err(format!("{what} holds the control character U+{:04X}", u32::from(char))),
        None => Ok(()),
    }
}

/// Whether a name can be a tool's: a plain ASCII identifier that is no keyword of either language.
#[must_use]
pub fn is_tool_name(name: &str) -> bool {
    let mut chars = name.chars();
    let starts = chars.next().is_some_and(|first| first.is_ascii_alphabetic() || first == '_');
    starts
        && name.len() <= limits::MAX_TOOL_NAME_BYTES
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
    #[test]
    fn what_is_said_about_a_tool_is_short_and_plain() {
        let checked = |doc: &str, signature: &str| ToolDoc::new(doc, signature).check();
        assert_eq!(checked("Two\n\tlines, é.", "(x: 'é' = \"\\0\") -> int"), Ok(()));
        assert_eq!(ToolDoc::default().check(), Ok(()));
        let most = "x".repeat(limits::MAX_TOOL_DOC_BYTES);
        assert_eq!(checked(&most, &most[..limits::MAX_TOOL_SIGNATURE_BYTES]), Ok(()));
        let problem = |doc: &str, signature: &str| checked(doc, signature).unwrap_err();
        assert_eq!(
            problem(&format!("{most}x"), ""),
            "its documentation is 16 385 bytes long, and 16 KiB is the most"
        );
        assert_eq!(problem("", &most), "its signature is 16 KiB long, and 4 KiB is the most");
        assert_eq!(problem("a\0", ""), "its documentation holds the control character U+0000");
        assert_eq!(problem("\x1b[31m", ""), "its documentation holds the control character U+001B");
        assert_eq!(problem("", "(x)\n"), "its signature holds the control character U+000A");
    }
}
