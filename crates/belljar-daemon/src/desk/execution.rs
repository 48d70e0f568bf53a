//! One piece of code in one sandbox: started, stopped when its time is over or nobody wants it any
//! more.

use std::time::Duration;

use belljar::core::protocol::methods::{CANCEL, CodeParams, EXECUTE, SandboxId, SandboxParams};
use belljar::{GuestError, Outcome, SandboxResult, Status, Stop};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};
use tokio_util::sync::CancellationToken;

use super::connection::{Connection, Listener};
use super::limits::CANCEL_AGAIN;
use super::problem::Problem;

pub(super) struct Execution<'a> {
    pub(super) connection: &'a Connection,
    pub(super) sandbox: SandboxId,
    pub(super) code: String,
    /// For a sandbox whose policy gives more time than this call.
    pub(super) timeout: Option<Duration>,
    /// Nobody wants it any more.
    pub(super) stop: &'a CancellationToken,
    /// Told what is printed meanwhile.
    pub(super) listener: Option<Listener>,
}

/// Why it was told to stop.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reason {
    Unwanted,
    Time(Duration),
}

impl Execution<'_> {
    /// Whoever calls this is the only one who uses the sandbox until it returns: a cancel stops
    /// whatever runs there.
    pub(super) async fn run(mut self) -> Result<SandboxResult, Problem> {
        let client = &self.connection.client;
        let listener = self.listener.take();
        let _listening = listener.map(|it| self.connection.listen(self.sandbox, it));
        let params = CodeParams { sandbox: self.sandbox, code: std::mem::take(&mut self.code) };
        let answer = client.request::<SandboxResult>(EXECUTE, &params);
        tokio::pin!(answer);
        let deadline = self.timeout.map(|timeout| Instant::now() + timeout);
        let mut reason = None;
        let mut again = interval(CANCEL_AGAIN);
        again.set_missed_tick_behavior(MissedTickBehavior::Skip);
        loop {
            tokio::select! {
                biased;
                result = &mut answer => return Ok(judged(result?, reason)),
                () = self.stop.cancelled(), if reason.is_none() => reason = Some(Reason::Unwanted),
                () = until(deadline), if reason.is_none() => {
                    reason = self.timeout.map(Reason::Time);
                }
                _ = again.tick(), if reason.is_some() => {
                    let params = SandboxParams { sandbox: self.sandbox };
                    // When it fails the execution has ended, and its own answer says how.
                    let _ = client.request::<()>(CANCEL, &params).await;
                }
            }
        }
    }
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

/// The sandbox knows only that its caller stopped it. When the caller did so because the time of
/// this call was over, the result says that.
fn judged(result: SandboxResult, reason: Option<Reason>) -> SandboxResult {
    const CANCELLED: &str = "Cancelled: stopped by the caller\n";
    let (Some(Reason::Time(timeout)), Status::Cancelled) = (reason, result.status()) else {
        return result;
    };
    let seconds = timeout.as_secs_f64();
    let message = format!("timed out after {seconds} s; give a longer timeout to allow more");
    let notice = format!("Timeout: {message}\n");
    let error = match result.error {
        // What the code itself has to say, with the line it was at.
        Some(error) if error.name != "Cancelled" => error,
        _ => GuestError { name: "Timeout".to_owned(), message, traceback: notice.clone() },
    };
    let mut judged = SandboxResult::new(Outcome::Stopped(Stop::Timeout, Some(error)), result.meta);
    judged.meta.resource_limits.timeout_seconds = seconds;
    let own_words = result.stderr.strip_suffix(CANCELLED).unwrap_or(&result.stderr);
    judged.stderr = format!("{own_words}{notice}");
    judged.stdout = result.stdout;
    judged.result = result.result;
    judged.pending_calls = result.pending_calls;
    judged.duration_ms = result.duration_ms;
    judged.fuel_consumed = result.fuel_consumed;
    judged.memory_used_bytes = result.memory_used_bytes;
    judged.files_created = result.files_created;
    judged.files_modified = result.files_modified;
    judged.files_deleted = result.files_deleted;
    judged.workspace_path = result.workspace_path;
    judged
}

#[cfg(test)]
mod tests {
    use belljar::Meta;

    use super::*;

    fn cancelled(error: GuestError, stderr: &str) -> SandboxResult {
        let mut result =
            SandboxResult::new(Outcome::Stopped(Stop::Cancelled, Some(error)), Meta::default());
        result.stderr = stderr.to_owned();
        result.stdout = "kept".to_owned();
        result
    }

    fn error(name: &str) -> GuestError {
        GuestError { name: name.to_owned(), ..GuestError::default() }
    }

    #[test]
    fn a_call_whose_time_was_over_says_so() {
        let half = Some(Reason::Time(Duration::from_millis(500)));
        let stderr = "mine\nCancelled: stopped by the caller\n";
        let result = judged(cancelled(error("KeyboardInterrupt"), stderr), half);
        assert_eq!((result.status(), result.meta.timed_out), (Status::Timeout, true));
        assert_eq!(result.error.unwrap().name, "KeyboardInterrupt");
        assert_eq!(result.stdout, "kept");
        assert_eq!(
            result.stderr,
            "mine\nTimeout: timed out after 0.5 s; give a longer timeout to allow more\n"
        );
        assert!((result.meta.resource_limits.timeout_seconds - 0.5).abs() < f64::EPSILON);
        let result = judged(cancelled(error("Cancelled"), ""), half);
        assert_eq!(result.error.unwrap().name, "Timeout");
    }

    #[test]
    fn what_ended_otherwise_is_left_alone() {
        let unwanted = judged(cancelled(error("Cancelled"), ""), Some(Reason::Unwanted));
        assert_eq!(unwanted.status(), Status::Cancelled);
        let finished = SandboxResult::new(Outcome::Finished, Meta::default());
        let late = Some(Reason::Time(Duration::from_secs(1)));
        assert_eq!(judged(finished, late).status(), Status::Ok);
    }
}
