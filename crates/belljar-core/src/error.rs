//! What can go wrong on Belljar's or the caller's side. A guest's failure is never one of these.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::backend::{Backend, Rule};
use crate::image::GuestImage;
use crate::policy::PolicyValidationError;
use crate::tools::is_tool_name;
use crate::variables::BadVariable;

/// What is left after an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Survives {
    /// The code did not start; nothing changed.
    NothingWasRun,
    /// The sandbox lives and is as it was before this execution.
    SandboxAsBefore,
    /// The sandbox is gone; the workspace may hold what the code wrote.
    OtherSandboxes,
    /// The code ran and the sandbox lives; what it did outside is not complete here.
    SandboxAsAfter,
    /// The sandbox is out of reach, and whether the code ran is not known.
    MayHaveRun,
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
            Self::SandboxAsAfter => "the code ran, and the sandbox is as it was left by it",
            Self::MayHaveRun => "the code may have run, and this sandbox is gone",
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

    /// Environment variables have values they do not accept.
    #[error("the environment is not valid; nothing was run{}", listed(.0))]
    Variables(Vec<BadVariable>),
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

    /// An image is not compiled here, and this process is not the one to do it.
    #[error("the image {image} is not compiled yet; nothing was run")]
    ImageMissing {
        /// Which.
        image: GuestImage,
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
    #[error("there is no session `{id}`; other sessions are unaffected")]
    SessionNotFound {
        /// The name that was asked for.
        id: String,
    },

    /// Another process has the session open.
    #[error("the session `{id}` is in use by another process; nothing was changed")]
    SessionBusy {
        /// The session.
        id: String,
    },

    /// A session cannot be made, read or written.
    #[error("the session `{id}` cannot be used: {problem}; nothing was changed")]
    Session {
        /// The session.
        id: String,
        /// What is wrong.
        problem: String,
        /// What to do about it.
        hint: Option<String>,
    },

    /// A snapshot cannot be used or written: damaged, cut short, of another version, another
    /// language or another guest.
    #[error("the snapshot {}cannot be used: {problem}; no session was changed", at(path.as_deref()))]
    Snapshot {
        /// The file, where it is one.
        path: Option<PathBuf>,
        /// What is wrong with it.
        problem: String,
        /// What to do about it.
        hint: Option<String>,
    },

    /// A kept execution cannot be found, read or used.
    #[error("the artifact `{id}` cannot be used: {problem}; nothing was run")]
    Artifact {
        /// What was asked for.
        id: String,
        /// What is wrong.
        problem: String,
        /// What to do about it.
        hint: Option<String>,
    },
    /// A tool cannot be registered.
    #[error("the tool {name:?} cannot be offered: {problem}; nothing was run")]
    Tool {
        /// The name it should have had.
        name: String,
        /// What is wrong.
        problem: String,
    },

    /// Something only a session can do was asked of a sandbox that keeps no state.
    #[error("{wanted} needs a session, and this sandbox keeps no state; nothing was run")]
    NotInSession {
        /// What was asked for, as the beginning of a sentence: `a snapshot`.
        wanted: String,
    },

    /// The session waits for answers and can do nothing else until it has them.
    #[error(
        "the session waits for the answer to {}; nothing was run, and it waits on",
        calls(pending)
    )]
    Suspended {
        /// The calls it waits for.
        pending: Vec<u64>,
    },

    /// Answers were given to a session that waits for none.
    #[error("the session does not wait for any answer; nothing was run")]
    NotSuspended,

    /// A peer or a guest broke the protocol.
    #[error("protocol error: {problem}; {survives}")]
    Protocol {
        /// What was wrong with the message.
        problem: String,
        /// What is left.
        survives: Survives,
    },

    /// The connection to a server ended, or the server stopped answering.
    #[error("the connection to the daemon was lost: {problem}; {survives}")]
    ConnectionLost {
        /// How.
        problem: String,
        /// What is left. Sandboxes of the same connection, forks included, are gone in any case.
        survives: Survives,
    },

    /// A server's error, in its own words.
    #[error("{message}")]
    Remote {
        /// Its kind there; `busy` when the same request may succeed later.
        kind: String,
        /// What it says, what survives included.
        message: String,
        /// What to do about it.
        hint: Option<String>,
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
    /// Its kind, as a word for programs that see only text of it.
    #[must_use]
    pub fn kind(&self) -> &str {
        match self {
            Self::PolicyValidation(_) => "policy_validation",
            Self::Execution(_) => "execution",
            Self::BackendUnavailable { .. } => "backend_unavailable",
            Self::Unenforceable { .. } => "unenforceable",
            Self::ArtifactNotFound { .. } => "artifact_not_found",
            Self::Input { .. } => "input",
            Self::Source { .. } => "source",
            Self::Workspace { .. } => "workspace",
            Self::Cache { .. } => "cache",
            Self::ImageMissing { .. } => "image_missing",
            Self::Package { .. } => "package",
            Self::SessionNotFound { .. } => "session_not_found",
            Self::SessionBusy { .. } => "session_busy",
            Self::Session { .. } => "session",
            Self::Snapshot { .. } => "snapshot",
            Self::Tool { .. } => "tool",
            Self::NotInSession { .. } => "not_in_session",
            Self::Suspended { .. } => "suspended",
            Self::NotSuspended => "not_suspended",
            Self::Variables(_) => "variables",
            Self::Artifact { .. } => "artifact",
            Self::Protocol { .. } => "protocol",
            Self::ConnectionLost { .. } => "connection_lost",
            Self::Remote { kind, .. } => kind,
            Self::Internal { .. } => "internal",
        }
    }

    /// What the reader can do about it, as one line without a full stop.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::PolicyValidation(_) => {
                Some("`belljar policy schema` describes every field".to_owned())
            }
            Self::Variables(_) => {
                Some("`belljar tool variables` lists every variable and what it accepts".to_owned())
            }
            Self::Execution(error) => error.hint.clone(),
            Self::BackendUnavailable { hint, .. }
            | Self::ArtifactNotFound { hint, .. }
            | Self::Input { hint, .. }
            | Self::Source { hint, .. }
            | Self::Workspace { hint, .. }
            | Self::Cache { hint, .. }
            | Self::Session { hint, .. }
            | Self::Snapshot { hint, .. }
            | Self::Artifact { hint, .. }
            | Self::Package { hint, .. }
            | Self::Remote { hint, .. } => hint.clone(),
            Self::Unenforceable { rule: Rule::Imports, .. } => {
                Some("leave block_imports away: the import guard reads Python only".to_owned())
            }
            Self::Unenforceable { rule: Rule::Image, .. } => Some(
                "leave image away: the data image is Python on the wasm backend, without an \
                 interpreter of one's own"
                    .to_owned(),
            ),
            Self::Unenforceable { rule, backend } => Some(format!(
                "leave {rule} away, or use the {} backend, which enforces every rule",
                if *backend == Backend::Wasm { Backend::Daemon } else { Backend::Wasm }
            )),
            Self::SessionNotFound { .. } => {
                Some("`belljar session list` shows the sessions there are".to_owned())
            }
            Self::ImageMissing { .. } => {
                Some("`belljar doctor` compiles every image and says what is wrong".to_owned())
            }
            Self::SessionBusy { .. } => Some("try again when that process has ended".to_owned()),
            Self::Tool { name, .. } if is_tool_name(name) => None,
            Self::Tool { .. } => Some(
                "a tool's name is an identifier of at most 64 ASCII letters, digits and `_` that \
                 neither language reserves"
                    .to_owned(),
            ),
            Self::NotInSession { .. } => {
                Some("begin a session first, with `initialize` or by restoring one".to_owned())
            }
            Self::Suspended { .. } => Some(
                "answer the calls with `resume` (`belljar session resume ID --answer CALL=JSON`)"
                    .to_owned(),
            ),
            Self::NotSuspended => {
                Some("run code in it with `execute` (`belljar run --session ID`)".to_owned())
            }
            Self::Protocol { .. } => None,
            Self::ConnectionLost { .. } => {
                Some("`belljar daemon status` shows whether it runs; then begin anew".to_owned())
            }
            Self::Internal { .. } => {
                Some("this is a bug in Belljar; please report it with the message above".to_owned())
            }
        }
    }
}

/// Each on a line of its own.
fn listed(variables: &[BadVariable]) -> String {
    variables.iter().map(|bad| format!("\n  {bad}")).collect()
}

/// A file's name as part of a sentence.
fn at(path: Option<&Path>) -> String {
    path.map(|path| format!("{} ", path.display())).unwrap_or_default()
}

/// Some calls as part of a sentence; the first few of many.
fn calls(pending: &[u64]) -> String {
    const SHOWN: usize = 8;
    let numbers: Vec<String> = pending.iter().take(SHOWN).map(u64::to_string).collect();
    match pending.len() {
        0 => "a call".to_owned(),
        1 => format!("call {}", numbers.concat()),
        count if count > SHOWN => {
            format!("calls {} and {} more", numbers.join(", "), count - SHOWN)
        }
        _ => format!("calls {}", numbers.join(", ")),
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
            SandboxError::ImageMissing { image: GuestImage::Data },
            SandboxError::Unenforceable { rule: Rule::Image, backend: Backend::Native },
            SandboxError::Package { problem: "numpy has native code".into(), hint: hint.clone() },
            SandboxError::SessionNotFound { id: "s1".into() },
            SandboxError::SessionBusy { id: "s1".into() },
            SandboxError::Session {
                id: "s1".into(),
                problem: "session.json is damaged".into(),
                hint: hint.clone(),
            },
            SandboxError::Snapshot {
                path: Some("s.belljar".into()),
                problem: "it is cut short".into(),
                hint: hint.clone(),
            },
            SandboxError::Snapshot { path: None, problem: "it is JavaScript's".into(), hint },
            SandboxError::Variables(vec![BadVariable {
                name: "DOCKER_CPU_LIMIT".into(),
                problem: "is empty; it accepts a number".into(),
            }]),
            SandboxError::Artifact {
                id: "2026".into(),
                problem: "two begin like that".into(),
                hint: Some("write more of it".into()),
            },
            SandboxError::Tool { name: "a b".into(), problem: "it is no identifier".into() },
            SandboxError::NotInSession { wanted: "a snapshot".into() },
            SandboxError::Suspended { pending: vec![3] },
            SandboxError::Suspended { pending: (1..=10).collect() },
            SandboxError::NotSuspended,
            SandboxError::Protocol {
                problem: "a line of 3 GiB".into(),
                survives: Survives::OtherSandboxes,
            },
            SandboxError::ConnectionLost {
                problem: "it was closed".into(),
                survives: Survives::MayHaveRun,
            },
            SandboxError::Remote {
                kind: "busy".into(),
                message: "busy: 8 executions wait; nothing was run".into(),
                hint: Some("try again later".into()),
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
