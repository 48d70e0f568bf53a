//! One live guest: a memory slot with an interpreter in it, and the one call it answers.

use std::pin::pin;
use std::ptr::NonNull;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use belljar_core::limits::{MAX_REQUEST_BYTES, MAX_RESPONSE_BYTES, WASM_PAGE_BYTES};
use wasmtime::{
    AsContextMut, GcHeapOutOfMemory, Memory, RootScope, Store, ThrownException, Trap, TypedFunc,
};

use crate::abi::{
    EVAL_BREAKER_SIGNALS, Layout, MAX_RANDOM_STATE_BYTES, RANDOM_STATE_USED_UP,
    REQUEST_BUFFER_BYTES,
};
use crate::engine::ReadyGuest;
use crate::error::EngineError;
use crate::memory::{MemoryState, SlotMemory, take_newest};
use crate::state::{State, Turn};
use crate::wasi::{Abort, Wasi};
use belljar_host::Desk;
use belljar_host::{Control, StopCause, Watch};

/// Fuel between two looks at the clock: some fifteen microseconds of work.
pub const YIELD_INTERVAL: u64 = 100_000;

/// What a guest's host keeps for it.
pub struct Holdings {
    pub wasi: Wasi,
    pub desk: Desk,
}

pub struct Instance {
    store: Store<State>,
    /// Dropped after the store, which holds the other half.
    slot: Arc<SlotMemory>,
    memory: Memory,
    allocate: TypedFunc<u32, u32>,
    call: TypedFunc<(u32, u32), u64>,
    layout: Layout,
    interrupted: bool,
}

/// How a call ended, with what it used.
pub struct Called {
    /// Its end.
    pub end: CallEnd,
    /// Told to stop; `end` may still be an answer, when the guest ended by itself in time.
    pub stop: Option<StopCause>,
    /// Fuel of the user's code.
    pub fuel_used: u64,
    /// The most memory the guest has had so far.
    pub memory_peak_bytes: usize,
    /// Whether it wanted more than it may have.
    pub memory_refused: bool,
}

/// Where in its memory the guest put its answer.
#[derive(Clone, Copy, Debug)]
pub struct AnswerPlace {
    start: usize,
    len: usize,
}

/// Everything that can become of a call. All but `Answered` leave the guest unusable.
pub enum CallEnd {
    /// The driver has answered.
    Answered(AnswerPlace),
    /// The driver failed, or its answer makes no sense.
    Nonsense,
    /// It ended its process.
    Exited(i32),
    /// It used up its fuel.
    OutOfFuel,
    /// It wrote far more output than is kept.
    OutputFlood,
    /// It used up the native stack.
    StackOverflow,
    /// It trapped.
    Crashed(String),
    /// Stopped hard after it ignored an interrupt.
    Stopped,
}

impl Instance {
    pub fn new(
        guest: &ReadyGuest,
        holdings: Holdings,
        memory_bytes: u64,
        control: Arc<Control>,
    ) -> Result<Instance, EngineError> {
        let Holdings { wasi, desk } = holdings;
        let mut store =
            Store::new(&guest.engine, State::new(wasi, desk, memory_bytes, guest.birth, control));
        store.limiter(|state| &mut state.memory_limit);
        let instance =
            at_once(guest.pre.instantiate_async(&mut store)).map_err(EngineError::engine)?;
        let memory =
            instance.get_memory(&mut store, "memory").ok_or_else(|| EngineError::abi("memory"))?;
        let allocate = instance
            .get_typed_func(&mut store, "belljar_alloc")
            .map_err(|_| EngineError::abi("belljar_alloc"))?;
        let call = instance
            .get_typed_func(&mut store, "belljar_call")
            .map_err(|_| EngineError::abi("belljar_call"))?;
        store.data_mut().memory = Some(memory);
        store.fuel_async_yield_interval(Some(YIELD_INTERVAL)).map_err(EngineError::engine)?;
        let slot = take_newest().ok_or_else(|| EngineError::abi("memory"))?;
        Ok(Instance {
            store,
            slot,
            memory,
            allocate,
            call,
            layout: guest.layout,
            interrupted: false,
        })
    }

    /// Makes a new guest one that was saved before.
    pub fn load(&mut self, state: &MemoryState) -> Result<(), EngineError> {
        let more = state.size().checked_sub(self.slot.size());
        let pages = more.ok_or_else(|| EngineError::abi("the saved memory is too small"))? as u64
            / WASM_PAGE_BYTES;
        if pages > 0 {
            at_once(self.memory.grow_async(&mut self.store, pages)).map_err(|_| {
                let limit = &self.store.data().memory_limit;
                EngineError::MemoryTooSmall {
                    given: limit.bytes(),
                    needed: limit.charged(state.size()),
                }
            })?;
        }
        // SAFETY: the guest does not run, and `self` is borrowed for the whole call.
        Ok(unsafe { self.slot.apply(state) }?)
    }

    /// What the guest's memory holds. With `settle`, taking it again costs less.
    pub fn capture(&mut self, settle: bool) -> Result<MemoryState, EngineError> {
        // It would hit whoever goes on from here.
        self.settle_interrupt();
        // SAFETY: the guest does not run, and `self` is borrowed for the whole call.
        Ok(unsafe { self.slot.capture(settle) }?)
    }

    /// The guest will not run for a while.
    pub fn rest(&mut self) -> Result<(), EngineError> {
        // SAFETY: the guest does not run, and `self` is borrowed for the whole call.
        Ok(unsafe { self.slot.rest() }?)
    }

    /// Ends the guest; what the host kept for it remains.
    pub fn into_holdings(self) -> Holdings {
        let State { wasi, desk, .. } = self.store.into_data();
        Holdings { wasi, desk }
    }

    /// Gives the interpreter's shared random generator a state nobody else has.
    pub fn renew_random(&mut self) -> Result<(), EngineError> {
        let Layout { random_index, random_state, random_state_bytes, .. } = self.layout;
        let mut state = [0; MAX_RANDOM_STATE_BYTES];
        let state = state
            .get_mut(..random_state_bytes as usize)
            .ok_or_else(|| EngineError::abi("random state"))?;
        self.store.data_mut().wasi.fill_random(state).map_err(EngineError::Io)?;
        self.write(random_state, state)?;
        self.write(random_index, &RANDOM_STATE_USED_UP.to_le_bytes())
    }

    /// Writes to a place of the layout, if the guest has it.
    fn write(&mut self, address: u32, bytes: &[u8]) -> Result<(), EngineError> {
        if address == 0 {
            return Ok(());
        }
        self.slot.touched();
        self.memory
            .write(&mut self.store, address as usize, bytes)
            .map_err(|_| EngineError::abi("layout"))
    }

    pub fn wasi_mut(&mut self) -> &mut Wasi {
        &mut self.store.data_mut().wasi
    }

    pub fn desk_mut(&mut self) -> &mut Desk {
        &mut self.store.data_mut().desk
    }

    /// Sends a request to the guest's driver and runs it to its end, whatever that is.
    pub fn call(
        &mut self,
        request: &[u8],
        turn: Turn,
        fuel: u64,
        watch: &mut Watch<'_>,
    ) -> Result<Called, EngineError> {
        if request.len() > MAX_REQUEST_BYTES {
            return Err(EngineError::RequestTooLarge { bytes: request.len() });
        }
        self.slot.touched();
        self.settle_interrupt();
        self.store.set_fuel(turn.request_fuel()).map_err(EngineError::engine)?;
        self.store.data_mut().meter.start(turn, fuel);
        let words = InterruptWords::new(&self.memory, &self.store, &self.layout);
        let future =
            send(&mut self.store, self.memory, &self.allocate, &self.call, &self.layout, request);
        // SAFETY: the watch calls this between two polls of the only future that runs this guest, on
        // the same thread, so nothing else touches the memory; it neither moves nor shrinks while
        // the store lives, and the store outlives the call.
        let output = watch.drive(future, || unsafe { words.trip() });
        self.interrupted = watch.stop().is_some();
        let end = match output {
            None => CallEnd::Stopped,
            Some(Ok(packed)) => self.find_answer(packed),
            Some(Err(error)) => {
                forget_exception(&mut self.store);
                match classify(&error) {
                    CallEnd::OutOfFuel if !self.store.data().meter.counts() => CallEnd::Nonsense,
                    end => end,
                }
            }
        };
        let left = self.store.get_fuel().map_err(EngineError::engine)?;
        let state = self.store.data_mut();
        let fuel_used =
            if matches!(end, CallEnd::OutOfFuel) { fuel } else { state.meter.used(left) };
        Ok(Called {
            end,
            stop: watch.stop(),
            fuel_used,
            memory_peak_bytes: state.memory_limit.peak(),
            memory_refused: state.memory_limit.take_refused(),
        })
    }

    /// An interrupt that came too late for the last call must not hit this one.
    fn settle_interrupt(&mut self) {
        if std::mem::take(&mut self.interrupted) {
            self.slot.touched();
            let words = InterruptWords::new(&self.memory, &self.store, &self.layout);
            // SAFETY: the guest does not run now, and `self` is borrowed for the whole call.
            unsafe { words.clear() };
        }
    }

    fn find_answer(&self, packed: u64) -> CallEnd {
        let place =
            AnswerPlace { start: (packed >> 32) as usize, len: (packed & 0xffff_ffff) as usize };
        if packed == 0 || place.len > MAX_RESPONSE_BYTES || self.answer(place).is_none() {
            return CallEnd::Nonsense;
        }
        CallEnd::Answered(place)
    }

    /// The bytes of an answer. They stay there until the next call.
    pub fn answer(&self, place: AnswerPlace) -> Option<&[u8]> {
        self.memory.data(&self.store).get(place.start..place.start.checked_add(place.len)?)
    }
}

/// The result of a future that has nothing to wait for: our guests run no code when they are made.
fn at_once<T>(future: impl Future<Output = wasmtime::Result<T>>) -> wasmtime::Result<T> {
    let mut context = Context::from_waker(Waker::noop());
    match pin!(future).poll(&mut context) {
        Poll::Ready(result) => result,
        Poll::Pending => Err(wasmtime::format_err!("the guest ran code while it was made")),
    }
}

async fn send(
    store: &mut Store<State>,
    memory: Memory,
    allocate: &TypedFunc<u32, u32>,
    call: &TypedFunc<(u32, u32), u64>,
    layout: &Layout,
    request: &[u8],
) -> wasmtime::Result<u64> {
    let len = u32::try_from(request.len())?;
    let address = if request.len() <= REQUEST_BUFFER_BYTES {
        layout.request_buffer
    } else {
        allocate.call_async(&mut *store, len).await?
    };
    if address == 0 {
        // No room for the request itself: the driver could not have answered either.
        return Ok(0);
    }
    memory.write(&mut *store, address as usize, request)?;
    call.call_async(store, (address, len)).await
}

/// Takes an exception that nothing caught off the store, where it would wait for somebody.
///
/// A call that is stopped hard leaves none: between a throw and its handler there is no moment in
/// which a guest can be stopped. What its frames held goes with the store, for the guest is unusable
/// then, and being put back to a checkpoint means a new store.
fn forget_exception(store: &mut Store<State>) {
    let _ = RootScope::new(store).as_context_mut().take_pending_exception();
}

pub fn classify(error: &wasmtime::Error) -> CallEnd {
    if let Some(abort) = error.downcast_ref::<Abort>() {
        return match abort {
            Abort::Exit(code) => CallEnd::Exited(*code),
            Abort::OutputFlood => CallEnd::OutputFlood,
        };
    }
    if error.is::<ThrownException>() {
        return CallEnd::Crashed("an exception that nothing caught".to_owned());
    }
    if error.is::<GcHeapOutOfMemory<()>>() {
        return CallEnd::Crashed("too many exceptions at once".to_owned());
    }
    match error.downcast_ref::<Trap>() {
        Some(Trap::OutOfFuel) => CallEnd::OutOfFuel,
        Some(Trap::StackOverflow) => CallEnd::StackOverflow,
        Some(trap) => CallEnd::Crashed(trap.to_string()),
        None => CallEnd::Crashed("the guest broke off".to_owned()),
    }
}

/// The words of the guest's memory that mean "an interrupt has arrived"; some guests have fewer.
struct InterruptWords {
    interrupt_tripped: Option<NonNull<u32>>,
    any_tripped: Option<NonNull<u32>>,
    eval_breaker: Option<NonNull<u32>>,
}

impl InterruptWords {
    fn new(memory: &Memory, store: &Store<State>, layout: &Layout) -> InterruptWords {
        let base = memory.data_ptr(store);
        // `Layout::fits` was checked against the image when the guest was loaded.
        let word = |address: u32| {
            let word = base.wrapping_add(address as usize).cast::<u32>();
            NonNull::new(word).filter(|_| address != 0)
        };
        InterruptWords {
            interrupt_tripped: word(layout.interrupt_tripped),
            any_tripped: word(layout.any_tripped),
            eval_breaker: word(layout.eval_breaker),
        }
    }

    /// # Safety
    /// The memory is alive, no guest code runs in it and nobody holds references into it.
    unsafe fn trip(&self) {
        // SAFETY: the caller's promise.
        unsafe { self.write(1, |breaker| breaker | EVAL_BREAKER_SIGNALS) }
    }

    /// # Safety
    /// As for `trip`.
    unsafe fn clear(&self) {
        // SAFETY: the caller's promise.
        unsafe { self.write(0, |breaker| breaker & !EVAL_BREAKER_SIGNALS) }
    }

    /// # Safety
    /// As for `trip`.
    unsafe fn write(&self, tripped: u32, breaker: impl FnOnce(u32) -> u32) {
        // SAFETY: the caller's promise; the addresses are aligned and inside the memory.
        unsafe {
            for word in [self.interrupt_tripped, self.any_tripped].into_iter().flatten() {
                word.write(tripped);
            }
            if let Some(word) = self.eval_breaker {
                word.write(breaker(word.read()));
            }
        }
    }
}

#[cfg(test)]
#[path = "instance_tests.rs"]
mod tests;
