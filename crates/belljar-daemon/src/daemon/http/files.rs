//! Files of a session's workspace.

use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::{Extension, Path, Request};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use belljar::core::limits::MAX_CHUNK_BYTES;
use belljar::core::protocol::methods::{
    Chunk, FILES_LIST, FILES_READ, FILES_REMOVE, FILES_WRITE, FileParams, FileReadParams,
    FileWriteParams, SandboxParams,
};
use futures_util::stream;
use tokio_util::sync::CancellationToken;

use super::body::{self, Read};
use super::door::Caller;
use super::errors::{IS_LINK, NO_FILE, Refused, json};
use super::forms::FileListing;
use super::routes::to_the_end;
use crate::desk::{Desk, Problem, Session};

/// Bytes of a file that are written with one request to the worker.
const PART_BYTES: usize = 4 * 1024 * 1024;
const _: () = assert!(PART_BYTES as u64 == MAX_CHUNK_BYTES);

pub(super) async fn list(
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
) -> Result<Response, Refused> {
    let files = to_the_end(caller, |caller, gone| async move {
        let _room = caller.desk.admit()?;
        let session = caller.desk.sessions.get(&id)?;
        let params = SandboxParams { sandbox: session.sandbox };
        caller.desk.ask(&session, &gone, FILES_LIST, &params).await
    });
    Ok(json(StatusCode::OK, &FileListing { files: files.await? }))
}

/// A file that is being read, part by part.
struct Reading {
    desk: Arc<Desk>,
    session: Arc<Session>,
    path: String,
    offset: u64,
    /// The size of the whole, as it was told last.
    bytes: u64,
}

impl Reading {
    async fn part(&mut self) -> Result<Bytes, Problem> {
        let params = FileReadParams {
            sandbox: self.session.sandbox,
            path: self.path.clone(),
            offset: self.offset,
            length: Some(MAX_CHUNK_BYTES),
        };
        let _room = self.desk.admit()?;
        let gone = CancellationToken::new();
        let asked = self.desk.ask(&self.session, &gone, FILES_READ, &params).await;
        let Chunk { data, bytes, link } = asked.map_err(not_there)?;
        if let Some(target) = link {
            let problem = format!("{} is a link to {target:?}", self.path);
            return Err(Problem::new(IS_LINK, problem).hint("read what it leads to"));
        }
        let part = STANDARD.decode(data);
        let part = part.map_err(|error| Problem::failed(format!("nonsense came: {error}")))?;
        self.offset = self.offset.saturating_add(part.len() as u64);
        self.bytes = bytes;
        Ok(part.into())
    }
}

pub(super) async fn read(
    Extension(caller): Extension<Caller>,
    Path((id, path)): Path<(String, String)>,
) -> Result<Response, Refused> {
    let session = caller.desk.sessions.get(&id)?;
    let mut reading =
        Reading { desk: Arc::clone(&caller.desk), session, path, offset: 0, bytes: 0 };
    let first = reading.part().await?;
    let headers = [
        (header::CONTENT_TYPE, "application/octet-stream"),
        // Whatever a guest wrote is nothing to be shown.
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    if reading.offset >= reading.bytes {
        return Ok((headers, Body::from(first)).into_response());
    }
    let parts = stream::try_unfold((Some(first), reading), |(first, mut reading)| async {
        let part = match first {
            Some(first) => first,
            None if reading.offset >= reading.bytes => return Ok(None),
            // What goes wrong now ends the connection: the answer has begun.
            None => reading.part().await.map_err(|problem| problem.to_string())?,
        };
        // A file that has become shorter meanwhile is over.
        Ok::<_, String>((!part.is_empty()).then_some((part, (None, reading))))
    });
    Ok((headers, Body::from_stream(parts)).into_response())
}

pub(super) async fn write(
    Extension(caller): Extension<Caller>,
    Path((id, path)): Path<(String, String)>,
    request: Request,
) -> Result<StatusCode, Refused> {
    caller.desk.sessions.get(&id)?;
    let Read { value: content, held } = body::bytes(&caller.api.hub, request.into_body()).await?;
    to_the_end(caller, |caller, gone| async move {
        let _held = held;
        let _room = caller.desk.admit()?;
        let session = caller.desk.sessions.get(&id)?;
        let mut append = false;
        let mut rest = content.as_slice();
        // Also for a file in which nothing is.
        while !append || !rest.is_empty() {
            let (part, more) = rest.split_at_checked(PART_BYTES).unwrap_or((rest, &[]));
            let params = FileWriteParams {
                sandbox: session.sandbox,
                path: path.clone(),
                data: STANDARD.encode(part),
                append,
                link: None,
                directory: false,
            };
            caller.desk.ask::<()>(&session, &gone, FILES_WRITE, &params).await?;
            (append, rest) = (true, more);
        }
        Ok(())
    })
    .await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(super) async fn remove(
    Extension(caller): Extension<Caller>,
    Path((id, path)): Path<(String, String)>,
) -> Result<StatusCode, Refused> {
    to_the_end(caller, |caller, gone| async move {
        let _room = caller.desk.admit()?;
        let session = caller.desk.sessions.get(&id)?;
        let params = FileParams { sandbox: session.sandbox, path };
        let removed = caller.desk.ask::<()>(&session, &gone, FILES_REMOVE, &params).await;
        removed.map_err(not_there)
    })
    .await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Whatever keeps a path from being read or removed, there is nothing to be had there.
fn not_there(problem: Problem) -> Problem {
    match &*problem.code {
        "workspace" => Problem { code: NO_FILE.into(), ..problem },
        _ => problem,
    }
}
