//! Snapshots on their way between here and a daemon, in pieces.

use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use belljar_core::SandboxError;
use belljar_core::limits::{MAX_CHUNK_BYTES, MAX_KEPT_SNAPSHOT_BYTES};
use belljar_core::protocol::methods::{
    Chunk, SNAPSHOT_DROP, SNAPSHOT_READ, SNAPSHOT_WRITE, SnapshotDropParams, SnapshotReadParams,
    SnapshotWriteParams, Snapshotted,
};

use super::place::Place;
use crate::home::Home;
use crate::snapshot::Snapshot;

/// A snapshot that the daemon keeps for this connection, until this is dropped.
pub(super) struct Kept<'a> {
    place: &'a Place,
    pub(super) snapshot: u64,
}

impl Drop for Kept<'_> {
    fn drop(&mut self) {
        self.place.tell(SNAPSHOT_DROP, &SnapshotDropParams { snapshot: self.snapshot });
    }
}

/// Brings one here. Whatever the daemon sends, it is read like any file.
pub(super) fn download(
    place: &Place,
    kept: Snapshotted,
    home: &Home,
) -> Result<Snapshot, SandboxError> {
    let Snapshotted { snapshot, bytes } = kept;
    let kept = Kept { place, snapshot };
    if bytes > MAX_KEPT_SNAPSHOT_BYTES {
        return Err(unusable("the daemon says that it is larger than any may be".to_owned()));
    }
    let failed = |error: std::io::Error| unusable(format!("it cannot be kept here: {error}"));
    let mut file = tempfile::NamedTempFile::new().map_err(failed)?;
    let mut offset = 0;
    while offset < bytes {
        let wanted = SnapshotReadParams { snapshot, offset, length: MAX_CHUNK_BYTES };
        let chunk: Chunk = place.ask(SNAPSHOT_READ, &wanted)?;
        let part = STANDARD.decode(&chunk.data).ok().filter(|part| !part.is_empty());
        let part = part.ok_or_else(|| unusable("the daemon sends only a part of it".to_owned()))?;
        file.write_all(&part).map_err(failed)?;
        offset += part.len() as u64;
    }
    file.flush().map_err(failed)?;
    drop(kept);
    Snapshot::read(file.path(), home).map_err(|error| match error {
        // The file's name means nothing to anybody.
        SandboxError::Snapshot { problem, hint, .. } => {
            SandboxError::Snapshot { path: None, problem, hint }
        }
        other => other,
    })
}

/// Takes one to the daemon.
pub(super) fn upload<'a>(place: &'a Place, snapshot: &Snapshot) -> Result<Kept<'a>, SandboxError> {
    let failed = |error: std::io::Error| unusable(format!("it cannot be sent: {error}"));
    let folder = tempfile::tempdir().map_err(failed)?;
    let path = folder.path().join("snapshot");
    snapshot.write(&path)?;
    let mut file = File::open(&path).map_err(failed)?;
    let first: Snapshotted = place.ask(SNAPSHOT_WRITE, &next(None, &mut file, &path)?)?;
    let kept = Kept { place, snapshot: first.snapshot };
    loop {
        let params = next(Some(kept.snapshot), &mut file, &path)?;
        if params.data.is_empty() {
            return Ok(kept);
        }
        let _: Snapshotted = place.ask(SNAPSHOT_WRITE, &params)?;
    }
}

fn next(
    snapshot: Option<u64>,
    file: &mut File,
    path: &Path,
) -> Result<SnapshotWriteParams, SandboxError> {
    let mut part = Vec::new();
    file.take(MAX_CHUNK_BYTES)
        .read_to_end(&mut part)
        .map_err(|error| unusable(format!("{} cannot be read: {error}", path.display())))?;
    Ok(SnapshotWriteParams { snapshot, data: STANDARD.encode(part) })
}

fn unusable(problem: String) -> SandboxError {
    SandboxError::Snapshot { path: None, problem, hint: None }
}
