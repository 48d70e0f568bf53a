//! Guests from elsewhere: any WASI preview-1 command, run from its start without an image.

use std::path::{Path, PathBuf};

use belljar_core::GuestImage;
use belljar_core::limits::MAX_WASM_BYTES;
use wasmtime::{Engine, InstancePre, Linker, Module, Store};

use crate::cache::{self, Cache, Parts};
use crate::engine::base_config;
use crate::error::EngineError;
use crate::instance::{CallEnd, Called, YIELD_INTERVAL, classify};
use crate::interpreter::{CompileEvent, Observer};
use crate::live::Limits;
use crate::state::{Birth, State};
use crate::wasi::{self, Grant, Traces, Wasi};
use belljar_host::Desk;
use belljar_host::{CancelHandle, Watch};

/// A command guest, compiled.
pub struct CommandGuest {
    engine: Engine,
    pre: InstancePre<State>,
}

/// How a command ended, and what it left.
pub struct CommandRun {
    /// Its end; never `Answered`, a regular end is `Exited`.
    pub called: Called,
    /// Output, file changes, denials.
    pub traces: Traces,
}

impl CommandGuest {
    /// Loads the command in `path`, compiling it into `cache_dir` if these contents are not there
    /// yet: whoever names a binary may change it any time.
    pub fn load(
        path: &Path,
        cache_dir: &Path,
        observer: Observer<'_>,
    ) -> Result<CommandGuest, EngineError> {
        let broken = |problem: String| EngineError::Binary {
            path: PathBuf::from(path),
            problem,
            missing: false,
        };
        let wasm = read(path)?;
        let engine = Engine::new(&base_config()).map_err(EngineError::engine)?;
        let key = cache::key("command", &engine, &[&wasm]);
        let entry = Cache::open(cache_dir)?.get(&key, || {
            observer(CompileEvent::Started(GuestImage::Plain));
            let code = engine
                .precompile_module(&wasm)
                .map_err(|error| broken(format!("not a WebAssembly module: {error}")))?;
            observer(CompileEvent::Finished);
            Ok(Parts { code, image: Vec::new() })
        })?;
        // SAFETY: the file was written by `Cache::get` from `precompile_module`'s output, lies in a
        // directory only this user can write, and its contents were checked just now.
        let module = unsafe { Module::deserialize_open_file(&engine, entry.code) }
            .map_err(EngineError::engine)?;
        if module.get_export("_start").is_none() {
            return Err(broken("not a WASI command: it has no _start".to_owned()));
        }
        let mut linker = Linker::new(&engine);
        wasi::add_to_linker(&mut linker).map_err(EngineError::engine)?;
        let pre = linker.instantiate_pre(&module).map_err(|error| {
            broken(format!("it imports what a sandbox does not offer: {error}"))
        })?;
        Ok(CommandGuest { engine, pre })
    }

    /// Runs it once, in a memory of its own.
    pub fn run(
        &self,
        grant: Grant,
        memory_bytes: u64,
        limits: Limits,
        cancel: &CancelHandle,
    ) -> Result<CommandRun, EngineError> {
        let Limits { fuel, timeout } = limits;
        let mut store = Store::new(
            &self.engine,
            State::new(
                Wasi::new(grant),
                Desk::closed(),
                memory_bytes,
                Birth::default(),
                cancel.control(),
            ),
        );
        store.limiter(|state| &mut state.memory_limit);
        store.data_mut().memory_limit.enter(crate::abi::Phase::User);
        store.set_fuel(fuel).map_err(EngineError::engine)?;
        store.fuel_async_yield_interval(Some(YIELD_INTERVAL)).map_err(EngineError::engine)?;
        let control = store.data().control.clone();
        let mut watch = Watch::new(&control, timeout);
        let end = match watch.drive(start(&mut store, &self.pre), || {}) {
            None => CallEnd::Stopped,
            Some(Ok(())) => CallEnd::Exited(0),
            Some(Err(error)) => classify(&error),
        };
        let left = store.get_fuel().map_err(EngineError::engine)?;
        let state = store.data_mut();
        let called = Called {
            end,
            stop: watch.stop(),
            fuel_used: fuel.saturating_sub(left),
            memory_peak_bytes: state.memory_limit.peak(),
            memory_refused: state.memory_limit.take_refused(),
        };
        Ok(CommandRun { called, traces: state.wasi.take_traces() })
    }
}

async fn start(store: &mut Store<State>, pre: &InstancePre<State>) -> wasmtime::Result<()> {
    let instance = pre.instantiate_async(&mut *store).await?;
    store.data_mut().memory = instance.get_memory(&mut *store, "memory");
    let start = instance.get_typed_func::<(), ()>(&mut *store, "_start")?;
    start.call_async(store, ()).await
}

fn read(path: &Path) -> Result<Vec<u8>, EngineError> {
    let problem =
        |problem: String, missing| EngineError::Binary { path: path.to_owned(), problem, missing };
    let metadata = std::fs::metadata(path).map_err(|error| {
        let missing = error.kind() == std::io::ErrorKind::NotFound;
        problem(if missing { "no such file".to_owned() } else { error.to_string() }, missing)
    })?;
    if !metadata.is_file() {
        return Err(problem("not a file".to_owned(), false));
    }
    if metadata.len() > MAX_WASM_BYTES {
        return Err(problem(format!("larger than {MAX_WASM_BYTES} bytes"), false));
    }
    std::fs::read(path).map_err(|error| problem(error.to_string(), false))
}

#[cfg(test)]
#[path = "command_tests.rs"]
mod tests;
