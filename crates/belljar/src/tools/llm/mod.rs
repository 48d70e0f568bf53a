//! Language models as tools: a command, an HTTP endpoint, and the loop that makes a recursive
//! language model of either.

mod command;
mod config;
#[cfg(feature = "http-llm")]
mod http;
mod reply;
mod rlm;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use belljar_core::ToolFailure;

pub use command::CommandLlm;
pub use config::{LLM_COMMAND_VARIABLE, LlmConfig};
#[cfg(feature = "http-llm")]
pub use http::HttpLlm;
pub use rlm::Rlm;

/// How long a model may take for one answer, unless configured otherwise. Long, since a model that
/// thinks is slow; the execution's own clock usually ends first.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(600);

/// One answer of a model. Models stop at some hundred kilobytes; what says more is no model.
pub const MAX_ANSWER_BYTES: usize = 4 * 1024 * 1024;

/// Whether the caller still wants the answer.
pub type Cancelled<'a> = &'a (dyn Fn() -> bool + Sync);

/// Something that answers prompts.
pub trait LanguageModel: Send + Sync {
    /// Continues a conversation. Gives up soon after `cancelled` says so.
    ///
    /// # Errors
    /// When there is no answer, in words the guest may read.
    fn answer(
        &self,
        conversation: &[Message],
        cancelled: Cancelled<'_>,
    ) -> Result<String, ToolFailure>;

    /// Answers a single prompt.
    ///
    /// # Errors
    /// As for [`LanguageModel::answer`].
    fn ask(&self, prompt: &str, cancelled: Cancelled<'_>) -> Result<String, ToolFailure> {
        self.answer(&[Message::user(prompt)], cancelled)
    }
}

/// A model that can be handed to several tools.
pub type SharedModel = Arc<dyn LanguageModel>;

/// Who said something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The instructions.
    System,
    /// The one who asks.
    User,
    /// The model.
    Assistant,
}

impl Role {
    /// The name in the chat protocol.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A part of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Who said it.
    pub role: Role,
    /// What was said.
    pub content: String,
}

impl Message {
    /// Instructions.
    #[must_use]
    pub fn system(content: impl Into<String>) -> Self {
        Self { role: Role::System, content: content.into() }
    }

    /// A question.
    #[must_use]
    pub fn user(content: impl Into<String>) -> Self {
        Self { role: Role::User, content: content.into() }
    }

    /// An answer.
    #[must_use]
    pub fn assistant(content: impl Into<String>) -> Self {
        Self { role: Role::Assistant, content: content.into() }
    }
}

/// An answer that can be used: not blank, without trailing line ends.
fn checked(answer: &str) -> Result<String, ToolFailure> {
    let answer = answer.trim_end_matches(['\n', '\r']);
    if answer.trim().is_empty() {
        return Err(ToolFailure::new("the model gave no answer"));
    }
    Ok(answer.to_owned())
}

fn cancelled_failure() -> ToolFailure {
    ToolFailure::new("the question was cancelled")
}

fn timeout_failure(timeout: Duration) -> ToolFailure {
    ToolFailure::new(format!("the model gave no answer within {} s", timeout.as_secs_f64()))
}

fn too_long_failure() -> ToolFailure {
    ToolFailure::new(format!(
        "the model's answer is longer than {}",
        belljar_core::units::format_bytes(MAX_ANSWER_BYTES as u64)
    ))
}
