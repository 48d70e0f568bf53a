//! Loaded guests, shared by everything in this process.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use belljar_core::RuntimeType;
pub use belljar_wasm::CompileEvent;
use belljar_wasm::{CommandGuest, EngineError, Interpreter};

type Observer = Box<dyn Fn(CompileEvent) + Send + Sync>;

static OBSERVER: OnceLock<Observer> = OnceLock::new();

/// Sets who is told when a guest has to be compiled first, which takes some seconds. The first
/// caller wins: this is for programs, which have one place to show progress.
pub fn on_compile(observer: impl Fn(CompileEvent) + Send + Sync + 'static) {
    let _ = OBSERVER.set(Box::new(observer));
}

type Loaded = HashMap<(RuntimeType, PathBuf), Arc<Interpreter>>;

/// The embedded guest of a language with its code in `cache_dir`, loaded once per process.
pub(crate) fn embedded(
    language: RuntimeType,
    cache_dir: &Path,
) -> Result<Arc<Interpreter>, EngineError> {
    static LOADED: Mutex<Option<Loaded>> = Mutex::new(None);
    // Held while loading, so that threads starting together compile once. An entry is inserted
    // whole or not at all, so a poisoned lock protects nothing broken.
    let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
    let loaded = loaded.get_or_insert_default();
    let key = (language, cache_dir.to_owned());
    if let Some(guest) = loaded.get(&key) {
        return Ok(Arc::clone(guest));
    }
    let load = |cache_dir: &Path| Interpreter::load(language, cache_dir, &observe);
    let guest = Arc::new(with_cache(cache_dir, load)?);
    loaded.insert(key, Arc::clone(&guest));
    Ok(guest)
}

/// A guest from a file, with its code in `cache_dir`.
pub(super) fn command(path: &Path, cache_dir: &Path) -> Result<CommandGuest, EngineError> {
    with_cache(cache_dir, |cache_dir| CommandGuest::load(path, cache_dir, &observe))
}

fn observe(event: CompileEvent) {
    if let Some(observer) = OBSERVER.get() {
        observer(event);
    }
}

/// Without a usable cache every process compiles anew, but sandboxes work.
fn with_cache<T>(
    cache_dir: &Path,
    load: impl Fn(&Path) -> Result<T, EngineError>,
) -> Result<T, EngineError> {
    match load(cache_dir) {
        Err(EngineError::Cache { path, problem }) => {
            tracing::warn!(path = %path.display(), problem, "compiled guests cannot be kept");
            load(tempfile::tempdir()?.path())
        }
        other => other,
    }
}
