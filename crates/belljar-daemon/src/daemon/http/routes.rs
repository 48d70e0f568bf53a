//! What is where, and what is quickly done: sessions, variables, how the daemon is.

use std::sync::Arc;

use axum::extract::{Extension, Path, Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Router, body::Body};
use belljar::core::protocol::methods::{CreateParams, GET_VARIABLE, Looked, NameParams};
use tokio_util::sync::CancellationToken;

use super::body::{self, Read};
use super::door::{self, Caller};
use super::errors::{METHOD_NOT_ALLOWED, NO_VARIABLE, NOT_FOUND, Refused, json};
use super::forms::{Cancelled, ForkRequest, Health, SessionRequest};
use super::{Api, executions, files, openapi};
use crate::desk::{Problem, Session, SessionList};
use crate::mcp::http::{self as mcp, Pages};

pub(super) fn router(api: Arc<Api>, ended: CancellationToken) -> Router {
    let pages = Pages { hosts: api.hosts.clone(), origins: Vec::new() };
    let agents = mcp::service(api.agents.clone(), pages, ended);
    let agents = Router::new()
        .route_service(mcp::PATH, agents)
        .layer(middleware::from_fn_with_state(Arc::clone(&api), newcomers));
    Router::new()
        .route("/v1/executions", post(executions::fresh))
        .route("/v1/cancel", post(cancel_all))
        .route("/v1/sessions", get(list_sessions).post(create_session))
        .route("/v1/sessions/{id}", get(show_session).delete(destroy_session))
        .route("/v1/sessions/{id}/executions", post(executions::in_session))
        .route("/v1/sessions/{id}/fork", post(fork_session))
        .route("/v1/sessions/{id}/cancel", post(cancel))
        .route("/v1/sessions/{id}/variables/{name}", get(variable))
        .route("/v1/sessions/{id}/files", get(files::list))
        .route(
            "/v1/sessions/{id}/files/{*path}",
            get(files::read).put(files::write).delete(files::remove),
        )
        .route("/v1/health", get(health))
        .route("/v1/metrics", get(metrics))
        .route("/v1/openapi.json", get(describe))
        .merge(agents)
        .fallback(nothing_there)
        .method_not_allowed_fallback(not_so)
        .layer(middleware::from_fn_with_state(api, door::admit))
}

/// Agents may not be more than there is room for.
async fn newcomers(State(api): State<Arc<Api>>, request: Request, next: Next) -> Response {
    mcp::pass(&api.agents.house, request, next).await
}

async fn nothing_there() -> Refused {
    let problem = Problem::new(NOT_FOUND, "there is nothing at this path");
    problem.hint("GET /v1/openapi.json lists what there is").into()
}

async fn not_so() -> Refused {
    let problem = Problem::new(METHOD_NOT_ALLOWED, "this path has no such method");
    problem.hint("GET /v1/openapi.json lists what there is").into()
}

/// Does something that has to be brought to its end also when its client has gone: what was begun
/// for it has to be cleared away.
pub(super) async fn to_the_end<T, F>(
    caller: Caller,
    work: impl FnOnce(Caller, CancellationToken) -> F,
) -> Result<T, Refused>
where
    T: Send + 'static,
    F: Future<Output = Result<T, Problem>> + Send + 'static,
{
    let gone = CancellationToken::new();
    let _guard = gone.clone().drop_guard();
    let done = tokio::spawn(work(caller, gone)).await;
    let failed = |_| Problem::failed("this request came to nothing; others are unaffected");
    Ok(done.map_err(failed)??)
}

async fn list_sessions(Extension(caller): Extension<Caller>) -> Response {
    let sessions = caller.desk.sessions.all().iter().map(|one| one.info()).collect();
    json(StatusCode::OK, &SessionList { sessions })
}

async fn create_session(
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Result<Response, Refused> {
    let Read { value: wanted, held } =
        body::optional_json::<SessionRequest>(&caller.api.hub, request).await?;
    let session = to_the_end(caller, |caller, _| async move {
        let _held = held;
        let _room = caller.desk.admit()?;
        let params = CreateParams {
            language: wanted.language,
            preset: wanted.preset,
            policy: wanted.policy,
            ..CreateParams::default()
        };
        caller.desk.create_session(&params, wanted.context, wanted.session_id).await
    });
    Ok(made(&*session.await?))
}

async fn fork_session(
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, Refused> {
    let Read { value: wanted, .. } =
        body::optional_json::<ForkRequest>(&caller.api.hub, request).await?;
    let fork = to_the_end(caller, |caller, gone| async move {
        let _room = caller.desk.admit()?;
        let parent = caller.desk.sessions.get(&id)?;
        caller.desk.fork_session(&parent, wanted.session_id, &gone).await
    });
    Ok(made(&*fork.await?))
}

fn made(session: &Session) -> Response {
    let mut response = json(StatusCode::CREATED, &session.info());
    // Names of sessions are safe in an address.
    if let Ok(place) = format!("/v1/sessions/{}", session.id).parse() {
        response.headers_mut().insert(header::LOCATION, place);
    }
    response
}

async fn show_session(
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
) -> Result<Response, Refused> {
    Ok(json(StatusCode::OK, &caller.desk.sessions.get(&id)?.info()))
}

async fn destroy_session(
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
) -> Result<StatusCode, Refused> {
    to_the_end(caller, |caller, _| async move { caller.desk.destroy_session(&id).await }).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn cancel(
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
) -> Result<Response, Refused> {
    caller.desk.sessions.get(&id)?;
    let cancelled = caller.desk.cancel(Some(&id));
    Ok(json(StatusCode::OK, &Cancelled { cancelled }))
}

async fn cancel_all(Extension(caller): Extension<Caller>) -> Response {
    json(StatusCode::OK, &Cancelled { cancelled: caller.desk.cancel(None) })
}

async fn variable(
    Extension(caller): Extension<Caller>,
    Path((id, name)): Path<(String, String)>,
) -> Result<Response, Refused> {
    let looked: Looked = to_the_end(caller, |caller, gone| async move {
        let _room = caller.desk.admit()?;
        let session = caller.desk.sessions.get(&id)?;
        let params = NameParams { sandbox: session.sandbox, name };
        caller.desk.ask(&session, &gone, GET_VARIABLE, &params).await
    })
    .await?;
    match looked.variable {
        Some(variable) => Ok(json(StatusCode::OK, &variable)),
        None => Err(Refused::new(NO_VARIABLE, "there is no variable of that name")),
    }
}

async fn health(Extension(caller): Extension<Caller>) -> Response {
    let status = caller.api.hub.status();
    let workers_ready = status.workers.iter().filter(|worker| worker.pid.is_some()).count();
    let health = Health {
        ready: workers_ready > 0 && !status.stopping,
        stopping: status.stopping,
        belljar: status.belljar,
        workers_ready,
        workers: status.workers.len(),
    };
    let code = if health.ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    json(code, &health)
}

async fn metrics(Extension(caller): Extension<Caller>) -> Response {
    let text = super::super::metrics::text(&caller.api.hub.status());
    let kind = [(header::CONTENT_TYPE, "text/plain; version=0.0.4")];
    (kind, Body::from(text)).into_response()
}

async fn describe() -> Response {
    json(StatusCode::OK, &openapi::openapi())
}
