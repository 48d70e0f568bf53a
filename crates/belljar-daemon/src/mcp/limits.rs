//! What one call may take and give; what a client may take is in `desk/limits.rs`, what a guest may
//! take is its policy's.

use std::time::Duration;

/// How long connections may take to end, when all is over.
pub(super) const ENDING: Duration = Duration::from_secs(1);

/// Time for code of callers who name none: as in the presets.
pub(super) const DEFAULT_TIMEOUT_SECONDS: f64 = 30.0;

/// Most a caller may ask for. Clients give up long before.
pub(super) const MAX_TIMEOUT_SECONDS: f64 = 600.0;

/// Standard output that is kept: it is read by a model, not by a program.
pub(super) const MAX_STDOUT_BYTES: u64 = 256 * 1024;

/// Likewise of standard error.
pub(super) const MAX_STDERR_BYTES: u64 = 64 * 1024;

/// Bytes of a file for callers who do not say how many. The answer holds them twice, as text and as
/// structure, and there are clients that take no more than 1 MiB in one message over HTTP.
pub(super) const DEFAULT_READ_BYTES: u64 = 256 * 1024;

/// Files that one answer lists.
pub(super) const MAX_LISTED_FILES: usize = 1000;

/// One message on standard input. Longer ones are passed over by the transport, without an answer:
/// so this is well above the longest code that is refused with a word.
pub(super) const MAX_LINE_BYTES: usize = 64 * 1024 * 1024;

/// The body of one HTTP request: the longest code that is accepted, if most of it is plain text.
pub(super) const MAX_BODY_BYTES: usize = 24 * 1024 * 1024;

/// Progress is told so often at most.
pub(super) const PROGRESS_EVERY: Duration = Duration::from_millis(100);

/// And so often at least while nothing is printed, so that clients know that somebody is there.
pub(super) const SIGN_OF_LIFE: Duration = Duration::from_secs(5);

/// What one message about progress may hold: the last lines.
pub(super) const MAX_PROGRESS_BYTES: usize = 2 * 1024;

/// Lines that wait to be told; what is more than that is in the result only.
pub(super) const MAX_WAITING_LINES: usize = 64;

/// A client that does not read cannot hold up an execution for longer.
pub(super) const TELLING: Duration = Duration::from_secs(1);
