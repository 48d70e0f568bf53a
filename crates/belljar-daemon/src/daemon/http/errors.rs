//! What is said when nothing comes of a request: a status, a word for programs, a text, and what to
//! do.

use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Serialize;

use crate::desk::{Problem, problem};

/// The request has no token, or not the right one.
pub(super) const UNAUTHORIZED: &str = "unauthorized";
/// It is for a machine of another name, or from a page in a browser.
pub(super) const FORBIDDEN: &str = "forbidden";
/// There is nothing at that path.
pub(super) const NOT_FOUND: &str = "not_found";
/// Something is at that path, for other methods.
pub(super) const METHOD_NOT_ALLOWED: &str = "method_not_allowed";
/// The body is not what it should be.
pub(super) const UNSUPPORTED_MEDIA_TYPE: &str = "unsupported_media_type";
/// The body did not come in time.
pub(super) const BODY_TIMEOUT: &str = "body_timeout";
/// Too many requests.
pub(super) const RATE_LIMITED: &str = "rate_limited";
/// There is no such file.
pub(super) const NO_FILE: &str = "file_not_found";
/// What is there is a symbolic link.
pub(super) const IS_LINK: &str = "is_link";
/// There is no such variable.
pub(super) const NO_VARIABLE: &str = "variable_not_found";

/// The body of every answer that is not what was asked for.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct ErrorBody {
    /// What went wrong.
    pub(super) error: ErrorDetails,
}

/// What went wrong.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct ErrorDetails {
    /// A word for programs.
    pub(super) code: String,
    /// A text for people. It says what survives.
    pub(super) message: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) hint: Option<String>,
}

/// A problem on its way to a client.
pub(super) struct Refused {
    problem: Problem,
    /// When to try again.
    retry: Option<Duration>,
}

impl From<Problem> for Refused {
    fn from(problem: Problem) -> Self {
        Self { problem, retry: None }
    }
}

impl Refused {
    pub(super) fn new(code: &'static str, message: impl Into<String>) -> Self {
        Problem::new(code, message).into()
    }

    /// Says when to try again.
    pub(super) fn after(self, wait: Duration) -> Self {
        Self { retry: Some(wait), ..self }
    }

    /// The same as it is told inside of something that has begun.
    pub(super) fn body(self) -> ErrorBody {
        let Problem { code, message, hint } = self.problem;
        ErrorBody { error: ErrorDetails { code: code.into_owned(), message, hint } }
    }
}

pub(in crate::daemon) fn status(code: &str) -> StatusCode {
    match code {
        problem::INVALID
        | "policy_validation"
        | "unenforceable"
        | "unavailable_in_daemon"
        | "source"
        | "input"
        | "session"
        | "tool"
        | "workspace" => StatusCode::BAD_REQUEST,
        UNAUTHORIZED => StatusCode::UNAUTHORIZED,
        FORBIDDEN => StatusCode::FORBIDDEN,
        problem::NO_SESSION | NOT_FOUND | NO_FILE | NO_VARIABLE => StatusCode::NOT_FOUND,
        METHOD_NOT_ALLOWED => StatusCode::METHOD_NOT_ALLOWED,
        BODY_TIMEOUT => StatusCode::REQUEST_TIMEOUT,
        problem::SESSION_EXISTS
        | problem::TOO_MANY_SESSIONS
        | problem::CANCELLED
        | IS_LINK
        | "session_busy"
        | "suspended"
        | "not_suspended"
        | "not_in_session" => StatusCode::CONFLICT,
        problem::WORKER_LOST => StatusCode::GONE,
        problem::TOO_LARGE => StatusCode::PAYLOAD_TOO_LARGE,
        UNSUPPORTED_MEDIA_TYPE => StatusCode::UNSUPPORTED_MEDIA_TYPE,
        RATE_LIMITED => StatusCode::TOO_MANY_REQUESTS,
        problem::LOST => StatusCode::BAD_GATEWAY,
        problem::BUSY => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let status = status(&self.problem.code);
        let retry = match (self.retry, status) {
            (Some(wait), _) => Some(wait.as_secs().saturating_add(1)),
            (None, StatusCode::SERVICE_UNAVAILABLE) => Some(1),
            (None, _) => None,
        };
        let mut response = json(status, &self.body());
        let headers = response.headers_mut();
        if let Some(seconds) = retry {
            headers.insert(header::RETRY_AFTER, seconds.into());
        }
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

/// An answer in JSON.
pub(super) fn json(status: StatusCode, value: &impl Serialize) -> Response {
    // What we make ourselves can always be written.
    let text = serde_json::to_vec(value).unwrap_or_default();
    let headers = [(header::CONTENT_TYPE, "application/json")];
    (status, headers, Body::from(text)).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_problem_has_its_status() {
        let statuses: Vec<String> = [
            problem::INVALID,
            "policy_validation",
            UNAUTHORIZED,
            problem::NO_SESSION,
            problem::SESSION_EXISTS,
            problem::WORKER_LOST,
            problem::TOO_LARGE,
            RATE_LIMITED,
            problem::LOST,
            problem::BUSY,
            "something else",
        ]
        .map(|code| format!("{code} {}", status(code).as_u16()))
        .into();
        insta::assert_snapshot!(statuses.join("\n"), @"
        invalid_request 400
        policy_validation 400
        unauthorized 401
        session_not_found 404
        session_exists 409
        worker_lost 410
        too_large 413
        rate_limited 429
        connection_lost 502
        busy 503
        something else 500
        ");
    }

    #[test]
    fn who_should_wait_is_told_how_long() {
        let busy = Refused::from(Problem::busy("full")).into_response();
        assert_eq!(busy.headers()[header::RETRY_AFTER], "1");
        let later = Refused::new(RATE_LIMITED, "slowly").after(Duration::from_millis(2500));
        assert_eq!(later.into_response().headers()[header::RETRY_AFTER], "3");
        let never = Refused::new(NOT_FOUND, "no").into_response();
        assert!(never.headers().get(header::RETRY_AFTER).is_none());
    }
}
