//! From what a process left behind to a result.

use std::time::Duration;

use belljar_core::{
    CappedBytes, Meta, Outcome, ResolvedPolicy, SandboxResult, StateAfter, ToolUsage,
};
use belljar_host::{Answer, CellEnd, StopCause};

use super::changes::Changes;
use super::interpreter::{CallEnd, Called};
use super::launch::Ended;
use crate::execution_id;
use crate::logging::SandboxLogger;
use crate::verdict::{Verdict, with_notice};

/// Everything that is known about an execution.
pub(super) struct Execution {
    pub(super) called: Called,
    pub(super) answer: Option<Answer>,
    pub(super) output: [CappedBytes; 2],
    pub(super) changes: Changes,
    /// Whether the files it left are more than it may have.
    pub(super) over_quota: bool,
    pub(super) tools: ToolUsage,
    pub(super) elapsed: Duration,
    pub(super) peak_memory_bytes: Option<u64>,
    /// What became of the session's state, if it ran in one.
    pub(super) state: Option<StateAfter>,
    /// What is the same for all executions of the sandbox.
    pub(super) meta: Meta,
    pub(super) workspace: String,
}

/// Classifies, logs and describes an execution.
pub(super) fn report(
    execution: Execution,
    policy: &ResolvedPolicy,
    logger: &SandboxLogger,
) -> SandboxResult {
    let verdict = judge(&execution, policy);
    verdict.log(logger);
    let Execution { answer, output: [stdout, stderr], changes, .. } = execution;
    let stdout = stdout.finish();
    let stderr = with_notice(stderr.finish(), verdict.notice, policy.stderr_max_bytes());
    let meta = Meta {
        execution_id: execution_id::next(),
        truncated: stdout.truncated || stderr.truncated,
        state: execution.state,
        tools: execution.tools,
        resource_limits: policy.resource_limits(),
        ..execution.meta
    };
    let mut result = SandboxResult::new(verdict.outcome, meta);
    result.stdout = stdout.text;
    result.stderr = stderr.text;
    result.result = answer.and_then(|answer| answer.value);
    result.duration_ms = execution.elapsed.as_secs_f64() * 1000.0;
    result.memory_used_bytes = execution.peak_memory_bytes;
    result.files_created = changes.created;
    result.files_modified = changes.modified;
    result.files_deleted = changes.deleted;
    result.workspace_path = execution.workspace;
    result
}

fn judge(execution: &Execution, policy: &ResolvedPolicy) -> Verdict {
    let answer = execution.answer.as_ref();
    let own_error = || answer.and_then(|answer| answer.error.clone());
    match execution.called.stop {
        Some(StopCause::Timeout) => return Verdict::timeout(policy, own_error()),
        Some(StopCause::Cancelled) => return Verdict::cancelled(own_error()),
        None => {}
    }
    match &execution.called.end {
        CallEnd::Quota => Verdict::quota(policy, None),
        CallEnd::OutputFlood => Verdict::output_flood(),
        CallEnd::Died(Ended::OutOfMemory) => Verdict::out_of_memory(policy, None),
        _ if execution.over_quota => Verdict::quota(policy, own_error()),
        CallEnd::Answered(_) => match answer {
            Some(answer) => judge_answer(answer, policy),
            None => Verdict::crashed("its answer makes no sense"),
        },
        CallEnd::Refused(_) => Verdict::crashed("its driver failed"),
        CallEnd::Died(Ended::Exited(code)) => Verdict::ended(Outcome::Exited(*code)),
        CallEnd::Died(Ended::Signalled(signal)) => {
            Verdict::crashed(&format!("it was ended by signal {signal}"))
        }
        CallEnd::Died(Ended::Unknown) => Verdict::crashed("it ended, nobody knows why"),
        CallEnd::Nonsense(why) => Verdict::crashed(why),
        CallEnd::Stopped => Verdict::timeout(policy, None),
    }
}

fn judge_answer(answer: &Answer, policy: &ResolvedPolicy) -> Verdict {
    let error = || answer.error.clone().unwrap_or_default();
    match answer.end {
        CellEnd::Finished => Verdict::ended(Outcome::Finished),
        CellEnd::Exited => Verdict::ended(Outcome::Exited(answer.exit_code.into())),
        CellEnd::OutOfMemory => Verdict::out_of_memory(policy, Some(error())),
        CellEnd::Raised | CellEnd::NoSpace => Verdict::ended(Outcome::Raised(error())),
    }
}
