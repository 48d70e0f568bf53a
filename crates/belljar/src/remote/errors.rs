//! What a daemon's error is here: the same error where its words tell everything about it, else the
//! words themselves.

use belljar_core::policy::{FieldIssue, Origin, PolicyValidationError};
use belljar_core::protocol::{BUSY, RpcError};
use belljar_core::{SandboxError, SandboxExecutionError, Survives};
use serde::Deserialize;

use super::talk::Failure;

/// A kind is a word.
const MAX_KIND_BYTES: usize = 64;

/// A hint is a line.
const MAX_HINT_BYTES: usize = 4096;

/// What a call failed with that a busy daemon did not answer in time.
const NO_ANSWER: &str = "no_answer";

/// What a sandbox is lost with.
const WORKER_LOST: &str = "worker_lost";

/// What is left when the connection ends after the request was sent.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Request {
    /// It would have run code.
    Runs,
    /// It would not.
    Looks,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Details {
    kind: String,
    hint: Option<String>,
    issues: Vec<Issue>,
}

#[derive(Deserialize)]
struct Issue {
    field: String,
    message: String,
}

pub(super) fn error(failure: Failure, request: Request) -> SandboxError {
    let survives = match request {
        Request::Runs => Survives::MayHaveRun,
        Request::Looks => Survives::NothingWasRun,
    };
    match failure {
        Failure::Unsent(problem) => lost(problem, Survives::NothingWasRun),
        Failure::Lost(problem) => lost(problem, survives),
        Failure::Refused(error) => remote(error),
        Failure::Unanswered(problem) => SandboxError::Remote {
            kind: NO_ANSWER.to_owned(),
            message: match request {
                Request::Runs => {
                    format!("{problem}; it was told to stop, and the code may have run")
                }
                Request::Looks => format!("{problem}; nothing was run"),
            },
            hint: Some("the daemon lives and is busy: try again later".to_owned()),
        },
    }
}

pub(super) fn lost(problem: String, survives: Survives) -> SandboxError {
    SandboxError::ConnectionLost { problem, survives }
}

/// Whether a daemon says that it does not have the sandbox, or not any more. One that has a name
/// comes back by itself after its worker was lost.
pub(super) fn is_gone(error: &SandboxError, named: bool) -> bool {
    match error {
        SandboxError::Remote { kind, message, .. } => {
            kind == "internal"
                || (kind == WORKER_LOST && !named)
                || message.starts_with("there is no sandbox ")
        }
        _ => false,
    }
}

/// An answer that makes no sense.
pub(super) fn nonsense(method: &str, request: Request) -> SandboxError {
    let survives = match request {
        Request::Runs => Survives::MayHaveRun,
        Request::Looks => Survives::NothingWasRun,
    };
    let problem = format!("the daemon's answer to {method} makes no sense");
    SandboxError::Protocol { problem, survives }
}

fn remote(error: RpcError) -> SandboxError {
    let details: Details =
        error.data.and_then(|data| serde_json::from_value(data).ok()).unwrap_or_default();
    let message = printable(&error.message, usize::MAX);
    let hint = details.hint.map(|hint| printable(&hint, MAX_HINT_BYTES));
    let same = same(&details.kind, &message, hint.as_ref(), &details.issues);
    // Only what says the same to a person is the same.
    if let Some(same) = same.filter(|same| same.to_string() == message) {
        return same;
    }
    let busy = error.code == BUSY;
    let kind = match details.kind.as_str() {
        "" if busy => "busy".to_owned(),
        "" => "refused".to_owned(),
        kind => printable(kind, MAX_KIND_BYTES),
    };
    let hint = hint.or_else(|| busy.then(|| "try again later".to_owned()));
    SandboxError::Remote { kind, message, hint }
}

fn same(
    kind: &str,
    message: &str,
    hint: Option<&String>,
    issues: &[Issue],
) -> Option<SandboxError> {
    let between =
        |start: &str, end: &str| message.strip_prefix(start)?.strip_suffix(end).map(str::to_owned);
    let hint = hint.cloned();
    match kind {
        "not_suspended" => Some(SandboxError::NotSuspended),
        "not_in_session" => {
            let wanted =
                between("", " needs a session, and this sandbox keeps no state; nothing was run")?;
            Some(SandboxError::NotInSession { wanted })
        }
        "source" => {
            let problem = between("the code cannot be run: ", "; nothing was run")?;
            Some(SandboxError::Source { problem, hint })
        }
        "snapshot" => {
            let problem = between("the snapshot cannot be used: ", "; no session was changed")?;
            Some(SandboxError::Snapshot { path: None, problem, hint })
        }
        "session_not_found" => {
            let id = between("there is no session `", "`; other sessions are unaffected")?;
            Some(SandboxError::SessionNotFound { id })
        }
        "session_busy" => {
            let id =
                between("the session `", "` is in use by another process; nothing was changed")?;
            Some(SandboxError::SessionBusy { id })
        }
        "execution" => {
            [Survives::NothingWasRun, Survives::SandboxAsBefore, Survives::OtherSandboxes]
                .into_iter()
                .find_map(|survives| {
                    let start = "the execution could not be completed: ";
                    let problem = between(start, &format!("; {survives}"))?;
                    let hint = hint.clone();
                    Some(SandboxExecutionError { problem, survives, hint }.into())
                })
        }
        "policy_validation" => {
            let issues = issues.iter().map(|issue| FieldIssue {
                field: issue.field.clone(),
                message: issue.message.clone(),
                location: Some(Origin::Request),
            });
            Some(PolicyValidationError { issues: issues.collect() }.into())
        }
        _ => None,
    }
}

/// Text of somebody else's that may be shown on a terminal.
fn printable(text: &str, max: usize) -> String {
    let shown = text.chars().filter(|char| !char.is_control() || *char == '\n');
    let mut shown: String = shown.collect();
    shown.truncate(shown.floor_char_boundary(max));
    shown
}

#[cfg(test)]
mod tests {
    use belljar_core::Backend;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    /// As the server tells it.
    fn told(error: &SandboxError) -> SandboxError {
        let mut data = json!({ "kind": error.kind(), "hint": error.hint() });
        if let SandboxError::PolicyValidation(problems) = error {
            data["issues"] = json!(problems.issues);
        }
        remote(RpcError { code: -32000, message: error.to_string(), data: Some(data) })
    }

    #[test]
    fn what_can_be_the_same_is_the_same() {
        let hint = Some("try this".to_owned());
        let issue = |location| {
            let message = "must be greater than 0".to_owned();
            PolicyValidationError {
                issues: vec![FieldIssue { field: "fuel_budget".to_owned(), message, location }],
            }
        };
        for error in [
            SandboxError::NotSuspended,
            SandboxError::NotInSession { wanted: "a fork".to_owned() },
            SandboxError::Source { problem: "it is long".to_owned(), hint: hint.clone() },
            SandboxError::Snapshot { path: None, problem: "it is cut".to_owned(), hint: None },
            SandboxError::SessionNotFound { id: "s".to_owned() },
            SandboxError::SessionBusy { id: "s".to_owned() },
            SandboxExecutionError {
                problem: "the disk is full".to_owned(),
                survives: Survives::SandboxAsBefore,
                hint,
            }
            .into(),
            issue(Some(Origin::Request)).into(),
        ] {
            assert_eq!(told(&error), error);
        }
    }

    #[test]
    fn the_rest_keeps_its_words() {
        let there = SandboxError::BackendUnavailable {
            backend: Backend::Docker,
            reason: "no\u{1b}[31m".to_owned(),
            hint: None,
        };
        let SandboxError::Remote { kind, message, hint } = told(&there) else { panic!() };
        assert_eq!((kind.as_str(), hint), ("backend_unavailable", None));
        assert_eq!(message, "the docker backend cannot be used: no[31m; nothing was run");
        let busy = remote(RpcError::new(BUSY, "busy: too much; nothing was run"));
        assert_eq!((busy.kind(), busy.hint().as_deref()), ("busy", Some("try again later")));
    }

    proptest! {
        #[test]
        fn whatever_a_daemon_says_its_words_are_shown(
            kind in "execution|source|snapshot|policy_validation|suspended|[a-z]{0,5}",
            message in "\\PC{0,80}",
            data: Option<u8>,
        ) {
            let data = data.map_or(json!({ "kind": kind, "hint": null }), |odd| json!(odd));
            let shown = remote(RpcError { code: 1, message: message.clone(), data: Some(data) });
            prop_assert_eq!(shown.to_string(), message);
        }
    }
}
