//! The control interface: sandboxes by key.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Extension, Path, RawQuery, Request, State};
use axum::http::{HeaderName, StatusCode};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post, put};
use serde::Deserialize;
use serde_json::{Value, json};

use super::E2b;
use super::body;
use super::copies;
use super::errors::{Failure, answer};
use super::query::Query;
use super::record::{Kind, OnTimeout, Phase, Record};
use super::registry::{DEFAULT_SECONDS, MAX_SECONDS, Sandbox, Wanted, shown};

/// What is kept of a sandbox in memory and in its record, for its owner.
const MAX_DESCRIBED_BYTES: usize = 64 * 1024;
const KEY_HEADER: &str = "x-api-key";
/// The same request once more has the same value here, and makes no second sandbox.
const REPEATED_HEADER: &str = "idempotency-key";
/// Sandboxes on one page of a list.
const PAGE: usize = 100;
/// The most that a page may be.
const MAX_PAGE: usize = 1000;

/// Whose request it is.
#[derive(Clone)]
pub(super) struct Owner(pub(super) String);

pub(super) fn router(e2b: Arc<E2b>) -> Router {
    Router::new()
        .route("/sandboxes", get(list).post(create))
        .route("/v2/sandboxes", get(list).post(create))
        .route("/sandboxes/{id}", get(show).delete(kill))
        .route("/sandboxes/{id}/timeout", post(set_timeout))
        .route("/sandboxes/{id}/refreshes", post(refresh))
        .route("/sandboxes/{id}/pause", post(pause))
        .route("/sandboxes/{id}/connect", post(connect))
        .route("/v2/sandboxes/{id}/connect", post(connect))
        .route("/sandboxes/{id}/resume", post(connect))
        .route("/sandboxes/{id}/network", put(network))
        .route("/sandboxes/{id}/fork", post(copies::fork))
        .route("/sandboxes/{id}/snapshots", post(copies::snapshot))
        .route("/sandboxes/{id}/metrics", get(copies::metrics))
        .route("/snapshots", get(copies::snapshots))
        .route("/templates/{id}", delete(copies::delete_snapshot))
        .fallback(nothing)
        .method_not_allowed_fallback(nothing)
        .layer(middleware::from_fn_with_state(Arc::clone(&e2b), admit))
        .with_state(e2b)
}

async fn nothing() -> Failure {
    Failure::not_found("there is nothing at this path")
}

/// Lets in whoever has a key. Nothing but headers is read before.
async fn admit(State(e2b): State<Arc<E2b>>, mut request: Request, next: Next) -> Response {
    let key = request.headers().get(KEY_HEADER).and_then(|key| key.to_str().ok());
    let Some(owner) = key.and_then(|key| e2b.keys().owner(key)) else {
        let problem = if key.is_some() {
            "this API key is not known, or was revoked"
        } else {
            "an API key is needed: X-API-KEY"
        };
        return Failure::unauthorized(problem).into_response();
    };
    if let Err(wait) = e2b.tenant(&owner).rate.take() {
        let problem = "too many requests a second; nothing was done";
        let failure = Failure::new(StatusCode::TOO_MANY_REQUESTS, problem);
        return failure.after(wait.as_secs().saturating_add(1)).into_response();
    }
    request.extensions_mut().insert(Owner(owner));
    next.run(request).await
}

/// What a new sandbox is asked to be. What is not known is passed over, as E2B does.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct NewSandbox {
    #[serde(rename = "templateID")]
    template: String,
    timeout: Option<u64>,
    #[serde(default)]
    metadata: Option<BTreeMap<String, String>>,
    #[serde(default)]
    env_vars: Option<BTreeMap<String, String>>,
    #[serde(default)]
    auto_pause: Option<bool>,
    #[serde(default)]
    auto_resume: Option<AutoResume>,
    #[serde(default)]
    network: Option<Value>,
    #[serde(default)]
    mcp: Option<Value>,
    #[serde(default)]
    volume_mounts: Option<Vec<Value>>,
}

#[derive(Debug, Deserialize)]
struct AutoResume {
    enabled: bool,
}

async fn create(
    State(e2b): State<Arc<E2b>>,
    Extension(Owner(owner)): Extension<Owner>,
    request: Request,
) -> Result<Response, Failure> {
    let repeated = request.headers().get(REPEATED_HEADER).and_then(|it| it.to_str().ok());
    let repeated = repeated.map(|it| (owner.clone(), it.to_owned()));
    if let Some(made) = repeated.as_ref().and_then(|it| e2b.made_before(it)) {
        return Ok(answer(StatusCode::CREATED, &made.record().sandbox()));
    }
    let wanted: NewSandbox = body::json(&e2b.hub, request).await?;
    let not_here = [
        (wanted.mcp.is_some(), "mcp"),
        (wanted.volume_mounts.as_ref().is_some_and(|mounts| !mounts.is_empty()), "volumeMounts"),
        (wanted.network.as_ref().is_some_and(opens), "network"),
    ];
    if let Some((_, what)) = not_here.into_iter().find(|(asked, _)| *asked) {
        return Err(Failure::bad(format!("`{what}`: sandboxes here have no such thing")));
    }
    let env = wanted.env_vars.unwrap_or_default();
    check_env(&env)?;
    let metadata = wanted.metadata.unwrap_or_default();
    let bytes: usize =
        env.iter().chain(&metadata).map(|(name, text)| name.len() + text.len()).sum();
    if bytes > MAX_DESCRIBED_BYTES {
        let problem = format!("metadata and envVars have at most {MAX_DESCRIBED_BYTES} bytes");
        return Err(Failure::bad(problem));
    }
    let on_timeout =
        if wanted.auto_pause == Some(true) { OnTimeout::Pause } else { OnTimeout::Kill };
    let wanted = Wanted {
        owner,
        template: wanted.template,
        seconds: seconds(wanted.timeout)?.unwrap_or(DEFAULT_SECONDS),
        metadata,
        env,
        on_timeout,
        auto_resume: wanted.auto_resume.is_some_and(|resume| resume.enabled),
        kind: Kind::Sandbox,
    };
    // To its end also when the client has gone: then it is known what there is.
    let maker = Arc::clone(&e2b);
    let created = tokio::spawn(async move {
        let e2b = maker;
        match e2b.snapshot_of(&wanted.owner, &wanted.template) {
            Some(snapshot) => e2b.create_from(&snapshot, wanted).await,
            None => {
                e2b.check_template(&wanted.template)?;
                if wanted.on_timeout == OnTimeout::Pause && e2b.is_native(&wanted.template) {
                    let problem = "sandboxes of this template cannot be paused when their time is \
                                   over: the state of a machine's own Python cannot be kept";
                    return Err(Failure::bad(problem));
                }
                e2b.create(wanted)
            }
        }
    });
    let failed = |_| Failure::internal("the sandbox was not made in order");
    let sandbox = created.await.map_err(failed)??;
    if let Some(repeated) = repeated {
        e2b.note_made(repeated, &sandbox);
    }
    Ok(answer(StatusCode::CREATED, &sandbox.record().sandbox()))
}

/// Whether rules for the network ask for more than none at all: there is none.
fn opens(network: &Value) -> bool {
    let Some(rules) = network.as_object() else { return !network.is_null() };
    let closed = |name: &str| matches!(name, "denyOut" | "allowPublicTraffic" | "maskRequestHost");
    rules.iter().any(|(name, value)| {
        let empty = value.is_null() || value.as_array().is_some_and(Vec::is_empty);
        !closed(name) && !empty
    })
}

pub(super) fn check_env(env: &BTreeMap<String, String>) -> Result<(), Failure> {
    let wrong = |(name, value): &(&String, &String)| {
        name.is_empty() || name.contains(['=', '\0']) || value.contains('\0')
    };
    match env.iter().find(wrong) {
        Some((name, _)) => {
            Err(Failure::bad(format!("`{}` cannot be an environment variable", shown(name))))
        }
        None => Ok(()),
    }
}

pub(super) fn seconds(timeout: Option<u64>) -> Result<Option<u64>, Failure> {
    if timeout.is_some_and(|seconds| seconds > MAX_SECONDS) {
        return Err(Failure::bad(format!("timeout: at most {MAX_SECONDS} seconds can be given")));
    }
    Ok(timeout)
}

async fn show(
    State(e2b): State<Arc<E2b>>,
    Extension(Owner(owner)): Extension<Owner>,
    Path(id): Path<String>,
) -> Result<Response, Failure> {
    let sandbox = e2b.own(&owner, &id)?;
    Ok(answer(StatusCode::OK, &sandbox.record().detail(&e2b.size())))
}

async fn kill(
    State(e2b): State<Arc<E2b>>,
    Extension(Owner(owner)): Extension<Owner>,
    Path(id): Path<String>,
) -> Result<Response, Failure> {
    let sandbox = e2b.own(&owner, &id)?;
    // To its end also when the client has gone.
    let killed = tokio::spawn(async move { e2b.kill(&sandbox).await }).await;
    killed.map_err(|_| Failure::internal("the sandbox was not ended in order"))?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

#[derive(Debug, Deserialize, Default)]
struct Timeout {
    timeout: Option<u64>,
}

async fn set_timeout(
    State(e2b): State<Arc<E2b>>,
    Extension(Owner(owner)): Extension<Owner>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, Failure> {
    let wanted: Timeout = body::json(&e2b.hub, request).await?;
    let given = seconds(wanted.timeout)?.ok_or_else(|| Failure::bad("timeout: is missing"))?;
    let sandbox = running(&e2b, &owner, &id)?;
    e2b.give_time(&sandbox, given);
    Ok(StatusCode::NO_CONTENT.into_response())
}

#[derive(Debug, Deserialize, Default)]
struct Refresh {
    duration: Option<u64>,
}

async fn refresh(
    State(e2b): State<Arc<E2b>>,
    Extension(Owner(owner)): Extension<Owner>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, Failure> {
    let wanted: Refresh = body::optional_json(&e2b.hub, request).await?;
    let sandbox = running(&e2b, &owner, &id)?;
    let given = seconds(wanted.duration)?.unwrap_or(DEFAULT_SECONDS);
    e2b.resume(&sandbox, given).await;
    Ok(StatusCode::NO_CONTENT.into_response())
}

fn running(e2b: &E2b, owner: &str, id: &str) -> Result<Arc<Sandbox>, Failure> {
    let sandbox = e2b.own(owner, id)?;
    if !sandbox.is_running() {
        return Err(Failure::not_found(format!("sandbox {} is paused", shown(id))));
    }
    Ok(sandbox)
}

async fn pause(
    State(e2b): State<Arc<E2b>>,
    Extension(Owner(owner)): Extension<Owner>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, Failure> {
    let _: Value = body::optional_json(&e2b.hub, request).await?;
    let sandbox = e2b.own(&owner, &id)?;
    if let Some(failure) = e2b.immovable(&sandbox) {
        return Err(failure);
    }
    let paused = tokio::spawn(async move { e2b.pause(&sandbox).await }).await;
    if paused.map_err(|_| Failure::internal("the sandbox was not paused in order"))? {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    Err(Failure::new(StatusCode::CONFLICT, format!("sandbox {} is paused already", shown(&id))))
}

async fn connect(
    State(e2b): State<Arc<E2b>>,
    Extension(Owner(owner)): Extension<Owner>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, Failure> {
    let wanted: Timeout = body::optional_json(&e2b.hub, request).await?;
    let given = seconds(wanted.timeout)?.unwrap_or(DEFAULT_SECONDS);
    let sandbox = e2b.own(&owner, &id)?;
    let resumed = e2b.resume(&sandbox, given).await;
    let status = if resumed { StatusCode::CREATED } else { StatusCode::OK };
    Ok(answer(status, &sandbox.record().sandbox()))
}

/// There is no network. Rules that close it are as good as kept; others are refused.
async fn network(
    State(e2b): State<Arc<E2b>>,
    Extension(Owner(owner)): Extension<Owner>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, Failure> {
    let mut wanted: Value = body::optional_json(&e2b.hub, request).await?;
    let allowed = wanted.as_object_mut().and_then(|it| it.remove("allow_internet_access"));
    e2b.own(&owner, &id)?;
    if allowed == Some(json!(true)) || opens(&wanted) {
        return Err(Failure::bad("sandboxes here have no network"));
    }
    Ok(StatusCode::NO_CONTENT.into_response())
}

async fn list(
    State(e2b): State<Arc<E2b>>,
    Extension(Owner(owner)): Extension<Owner>,
    RawQuery(query): RawQuery,
) -> Result<Response, Failure> {
    let query = Query::new(query.as_deref());
    let size = e2b.size();
    let mut found = e2b.records_of(&owner);
    found.retain(|it| it.kind == Kind::Sandbox);
    let phases = query.get("state").filter(|text| !text.is_empty());
    found.retain(|it| phases.is_none_or(|text| text.split(',').any(|w| w == it.phase.word())));
    if let Some(template) = query.get("template") {
        found.retain(|it| it.template == template);
    }
    let metadata = query.get("metadata").map(Query::twice).unwrap_or_default();
    found.retain(|it| metadata.iter().all(|(key, value)| it.metadata.get(key) == Some(value)));
    Ok(page(&query, found, |it| it.listed(&size)))
}

/// A page of a list, and where the next begins.
pub(super) fn page(
    query: &Query,
    mut found: Vec<Record>,
    told: impl Fn(&Record) -> Value,
) -> Response {
    found.sort_by(|a, b| (a.started_ms, &a.id).cmp(&(b.started_ms, &b.id)));
    if query.get("order") != Some("asc") {
        found.reverse();
    }
    let limit = query.get("limit").and_then(|text| text.parse().ok()).unwrap_or(PAGE);
    let after = query.get("nextToken").filter(|token| !token.is_empty());
    let from = match after {
        Some(token) => found.iter().position(|it| it.id == token).map_or(found.len(), |at| at + 1),
        None => 0,
    };
    let page: Vec<&Record> = found.iter().skip(from).take(limit.clamp(1, MAX_PAGE)).collect();
    let last = page.last().filter(|_| from + page.len() < found.len());
    let listed: Vec<Value> = page.iter().map(|it| told(it)).collect();
    let mut response = answer(StatusCode::OK, &listed);
    if let Some(token) = last.and_then(|it| it.id.parse().ok()) {
        response.headers_mut().insert(HeaderName::from_static("x-next-token"), token);
    }
    response
}

/// A sandbox by its name, whoever asks.
pub(super) fn find(e2b: &E2b, id: &str) -> Option<Arc<Sandbox>> {
    e2b.registry.find(id).filter(|sandbox| sandbox.record().kind == Kind::Sandbox)
}

/// Whether requests to it are answered: a paused one that resumes by itself does so first, for those
/// who may ask for that.
pub(super) async fn is_awake(e2b: &E2b, sandbox: &Sandbox, may_wake: bool) -> bool {
    let record = sandbox.record();
    match record.phase {
        Phase::Running => true,
        Phase::Paused if record.auto_resume && may_wake => {
            e2b.resume(sandbox, DEFAULT_SECONDS).await;
            sandbox.is_running()
        }
        Phase::Paused | Phase::Ended => false,
    }
}
