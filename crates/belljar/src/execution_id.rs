//! Names of executions: unique in this process and, for all practical purposes, elsewhere.

use std::hash::{BuildHasher, RandomState};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

pub(crate) fn next() -> String {
    static PROCESS: OnceLock<u64> = OnceLock::new();
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let process = PROCESS.get_or_init(|| RandomState::new().hash_one(std::process::id()));
    format!("{process:016x}-{:x}", COUNT.fetch_add(1, Ordering::Relaxed))
}
