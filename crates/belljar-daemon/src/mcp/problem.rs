//! What a caller did wrong, or Belljar could not do: a text for whoever called, with what to do.

use belljar::SandboxError;
use rmcp::model::{CallToolResult, ContentBlock};

use crate::client::ClientError;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Problem {
    message: String,
    hint: Option<String>,
}

impl Problem {
    pub(super) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), hint: None }
    }

    pub(super) fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// A result that says so. It has no structured content: that would have to be what the tool
    /// gives when it works.
    pub(super) fn result(&self) -> CallToolResult {
        CallToolResult::error(vec![ContentBlock::text(self.to_string())])
    }
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "error: {}", self.message)?;
        match &self.hint {
            Some(hint) => write!(f, "\nhint: {hint}"),
            None => Ok(()),
        }
    }
}

impl From<SandboxError> for Problem {
    fn from(error: SandboxError) -> Self {
        Self { hint: error.hint(), message: error.to_string() }
    }
}

impl From<ClientError> for Problem {
    fn from(error: ClientError) -> Self {
        let message = error.to_string();
        let data = match &error {
            ClientError::Refused(refused) => refused.data.as_ref(),
            ClientError::NotSent | ClientError::Lost | ClientError::Nonsense(_) => None,
        };
        let hint = data.and_then(|data| data.get("hint")).and_then(|hint| hint.as_str());
        Self { message, hint: hint.map(str::to_owned) }
    }
}
