//! Files over HTTP: read and written whole, with the sandbox's token or a signed address.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::body::{Body, Bytes};
use axum::extract::{Extension, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use flate2::write::GzDecoder;
use futures_util::{Stream, StreamExt, stream};
use multer::Multipart;
use rustix::fs::{Mode, OFlags};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::time::timeout;

use super::super::limits::seconds;
use super::E2b;
use super::entries;
use super::errors::{Failure, answer};
use super::keys::same;
use super::place::{self, Inside, Root};
use super::query::Query;
use super::registry::Sandbox;
use super::room::Writing;
use super::time;

/// What is read of a file at once.
const CHUNK_BYTES: usize = 256 * 1024;
/// Files of one upload.
const MAX_PARTS: usize = 1000;
/// Of a form, before it is known what they are.
const MAX_UNKNOWN_BYTES: usize = 1024 * 1024;
/// What metadata is called in headers.
const METADATA_HEADER: &str = "x-metadata-";

impl E2b {
    pub(super) fn root(&self, sandbox: &Sandbox) -> io::Result<Root> {
        place::open(&self.directory_of(sandbox.slot()), &sandbox.id)
    }

    /// Does something in a sandbox's directories, where waiting for a disk holds up nobody.
    pub(super) async fn on_disk<T: Send + 'static>(
        &self,
        sandbox: &Sandbox,
        work: impl FnOnce(&Root) -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let root = self.root(sandbox)?;
        let done = tokio::task::spawn_blocking(move || work(&root)).await;
        done.map_err(|_| io::Error::other("this came to nothing"))?
    }

    /// A part in the room that is left.
    async fn room(&self, sandbox: &Sandbox) -> io::Result<Writing> {
        let most = self.hub.limits.e2b_disk_bytes;
        if let Some(writing) = sandbox.room.enter(None, most) {
            return Ok(writing);
        }
        let measured = self.on_disk(sandbox, Root::used_bytes).await?;
        let writing = sandbox.room.enter(Some(measured), most);
        writing.ok_or_else(|| io::Error::other("the room cannot be measured"))
    }

    /// The sandbox for which an address was signed.
    pub(super) fn signed_for(&self, query: &Query, operation: &str) -> Option<Arc<Sandbox>> {
        let all = self.registry.all();
        all.into_iter().find(|it| it.is_running() && is_signed(query, operation, &it.token))
    }
}

/// Whether an address was signed by whoever knows the token, and still holds.
pub(super) fn is_signed(query: &Query, operation: &str, token: &str) -> bool {
    let Some(given) = query.get("signature") else { return false };
    let path = query.get("path").unwrap_or_default();
    let user = query.get("username").unwrap_or_default();
    let mut text = format!("{path}:{operation}:{user}:{token}");
    if let Some(expiry) = query.get("signature_expiration") {
        let over = expiry.parse::<u64>().is_ok_and(|it| it.saturating_mul(1000) < time::now_ms());
        if over || expiry.parse::<u64>().is_err() {
            return false;
        }
        text = format!("{text}:{expiry}");
    }
    let made = format!("v1_{}", STANDARD_NO_PAD.encode(Sha256::digest(text.as_bytes())));
    same(given, &made)
}

fn failure(error: &io::Error) -> Failure {
    use io::ErrorKind as Kind;
    let status = match error.kind() {
        Kind::NotFound => StatusCode::NOT_FOUND,
        Kind::PermissionDenied => StatusCode::FORBIDDEN,
        Kind::StorageFull | Kind::QuotaExceeded => StatusCode::INSUFFICIENT_STORAGE,
        Kind::IsADirectory | Kind::NotADirectory | Kind::InvalidInput | Kind::InvalidFilename => {
            StatusCode::BAD_REQUEST
        }
        _ if error.raw_os_error() == Some(rustix::io::Errno::NXIO.raw_os_error()) => {
            StatusCode::BAD_REQUEST
        }
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    };
    Failure::new(status, error.to_string())
}

/// There is one user.
pub(super) fn check_user(name: Option<&str>) -> Result<(), Failure> {
    match name {
        None | Some("" | "user") => Ok(()),
        Some(other) => {
            let other = super::registry::shown(other);
            Err(Failure::unauthorized(&format!("there is no user {other} here; there is user")))
        }
    }
}

pub(super) async fn read(
    State(e2b): State<Arc<E2b>>,
    Extension(sandbox): Extension<Arc<Sandbox>>,
    request: Request,
) -> Result<Response, Failure> {
    let query = Query::new(request.uri().query());
    check_user(query.get("username"))?;
    let path = Inside::new(query.get("path").unwrap_or_default()).map_err(Failure::bad)?;
    let opened = e2b.on_disk(&sandbox, move |root| {
        let file = File::from(root.open(&path, OFlags::RDONLY, Mode::empty())?);
        let found = file.metadata()?;
        if found.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        if !found.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "this is no file"));
        }
        Ok((file, found.size()))
    });
    let (file, bytes) = opened.await.map_err(|error| failure(&error))?;
    // Not more than was there: a client was told how long it is.
    let chunks = stream::unfold((Some(file), bytes), |(file, left)| async move {
        let mut file = file.filter(|_| left > 0)?;
        let wanted = CHUNK_BYTES.min(usize::try_from(left).unwrap_or(CHUNK_BYTES));
        let read = tokio::task::spawn_blocking(move || {
            let mut chunk = vec![0; wanted];
            file.read_exact(&mut chunk)?;
            Ok::<_, io::Error>((file, chunk))
        });
        let (file, chunk) = match read.await.map_err(io::Error::other).flatten() {
            Ok(read) => read,
            // Nothing comes after what broke off.
            Err(error) => return Some((Err(error), (None, 0))),
        };
        let left = left - wanted as u64;
        Some((Ok(Bytes::from(chunk)), (Some(file), left)))
    });
    let headers = [
        (header::CONTENT_TYPE, "application/octet-stream".to_owned()),
        (header::CONTENT_LENGTH, bytes.to_string()),
    ];
    Ok((headers, Body::from_stream(chunks)).into_response())
}

pub(super) async fn write(
    State(e2b): State<Arc<E2b>>,
    Extension(sandbox): Extension<Arc<Sandbox>>,
    request: Request,
) -> Result<Response, Failure> {
    let query = Query::new(request.uri().query());
    check_user(query.get("username"))?;
    let path = query.get("path").filter(|path| !path.is_empty()).map(str::to_owned);
    let metadata = metadata(request.headers())?;
    let headers = request.headers();
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let kind = kind.unwrap_or_default().to_owned();
    let zipped = headers.get(header::CONTENT_ENCODING).map(|it| it.as_bytes().to_vec());
    let body = patient(&e2b, request.into_body());
    let upload = Upload { e2b: &e2b, sandbox: &sandbox, metadata };
    let mut told = Vec::new();
    if kind.starts_with("application/octet-stream") {
        let path = path.ok_or_else(|| Failure::bad("path: is missing"))?;
        let zipped = match zipped.as_deref() {
            None | Some(b"identity") => false,
            Some(b"gzip") => true,
            Some(_) => return Err(Failure::bad("this encoding is not understood; gzip is")),
        };
        told.push(upload.take(&path, body, zipped).await?);
    } else {
        let boundary = multer::parse_boundary(&kind)
            .map_err(|_| Failure::bad("the body is neither a form nor a file"))?;
        let unknown = Arc::new(AtomicUsize::new(0));
        let mut form = Multipart::new(recognised(body, Arc::clone(&unknown)), boundary);
        let broken = |error: multer::Error| Failure::bad(format!("the form is broken: {error}"));
        while let Some(part) = form.next_field().await.map_err(broken)? {
            unknown.store(0, Ordering::Relaxed);
            if part.name() != Some("file") {
                continue;
            }
            if told.len() >= MAX_PARTS {
                return Err(Failure::bad(format!("a form has at most {MAX_PARTS} files")));
            }
            let name = part.file_name().map(|name| name.replace("%22", "\""));
            let Some(path) = path.clone().or(name).filter(|name| !name.is_empty()) else {
                return Err(Failure::bad("a file has no name, and no path is given"));
            };
            let bytes = part.map(|part| {
                unknown.store(0, Ordering::Relaxed);
                part.map_err(io::Error::other)
            });
            told.push(upload.take(&path, bytes, false).await?);
        }
        if told.is_empty() {
            return Err(Failure::bad("the form has no part that is called file"));
        }
    }
    Ok(answer(StatusCode::OK, &told))
}

fn metadata(headers: &HeaderMap) -> Result<BTreeMap<String, String>, Failure> {
    let ours = headers.iter().filter_map(|(name, value)| {
        let name = name.as_str().strip_prefix(METADATA_HEADER)?;
        Some(value.to_str().map(|value| (name.to_owned(), value.to_owned())))
    });
    ours.collect::<Result<_, _>>().map_err(|_| Failure::bad("metadata has to be ASCII"))
}

/// A body that is given up when nothing comes for too long.
fn patient(
    e2b: &E2b,
    body: Body,
) -> impl Stream<Item = io::Result<Bytes>> + Send + Unpin + 'static {
    let patience = seconds(e2b.hub.limits.http_body_seconds);
    let parts = stream::unfold(body.into_data_stream(), move |mut parts| async move {
        match timeout(patience, parts.next()).await {
            Ok(part) => Some((part?.map_err(io::Error::other), parts)),
            Err(_) => Some((Err(io::Error::other("the body did not come in time")), parts)),
        }
    });
    Box::pin(parts)
}

/// A form's body, which is given up when too much comes of which nobody can say what it is: the form
/// would be kept in memory until a boundary comes.
fn recognised(
    body: impl Stream<Item = io::Result<Bytes>> + Send + Unpin + 'static,
    unknown: Arc<AtomicUsize>,
) -> impl Stream<Item = io::Result<Bytes>> + Send + 'static {
    body.map(move |part| {
        let part = part?;
        let bytes = unknown.fetch_add(part.len(), Ordering::Relaxed);
        if bytes > MAX_UNKNOWN_BYTES {
            return Err(io::Error::other("there is no boundary where one should be"));
        }
        Ok(part)
    })
}

struct Upload<'a> {
    e2b: &'a E2b,
    sandbox: &'a Sandbox,
    metadata: BTreeMap<String, String>,
}

impl Upload<'_> {
    /// Takes one file. What breaks in between leaves the beginning of it.
    async fn take(
        &self,
        path: &str,
        mut parts: impl Stream<Item = io::Result<Bytes>> + Unpin,
        zipped: bool,
    ) -> Result<Value, Failure> {
        let failed = |error: io::Error| failure(&error);
        let path = Inside::new(path).map_err(Failure::bad)?;
        let room = self.e2b.room(self.sandbox).await.map_err(failed)?;
        let file = self.open(&path).await.map_err(failed)?;
        let bounded = Bounded { file, room };
        let mut target = if zipped {
            Target::Zipped(Box::new(GzDecoder::new(bounded)))
        } else {
            Target::Plain(bounded)
        };
        while let Some(part) = parts.next().await {
            let part =
                part.map_err(|error| Failure::bad(format!("the body is broken: {error}")))?;
            let written = tokio::task::spawn_blocking(move || {
                target.write_all(&part)?;
                Ok::<_, io::Error>(target)
            });
            target = written.await.map_err(io::Error::other).flatten().map_err(failed)?;
        }
        let finished = tokio::task::spawn_blocking(move || target.finish()).await;
        finished.map_err(io::Error::other).flatten().map_err(failed)?;
        let mut told = json!({ "path": path.as_str(), "name": path.name(), "type": "file" });
        if !self.metadata.is_empty() {
            told["metadata"] = json!(self.metadata);
        }
        Ok(told)
    }

    async fn open(&self, path: &Inside) -> io::Result<File> {
        let (path, metadata) = (path.clone(), self.metadata.clone());
        self.e2b.on_disk(self.sandbox, move |root| open_to_write(root, &path, &metadata)).await
    }
}

fn open_to_write(
    root: &Root,
    path: &Inside,
    metadata: &BTreeMap<String, String>,
) -> io::Result<File> {
    if !path.is_writable() {
        return Err(match root.directory(path) {
            Ok(_) => io::ErrorKind::IsADirectory.into(),
            Err(_) => io::ErrorKind::PermissionDenied.into(),
        });
    }
    if let Some(parent) = path.parent() {
        root.make_directories(&parent)?;
        root.directory_to_change(&parent)?;
    }
    let flags = OFlags::WRONLY | OFlags::CREATE;
    let mode = Mode::from_raw_mode(0o644);
    let new = root.open(path, OFlags::PATH, Mode::empty()).is_err();
    let file = File::from(root.open(path, flags, mode)?);
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "this is no file"));
    }
    if new {
        // The daemon makes everything for itself alone; in there it is a home.
        rustix::fs::fchmod(&file, mode)?;
    }
    file.set_len(0)?;
    entries::set_metadata(&file, root, path, metadata)?;
    Ok(file)
}

enum Target {
    Plain(Bounded),
    Zipped(Box<GzDecoder<Bounded>>),
}

impl Target {
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Plain(file) => file.write_all(bytes),
            Self::Zipped(file) => file.write_all(bytes),
        }
    }

    fn finish(self) -> io::Result<()> {
        match self {
            Self::Plain(_) => Ok(()),
            Self::Zipped(file) => {
                let broken = |error: io::Error| io::Error::new(io::ErrorKind::InvalidInput, error);
                file.finish().map(drop).map_err(broken)
            }
        }
    }
}

/// A file that takes no more than there is room for.
struct Bounded {
    file: File,
    room: Writing,
}

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.room.take(bytes.len() as u64) {
            let problem = "the sandbox's disk is full";
            return Err(io::Error::new(io::ErrorKind::StorageFull, problem));
        }
        // All of it: all of it was taken.
        self.file.write_all(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn a_form_without_a_boundary_is_not_kept_and_one_with_parts_has_no_end() {
        let taken = |recognises: bool| {
            let unknown = Arc::new(AtomicUsize::new(0));
            let chunks = (0..8).map(|_| Ok(Bytes::from(vec![b'x'; MAX_UNKNOWN_BYTES / 2])));
            let mut body = recognised(stream::iter(chunks), Arc::clone(&unknown));
            let mut taken = 0;
            while let Some(Some(Ok(_))) = body.next().now_or_never() {
                taken += 1;
                if recognises {
                    unknown.store(0, Ordering::Relaxed);
                }
            }
            taken
        };
        assert_eq!((taken(false), taken(true)), (3, 8));
    }
}
