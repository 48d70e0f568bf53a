//! What a caller did wrong, or Belljar could not do: a word for programs, a text for whoever called,
//! and what to do.

use std::borrow::Cow;

use belljar::SandboxError;
use belljar::core::protocol::{BUSY as RPC_BUSY, INVALID_PARAMS};

use crate::client::ClientError;

/// The same may succeed later.
pub(crate) const BUSY: &str = "busy";
/// Something about the request is wrong.
pub(crate) const INVALID: &str = "invalid_request";
/// There is no session of that name.
pub(crate) const NO_SESSION: &str = "session_not_found";
/// There is one already.
pub(crate) const SESSION_EXISTS: &str = "session_exists";
/// There are as many as may be.
pub(crate) const TOO_MANY_SESSIONS: &str = "too_many_sessions";
/// It was stopped before it began.
pub(crate) const CANCELLED: &str = "cancelled";
/// More than may be.
pub(crate) const TOO_LARGE: &str = "too_large";
/// The connection to the sandboxes is lost.
pub(crate) const LOST: &str = "connection_lost";
/// A sandbox was lost with the process it lived in.
pub(crate) const WORKER_LOST: &str = "worker_lost";
/// A mistake of Belljar's, or of the system it runs on.
pub(crate) const FAILED: &str = "failed";

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    /// A word for programs.
    pub(crate) code: Cow<'static, str>,
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
}

impl Problem {
    pub(crate) fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self { code: Cow::Borrowed(code), message: message.into(), hint: None }
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(INVALID, message)
    }

    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Self::new(FAILED, message)
    }

    pub(crate) fn busy(why: &str) -> Self {
        Self::new(BUSY, format!("busy: {why}; nothing was run")).hint("try again later")
    }

    pub(crate) fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
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
        let code = Cow::Owned(error.kind().to_owned());
        Self { code, hint: error.hint(), message: error.to_string() }
    }
}

impl From<ClientError> for Problem {
    fn from(error: ClientError) -> Self {
        let message = error.to_string();
        let refused = match error {
            ClientError::Refused(refused) => refused,
            ClientError::NotSent | ClientError::Lost => return Self::new(LOST, message),
            ClientError::Nonsense(_) => return Self::failed(message),
        };
        let word = |name: &str| {
            let data = refused.data.as_ref()?;
            data.get(name)?.as_str().map(str::to_owned)
        };
        let code = match (word("kind"), refused.code) {
            (Some(kind), _) => Cow::Owned(kind),
            (None, RPC_BUSY) => Cow::Borrowed(BUSY),
            (None, INVALID_PARAMS) => Cow::Borrowed(INVALID),
            (None, _) => Cow::Borrowed(FAILED),
        };
        Self { code, message, hint: word("hint") }
    }
}
