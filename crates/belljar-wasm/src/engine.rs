//! The wasmtime engine of one guest: configuration, compiled module, memory slots, imports.

use std::sync::Arc;

use wasmtime::{Caller, Collector, Config, Engine, InstancePre, Linker, Module, OptLevel};

use crate::abi::{IMPORT_MODULE, Layout, Phase};
use crate::error::EngineError;
use crate::host_call;
use crate::memory::{EXCEPTION_HEAP_BYTES, SlotCreator, SlotPool};
use crate::stacks::StackPool;
use crate::state::{Birth, State};
use crate::wasi;

/// Native stack for guest code. Deep C recursion in the interpreter meets CPython's own limits first.
const WASM_STACK_BYTES: usize = 4 * 1024 * 1024;

/// The whole stack a guest runs on: its own part and room for host calls.
const FIBER_STACK_BYTES: usize = WASM_STACK_BYTES + 1024 * 1024;

/// All of a 32-bit memory, so that compiled code needs no bounds checks.
const MEMORY_RESERVATION: u64 = 4 << 30;

/// Inaccessible space behind the heap of exceptions, should a bounds check ever be wrong.
const EXCEPTION_HEAP_GUARD_BYTES: u64 = 64 * 1024;

/// Settings every guest is compiled with. They decide the code, so a change makes old cache
/// entries unusable, which wasmtime notices by itself.
pub fn base_config() -> Config {
    let mut config = Config::new();
    config
        .consume_fuel(true)
        .cranelift_opt_level(OptLevel::Speed)
        .max_wasm_stack(WASM_STACK_BYTES)
        .async_stack_size(FIBER_STACK_BYTES)
        .memory_reservation(MEMORY_RESERVATION)
        .memory_may_move(false)
        .memory_init_cow(false)
        // Where in the guest something trapped tells nobody anything, and must not reach a result.
        .wasm_backtrace_max_frames(None)
        .generate_address_map(false)
        .native_unwind_info(false)
        .with_host_stack(Arc::new(StackPool::new()));
    only_exceptions(&mut config);
    config
}

/// Guests may throw, which C++ needs. Exceptions are wasmtime's only use of garbage collection here:
/// guests have no objects of their own.
///
/// The copying collector is wasmtime's default and needs no barriers in compiled code. The null
/// collector would end every program that throws often enough; reference counting is slower and
/// keeps more books.
///
/// The heap has all of its size from the start and cannot move, so it cannot grow: what a guest
/// cannot reclaim is bounded, and no growth that the limiter is asked about succeeds but that of the
/// linear memory. wasmtime makes it with the instance, only for modules that throw or catch.
fn only_exceptions(config: &mut Config) {
    config
        .wasm_exceptions(true)
        .wasm_gc(false)
        .collector(Collector::Copying)
        .gc_heap_initial_size(EXCEPTION_HEAP_BYTES as u64)
        .gc_heap_reservation(EXCEPTION_HEAP_BYTES as u64)
        .gc_heap_reservation_for_growth(0)
        .gc_heap_guard_size(EXCEPTION_HEAP_GUARD_BYTES)
        .gc_heap_may_move(false);
}

/// An engine that compiles and loads modules whose memories come from `slots`.
pub fn slot_engine(slots: &Arc<SlotPool>) -> Result<Engine, EngineError> {
    let mut config = base_config();
    config.with_host_memory(Arc::new(SlotCreator(Arc::clone(slots))));
    Engine::new(&config).map_err(EngineError::engine)
}

/// A guest ready to be instantiated any number of times, by any number of threads.
pub struct ReadyGuest {
    pub engine: Engine,
    pub pre: InstancePre<State>,
    pub slots: Arc<SlotPool>,
    pub layout: Layout,
    pub birth: Birth,
}

impl ReadyGuest {
    pub fn new(
        engine: Engine,
        module: &Module,
        slots: Arc<SlotPool>,
        layout: Layout,
        birth: Birth,
    ) -> Result<ReadyGuest, EngineError> {
        let pre = linker(&engine)
            .and_then(|linker| linker.instantiate_pre(module))
            .map_err(EngineError::engine)?;
        Ok(ReadyGuest { engine, pre, slots, layout, birth })
    }
}

/// Everything a guest of ours can import.
pub fn linker(engine: &Engine) -> wasmtime::Result<Linker<State>> {
    let mut linker = Linker::new(engine);
    wasi::add_to_linker(&mut linker)?;
    linker.func_wrap(IMPORT_MODULE, "phase", enter_phase)?;
    host_call::add_to_linker(&mut linker)?;
    Ok(linker)
}

fn enter_phase(mut caller: Caller<'_, State>, phase: i32) -> wasmtime::Result<()> {
    let Some(phase) = Phase::from_guest(phase) else { return Ok(()) };
    let left = caller.get_fuel()?;
    let state = caller.data_mut();
    state.control.enter(phase == Phase::User);
    state.memory_limit.enter(phase);
    match state.meter.enter(phase, left) {
        Some(fuel) => caller.set_fuel(fuel),
        None => Ok(()),
    }
}
