//! Code that is run: with its result at the end, or told about while it runs.

use std::time::Duration;

use axum::extract::{Extension, Path, Request};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::Response;
use belljar::SandboxResult;
use belljar::core::limits::{MAX_TIMEOUT_SECONDS, MIN_TIMEOUT_SECONDS};
use belljar::core::protocol::methods::CreateParams;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::body::{self, Read};
use super::door::Caller;
use super::errors::{Refused, json as answer};
use super::events;
use super::forms::{CodeRequest, ExecutionRequest};
use super::routes::to_the_end;
use crate::desk::{Listener, Problem, Wanted};

pub(super) async fn fresh(
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Result<Response, Refused> {
    let live = wants_events(request.headers());
    let Read { value: mut wanted, held } =
        body::json::<ExecutionRequest>(&caller.api.hub, request).await?;
    if let Some(timeout) = seconds(wanted.timeout)? {
        wanted.policy.insert("timeout_seconds".to_owned(), json!(timeout.as_secs_f64()));
    }
    let params = CreateParams {
        language: wanted.language,
        preset: wanted.preset,
        policy: wanted.policy,
        stream: live,
        ..CreateParams::default()
    };
    respond(caller, live, move |caller, gone, listener| async move {
        let _held = held;
        let _room = caller.desk.admit()?;
        let code = wanted.code;
        caller.desk.run_fresh(&params, Wanted { code, gone: &gone, listener }).await
    })
    .await
}

pub(super) async fn in_session(
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, Refused> {
    let live = wants_events(request.headers());
    let Read { value: wanted, held } = body::json::<CodeRequest>(&caller.api.hub, request).await?;
    let timeout = seconds(wanted.timeout)?;
    let session = caller.desk.sessions.get(&id)?;
    respond(caller, live, move |caller, gone, listener| async move {
        let _held = held;
        let _room = caller.desk.admit()?;
        let wanted = Wanted { code: wanted.code, gone: &gone, listener };
        caller.desk.run_in(&session, timeout, wanted).await
    })
    .await
}

/// Runs something and answers as its client wants it. Code that failed is a result.
async fn respond<F>(
    caller: Caller,
    live: bool,
    run: impl FnOnce(Caller, CancellationToken, Option<Listener>) -> F + Send + 'static,
) -> Result<Response, Refused>
where
    F: Future<Output = Result<SandboxResult, Problem>> + Send + 'static,
{
    if !live {
        let result = to_the_end(caller, |caller, gone| run(caller, gone, None)).await?;
        return Ok(answer(StatusCode::OK, &result));
    }
    let (events, reader) = events::channel();
    let gone = CancellationToken::new();
    let guard = gone.clone().drop_guard();
    tokio::spawn(async move {
        let ran = run(caller, gone, Some(events.listener())).await;
        events.finish(ran.as_ref().map_err(|problem| Refused::from(problem.clone()).body()));
    });
    Ok(reader.response(guard))
}

fn wants_events(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(header::ACCEPT).iter().filter_map(|kinds| kinds.to_str().ok());
    let mut kinds = accepted.flat_map(|kinds| kinds.split(','));
    kinds.any(|kind| {
        let kind = kind.split(';').next().unwrap_or_default();
        kind.trim().eq_ignore_ascii_case("text/event-stream")
    })
}

fn seconds(timeout: Option<f64>) -> Result<Option<Duration>, Problem> {
    let Some(wanted) = timeout else { return Ok(None) };
    if (MIN_TIMEOUT_SECONDS..=MAX_TIMEOUT_SECONDS).contains(&wanted) {
        return Ok(Some(Duration::from_secs_f64(wanted)));
    }
    Err(Problem::invalid(format!("`timeout`: {wanted} s cannot be given; nothing was run"))
        .hint(format!("give {MIN_TIMEOUT_SECONDS} to {MAX_TIMEOUT_SECONDS} seconds")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_for_those_who_ask_for_them() {
        let wants = |accept: &str| {
            wants_events(&HeaderMap::from_iter([(header::ACCEPT, accept.parse().unwrap())]))
        };
        assert!(wants("text/event-stream") && wants("application/json, Text/Event-Stream;q=0.5"));
        assert!(!wants("*/*") && !wants("text/event-streams") && !wants_events(&HeaderMap::new()));
    }

    #[test]
    fn times_are_bounded() {
        assert_eq!(seconds(None).unwrap(), None);
        assert_eq!(seconds(Some(0.5)).unwrap(), Some(Duration::from_millis(500)));
        for wrong in [0.0, -1.0, 1e9, f64::INFINITY, f64::NAN] {
            assert!(seconds(Some(wrong)).is_err(), "{wrong}");
        }
    }
}
