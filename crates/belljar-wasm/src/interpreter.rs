//! Interpreters as guests: loading them, making live ones.

use std::path::Path;
use std::sync::Arc;

use belljar_core::{RuntimeType, ToolLimits};
use wasmtime::{Engine, Module};

use crate::cache::{self, Cache, Entry, Parts};
use crate::engine::{ReadyGuest, base_config, slot_engine};
use crate::error::EngineError;
use crate::guest::{Manifest, unpack};
use crate::instance::Holdings;
use crate::live::Live;
use crate::memory::{Image, SlotPool};
use crate::wasi::{Grant, Wasi};
use belljar_host::CancelHandle;
use belljar_host::{CallHost, Desk};

/// Beyond its image an interpreter needs a little memory to do anything at all.
const MEMORY_TO_START: u64 = 2 * 1024 * 1024;

/// An interpreter, loaded. Shared between threads; makes any number of live ones.
pub struct Interpreter {
    ready: ReadyGuest,
    manifest: Manifest,
}

/// Something slow is going on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompileEvent {
    /// The guest is not in the cache: it will be compiled now, which takes some seconds.
    Started,
    /// It is compiled.
    Finished,
}

/// Told about slow things.
pub type Observer<'a> = &'a dyn Fn(CompileEvent);

impl Interpreter {
    /// Loads the embedded guest, compiling it into `cache_dir` if it is not there yet.
    pub fn load(
        language: RuntimeType,
        cache_dir: &Path,
        observer: Observer<'_>,
    ) -> Result<Interpreter, EngineError> {
        let shipped = match language {
            RuntimeType::Python => belljar_guests::PYTHON,
            RuntimeType::Javascript => belljar_guests::JAVASCRIPT,
        };
        let manifest = Manifest::parse(shipped.manifest)?;
        let engine = Engine::new(&base_config()).map_err(EngineError::engine)?;
        let contents = [manifest.module.blake3.as_bytes(), manifest.image.blake3.as_bytes()];
        let key = cache::key(&manifest.language, &engine, &contents);
        let entry = Cache::open(cache_dir)?.get(&key, || {
            observer(CompileEvent::Started);
            let module = unpack(shipped.module, &manifest.module)?;
            let code = engine.precompile_module(&module).map_err(EngineError::engine)?;
            let image = unpack(shipped.image, &manifest.image)?;
            observer(CompileEvent::Finished);
            Ok(Parts { code, image })
        })?;
        Interpreter::from_entry(entry, manifest)
    }

    fn from_entry(entry: Entry, manifest: Manifest) -> Result<Interpreter, EngineError> {
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
        Ok(Interpreter {
            ready: ReadyGuest::new(engine, &module, slots, manifest.layout)?,
            manifest,
        })
    }

    /// The version of the language inside.
    #[must_use]
    pub fn language_version(&self) -> &str {
        &self.manifest.language_version
    }

    /// What is known about the guest.
    #[must_use]
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The least `memory_bytes` that can be enforced on this guest.
    #[must_use]
    pub fn minimum_memory_bytes(&self) -> u64 {
        self.manifest.image.bytes + MEMORY_TO_START
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
        Ok(())
    }
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
