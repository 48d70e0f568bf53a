//! What can go wrong before a jailed program runs.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// Why a program was not started. Nothing of it is left behind, and other jails are unaffected.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JailError {
    /// This system lacks what a jail cannot do without.
    #[error("no jail can be had here: {reason}")]
    Unavailable {
        /// What is missing and, where known, how to get it.
        reason: String,
    },

    /// A limit of the plan that cannot be enforced here.
    #[error("the limit `{limit}` cannot be enforced here: {reason}")]
    Unenforceable {
        /// The field of [`Limits`](crate::Limits).
        limit: &'static str,
        /// Why not, and what would help.
        reason: String,
    },

    /// The plan names something that is not there.
    #[error("{} is not there, so it cannot be mounted at {}", .host.display(), .inside.display())]
    MountMissing {
        /// The path on the host.
        host: PathBuf,
        /// Where it should have been in the jail.
        inside: PathBuf,
    },

    /// The plan contradicts itself.
    #[error("the jail's plan is invalid: {reason}")]
    InvalidPlan {
        /// What is wrong with it.
        reason: String,
    },

    /// A step inside of the jail failed, the start of the program included.
    #[error("the jail could not {step}: {source}")]
    Step {
        /// What was being done.
        step: String,
        /// What the system said.
        source: io::Error,
    },

    /// Something on the host's side failed.
    #[error("cannot {what}: {source}")]
    Host {
        /// What was being done.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },

    /// The program did not start in time. What was started of it is killed.
    #[error("the jail was not ready after {} seconds; is a mounted file system not answering?", .0.as_secs())]
    TooSlow(Duration),

    /// The helper ended without saying why.
    #[error("the jail's helper ended before the program had started")]
    HelperLost,
}

impl JailError {
    pub(crate) fn host(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Host { what, source }
    }
}
