//! What people are told about an execution.

use std::process::ExitCode;

use belljar::core::units::{format_bytes, group_digits};
use belljar::{
    CancelHandle, SandboxConfig, SandboxError, SandboxResult, StateAfter, Status, Survives,
};

use crate::stream::Streams;
use crate::{calls, exit, render, signals};

/// How an execution is told: as JSON when it is over, or for people while it runs.
pub(crate) enum Report {
    /// The whole result as JSON.
    Json,
    /// Output as it comes, then what there is to say.
    Shown {
        /// What shows the output.
        streams: Streams,
        /// Whether the value of the last expression is shown.
        value: bool,
    },
}

impl Report {
    /// Has the sandboxes of a configuration tell about themselves.
    pub(crate) fn new(as_json: bool, value: bool, config: &mut SandboxConfig) -> Self {
        if as_json {
            return Self::Json;
        }
        let streams = Streams::default();
        streams.attach(config);
        Self::Shown { streams, value }
    }

    /// Has the code stopped by Ctrl-C, and when nobody reads what it writes. Stopping it instead of
    /// dying ourselves removes a temporary workspace and keeps a session whole.
    pub(crate) fn watch(&self, code: CancelHandle) -> Result<(), SandboxError> {
        if let Self::Shown { streams, .. } = self {
            streams.stop_unread(code.clone());
        }
        signals::listen(move |_| code.cancel()).map_err(|error| SandboxError::Internal {
            problem: format!("Ctrl-C cannot be watched: {error}"),
            survives: Survives::NothingWasRun,
        })
    }

    /// Tells the rest once it is over. The exit code is the result's.
    pub(crate) fn finish(&self, result: &SandboxResult) -> anyhow::Result<ExitCode> {
        match self {
            Self::Json => render::json(result)?,
            Self::Shown { streams, value } => {
                streams.finish(result)?;
                if let Some(text) = result.result.as_ref().filter(|_| *value) {
                    streams.fresh_line()?;
                    render::value(text)?;
                }
                if let Some(missing) = &result.meta.fallback_from {
                    render::stand_in(missing, &result.meta.runtime);
                }
                match explanation(result) {
                    Some((message, hint)) if result.status() == Status::Suspended => {
                        render::waiting(&message, &hint);
                    }
                    Some((message, hint)) => render::problem(&message, Some(&hint)),
                    None => {}
                }
                if result.meta.state == Some(StateAfter::RolledBack) {
                    render::note("the session is as it was before this cell");
                }
            }
        }
        Ok(exit::code_of(result))
    }
}

/// What to say about code that did not end by itself.
pub(crate) fn explanation(result: &SandboxResult) -> Option<(String, String)> {
    let limits = &result.meta.resource_limits;
    let seconds = result.duration();
    let count = |limit: Option<u64>| limit.map_or_else(|| "the limit".to_owned(), group_digits);
    let size = |limit: Option<u64>| limit.map_or_else(|| "the limit".to_owned(), format_bytes);
    let (message, hint) = match result.status() {
        Status::Ok | Status::Error => return None,
        Status::Timeout => (
            format!("the code was stopped after {} seconds", limits.timeout_seconds),
            "give it more time with --timeout",
        ),
        Status::OutOfFuel => (
            format!(
                "the code was stopped: it used its {} fuel in {seconds:.2} seconds",
                count(limits.fuel_budget)
            ),
            "give it more with --fuel",
        ),
        Status::OutOfMemory => (
            format!("the code needed more memory than {}", size(limits.memory_bytes)),
            "give it more with --memory",
        ),
        Status::OutputLimit => (
            format!(
                "the code was stopped for flooding its output; the limits are {} and {}",
                format_bytes(limits.stdout_max_bytes),
                format_bytes(limits.stderr_max_bytes)
            ),
            "write to a file in /app, or raise stdout_max_bytes in a policy file",
        ),
        Status::Quota => (
            format!(
                "the code's workspace is full; the limits are {} and {} files",
                size(limits.workspace_max_bytes),
                count(limits.workspace_max_files)
            ),
            "raise workspace_max_bytes or workspace_max_files in a policy file",
        ),
        Status::Blocked if result.meta.blocked_imports.is_empty() => (
            "the code was not run: it cannot be examined for blocked imports".to_owned(),
            "make it simpler, or leave block_imports away",
        ),
        Status::Blocked => (
            format!("the code was not run: it imports {}", result.meta.blocked_imports.join(", ")),
            "take the module off block_imports if it is wanted",
        ),
        Status::Cancelled => ("the code was cancelled".to_owned(), "run it again if it was wanted"),
        Status::Suspended => return Some(waiting(result)),
        Status::Crashed => (
            "the interpreter broke and was thrown away; the host and other sandboxes are unaffected"
                .to_owned(),
            "the code did something the interpreter does not survive",
        ),
    };
    Some((message, hint.to_owned()))
}

/// What to say about code that waits for the answers of tools.
fn waiting(result: &SandboxResult) -> (String, String) {
    let calls = &result.pending_calls;
    let what = if calls.len() == 1 { "an answer" } else { "answers" };
    let id = result.meta.session_id.as_deref().unwrap_or("ID");
    (format!("the code waits for {what}:{}", calls::list(calls)), calls::how_to_answer(id, calls))
}

#[cfg(test)]
mod tests {
    use belljar::core::ResourceLimits;
    use belljar::{Meta, Outcome, Stop, ToolCall};

    use super::*;

    #[test]
    fn every_stop_is_explained_with_a_way_out() {
        let shown: Vec<String> = Stop::ALL
            .into_iter()
            .map(|stop| {
                let meta = Meta {
                    blocked_imports: vec!["subprocess".into()],
                    resource_limits: ResourceLimits {
                        fuel_budget: Some(2_000_000_000),
                        memory_bytes: Some(64 << 20),
                        timeout_seconds: 30.0,
                        stdout_max_bytes: 2_000_000,
                        stderr_max_bytes: 1_000_000,
                        workspace_max_bytes: Some(256 << 20),
                        workspace_max_files: Some(10_000),
                        ..ResourceLimits::default()
                    },
                    session_id: Some("work".into()),
                    ..Meta::default()
                };
                let mut result = SandboxResult::new(Outcome::Stopped(stop, None), meta);
                result.pending_calls = vec![ToolCall {
                    id: 3,
                    name: "approve".into(),
                    args: vec!["deploy".into()],
                    ..ToolCall::default()
                }];
                result.duration_ms = 333.0;
                let (message, hint) = explanation(&result).unwrap();
                format!("{message}\n    hint: {hint}")
            })
            .collect();
        insta::assert_snapshot!(shown.join("\n"));
    }
}
