//! What one client may take of the desk it has here. What a guest may take is its policy's.

use std::time::Duration;

/// Sessions of one client.
pub(crate) const MAX_SESSIONS: usize = 64;

/// Calls of one client that have not been answered; more are refused.
pub(crate) const MAX_CALLS: usize = 64;

/// Executions of all clients at the same time, for each core; more wait for their turn.
pub(super) const EXECUTIONS_PER_CORE: usize = 4;

/// Clients that have sandboxes at the same time.
pub(crate) const MAX_CLIENTS: usize = 256;

/// A session nobody has used for so long is ended.
pub(super) const SESSION_IDLE: Duration = Duration::from_secs(30 * 60);

/// How often idle sessions are looked for, at most.
pub(super) const SWEEP: Duration = Duration::from_secs(30);

/// How often a cancel is repeated until it has been heard: one that comes before the code has begun
/// is forgotten by the sandbox.
pub(super) const CANCEL_AGAIN: Duration = Duration::from_millis(50);
