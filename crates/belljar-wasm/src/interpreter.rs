//! Interpreters as guests: loading them, making live ones.

use std::path::Path;
use std::sync::Arc;

use belljar_core::limits::MAX_MEMORY_BYTES;
use belljar_core::{GuestImage, RuntimeType, ToolLimits};
use belljar_guests::Guest;
use wasmtime::{Engine, Module};

use crate::cache::{self, Cache, Entry, Parts};
use crate::engine::{ReadyGuest, base_config, slot_engine};
use crate::error::EngineError;
use crate::guest::{Manifest, unpack};
use crate::instance::Holdings;
use crate::live::Live;
use crate::memory::{Image, SlotPool};
use crate::state::Birth;
use crate::wasi::{Grant, Wasi};
use belljar_host::CancelHandle;
use belljar_host::{CallHost, Desk};

/// Beyond its image an interpreter needs a little memory to do anything at all.
const MEMORY_TO_START: u64 = 2 * 1024 * 1024;

/// An interpreter, loaded. Shared between threads; makes any number of live ones.
pub struct Interpreter {
    ready: ReadyGuest,
    manifest: Manifest,
    image: GuestImage,
    /// What its image holds beyond the plain one, which no guest has to pay for.
    free_bytes: u64,
}

/// Something slow is going on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompileEvent {
    /// The guest is not in the cache: it will be compiled now, which takes some seconds, and for an
    /// image with much in it a minute.
    Started(GuestImage),
    /// It is compiled.
    Finished,
}

/// Told about slow things.
pub type Observer<'a> = &'a dyn Fn(CompileEvent);

/// What to do about a guest that is not in the cache.
#[derive(Clone, Copy)]
pub enum Missing<'a> {
    /// Compile it, and tell that.
    Compile(Observer<'a>),
    /// Nothing: somebody else does it.
    Refuse,
}

impl Interpreter {
    /// Loads an embedded guest, compiling it into `cache_dir` if it is not there yet.
    pub fn load(
        language: RuntimeType,
        image: GuestImage,
        cache_dir: &Path,
        missing: Missing<'_>,
    ) -> Result<Interpreter, EngineError> {
        let manifest = manifest_of(language, image)?;
        let free_bytes = free_bytes(language, image)?;
        let entry = find(language, image, &manifest, cache_dir, missing)?;
        Interpreter::from_entry(entry, manifest, image, free_bytes)
    }

    /// Sees to it that an embedded guest is in `cache_dir`, and does not load it.
    pub fn prepare(
        language: RuntimeType,
        image: GuestImage,
        cache_dir: &Path,
        observer: Observer<'_>,
    ) -> Result<(), EngineError> {
        let manifest = manifest_of(language, image)?;
        find(language, image, &manifest, cache_dir, Missing::Compile(observer)).map(drop)
    }

    fn from_entry(
        entry: Entry,
        manifest: Manifest,
        kind: GuestImage,
        free_bytes: u64,
    ) -> Result<Interpreter, EngineError> {
        let image = Image::new(entry.image)?;
        if image.len() as u64 != manifest.image.bytes {
            return Err(EngineError::abi(
                "the cached image has another size than its manifest says",
            ));
        }
        let slots = SlotPool::new(image)?;
        let engine = slot_engine(&slots)?;
        // SAFETY: the file was written by `Cache::get` from `precompile_module`'s output, lies in a
        // directory only this user can write, and its contents were checked just now.
        let module = unsafe { Module::deserialize_open_file(&engine, entry.code) }
            .map_err(EngineError::engine)?;
        let birth = Birth {
            image_bytes: slots.image_len(),
            free_bytes: usize::try_from(free_bytes).unwrap_or(0),
        };
        Ok(Interpreter {
            ready: ReadyGuest::new(engine, &module, slots, manifest.layout, birth)?,
            manifest,
            image: kind,
            free_bytes,
        })
    }

    /// The version of the language inside.
    #[must_use]
    pub fn language_version(&self) -> &str {
        &self.manifest.language_version
    }

    /// Which of its language's images it is.
    #[must_use]
    pub fn image(&self) -> GuestImage {
        self.image
    }

    /// What a policy has to allow for a memory of that size.
    #[must_use]
    pub fn charged_bytes(&self, size: u64) -> u64 {
        size.saturating_sub(self.free_bytes)
    }

    /// What is known about the guest.
    #[must_use]
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The least `memory_bytes` that can be enforced on this guest.
    #[must_use]
    pub fn minimum_memory_bytes(&self) -> u64 {
        self.charged_bytes(self.manifest.image.bytes) + MEMORY_TO_START
    }

    /// BLAKE3 of the parts this guest was made of: memory of one means nothing in another.
    #[must_use]
    pub fn identity(&self) -> String {
        format!("{}-{}", self.manifest.module.blake3, self.manifest.image.blake3)
    }

    pub(crate) fn ready(&self) -> &ReadyGuest {
        &self.ready
    }

    /// A fresh one.
    pub fn live(self: &Arc<Self>, setup: Setup) -> Result<Live, EngineError> {
        let wasi = Wasi::new(setup.grant);
        let desk = Desk::new(setup.host, setup.tool_limits);
        let holdings = Holdings { wasi, desk };
        let mut live = Live::new(self, holdings, setup.memory_bytes, &setup.cancel)?;
        live.renew_random()?;
        Ok(live)
    }

    /// Refuses a memory limit this guest cannot live with.
    pub(crate) fn check_memory(&self, memory_bytes: u64) -> Result<(), EngineError> {
        let needed = self.minimum_memory_bytes();
        if memory_bytes < needed {
            return Err(EngineError::MemoryTooSmall { given: memory_bytes, needed });
        }
        let most = MAX_MEMORY_BYTES.saturating_sub(self.free_bytes);
        if memory_bytes > most {
            return Err(EngineError::MemoryTooLarge { given: memory_bytes, most });
        }
        Ok(())
    }
}

fn shipped(language: RuntimeType, image: GuestImage) -> Result<Guest, EngineError> {
    match (language, image) {
        (RuntimeType::Python, GuestImage::Plain) => Ok(belljar_guests::PYTHON),
        (RuntimeType::Python, GuestImage::Data) => Ok(belljar_guests::PYTHON_DATA),
        (RuntimeType::Javascript, GuestImage::Plain) => Ok(belljar_guests::JAVASCRIPT),
        (RuntimeType::Javascript, GuestImage::Data) => {
            Err(EngineError::abi("JavaScript has no data image"))
        }
    }
}

/// What is known about an embedded guest, without loading it.
///
/// # Errors
/// When there is no such guest, or it was built for another version of this crate.
pub fn manifest_of(language: RuntimeType, image: GuestImage) -> Result<Manifest, EngineError> {
    Manifest::parse(shipped(language, image)?.manifest)
}

/// What an image holds beyond the plain one of its language.
fn free_bytes(language: RuntimeType, image: GuestImage) -> Result<u64, EngineError> {
    let of = |image| Ok::<u64, EngineError>(manifest_of(language, image)?.image.bytes);
    Ok(of(image)?.saturating_sub(of(GuestImage::Plain)?))
}

/// The most `memory_bytes` that can be enforced on a guest: the rest of what it can address is its
/// image.
///
/// # Errors
/// As for [`manifest_of`].
pub fn most_memory(language: RuntimeType, image: GuestImage) -> Result<u64, EngineError> {
    Ok(MAX_MEMORY_BYTES.saturating_sub(free_bytes(language, image)?))
}

/// The compiled guest and its image, from the cache or made now.
fn find(
    language: RuntimeType,
    image: GuestImage,
    manifest: &Manifest,
    cache_dir: &Path,
    missing: Missing<'_>,
) -> Result<Entry, EngineError> {
    let guest = shipped(language, image)?;
    let engine = Engine::new(&base_config()).map_err(EngineError::engine)?;
    let contents = [manifest.module.blake3.as_bytes(), manifest.image.blake3.as_bytes()];
    let name = match image {
        GuestImage::Plain => language.to_string(),
        GuestImage::Data => format!("{language}-{image}"),
    };
    let key = cache::key(&name, &engine, &contents);
    let cache = Cache::open(cache_dir)?;
    let observer = match missing {
        Missing::Compile(observer) => observer,
        Missing::Refuse => return cache.find(&key).ok_or(EngineError::NotCompiled(image)),
    };
    cache.get(&key, || {
        observer(CompileEvent::Started(image));
        let module = unpack(guest.module, &manifest.module)?;
        let code = engine.precompile_module(&module).map_err(EngineError::engine)?;
        let image = unpack(guest.image, &manifest.image)?;
        observer(CompileEvent::Finished);
        Ok(Parts { code, image })
    })
}

/// What a live interpreter is given.
pub struct Setup {
    /// Directories, output, quotas.
    pub grant: Grant,
    /// Who serves its calls.
    pub host: Option<Arc<dyn CallHost>>,
    /// How many it may make.
    pub tool_limits: ToolLimits,
    /// How much memory it may use.
    pub memory_bytes: u64,
    /// What can stop it.
    pub cancel: CancelHandle,
}

#[cfg(test)]
#[path = "interpreter_tests.rs"]
mod tests;
