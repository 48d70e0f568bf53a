//! Loaded guests, shared by everything in this process.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use belljar_core::{GuestImage, RuntimeType};
pub use belljar_wasm::CompileEvent;
use belljar_wasm::{CommandGuest, EngineError, Interpreter, Missing};

type Observer = Box<dyn Fn(CompileEvent) + Send + Sync>;

static OBSERVER: OnceLock<Observer> = OnceLock::new();

/// Whether somebody else compiles the data image.
static DATA_COMES_FROM_ELSEWHERE: AtomicBool = AtomicBool::new(false);

/// Sets who is told when a guest has to be compiled first, which takes some seconds. The first
/// caller wins: this is for programs, which have one place to show progress.
pub fn on_compile(observer: impl Fn(CompileEvent) + Send + Sync + 'static) {
    let _ = OBSERVER.set(Box::new(observer));
}

/// From now on the data image is not compiled in this process: where it is not in the cache, a
/// sandbox that needs it is refused with [`SandboxError::ImageMissing`]. For workers, which have
/// neither the memory for that nor a place to keep it.
///
/// [`SandboxError::ImageMissing`]: belljar_core::SandboxError::ImageMissing
pub fn leave_data_image_to_others() {
    DATA_COMES_FROM_ELSEWHERE.store(true, Ordering::Relaxed);
}

/// A guest, or a place for one that is being loaded.
type Place = Arc<Mutex<Option<Arc<Interpreter>>>>;

type Key = (RuntimeType, GuestImage, PathBuf);

/// The embedded guest of a language with its code in `cache_dir`, loaded once per process.
pub(crate) fn embedded(
    language: RuntimeType,
    image: GuestImage,
    cache_dir: &Path,
) -> Result<Arc<Interpreter>, EngineError> {
    let place = place_of((language, image, cache_dir.to_owned()));
    // Held while loading, so that threads starting together compile once; nobody waits here for
    // another guest. A guest is put there whole or not at all, so a poisoned lock protects nothing
    // broken.
    let mut place = place.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(guest) = &*place {
        return Ok(Arc::clone(guest));
    }
    let missing = match image {
        GuestImage::Data if DATA_COMES_FROM_ELSEWHERE.load(Ordering::Relaxed) => Missing::Refuse,
        GuestImage::Plain | GuestImage::Data => Missing::Compile(&observe),
    };
    let load = |cache_dir: &Path| Interpreter::load(language, image, cache_dir, missing);
    let guest = Arc::new(with_cache(cache_dir, load)?);
    *place = Some(Arc::clone(&guest));
    Ok(guest)
}

fn place_of(key: Key) -> Place {
    static PLACES: Mutex<Option<HashMap<Key, Place>>> = Mutex::new(None);
    let mut places = PLACES.lock().unwrap_or_else(PoisonError::into_inner);
    Arc::clone(places.get_or_insert_default().entry(key).or_default())
}

/// Sees to it that an image is in the cache, for others to load it.
pub(super) fn prepare(
    language: RuntimeType,
    image: GuestImage,
    cache_dir: &Path,
) -> Result<(), EngineError> {
    Interpreter::prepare(language, image, cache_dir, &observe)
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
