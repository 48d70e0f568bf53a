//! Exit codes. Usage errors exit with 2, by clap.

use std::process::ExitCode;

use belljar::{SandboxResult, Status};

/// The code waits for a tool; its session can be resumed.
pub(crate) const SUSPENDED: u8 = 123;

/// A limit stopped the code.
pub(crate) const LIMIT: u8 = 124;

/// Belljar could not run the code.
pub(crate) const COULD_NOT_RUN: u8 = 125;

/// A check came out negative: a syntax error, an invalid policy, a missing backend.
pub(crate) const NEGATIVE: u8 = 1;

/// The exit code for a result: the guest's own where it has one.
pub(crate) fn code_of(result: &SandboxResult) -> ExitCode {
    ExitCode::from(number_of(result.status(), result.exit_code()))
}

/// The same as a number.
pub(crate) fn number_of(status: Status, guest_code: i32) -> u8 {
    match status {
        Status::Ok => 0,
        Status::Error => own_code(guest_code),
        Status::Timeout
        | Status::OutOfFuel
        | Status::OutOfMemory
        | Status::OutputLimit
        | Status::Quota
        | Status::Cancelled => LIMIT,
        Status::Suspended => SUSPENDED,
        Status::Blocked | Status::Crashed => COULD_NOT_RUN,
    }
}

/// A process has eight bits for its code. A failure whose low bits are zero is still a failure.
fn own_code(code: i32) -> u8 {
    match u8::try_from(code.rem_euclid(256)) {
        Ok(0) | Err(_) => NEGATIVE,
        Ok(low) => low,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guests_keep_their_own_code_and_failures_stay_failures() {
        for (code, expected) in [(1, 1), (3, 3), (255, 255), (256, 1), (-1, 255), (i32::MIN, 1)] {
            assert_eq!(number_of(Status::Error, code), expected, "{code}");
        }
    }

    #[test]
    fn limits_and_waiting_have_codes_of_their_own() {
        assert_eq!(number_of(Status::Suspended, -1), SUSPENDED);
        assert_eq!(number_of(Status::Timeout, -1), LIMIT);
        assert_eq!(number_of(Status::Crashed, -1), COULD_NOT_RUN);
        assert_eq!(number_of(Status::Ok, 0), 0);
    }
}
