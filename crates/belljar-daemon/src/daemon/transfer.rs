//! Snapshots from one worker to another: a session is restored where it lives.

use std::sync::Arc;

use belljar_core::limits::MAX_CHUNK_BYTES;
use belljar_core::protocol::methods::{
    Chunk, SNAPSHOT_READ, SNAPSHOT_WRITE, SnapshotReadParams, SnapshotWriteParams, Snapshotted,
};
use belljar_core::protocol::{FAILED, RpcError};

use super::client::{Client, Kept, forget};
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
    let copied = copy(&kept, to, &mut there).await;
    match (copied, there) {
        (Ok(bytes), Some(there)) => {
            let copy = Kept { worker: Arc::clone(to), snapshot: there, bytes };
            client.keep_at(snapshot, copy).map(|()| there)
        }
        (failed, there) => {
            if let Some(there) = there {
                // Nobody else knows of it.
                forget(&Kept { worker: Arc::clone(to), snapshot: there, bytes: 0 });
            }
            failed.and(Err(unbrought()))
        }
    }
}

/// How long it is. `there` is the number of the copy as soon as there is one.
async fn copy(kept: &Kept, to: &Worker, there: &mut Option<u64>) -> Result<u64, RpcError> {
    let mut offset = 0;
    loop {
        let wanted =
            SnapshotReadParams { snapshot: kept.snapshot, offset, length: MAX_CHUNK_BYTES };
        let part = kept.worker.call(SNAPSHOT_READ, &wanted).await.map_err(lost)??;
        let part: Chunk = read(&part)?;
        let params = SnapshotWriteParams { snapshot: *there, data: part.data };
        let written = to.call(SNAPSHOT_WRITE, &params).await.map_err(lost)??;
        let written: Snapshotted = read(&written)?;
        if there.is_some() && written.bytes <= offset {
            return Err(unbrought());
        }
        *there = Some(written.snapshot);
        offset = written.bytes;
        if offset >= part.bytes {
            return Ok(offset);
        }
    }
}

fn unbrought() -> RpcError {
    RpcError::new(FAILED, "the snapshot cannot be brought to its session")
}

fn lost(Lost: Lost) -> RpcError {
    RpcError::new(FAILED, "a worker was lost while the snapshot was on its way; try again")
}
