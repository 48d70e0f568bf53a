//! Bodies of requests, bounded, with failures as E2B's clients expect them.

use axum::body::Body;
use axum::extract::Request;
use axum::http::StatusCode;
use futures_util::StreamExt;
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use super::super::hub::Hub;
use super::super::limits::seconds;
use super::errors::Failure;

/// What a body that holds no file may be long: the longest code, and what is around it.
const MAX_JSON_BYTES: usize = 24 * 1024 * 1024;

pub(super) async fn json<T: DeserializeOwned>(hub: &Hub, request: Request) -> Result<T, Failure> {
    parsed(&bytes(hub, request.into_body()).await?)
}

/// The same where nothing need be said.
pub(super) async fn optional_json<T: DeserializeOwned + Default>(
    hub: &Hub,
    request: Request,
) -> Result<T, Failure> {
    let text = bytes(hub, request.into_body()).await?;
    if text.is_empty() { Ok(T::default()) } else { parsed(&text) }
}

pub(super) fn parsed<T: DeserializeOwned>(text: &[u8]) -> Result<T, Failure> {
    let most = belljar_core::limits::MAX_ANSWER_WEIGHT;
    if belljar_core::json::weight(text).is_none_or(|weight| weight > most) {
        return Err(Failure::bad("the body would take too much memory, or nests too deeply"));
    }
    serde_json::from_slice(text).map_err(|error| Failure::bad(format!("the body: {error}")))
}

/// All bytes of a body, which has to come in time.
pub(super) async fn bytes(hub: &Hub, body: Body) -> Result<Vec<u8>, Failure> {
    let patience = seconds(hub.limits.http_body_seconds);
    let gathered = async {
        let (mut all, mut parts) = (Vec::new(), body.into_data_stream());
        let mut held = hub.budget.hold();
        while let Some(part) = parts.next().await {
            let part =
                part.map_err(|error| Failure::bad(format!("the body ended badly: {error}")))?;
            if all.len() + part.len() > MAX_JSON_BYTES {
                let problem = format!("the body has more than {MAX_JSON_BYTES} bytes");
                return Err(Failure::new(StatusCode::PAYLOAD_TOO_LARGE, problem));
            }
            if !held.more(part.len()) {
                let problem = "too many bytes of requests wait";
                return Err(Failure::new(StatusCode::SERVICE_UNAVAILABLE, problem).after(1));
            }
            all.extend_from_slice(&part);
        }
        Ok(all)
    };
    timeout(patience, gathered).await.unwrap_or_else(|_| {
        Err(Failure::new(StatusCode::REQUEST_TIMEOUT, "the body did not come in time"))
    })
}
