//! Failures in the shapes that E2B's clients expect.

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::json;

use super::super::http::status_of;
use crate::desk::{Problem, problem};

/// A refusal of the control interface, or of files: `{"code", "message"}` with the status as code.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) status: StatusCode,
    pub(super) message: String,
    retry_after: Option<u64>,
}

impl Failure {
    pub(super) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, message: message.into(), retry_after: None }
    }

    pub(super) fn bad(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    pub(super) fn unauthorized(message: &str) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, message)
    }

    pub(super) fn not_found(what: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, what)
    }

    pub(super) fn internal(message: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, message)
    }

    /// Says when to try again.
    pub(super) fn after(self, seconds: u64) -> Self {
        Self { retry_after: Some(seconds), ..self }
    }
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        let status = status_of(&problem.code);
        let retry_after = (problem.code == problem::BUSY).then_some(1);
        Self { status, message: problem.message, retry_after }
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let body = json!({ "code": self.status.as_u16(), "message": self.message });
        let mut response = answer(self.status, &body);
        if let Some(seconds) = self.retry_after {
            response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
        }
        response
    }
}

/// What every request to a sandbox that is not there, or not running, gets.
pub(super) fn gone(id: &str) -> Response {
    // Clients look for these words.
    let body = json!({ "sandboxId": id, "message": "The sandbox was not found", "code": 502 });
    answer(StatusCode::BAD_GATEWAY, &body)
}

/// Failures of the code interpreter are plain text.
pub(super) fn plain(status: StatusCode, text: impl Into<String>) -> Response {
    (status, text.into()).into_response()
}

/// An answer in JSON.
pub(super) fn answer(status: StatusCode, value: &impl Serialize) -> Response {
    // What we make ourselves can always be written.
    let text = serde_json::to_vec(value).unwrap_or_default();
    let kind = HeaderValue::from_static("application/json");
    (status, [(header::CONTENT_TYPE, kind)], Body::from(text)).into_response()
}
