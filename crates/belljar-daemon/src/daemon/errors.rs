//! What the daemon itself refuses, and why it cannot be started.

use std::net::SocketAddr;
use std::path::PathBuf;

use belljar_core::protocol::{BUSY, FAILED, INVALID_PARAMS, RpcError};
use serde_json::json;

/// Why there is no daemon.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// One is there already.
    #[error("a daemon is running already: {} is locked", path.display())]
    Running {
        /// What it holds.
        path: PathBuf,
    },
    /// Its place cannot be used.
    #[error("{} cannot be used: {problem}", path.display())]
    Place {
        /// Which.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// Its workers could not be confined.
    #[error("the daemon's workers cannot be confined: {reason}; nothing was started")]
    NoJail {
        /// Why not.
        reason: String,
    },
    /// Other machines could connect, and nobody has said that they may.
    #[error("{address} is an address that other machines reach; nothing was started")]
    Reachable {
        /// The address.
        address: SocketAddr,
    },
    /// The address cannot be had.
    #[error("cannot serve over HTTP on {address}: {problem}; nothing was started")]
    Address {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        problem: std::io::Error,
    },
    /// Nobody answers.
    #[error("no daemon answers at {}: {problem}", path.display())]
    Silent {
        /// The socket.
        path: PathBuf,
        /// What happened instead.
        problem: String,
    },
    /// What is needed of Belljar itself failed.
    #[error(transparent)]
    Sandbox(#[from] belljar::SandboxError),
    /// The system did not do what it should.
    #[error("cannot {what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// What it said.
        source: std::io::Error,
    },
}

impl DaemonError {
    pub(super) fn system(what: &'static str) -> impl FnOnce(std::io::Error) -> Self {
        move |source| Self::System { what, source }
    }

    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Running { .. } => Some(
                "`belljar daemon status` tells about it, `belljar daemon stop` ends it".to_owned(),
            ),
            Self::NoJail { .. } => Some(
                "`belljar doctor` tells what is missing; --unconfined does without, so that an \
                 escape from wasm would be this user"
                    .to_owned(),
            ),
            Self::Reachable { .. } => Some(
                "use a port of the loopback; or --http-anywhere, behind a proxy with TLS: nothing \
                 is encrypted here"
                    .to_owned(),
            ),
            Self::Silent { .. } => Some("start one with `belljar daemon start`".to_owned()),
            Self::Sandbox(error) => error.hint(),
            Self::Place { .. } | Self::Address { .. } | Self::System { .. } => None,
        }
    }
}

pub(super) fn unknown(what: &str, number: u64) -> RpcError {
    RpcError::new(INVALID_PARAMS, format!("there is no {what} {number} in this connection"))
}

pub(super) fn busy(problem: &str) -> RpcError {
    RpcError::new(BUSY, format!("busy: {problem}; nothing was run"))
}

/// What kind of error it is, if it says so.
pub(super) fn kind(error: &RpcError) -> Option<&str> {
    error.data.as_ref()?.get("kind")?.as_str()
}

/// A sandbox that was in a worker that is gone, and has no name to come back by.
pub(super) fn sandbox_lost() -> RpcError {
    lost("this sandbox was lost with its worker; other sandboxes are unaffected")
}

/// Something other than an execution was going on in a worker that is gone.
pub(super) fn request_lost() -> RpcError {
    lost("the worker ended before it answered; the request may have been carried out or not")
}

fn lost(problem: &str) -> RpcError {
    let hint = "create another; a sandbox with a session name comes back by itself";
    let data = json!({ "kind": "worker_lost", "hint": hint });
    RpcError { code: FAILED, message: problem.to_owned(), data: Some(data) }
}

/// A mistake of the client's that needs no worker to be found.
pub(super) fn mistaken(error: &belljar::SandboxError) -> RpcError {
    let data = json!({ "kind": error.kind(), "hint": error.hint() });
    RpcError { code: FAILED, message: error.to_string(), data: Some(data) }
}

/// A session of which two workers' directories have one.
pub(super) fn claimed_twice(session: &str) -> RpcError {
    let hint = "stop the daemon and remove what is not yours from daemon/workers/*/sessions";
    let data = json!({ "kind": "session", "hint": hint });
    RpcError {
        code: FAILED,
        message: format!(
            "the session `{session}` is in the directories of several workers, and nobody knows \
             whose it is; nothing was run"
        ),
        data: Some(data),
    }
}

/// Something the workers could not do, being jailed.
pub(super) fn not_here(what: &str) -> RpcError {
    let hint = "use `files.write` and `files.read`, or another backend without the daemon";
    let data = json!({ "kind": "unavailable_in_daemon", "hint": hint });
    RpcError {
        code: INVALID_PARAMS,
        message: format!(
            "{what} cannot be had in the daemon, whose workers see only their own directories and \
             run wasm; nothing was run"
        ),
        data: Some(data),
    }
}
