//! From what an execution left behind to a result.

use std::time::Duration;

use belljar_core::{
    Backend, Meta, Outcome, RuntimeType, SandboxResult, StateAfter, Stop, ToolUsage,
};
use belljar_wasm::{Ran, Traces};

use super::host::WasmHost;
use super::image;
use super::outcome::judge;
use crate::execution_id;
use crate::logging::{SandboxLogger, SecurityEvent};
use crate::verdict::{Verdict, with_notice};

/// The layers that hold for every guest of this backend.
const ISOLATION: [&str; 4] = ["wasm", "wasi", "fuel", "memory_limit"];

/// Everything that is known about an execution.
pub(super) struct Execution<'a> {
    pub(super) ran: Ran,
    pub(super) traces: Traces,
    pub(super) elapsed: Duration,
    /// The session it ran in.
    pub(super) session: Option<InSession<'a>>,
}

pub(super) struct InSession<'a> {
    pub(super) id: Option<&'a str>,
    pub(super) state: StateAfter,
}

/// Classifies, logs and describes an execution.
pub(super) fn report(
    host: &WasmHost,
    execution: Execution<'_>,
    logger: &SandboxLogger,
) -> SandboxResult {
    let Execution { ran, traces, elapsed, session } = execution;
    let verdict = with_hint(verdict(host, &ran, &traces, elapsed), host, session.is_some());
    log_events(logger, &verdict, &traces);
    let policy = host.policy();
    let stdout = traces.stdout.finish();
    let stderr = with_notice(traces.stderr.finish(), verdict.notice, policy.stderr_max_bytes());
    let meta = Meta {
        runtime: Backend::Wasm.runtime_name().to_owned(),
        language: host.plan().language,
        language_version: host.language_version(),
        session_id: session.as_ref().and_then(|session| session.id.map(str::to_owned)),
        execution_id: execution_id::next(),
        truncated: stdout.truncated || stderr.truncated,
        state: session.map(|session| session.state),
        tools: ToolUsage { depth: host.tools().depth(), ..ran.tools },
        resource_limits: policy.resource_limits(),
        isolation: ISOLATION.map(str::to_owned).to_vec(),
        image: Some(host.image()).filter(|image| !image.is_plain()),
        ..Meta::default()
    };
    let mut result = SandboxResult::new(verdict.outcome, meta);
    result.stdout = stdout.text;
    result.stderr = stderr.text;
    result.result = ran.answer.and_then(|answer| answer.value);
    result.pending_calls = ran.pending;
    result.duration_ms = elapsed.as_secs_f64() * 1000.0;
    result.fuel_consumed = Some(ran.called.fuel_used);
    result.memory_used_bytes = Some(ran.called.memory_peak_bytes as u64);
    result.files_created = traces.delta.created;
    result.files_modified = traces.delta.modified;
    result.files_deleted = traces.delta.deleted;
    result.workspace_path = host.plan().workspace.display().to_string();
    result
}

fn verdict(host: &WasmHost, ran: &Ran, traces: &Traces, elapsed: Duration) -> Verdict {
    if ran.pending.is_empty() {
        judge(&ran.called, ran.answer.as_ref(), traces, host.policy(), elapsed)
    } else {
        Verdict::ended(Outcome::Stopped(Stop::Suspended, None))
    }
}

/// An import that another image would not have refused says so.
fn with_hint(mut verdict: Verdict, host: &WasmHost, in_session: bool) -> Verdict {
    let is_ours = host.interpreter().is_some() && host.plan().language == RuntimeType::Python;
    if let Outcome::Raised(error) = &verdict.outcome
        && is_ours
        && host.image().is_plain()
    {
        verdict.notice = image::hint(error, in_session);
    }
    verdict
}

fn log_events(logger: &SandboxLogger, verdict: &Verdict, traces: &Traces) {
    verdict.log(logger);
    if let Some(path) = &traces.denials.first {
        let count = traces.denials.count;
        let detail = format!("{count} attempts to reach outside, the first at {path:?}");
        logger.log_security_event(SecurityEvent::FilesystemDenied, &detail);
    }
}
