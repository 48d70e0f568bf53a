//! Snapshots between a session and a client, as files that only the server sees.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use belljar_core::limits::{MAX_CHUNK_BYTES, MAX_KEPT_SNAPSHOT_BYTES};
use belljar_core::protocol::methods::{
    Chunk, SnapshotReadParams, SnapshotWriteParams, Snapshotted,
};
use belljar_core::protocol::{FAILED, INVALID_PARAMS, RpcError};
use tempfile::{NamedTempFile, TempDir};

use super::errors::{busy, unknown};

pub(super) struct Snapshots {
    folder: TempDir,
    max: usize,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    last: u64,
    files: BTreeMap<u64, NamedTempFile>,
}

impl Snapshots {
    pub(super) fn new(max: usize) -> io::Result<Self> {
        let folder = tempfile::Builder::new().prefix("belljar-").tempdir()?;
        Ok(Self { folder, max, kept: Mutex::default() })
    }

    /// A place for a new one; `fill` writes it.
    pub(super) fn add(
        &self,
        fill: impl FnOnce(&std::path::Path) -> Result<(), RpcError>,
    ) -> Result<Snapshotted, RpcError> {
        let file = NamedTempFile::new_in(self.folder.path()).map_err(|error| broken(&error))?;
        fill(file.path())?;
        // It may have been replaced as a whole.
        let bytes = std::fs::metadata(file.path()).map_err(|error| broken(&error))?.len();
        let mut kept = self.kept();
        let taken = kept.bytes().map_err(|error| broken(&error))?;
        if kept.files.len() >= self.max || taken + bytes > MAX_KEPT_SNAPSHOT_BYTES {
            return Err(busy("too many snapshots are kept; drop one first"));
        }
        kept.last += 1;
        let snapshot = kept.last;
        kept.files.insert(snapshot, file);
        Ok(Snapshotted { snapshot, bytes })
    }

    pub(super) fn read(&self, wanted: SnapshotReadParams) -> Result<Chunk, RpcError> {
        let path = self.path(wanted.snapshot)?;
        let read = || -> io::Result<Chunk> {
            let mut file = File::open(path)?;
            let bytes = file.metadata()?.len();
            file.seek(SeekFrom::Start(wanted.offset))?;
            let mut part = Vec::new();
            file.take(wanted.length.min(MAX_CHUNK_BYTES)).read_to_end(&mut part)?;
            Ok(Chunk { data: STANDARD.encode(part), bytes, link: None })
        };
        read().map_err(|error| broken(&error))
    }

    pub(super) fn write(&self, params: &SnapshotWriteParams) -> Result<Snapshotted, RpcError> {
        let data = decoded(&params.data)?;
        let Some(snapshot) = params.snapshot else {
            return self.add(|path| std::fs::write(path, &data).map_err(|error| broken(&error)));
        };
        let path = self.path(snapshot)?;
        let taken = self.kept().bytes().map_err(|error| broken(&error))?;
        if taken + data.len() as u64 > MAX_KEPT_SNAPSHOT_BYTES {
            return Err(busy("the snapshots that are kept take too much room; drop one first"));
        }
        let write = || -> io::Result<u64> {
            let mut file = File::options().append(true).open(path)?;
            file.write_all(&data)?;
            Ok(file.metadata()?.len())
        };
        write().map(|bytes| Snapshotted { snapshot, bytes }).map_err(|error| broken(&error))
    }

    pub(super) fn path(&self, snapshot: u64) -> Result<PathBuf, RpcError> {
        let kept = self.kept();
        let file = kept.files.get(&snapshot).ok_or_else(|| unknown("snapshot", snapshot))?;
        Ok(file.path().to_owned())
    }

    pub(super) fn forget(&self, snapshot: u64) -> Result<(), RpcError> {
        let forgotten = self.kept().files.remove(&snapshot);
        forgotten.map(drop).ok_or_else(|| unknown("snapshot", snapshot))
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn bytes(&self) -> io::Result<u64> {
        self.files.values().map(|file| Ok(std::fs::metadata(file.path())?.len())).sum()
    }
}

/// Bytes that came as text.
pub(super) fn decoded(data: &str) -> Result<Vec<u8>, RpcError> {
    let bytes = STANDARD
        .decode(data)
        .map_err(|error| RpcError::new(INVALID_PARAMS, format!("data is no base64: {error}")))?;
    if bytes.len() as u64 > MAX_CHUNK_BYTES {
        let problem = format!("data: at most {MAX_CHUNK_BYTES} bytes fit into a message");
        return Err(RpcError::new(INVALID_PARAMS, problem));
    }
    Ok(bytes)
}

fn broken(error: &io::Error) -> RpcError {
    RpcError::new(FAILED, format!("the snapshot cannot be kept or read: {error}"))
}
