//! Forks and snapshots: a second sandbox that goes on from where the first is. A snapshot is a copy
//! that nobody can use but to make sandboxes of it.

use std::sync::Arc;

use axum::extract::{Extension, Path, RawQuery, Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use belljar::core::protocol::methods::{
    RESTORE, RestoreParams, SNAPSHOT, SNAPSHOT_DROP, SnapshotDropParams, SnapshotParams,
    Snapshotted,
};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::E2b;
use super::body;
use super::control::{Owner, page, seconds};
use super::errors::{Failure, answer};
use super::place;
use super::query::Query;
use super::record::{self, Context, Kind, OnTimeout, Record};
use super::registry::{DEFAULT_SECONDS, Sandbox, Wanted, shown};
use super::time;
use crate::desk::Problem;

/// Copies that one request makes.
const MAX_FORKS: usize = 20;
/// What a snapshot may be called.
const MAX_NAME_BYTES: usize = 128;

#[derive(Debug, Deserialize, Default)]
struct Fork {
    #[serde(default)]
    timeout: Option<u64>,
    #[serde(default)]
    count: Option<usize>,
}

pub(super) async fn fork(
    State(e2b): State<Arc<E2b>>,
    Extension(Owner(owner)): Extension<Owner>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, Failure> {
    let wanted: Fork = body::optional_json(&e2b.hub, request).await?;
    let count = wanted.count.unwrap_or(1);
    if !(1..=MAX_FORKS).contains(&count) {
        return Err(Failure::bad(format!("count: 1 to {MAX_FORKS} forks can be made")));
    }
    let given = seconds(wanted.timeout)?.unwrap_or(DEFAULT_SECONDS);
    let source = e2b.own(&owner, &id)?;
    if !source.is_running() {
        return Err(Failure::not_found(format!("sandbox {} is paused", shown(&id))));
    }
    // To their end also when the client has gone.
    let forks = tokio::spawn(async move {
        let mut forks = Vec::new();
        // All are as the first, which nobody knows before all are there.
        let mut source = source;
        for _ in 0..count {
            let like = source.record();
            let wanted = Wanted { seconds: given, ..wanted_like(&like, Kind::Sandbox) };
            forks.push(match e2b.copy(&source, wanted).await {
                Ok(made) => {
                    let told = json!({ "sandbox": made.record().sandbox() });
                    source = made;
                    told
                }
                Err(failure) => {
                    let code = failure.status.as_u16();
                    json!({ "error": { "code": code, "message": failure.message } })
                }
            });
        }
        forks
    });
    let forks = forks.await.map_err(|_| Failure::internal("the forks were not made in order"))?;
    Ok(answer(StatusCode::CREATED, &forks))
}

fn wanted_like(record: &Record, kind: Kind) -> Wanted {
    Wanted {
        owner: record.owner.clone(),
        template: record.template.clone(),
        seconds: DEFAULT_SECONDS,
        metadata: record.metadata.clone(),
        env: record.env.clone(),
        on_timeout: record.on_timeout,
        auto_resume: record.auto_resume,
        kind,
    }
}

#[derive(Debug, Deserialize, Default)]
struct NewSnapshot {
    #[serde(default)]
    name: Option<String>,
}

pub(super) async fn snapshot(
    State(e2b): State<Arc<E2b>>,
    Extension(Owner(owner)): Extension<Owner>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, Failure> {
    let wanted: NewSnapshot = body::optional_json(&e2b.hub, request).await?;
    if wanted.name.as_ref().is_some_and(|name| name.is_empty() || name.len() > MAX_NAME_BYTES) {
        return Err(Failure::bad(format!("name: 1 to {MAX_NAME_BYTES} characters")));
    }
    let source = e2b.own(&owner, &id)?;
    let kind = Kind::Snapshot { of: id, name: wanted.name };
    let made = tokio::spawn(async move {
        let wanted = wanted_like(&source.record(), kind);
        let copy = e2b.copy(&source, wanted).await?;
        e2b.pause(&copy).await;
        Ok::<_, Failure>(copy)
    });
    let made = made.await.map_err(|_| Failure::internal("the snapshot came to nothing"))??;
    Ok(answer(StatusCode::CREATED, &described(&made.record())))
}

fn described(record: &Record) -> Value {
    let names: Vec<&String> = match &record.kind {
        Kind::Snapshot { name, .. } => name.iter().collect(),
        Kind::Sandbox => Vec::new(),
    };
    json!({ "snapshotID": record.id, "names": names })
}

pub(super) async fn snapshots(
    State(e2b): State<Arc<E2b>>,
    Extension(Owner(owner)): Extension<Owner>,
    RawQuery(query): RawQuery,
) -> Response {
    let query = Query::new(query.as_deref());
    let wanted = |record: &Record| match &record.kind {
        Kind::Snapshot { of, name } => {
            query.get("sandboxID").is_none_or(|id| id == of)
                && query.get("name").is_none_or(|it| name.as_deref() == Some(it))
        }
        Kind::Sandbox => false,
    };
    let mut found = e2b.records_of(&owner);
    found.retain(wanted);
    page(&query, found, described)
}

pub(super) async fn delete_snapshot(
    State(e2b): State<Arc<E2b>>,
    Extension(Owner(owner)): Extension<Owner>,
    Path(id): Path<String>,
) -> Result<Response, Failure> {
    let Some(found) = e2b.snapshot_of(&owner, &id) else {
        return Err(Failure::not_found(format!("snapshot {} was not found", shown(&id))));
    };
    let killed = tokio::spawn(async move { e2b.kill(&found).await }).await;
    killed.map_err(|_| Failure::internal("the snapshot was not removed in order"))?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// What is used of a sandbox now. What its code computes is not counted apart from others'.
pub(super) async fn metrics(
    State(e2b): State<Arc<E2b>>,
    Extension(Owner(owner)): Extension<Owner>,
    Path(id): Path<String>,
) -> Result<Response, Failure> {
    let sandbox = e2b.own(&owner, &id)?;
    let size = e2b.size();
    let used = e2b.on_disk(&sandbox, place::Root::used_bytes).await;
    let used = used.map_err(|error| Failure::internal(error.to_string()))?;
    let memory = match e2b.existing_commands(&sandbox).await {
        Some(commands) => commands.memory_bytes(),
        None => 0,
    };
    let metric = json!({
        "timestamp": time::rfc3339_now(),
        "timestampUnix": time::now_ms() / 1000,
        "cpuCount": size.cores,
        "cpuUsedPct": 0.0,
        "memUsed": memory,
        "memTotal": size.memory_bytes,
        "memCache": 0,
        "diskUsed": used,
        "diskTotal": size.disk_bytes,
    });
    Ok(answer(StatusCode::OK, &[metric]))
}

impl E2b {
    /// A snapshot of one's own, by its id or its name.
    pub(super) fn snapshot_of(&self, owner: &str, wanted: &str) -> Option<Arc<Sandbox>> {
        self.registry.all().into_iter().find(|it| {
            let record = it.record();
            let named = matches!(&record.kind, Kind::Snapshot { name, .. }
                if record.id == wanted || name.as_deref() == Some(wanted));
            named && record.owner == owner
        })
    }

    /// A sandbox as a snapshot has it.
    pub(super) async fn create_from(
        &self,
        snapshot: &Sandbox,
        wanted: Wanted,
    ) -> Result<Arc<Sandbox>, Failure> {
        self.copy(snapshot, wanted).await
    }

    /// A second sandbox with the files and the contexts of the first. Processes stay where they are.
    async fn copy(&self, source: &Sandbox, wanted: Wanted) -> Result<Arc<Sandbox>, Failure> {
        if let Some(failure) = self.immovable(source) {
            return Err(failure);
        }
        // Beside it, where its state need not be carried from one worker to another.
        let copy = self.create_in(source.slot(), wanted)?;
        match self.fill(source, &copy).await {
            Ok(()) => Ok(copy),
            Err(failure) => {
                self.kill(&copy).await;
                Err(failure)
            }
        }
    }

    async fn fill(&self, source: &Sandbox, copy: &Sandbox) -> Result<(), Failure> {
        let failed = |error: std::io::Error| Failure::internal(format!("copying: {error}"));
        let to = self.root(copy).map_err(failed)?;
        let most = self.hub.limits.e2b_disk_bytes;
        let copied = self.on_disk(source, move |from| super::entries::copy(from, &to, most));
        copied.await.map_err(failed)?;
        for context in source.record().contexts {
            self.copy_context(source, &context, copy).await?;
        }
        record::keep(&self.folder, &copy.record());
        Ok(())
    }

    async fn copy_context(
        &self,
        source: &Sandbox,
        context: &Context,
        copy: &Sandbox,
    ) -> Result<(), Problem> {
        let added = copy.change(|record| record.add_context(context));
        if context.executions == 0 && context.cwd == place::HOME {
            return Ok(());
        }
        if self.native_python(source, context).is_some() {
            // It has no state yet; see `immovable`.
            return Ok(());
        }
        let gone = CancellationToken::new();
        let (desk, session) = self.session_of_any(source, context).await?;
        let params = SnapshotParams { sandbox: session.sandbox, files: false };
        let kept: Snapshotted = desk.ask(&session, &gone, SNAPSHOT, &params).await?;
        let restored = async {
            let (desk, session) = self.session(copy, &added).await?;
            let params = RestoreParams { sandbox: session.sandbox, snapshot: kept.snapshot };
            desk.ask::<()>(&session, &gone, RESTORE, &params).await
        };
        let restored = restored.await;
        let params = SnapshotDropParams { snapshot: kept.snapshot };
        desk.connection().await?.client.request::<()>(SNAPSHOT_DROP, &params).await?;
        if !source.is_running() {
            self.leave_session(&source.owner, &context.session).await;
        }
        restored
    }
}

impl Record {
    /// A context like another sandbox's, under the same name.
    fn add_context(&mut self, like: &Context) -> Context {
        let session = super::contexts::next_session(self);
        let context = Context { session, ..like.clone() };
        self.contexts.push(context.clone());
        context
    }
}

/// A snapshot is never over.
pub(super) const fn on_timeout_of(kind: &Kind, wanted: OnTimeout) -> OnTimeout {
    match kind {
        Kind::Sandbox => wanted,
        Kind::Snapshot { .. } => OnTimeout::Pause,
    }
}
