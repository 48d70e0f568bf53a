//! Classifies how a guest ended: the one place where the engine's facts become a result.

use std::time::Duration;

use belljar_core::{Outcome, ResolvedPolicy, Stop};
use belljar_host::{Answer, CellEnd, StopCause};
use belljar_wasm::{CallEnd, Called, Traces};

use crate::logging::SecurityEvent;
use crate::verdict::Verdict;

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
        Some(StopCause::Timeout) => return Verdict::timeout(policy, own_error()),
        Some(StopCause::Cancelled) => return Verdict::cancelled(own_error()),
        None => {}
    }
    match &called.end {
        CallEnd::Answered(_) => match answer {
            Some(answer) => judge_answer(called, answer, traces, policy),
            None => Verdict::crashed("its answer makes no sense"),
        },
        CallEnd::Exited(code) => Verdict::ended(Outcome::Exited(*code)),
        CallEnd::OutOfFuel => out_of_fuel(called.fuel_used, elapsed),
        CallEnd::OutputFlood => Verdict::output_flood(),
        // An interpreter that is refused memory at a bad moment gives up.
        CallEnd::Nonsense | CallEnd::Crashed(_) if called.memory_refused => {
            Verdict::out_of_memory(policy, None)
        }
        CallEnd::Nonsense => Verdict::crashed("its driver failed"),
        CallEnd::StackOverflow => Verdict::crashed("it used up the native stack"),
        CallEnd::Crashed(trap) => Verdict::crashed(trap),
        CallEnd::Stopped => Verdict::timeout(policy, None),
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
        CellEnd::OutOfMemory if called.memory_refused => {
            Verdict::out_of_memory(policy, Some(error()))
        }
        CellEnd::NoSpace if traces.quota_exceeded => Verdict::quota(policy, Some(error())),
        CellEnd::Raised | CellEnd::OutOfMemory | CellEnd::NoSpace => {
            Verdict::ended(Outcome::Raised(error()))
        }
    }
}

fn out_of_fuel(used: u64, elapsed: Duration) -> Verdict {
    let message = format!(
        "all {used} units of fuel were used in {:.0} ms; raise fuel_budget to allow more",
        elapsed.as_secs_f64() * 1000.0
    );
    Verdict::limit(Stop::OutOfFuel, "OutOfFuel", message, Some(SecurityEvent::FuelExhaustion), None)
}
