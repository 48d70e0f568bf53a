//! Makes an image: boots a guest once and keeps its memory. Used by the build recipe only.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use wasmtime::{Engine, Module, Store, TypedFunc, Val};

use crate::abi::{ABI_VERSION, Layout};
use crate::cache::{self, Cache, Parts};
use crate::engine::{base_config, linker};
use crate::error::EngineError;
use crate::state::{Birth, State, Turn};
use crate::wasi::{Grant, Mount, Wasi, open_directory};
use belljar_host::Desk;
use belljar_host::{Control, Watch};

/// Booting takes about two seconds; a guest that needs this long hangs.
const BOOT_TIMEOUT: Duration = Duration::from_secs(300);

/// A booted guest.
pub struct Baked {
    /// Its whole linear memory.
    pub image: Vec<u8>,
    /// Where the host finds what it needs in it.
    pub layout: Layout,
    /// What the guest said while booting.
    pub log: String,
}

/// Boots `wasm` with `boot_dir` mounted read-only at `/boot`, on a fixed clock and fixed randomness.
/// Compiled code is kept in `cache_dir`: a large guest takes minutes to compile, and most of what
/// is baked again differs in its boot directory only.
pub fn bake(wasm: &[u8], boot_dir: &Path, cache_dir: &Path) -> Result<Baked, EngineError> {
    let engine = Engine::new(&base_config()).map_err(EngineError::engine)?;
    let key = cache::key("bake", &engine, &[wasm]);
    let entry = Cache::open(cache_dir)?.get(&key, || {
        let code = engine.precompile_module(wasm).map_err(EngineError::engine)?;
        Ok(Parts { code, image: Vec::new() })
    })?;
    // SAFETY: the file was written by `Cache::get` from `precompile_module`'s output, lies in a
    // directory only this user can write, and its contents were checked just now.
    let module = unsafe { Module::deserialize_open_file(&engine, entry.code) }
        .map_err(EngineError::engine)?;
    let empty = tempfile::tempdir()?;
    let mount = |path: &Path, guest_path: &str| -> Result<Mount, EngineError> {
        Ok(Mount { guest_path: guest_path.to_owned(), dir: open_directory(path)?, writable: false })
    };
    let wasi = Wasi::new(Grant {
        mounts: vec![mount(boot_dir, "/boot")?, mount(empty.path(), "/app")?],
        deterministic: true,
        undated_files: true,
        ..Grant::default()
    });
    let mut store = Store::new(
        &engine,
        State::new(wasi, Desk::closed(), u64::from(u32::MAX), Birth::default(), Arc::default()),
    );
    store.limiter(|state| &mut state.memory_limit);
    store.set_fuel(u64::MAX / 4).map_err(EngineError::engine)?;
    store.data_mut().meter.start(Turn::First, u64::MAX / 4);
    let booted = run(boot(&mut store, &engine, &module));
    let log =
        String::from_utf8_lossy(store.data_mut().wasi.take_traces().stderr.kept()).into_owned();
    match booted {
        Ok((image, layout)) => Ok(Baked { image, layout, log }),
        Err(error) => Err(EngineError::Engine(format!("{error:#}\n{log}"))),
    }
}

fn run<T>(future: impl Future<Output = wasmtime::Result<T>>) -> wasmtime::Result<T> {
    let control = Control::default();
    let booted = Watch::new(&control, BOOT_TIMEOUT).drive(future, || {});
    booted.unwrap_or_else(|| Err(wasmtime::format_err!("the guest did not finish booting")))
}

async fn boot(
    store: &mut Store<State>,
    engine: &Engine,
    module: &Module,
) -> wasmtime::Result<(Vec<u8>, Layout)> {
    let instance = linker(engine)?.instantiate_async(&mut *store, module).await?;
    let memory = instance
        .get_memory(&mut *store, "memory")
        .ok_or_else(|| wasmtime::format_err!("no memory"))?;
    store.data_mut().memory = Some(memory);
    let initialize: TypedFunc<(), ()> = instance.get_typed_func(&mut *store, "_initialize")?;
    initialize.call_async(&mut *store, ()).await?;
    let version: TypedFunc<(), i32> =
        instance.get_typed_func(&mut *store, "belljar_abi_version")?;
    let version = version.call_async(&mut *store, ()).await?;
    if version != ABI_VERSION {
        return Err(wasmtime::format_err!(
            "the guest speaks version {version}, this crate {ABI_VERSION}"
        ));
    }
    let boot: TypedFunc<(), ()> = instance.get_typed_func(&mut *store, "belljar_boot")?;
    boot.call_async(&mut *store, ()).await?;
    let layout: TypedFunc<(), u32> = instance.get_typed_func(&mut *store, "belljar_layout")?;
    let address = layout.call_async(&mut *store, ()).await?;
    let stack_pointer = instance
        .get_global(&mut *store, "__stack_pointer")
        .and_then(|global| match global.get(&mut *store) {
            Val::I32(address) => usize::try_from(address).ok(),
            _ => None,
        })
        .ok_or_else(|| wasmtime::format_err!("no stack pointer"))?;
    let mut image = memory.data(&*store).to_vec();
    let layout =
        read_layout(&image, address).ok_or_else(|| wasmtime::format_err!("no sensible layout"))?;
    // The dead part of the stack holds whatever boot left there.
    image
        .get_mut(..stack_pointer)
        .ok_or_else(|| wasmtime::format_err!("no sensible stack pointer"))?
        .fill(0);
    Ok((image, layout))
}

fn read_layout(image: &[u8], address: u32) -> Option<Layout> {
    let mut words = [0; Layout::WORDS];
    let bytes = image.get(address as usize..)?.get(..Layout::WORDS * 4)?;
    for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(4)) {
        *word = u32::from_le_bytes(bytes.try_into().ok()?);
    }
    let layout = Layout::from_words(words);
    layout.fits(image.len()).then_some(layout)
}
