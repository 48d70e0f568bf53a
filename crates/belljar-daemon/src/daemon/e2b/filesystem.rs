//! The agent's file service: directories and what is in them.

use std::io;
use std::sync::Arc;

use axum::extract::{Extension, Path, Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use rustix::fs::{Mode, OFlags};
use serde::Deserialize;
use serde_json::{Value, json};

use super::E2b;
use super::connect::{self, Code, Refusal};
use super::entries;
use super::errors::answer;
use super::place::Inside;
use super::registry::Sandbox;
use super::{body, watch};

/// Levels of a list.
const MAX_DEPTH: u32 = 64;

#[derive(Debug, Deserialize)]
struct PathMessage {
    #[serde(default)]
    path: String,
}

#[derive(Debug, Deserialize)]
struct MoveMessage {
    #[serde(default)]
    source: String,
    #[serde(default)]
    destination: String,
}

#[derive(Debug, Deserialize)]
struct ListMessage {
    #[serde(default)]
    path: String,
    #[serde(default)]
    depth: u32,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct WatcherMessage {
    #[serde(default)]
    watcher_id: String,
}

pub(super) async fn serve(
    State(e2b): State<Arc<E2b>>,
    Extension(sandbox): Extension<Arc<Sandbox>>,
    Path(method): Path<String>,
    request: Request,
) -> Response {
    let interval = connect::number(request.headers(), watch::PING_HEADER);
    let bytes = match body::bytes(&e2b.hub, request.into_body()).await {
        Ok(bytes) => bytes,
        Err(failure) => return failure.into_response(),
    };
    if method == "WatchDir" {
        return match connect::framed_message(&bytes) {
            Ok(wanted) => watch::stream(&e2b, &sandbox, wanted, interval).await,
            Err(refusal) => connect::refused_stream(refusal),
        };
    }
    match call(&e2b, &sandbox, &method, &bytes).await {
        Ok(value) => answer(StatusCode::OK, &value),
        Err(refusal) => refusal.into_response(),
    }
}

async fn call(e2b: &E2b, sandbox: &Sandbox, method: &str, bytes: &[u8]) -> Result<Value, Refusal> {
    match method {
        "Stat" => {
            let PathMessage { path } = connect::message(bytes)?;
            let path = inside(&path)?;
            let entry = e2b.on_disk(sandbox, move |root| entries::entry(root, &path)).await?;
            Ok(json!({ "entry": entry }))
        }
        "MakeDir" => {
            let PathMessage { path } = connect::message(bytes)?;
            make_directory(e2b, sandbox, inside(&path)?).await
        }
        "Move" => {
            let MoveMessage { source, destination } = connect::message(bytes)?;
            let (source, destination) = (writable(&source)?, writable(&destination)?);
            let moved = e2b.on_disk(sandbox, move |root| {
                entries::rename(root, &source, &destination)?;
                entries::entry(root, &destination)
            });
            Ok(json!({ "entry": moved.await? }))
        }
        "Remove" => {
            let PathMessage { path } = connect::message(bytes)?;
            let path = writable(&path)?;
            e2b.on_disk(sandbox, move |root| entries::remove(root, &path)).await?;
            Ok(json!({}))
        }
        "ListDir" => {
            let ListMessage { path, depth } = connect::message(bytes)?;
            let (path, depth) = (inside(&path)?, depth.clamp(1, MAX_DEPTH));
            let entries =
                e2b.on_disk(sandbox, move |root| entries::list(root, &path, depth)).await?;
            Ok(json!({ "entries": entries }))
        }
        "CreateWatcher" => watch::create(e2b, sandbox, connect::message(bytes)?).await,
        "GetWatcherEvents" => {
            let WatcherMessage { watcher_id } = connect::message(bytes)?;
            sandbox.watchers.events(&watcher_id)
        }
        "RemoveWatcher" => {
            let WatcherMessage { watcher_id } = connect::message(bytes)?;
            sandbox.watchers.remove(&watcher_id)
        }
        _ => Err(Refusal::new(Code::Unimplemented, "there is no such method")),
    }
}

async fn make_directory(e2b: &E2b, sandbox: &Sandbox, path: Inside) -> Result<Value, Refusal> {
    let made =
        e2b.on_disk(sandbox, move |root| match root.open(&path, OFlags::PATH, Mode::empty()) {
            Ok(found) => {
                let found = rustix::fs::fstat(&found)?;
                let kind = rustix::fs::FileType::from_raw_mode(found.st_mode);
                let is_directory = kind == rustix::fs::FileType::Directory;
                let kind = if is_directory {
                    io::ErrorKind::AlreadyExists
                } else {
                    io::ErrorKind::NotADirectory
                };
                Err(kind.into())
            }
            Err(_) => {
                root.make_directories(&path)?;
                entries::entry(root, &path)
            }
        });
    Ok(json!({ "entry": made.await? }))
}

pub(super) fn inside(path: &str) -> Result<Inside, Refusal> {
    Inside::new(path).map_err(Refusal::invalid)
}

fn writable(path: &str) -> Result<Inside, Refusal> {
    let path = inside(path)?;
    if path.is_writable() {
        return Ok(path);
    }
    let problem = format!("{} cannot be changed", path.as_str());
    Err(Refusal::new(Code::PermissionDenied, problem))
}
