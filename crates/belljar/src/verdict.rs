//! How an execution ended, in the words every backend uses for it.

use belljar_core::text::{CappedText, TRUNCATION_MARKER};
use belljar_core::{GuestError, Outcome, ResolvedPolicy, Stop};

use crate::logging::{SandboxLogger, SecurityEvent};

/// How an execution ended, and what to say about it.
pub(crate) struct Verdict {
    pub outcome: Outcome,
    /// For limits, and for what is missing: a line for stderr that says which one and what to do.
    pub notice: Option<String>,
    /// For limits: what to log.
    event: Option<SecurityEvent>,
}

impl Verdict {
    pub(crate) fn ended(outcome: Outcome) -> Verdict {
        Verdict { outcome, notice: None, event: None }
    }

    /// A limit ended it. `error` is the guest's own account, if it could give one.
    pub(crate) fn limit(
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

    pub(crate) fn cancelled(error: Option<GuestError>) -> Verdict {
        let message = "stopped by the caller".to_owned();
        Verdict::limit(Stop::Cancelled, "Cancelled", message, None, error)
    }

    pub(crate) fn timeout(policy: &ResolvedPolicy, error: Option<GuestError>) -> Verdict {
        let seconds = policy.timeout().as_secs_f64();
        let message = format!("timed out after {seconds} s; raise timeout_seconds to allow more");
        Verdict::limit(Stop::Timeout, "Timeout", message, Some(SecurityEvent::Timeout), error)
    }

    pub(crate) fn output_flood() -> Verdict {
        let message =
            "stopped for writing many times more output than is kept; print less".to_owned();
        let event = Some(SecurityEvent::OutputLimit);
        Verdict::limit(Stop::OutputLimit, "OutputLimit", message, event, None)
    }

    pub(crate) fn out_of_memory(policy: &ResolvedPolicy, error: Option<GuestError>) -> Verdict {
        let limit = policy.memory_bytes().unwrap_or_default();
        let message = format!(
            "more than {limit} bytes of memory were wanted; raise memory_bytes to allow more"
        );
        let event = Some(SecurityEvent::MemoryLimit);
        Verdict::limit(Stop::OutOfMemory, "OutOfMemory", message, event, error)
    }

    pub(crate) fn quota(policy: &ResolvedPolicy, error: Option<GuestError>) -> Verdict {
        let (bytes, files) = (
            policy.workspace_max_bytes().unwrap_or_default(),
            policy.workspace_max_files().unwrap_or_default(),
        );
        let message = format!(
            "the workspace may grow by {bytes} bytes and {files} files; \
             raise workspace_max_bytes or workspace_max_files to allow more"
        );
        Verdict::limit(Stop::Quota, "Quota", message, Some(SecurityEvent::Quota), error)
    }

    pub(crate) fn crashed(why: &str) -> Verdict {
        let message = format!("the interpreter broke: {why}; the host is unharmed");
        Verdict::limit(Stop::Crashed, "Crashed", message, None, None)
    }

    pub(crate) fn log(&self, logger: &SandboxLogger) {
        if let Some(event) = self.event {
            logger.log_security_event(event, self.notice.as_deref().unwrap_or_default());
        }
    }
}

/// Ends stderr with the notice; the guest's own words make room for it.
pub(crate) fn with_notice(stderr: CappedText, notice: Option<String>, cap: usize) -> CappedText {
    let Some(notice) = notice else { return stderr };
    let mut text = stderr.text;
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    let room = cap.saturating_sub(notice.len() + 2);
    // Words that are cut without a sign of it could end in half a secret that nobody recognises.
    let own = if text.len() > room && room < TRUNCATION_MARKER.len() {
        CappedText { text: String::new(), truncated: true }
    } else {
        CappedText::new(text, room)
    };
    let truncated = stderr.truncated || own.truncated;
    let gap = if own.text.is_empty() || own.text.ends_with('\n') { "" } else { "\n" };
    let all = CappedText::new(format!("{}{gap}{notice}\n", own.text), cap);
    CappedText { truncated: truncated || all.truncated, text: all.text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notice_has_a_line_of_its_own_and_what_is_cut_says_so() {
        let said = |own: &str, cap: usize| {
            let own = CappedText { text: own.to_owned(), truncated: false };
            with_notice(own, Some("Timeout: 1 s".to_owned()), cap).text
        };
        assert_eq!(said("", 100), "Timeout: 1 s\n");
        assert_eq!(said("own\n", 100), "own\nTimeout: 1 s\n");
        assert_eq!(said("own", 100), "own\nTimeout: 1 s\n");
        let long = "0123456789".repeat(10);
        assert_eq!(said(&long, 50), format!("01234567890123{TRUNCATION_MARKER}\nTimeout: 1 s\n"));
        assert_eq!(said(&long, 20), "Timeout: 1 s\n");
        for cap in 1..120 {
            assert!(said(&long, cap).len() <= cap);
        }
    }
}
