//! Bodies of requests: of bounded size, in bounded time, and counted among all that waits.

use axum::body::Body;
use axum::extract::Request;
use axum::http::header;
use belljar_core::limits::MAX_ANSWER_WEIGHT;
use futures_util::StreamExt;
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use super::super::budget::Held;
use super::super::hub::Hub;
use super::super::limits::seconds;
use super::errors::{BODY_TIMEOUT, Refused, UNSUPPORTED_MEDIA_TYPE};
use crate::desk::{Problem, problem};

/// A body, counted until this is dropped.
pub(super) struct Read<T> {
    pub(super) value: T,
    pub(super) held: Held,
}

/// A body as what it should be.
pub(super) async fn json<T: DeserializeOwned>(
    hub: &Hub,
    request: Request,
) -> Result<Read<T>, Refused> {
    if !is_json(&request) {
        let problem = "the body has to be JSON: Content-Type: application/json";
        return Err(Refused::new(UNSUPPORTED_MEDIA_TYPE, problem));
    }
    let Read { value: text, held } = bytes(hub, request.into_body()).await?;
    Ok(Read { value: parsed(&text)?, held })
}

/// The same where nothing need be said.
pub(super) async fn optional_json<T: DeserializeOwned + Default>(
    hub: &Hub,
    request: Request,
) -> Result<Read<T>, Refused> {
    if is_json(&request) {
        return json(hub, request).await;
    }
    let Read { value: text, held } = bytes(hub, request.into_body()).await?;
    if text.is_empty() {
        return Ok(Read { value: T::default(), held });
    }
    Err(Refused::new(UNSUPPORTED_MEDIA_TYPE, "a body has to be JSON, and to say so"))
}

fn is_json(request: &Request) -> bool {
    let kind = request.headers().get(header::CONTENT_TYPE);
    let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"))
}

fn parsed<T: DeserializeOwned>(text: &[u8]) -> Result<T, Problem> {
    let fits = belljar_core::json::weight(text).is_some_and(|weight| weight <= MAX_ANSWER_WEIGHT);
    if !fits {
        return Err(Problem::invalid("the body would take too much memory, or nests too deeply"));
    }
    let mut reader = serde_json::Deserializer::from_slice(text);
    let read: T = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let (path, problem) = (error.path().to_string(), error.inner());
        let place = if path == "." { "the body".to_owned() } else { format!("`{path}`") };
        Problem::invalid(format!("{place}: {problem}; nothing was run"))
            .hint("GET /v1/openapi.json describes every field")
    })?;
    reader.end().map_err(|error| Problem::invalid(format!("the body: {error}")))?;
    Ok(read)
}

/// All bytes of a body.
pub(super) async fn bytes(hub: &Hub, body: Body) -> Result<Read<Vec<u8>>, Refused> {
    let patience = seconds(hub.limits.http_body_seconds);
    timeout(patience, gathered(hub, body)).await.unwrap_or_else(|_| {
        Err(Refused::new(BODY_TIMEOUT, "the body did not come in time; nothing was run"))
    })
}

async fn gathered(hub: &Hub, body: Body) -> Result<Read<Vec<u8>>, Refused> {
    let most = hub.limits.http_body_bytes;
    let mut held = hub.budget.hold();
    let (mut all, mut parts) = (Vec::new(), body.into_data_stream());
    while let Some(part) = parts.next().await {
        let part =
            part.map_err(|error| Problem::invalid(format!("the body ended badly: {error}")))?;
        if all.len() + part.len() > most {
            let problem = format!("the body has more than {most} bytes; nothing was run");
            return Err(Refused::new(problem::TOO_LARGE, problem));
        }
        if !held.more(part.len()) {
            return Err(Problem::busy("too many bytes of requests wait").into());
        }
        all.extend_from_slice(&part);
    }
    Ok(Read { value: all, held })
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::super::forms::ExecutionRequest;
    use super::*;

    fn problem(text: &str) -> String {
        parsed::<ExecutionRequest>(text.as_bytes()).map(drop).unwrap_err().to_string()
    }

    #[test]
    fn what_is_wrong_is_named() {
        insta::assert_snapshot!(problem("{}"), @"
        error: the body: missing field `code` at line 1 column 2; nothing was run
        hint: GET /v1/openapi.json describes every field
        ");
        insta::assert_snapshot!(problem(r#"{"code": "", "timeout": "1"}"#), @r#"
        error: `timeout`: invalid type: string "1", expected f64 at line 1 column 27; nothing was run
        hint: GET /v1/openapi.json describes every field
        "#);
        assert!(problem(r#"{"code": ""} x"#).contains("trailing"));
        assert!(problem(&"[".repeat(1000)).contains("too deeply"));
        assert!(parsed::<Value>(b"{}").is_ok());
    }
}
