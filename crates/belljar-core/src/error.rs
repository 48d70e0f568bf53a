//! What can go wrong on Belljar's or the caller's side. A guest's failure is never one of these.

use std::fmt;
use std::path::PathBuf;

use crate::backend::{Backend, Rule};
use crate::policy::PolicyValidationError;

/// What is left after an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Survives {
    /// The code did not start; nothing changed.
    NothingWasRun,
    /// The sandbox lives and is as it was before this execution.
    SandboxAsBefore,
    /// The sandbox is gone; the workspace may hold what the code wrote.
    OtherSandboxes,
}

impl fmt::Display for Survives {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NothingWasRun => "nothing was run",
            Self::SandboxAsBefore => "the sandbox is as it was before this execution",
            Self::OtherSandboxes => {
                "this sandbox is gone; other sandboxes are unaffected, and the workspace may hold \
                 what the code wrote"
            }
        })
    }
}

/// The host failed while it executed code. The code itself may have been fine.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the execution could not be completed: {problem}; {survives}")]
pub struct SandboxExecutionError {
    /// What happened.
    pub problem: String,
    /// What is left.
    pub survives: Survives,
    /// What to do about it.
    pub hint: Option<String>,
}

/// Everything that can go wrong outside the guest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SandboxError {
    /// The policy is not valid.
    #[error(transparent)]
    PolicyValidation(#[from] PolicyValidationError),

    /// The host failed during an execution.
    #[error(transparent)]
    Execution(#[from] SandboxExecutionError),

    /// The backend cannot be used here.
    #[error("the {backend} backend cannot be used: {reason}; nothing was run")]
    BackendUnavailable {
        /// Which.
        backend: Backend,
        /// Why not.
        reason: String,
        /// What to do about it.
        hint: Option<String>,
    },

    /// The policy asks for a rule the backend cannot enforce.
    #[error("the {backend} backend cannot enforce {rule}; nothing was run")]
    Unenforceable {
        /// The rule.
        rule: Rule,
        /// The backend.
        backend: Backend,
    },

    /// A file Belljar needs is not there or not what it should be.
    #[error("{what} cannot be used: {}: {problem}; nothing was run", path.display())]
    ArtifactNotFound {
        /// What the file is for.
        what: String,
        /// Where it was looked for.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
        /// What to do about it.
        hint: Option<String>,
    },

    /// A file given by the caller cannot be read.
    #[error("cannot read {what} {}: {problem}; nothing was run", path.display())]
    Input {
        /// What the file is for.
        what: String,
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
        /// What to do about it.
        hint: Option<String>,
    },

    /// The source code cannot be given to a guest at all.
    #[error("the code cannot be run: {problem}; nothing was run")]
    Source {
        /// What is wrong with it.
        problem: String,
        /// What to do about it.
        hint: Option<String>,
    },

    /// The workspace or the data directory cannot be used.
    #[error("the directory {} cannot be used: {problem}; nothing was run", path.display())]
    Workspace {
        /// Which directory.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
        /// What to do about it.
        hint: Option<String>,
    },

    /// Something of Belljar's own on disk (compiled guests, packages) cannot be read or written.
    #[error("cannot use {what} at {}: {problem}; nothing was changed", path.display())]
    Cache {
        /// What is kept there.
        what: String,
        /// Where.
        path: PathBuf,
        /// What is wrong.
        problem: String,
        /// What to do about it.
        hint: Option<String>,
    },

    /// A package cannot be added or removed.
    #[error("{problem}; no package was changed")]
    Package {
        /// What is wrong.
        problem: String,
        /// What to do about it.
        hint: Option<String>,
    },

    /// No session has that name.
    #[error("there is no session `{0}`; other sessions are unaffected")]
    SessionNotFound(String),

    /// A peer or a guest broke the protocol.
    #[error("protocol error: {problem}; {survives}")]
    Protocol {
        /// What was wrong with the message.
        problem: String,
        /// What is left.
        survives: Survives,
    },

    /// A mistake in Belljar itself.
    #[error("internal error: {problem}; {survives}")]
    Internal {
        /// What happened.
        problem: String,
        /// What is left.
        survives: Survives,
    },
}

impl SandboxError {
    /// What the reader can do about it, as one line without a full stop.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::PolicyValidation(_) => {
                Some("`belljar policy schema` describes every field".to_owned())
            }
            Self::Execution(error) => error.hint.clone(),
            Self::BackendUnavailable { hint, .. }
            | Self::ArtifactNotFound { hint, .. }
            | Self::Input { hint, .. }
            | Self::Source { hint, .. }
            | Self::Workspace { hint, .. }
            | Self::Cache { hint, .. }
            | Self::Package { hint, .. } => hint.clone(),
            Self::Unenforceable { rule: Rule::Imports, .. } => {
                Some("leave block_imports away: no backend has an import guard yet".to_owned())
            }
            Self::Unenforceable { rule, backend } => Some(format!(
                "leave {rule} away, or use the {} backend, which enforces every rule",
                if *backend == Backend::Wasm { Backend::Daemon } else { Backend::Wasm }
            )),
            Self::SessionNotFound(_) => {
                Some("`belljar session list` shows the sessions there are".to_owned())
            }
            Self::Protocol { .. } => None,
            Self::Internal { .. } => {
                Some("this is a bug in Belljar; please report it with the message above".to_owned())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One of each, as a person sees it.
    #[test]
    fn messages() {
        let path = PathBuf::from("some/where");
        let hint = Some("try this".to_owned());
        let problem = "it is a file".to_owned();
        let errors: Vec<SandboxError> = vec![
            PolicyValidationError::single("fuel_budget", "must be greater than 0", None).into(),
            SandboxExecutionError {
                problem: "the disk is full".into(),
                survives: Survives::SandboxAsBefore,
                hint: Some("free some space".into()),
            }
            .into(),
            SandboxError::BackendUnavailable {
                backend: Backend::Docker,
                reason: "no daemon answers".into(),
                hint: hint.clone(),
            },
            SandboxError::Unenforceable { rule: Rule::Fuel, backend: Backend::Native },
            SandboxError::ArtifactNotFound {
                what: "the guest".into(),
                path: path.clone(),
                problem: "no such file".into(),
                hint: hint.clone(),
            },
            SandboxError::Input {
                what: "policy file".into(),
                path: path.clone(),
                problem: "it is a directory".into(),
                hint: hint.clone(),
            },
            SandboxError::Source { problem: "it holds a NUL".into(), hint: hint.clone() },
            SandboxError::Workspace {
                path: path.clone(),
                problem: problem.clone(),
                hint: hint.clone(),
            },
            SandboxError::Cache { what: "packages".into(), path, problem, hint: hint.clone() },
            SandboxError::Package { problem: "numpy has native code".into(), hint },
            SandboxError::SessionNotFound("s1".into()),
            SandboxError::Protocol {
                problem: "a line of 3 GiB".into(),
                survives: Survives::OtherSandboxes,
            },
            SandboxError::Internal { problem: "oops".into(), survives: Survives::NothingWasRun },
        ];
        let shown: Vec<String> = errors
            .iter()
            .map(|error| match error.hint() {
                Some(hint) => format!("{error}\n    hint: {hint}"),
                None => error.to_string(),
            })
            .collect();
        insta::assert_snapshot!(shown.join("\n"));
    }
}
