//! Errors as a client sees them: the message, and its parts for programs.

use belljar::SandboxError;
use belljar_core::protocol::{BUSY, FAILED, INVALID_PARAMS, RpcError};
use serde_json::json;

pub(super) fn failed(error: &SandboxError) -> RpcError {
    let mut data = json!({ "kind": error.kind(), "hint": error.hint() });
    if let SandboxError::PolicyValidation(problems) = error {
        data["issues"] = json!(problems.issues);
    }
    RpcError { code: FAILED, message: error.to_string(), data: Some(data) }
}

pub(super) fn unknown(what: &str, number: u64) -> RpcError {
    RpcError::new(INVALID_PARAMS, format!("there is no {what} {number} in this connection"))
}

pub(super) fn busy(problem: &str) -> RpcError {
    RpcError::new(BUSY, format!("busy: {problem}; nothing was run"))
}
