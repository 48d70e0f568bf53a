//! Snapshots from one worker to another: a session is restored where it lives.

use std::sync::Arc;

use belljar_core::limits::MAX_CHUNK_BYTES;
use belljar_core::protocol::methods::{
    Chunk, SNAPSHOT_READ, SNAPSHOT_WRITE, SnapshotReadParams, SnapshotWriteParams, Snapshotted,
};
use belljar_core::protocol::{FAILED, RpcError};

use super::client::{Client, Kept};
use super::fields::read;
use super::worker::{Lost, Worker};

/// The number a client's snapshot has in that worker, which gets a copy if it has none.
pub(super) async fn bring(
    client: &Client,
    snapshot: u64,
    to: &Arc<Worker>,
) -> Result<u64, RpcError> {
    let kept = client.kept(snapshot)?;
    if Arc::ptr_eq(&kept.worker, to) {
        return Ok(kept.snapshot);
    }
    let mut there = None;
    let mut offset = 0;
    loop {
        let wanted =
            SnapshotReadParams { snapshot: kept.snapshot, offset, length: MAX_CHUNK_BYTES };
        let part = kept.worker.call(SNAPSHOT_READ, &wanted).await.map_err(lost)??;
        let part: Chunk = read(&part)?;
        let params = SnapshotWriteParams { snapshot: there, data: part.data };
        let written = to.call(SNAPSHOT_WRITE, &params).await.map_err(lost)??;
        let written: Snapshotted = read(&written)?;
        if there.is_some() && written.bytes <= offset {
            return Err(RpcError::new(FAILED, "the snapshot cannot be brought to its session"));
        }
        there = Some(written.snapshot);
        offset = written.bytes;
        if offset >= part.bytes {
            client.keep_at(snapshot, Kept { worker: Arc::clone(to), snapshot: written.snapshot });
            return Ok(written.snapshot);
        }
    }
}

fn lost(Lost: Lost) -> RpcError {
    RpcError::new(FAILED, "a worker was lost while the snapshot was on its way; try again")
}
