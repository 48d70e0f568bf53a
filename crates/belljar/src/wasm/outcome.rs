//! Classifies how a guest ended: the one place where the engine's facts become a result.

use std::time::Duration;

use belljar_core::{GuestError, Outcome, ResolvedPolicy, Stop};
use belljar_wasm::{Answer, CallEnd, Called, CellEnd, StopCause, Traces};

use crate::logging::SecurityEvent;

/// How an execution ended, and what to say about it.
pub(super) struct Verdict {
    pub outcome: Outcome,
    /// For limits: a line for stderr that says which one and what to do.
    pub notice: Option<String>,
    /// For limits: what to log.
    pub event: Option<SecurityEvent>,
}

impl Verdict {
    pub(super) fn ended(outcome: Outcome) -> Verdict {
        Verdict { outcome, notice: None, event: None }
    }

    /// A limit ended it. `error` is the guest's own account, if it could give one.
    fn limit(
        stop: Stop,
        name: &str,
        message: String,
        event: Option<SecurityEvent>,
        error: Option<GuestError>,
    ) -> Verdict {
        let notice = format!("{name}: {message}");
        let error = error.unwrap_or_else(|| GuestError {
            name: name.to_owned(),
            message,
            traceback: format!("{notice}\n"),
        });
        Verdict { outcome: Outcome::Stopped(stop, Some(error)), notice: Some(notice), event }
    }
}

/// What an execution's end means under a policy.
pub(super) fn judge(
    called: &Called,
    answer: Option<&Answer>,
    traces: &Traces,
    policy: &ResolvedPolicy,
    elapsed: Duration,
) -> Verdict {
    let own_error = || answer.and_then(|answer| answer.error.clone());
    match called.stop {
        Some(StopCause::Timeout) => return timeout(policy, own_error()),
        Some(StopCause::Cancelled) => {
            let message = "stopped by the caller".to_owned();
            return Verdict::limit(Stop::Cancelled, "Cancelled", message, None, own_error());
        }
        None => {}
    }
    match &called.end {
        CallEnd::Answered(_) => match answer {
            Some(answer) => judge_answer(called, answer, traces, policy),
            None => crashed("its answer makes no sense"),
        },
        CallEnd::Exited(code) => Verdict::ended(Outcome::Exited(*code)),
        CallEnd::OutOfFuel => out_of_fuel(called.fuel_used, elapsed),
        CallEnd::OutputFlood => {
            let message =
                "stopped for writing many times more output than is kept; print less".to_owned();
            Verdict::limit(
                Stop::OutputLimit,
                "OutputLimit",
                message,
                Some(SecurityEvent::OutputLimit),
                None,
            )
        }
        // An interpreter that is refused memory at a bad moment gives up.
        CallEnd::Nonsense | CallEnd::Crashed(_) if called.memory_refused => {
            out_of_memory(policy, None)
        }
        CallEnd::Nonsense => crashed("its driver failed"),
        CallEnd::StackOverflow => crashed("it used up the native stack"),
        CallEnd::Crashed(trap) => crashed(trap),
        CallEnd::Stopped => timeout(policy, None),
    }
}

fn judge_answer(
    called: &Called,
    answer: &Answer,
    traces: &Traces,
    policy: &ResolvedPolicy,
) -> Verdict {
    let error = || answer.error.clone().unwrap_or_default();
    match answer.end {
        CellEnd::Finished => Verdict::ended(Outcome::Finished),
        CellEnd::Exited => Verdict::ended(Outcome::Exited(answer.exit_code.into())),
        // The guest's word counts only where the engine saw the same.
        CellEnd::OutOfMemory if called.memory_refused => out_of_memory(policy, Some(error())),
        CellEnd::NoSpace if traces.quota_exceeded => quota(policy, error()),
        CellEnd::Raised | CellEnd::OutOfMemory | CellEnd::NoSpace => {
            Verdict::ended(Outcome::Raised(error()))
        }
    }
}

fn timeout(policy: &ResolvedPolicy, error: Option<GuestError>) -> Verdict {
    let seconds = policy.timeout().as_secs_f64();
    let message = format!("stopped after {seconds} s; raise timeout_seconds to allow more");
    Verdict::limit(Stop::Timeout, "Timeout", message, Some(SecurityEvent::Timeout), error)
}

fn out_of_fuel(used: u64, elapsed: Duration) -> Verdict {
    let message = format!(
        "all {used} units of fuel were used in {:.0} ms; raise fuel_budget to allow more",
        elapsed.as_secs_f64() * 1000.0
    );
    Verdict::limit(Stop::OutOfFuel, "OutOfFuel", message, Some(SecurityEvent::FuelExhaustion), None)
}

fn out_of_memory(policy: &ResolvedPolicy, error: Option<GuestError>) -> Verdict {
    let limit = policy.memory_bytes().unwrap_or_default();
    let message =
        format!("more than {limit} bytes of memory were wanted; raise memory_bytes to allow more");
    Verdict::limit(
        Stop::OutOfMemory,
        "OutOfMemory",
        message,
        Some(SecurityEvent::MemoryLimit),
        error,
    )
}

fn quota(policy: &ResolvedPolicy, error: GuestError) -> Verdict {
    let (bytes, files) = (
        policy.workspace_max_bytes().unwrap_or_default(),
        policy.workspace_max_files().unwrap_or_default(),
    );
    let message = format!(
        "the workspace may grow by {bytes} bytes and {files} files; \
         raise workspace_max_bytes or workspace_max_files to allow more"
    );
    Verdict::limit(Stop::Quota, "Quota", message, Some(SecurityEvent::Quota), Some(error))
}

fn crashed(why: &str) -> Verdict {
    let message = format!("the interpreter broke: {why}; the host is unharmed");
    Verdict::limit(Stop::Crashed, "Crashed", message, None, None)
}
