//! CPython as a guest: loading it, and talking to its driver.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde::Serialize;
use wasmtime::{Engine, Module};

use crate::answer::Answer;
use crate::cache::{self, Cache, Entry, Parts};
use crate::drive::CancelHandle;
use crate::engine::{ReadyGuest, base_config, slot_engine};
use crate::error::EngineError;
use crate::guest::{Manifest, unpack};
use crate::instance::{CallEnd, Called, Instance};
use crate::memory::{Image, SlotPool};
use crate::wasi::{Grant, Traces, Wasi};

/// Beyond its image an interpreter needs a little memory to do anything at all.
const MEMORY_TO_START: u64 = 2 * 1024 * 1024;

/// The Python guest, loaded. Cheap to share between threads; makes any number of instances.
pub struct PythonGuest {
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

impl PythonGuest {
    /// Loads the embedded guest, compiling it into `cache_dir` if it is not there yet.
    pub fn load(cache_dir: &Path, observer: Observer<'_>) -> Result<PythonGuest, EngineError> {
        let shipped = belljar_guests::PYTHON;
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
        PythonGuest::from_entry(entry, manifest)
    }

    fn from_entry(entry: Entry, manifest: Manifest) -> Result<PythonGuest, EngineError> {
        let image = Image::new(entry.image)?;
        if image.len() as u64 != manifest.image.bytes {
            return Err(EngineError::abi(
                "the cached image has another size than its manifest says",
            ));
        }
        let slots = SlotPool::new(image);
        let engine = slot_engine(&slots)?;
        // SAFETY: the file was written by `Cache::get` from `precompile_module`'s output, lies in a
        // directory only this user can write, and its contents were checked just now.
        let module = unsafe { Module::deserialize_open_file(&engine, entry.code) }
            .map_err(EngineError::engine)?;
        Ok(PythonGuest {
            ready: ReadyGuest::new(engine, &module, slots, manifest.layout)?,
            manifest,
        })
    }

    /// The version of Python inside.
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

    /// A fresh interpreter whose calls `cancel` can stop.
    pub fn instance(
        &self,
        grant: Grant,
        memory_bytes: u64,
        cancel: &CancelHandle,
    ) -> Result<PythonInstance, EngineError> {
        let needed = self.minimum_memory_bytes();
        if memory_bytes < needed {
            return Err(EngineError::MemoryTooSmall { given: memory_bytes, needed });
        }
        Ok(PythonInstance {
            instance: Instance::new(&self.ready, Wasi::new(grant), memory_bytes, cancel.control())?,
        })
    }
}

/// A live interpreter.
pub struct PythonInstance {
    instance: Instance,
}

/// The limits of one call.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Fuel for the user's code.
    pub fuel: u64,
    /// Wall-clock time for all of it.
    pub timeout: Duration,
}

/// One piece of code to run.
#[derive(Clone, Copy, Debug)]
pub struct Cell<'a> {
    /// The source.
    pub code: &'a str,
    /// The name it has in tracebacks.
    pub filename: &'a str,
    /// Whether the value of a last expression is wanted.
    pub value: bool,
    /// Needed with the first cell of an instance.
    pub surroundings: Option<&'a Surroundings>,
}

/// What a frozen interpreter cannot know.
#[derive(Clone, Debug, Serialize)]
pub struct Surroundings {
    /// Environment variables.
    pub env: BTreeMap<String, String>,
    /// The directory it starts in.
    pub workspace: String,
    /// Added to `sys.path`.
    pub path: Vec<String>,
    /// `sys.argv`.
    pub argv: Vec<String>,
}

#[derive(Serialize)]
#[serde(tag = "op", rename_all = "snake_case")]
enum Request<'a> {
    Execute {
        code: &'a str,
        filename: &'a str,
        value: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        surroundings: Option<&'a Surroundings>,
    },
    Validate {
        code: &'a str,
        filename: &'a str,
    },
}

impl PythonInstance {
    /// Runs a cell. The answer is `None` unless the guest came to a regular end.
    pub fn execute(
        &mut self,
        cell: Cell<'_>,
        limits: Limits,
    ) -> Result<(Called, Option<Answer>), EngineError> {
        let Cell { code, filename, value, surroundings } = cell;
        self.ask(&Request::Execute { code, filename, value, surroundings }, limits)
    }

    /// Compiles without running. The answer's error says what is wrong.
    pub fn validate(
        &mut self,
        code: &str,
        filename: &str,
        limits: Limits,
    ) -> Result<(Called, Option<Answer>), EngineError> {
        self.ask(&Request::Validate { code, filename }, limits)
    }

    fn ask(
        &mut self,
        request: &Request<'_>,
        limits: Limits,
    ) -> Result<(Called, Option<Answer>), EngineError> {
        let request =
            serde_json::to_vec(request).map_err(|error| EngineError::Engine(error.to_string()))?;
        let mut called = self.instance.call(&request, limits.fuel, limits.timeout)?;
        let CallEnd::Answered(place) = called.end else { return Ok((called, None)) };
        let answer = self.instance.answer(place).and_then(Answer::parse);
        if answer.is_none() {
            called.end = CallEnd::Nonsense;
        }
        Ok((called, answer))
    }

    /// Takes output, file changes and denials gathered since the last time.
    pub fn take_traces(&mut self) -> Traces {
        self.instance.wasi_mut().take_traces()
    }
}

#[cfg(test)]
#[path = "python_tests.rs"]
mod tests;
