//! Requests to one sandbox: the agent in it, and the code interpreter.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Extension, Request, State};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::connect::{Code, Refusal};
use super::errors::{Failure, gone};
use super::keys::same;
use super::query::Query;
use super::registry::{Sandbox, shown};
use super::{E2b, control, execute, files, filesystem, process};

/// Which sandbox.
pub(super) const ID_HEADER: &str = "e2b-sandbox-id";
/// Which of the two that listen in it.
const PORT_HEADER: &str = "e2b-sandbox-port";
const TOKEN_HEADER: &str = "x-access-token";
const INTERPRETER_PORT: &str = "49999";
const AGENT_PORT: &str = "49983";

pub(super) fn router(e2b: Arc<E2b>) -> Router {
    let interpreter = Router::new()
        .route("/health", get(|| async { "OK" }))
        .route("/execute", post(execute::execute))
        .route("/contexts", get(execute::contexts).post(execute::create_context))
        .route("/contexts/{id}", delete(execute::remove_context))
        .route("/contexts/{id}/restart", post(execute::restart_context))
        .fallback(nothing)
        .layer(middleware::from_fn_with_state(Arc::clone(&e2b), reach_interpreter))
        .with_state(Arc::clone(&e2b));
    let agent = Router::new()
        .route("/health", get(|| async { StatusCode::NO_CONTENT }))
        .route("/envs", get(envs))
        .route("/files", get(files::read).post(files::write))
        .route("/filesystem.Filesystem/{method}", post(filesystem::serve))
        .route("/process.Process/{method}", post(process::serve))
        .fallback(nothing)
        .layer(middleware::from_fn_with_state(Arc::clone(&e2b), reach_agent))
        .with_state(e2b);
    Router::new().fallback(move |request: Request| {
        let port = header(request.headers(), PORT_HEADER).unwrap_or(AGENT_PORT);
        let router = match port {
            INTERPRETER_PORT => interpreter.clone(),
            AGENT_PORT => agent.clone(),
            other => {
                let problem = format!("nothing listens on port {} here", shown(other));
                let failure = Failure::new(StatusCode::BAD_GATEWAY, problem);
                return Box::pin(async { failure.into_response() }) as super::Answered;
            }
        };
        super::passed_on(router, request)
    })
}

/// Who a request is made as, where it says so.
fn basic_user(headers: &HeaderMap) -> Option<String> {
    let given = header(headers, "authorization")?.strip_prefix("Basic ")?;
    let text = String::from_utf8(STANDARD.decode(given.trim()).ok()?).ok()?;
    Some(text.split(':').next().unwrap_or_default().to_owned())
}

async fn envs(Extension(sandbox): Extension<Arc<Sandbox>>) -> Response {
    super::errors::answer(StatusCode::OK, &sandbox.record().env)
}

async fn nothing() -> Failure {
    Failure::not_found("there is nothing at this path")
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// Whether a request carries the sandbox's token.
fn has_token(headers: &HeaderMap, sandbox: &Sandbox) -> bool {
    header(headers, TOKEN_HEADER).is_some_and(|token| same(token, &sandbox.token))
}

/// Contexts are asked for without a token by every client; whoever knows a sandbox's name may see
/// and make them. Running code needs it, and so does waking one that was paused.
async fn reach_interpreter(
    State(e2b): State<Arc<E2b>>,
    mut request: Request,
    next: Next,
) -> Response {
    let id = header(request.headers(), ID_HEADER).unwrap_or_default().to_owned();
    let Some(sandbox) = control::find(&e2b, &id) else { return gone(&shown(&id)) };
    let admitted = has_token(request.headers(), &sandbox);
    if request.uri().path() == "/execute" && !admitted {
        return super::errors::plain(StatusCode::UNAUTHORIZED, "the access token is wrong");
    }
    if !control::is_awake(&e2b, &sandbox, admitted).await {
        return gone(&shown(&id));
    }
    request.extensions_mut().insert(sandbox);
    next.run(request).await
}

async fn reach_agent(State(e2b): State<Arc<E2b>>, mut request: Request, next: Next) -> Response {
    let (path, headers) = (request.uri().path(), request.headers());
    let query = Query::new(request.uri().query());
    let operation = if request.method() == Method::POST { "write" } else { "read" };
    let denied = || Failure::unauthorized("the access token or signature is missing or wrong");
    let sandbox = match header(headers, ID_HEADER) {
        Some(id) => {
            let id = id.to_owned();
            let Some(sandbox) = control::find(&e2b, &id) else { return gone(&shown(&id)) };
            let signed = path == "/files" && files::is_signed(&query, operation, &sandbox.token);
            let admitted = signed || has_token(headers, &sandbox);
            if path != "/health" && !admitted {
                return denied().into_response();
            }
            if !control::is_awake(&e2b, &sandbox, admitted).await {
                return gone(&shown(&id));
            }
            sandbox
        }
        // A signed address says whose it is by its signature alone.
        None => match e2b.signed_for(&query, operation) {
            Some(sandbox) => sandbox,
            None => return denied().into_response(),
        },
    };
    if let Some(user) = basic_user(request.headers())
        && let Err(failure) = files::check_user(Some(&user))
    {
        return Refusal::new(Code::Unauthenticated, failure.message).into_response();
    }
    request.extensions_mut().insert(sandbox);
    next.run(request).await
}
