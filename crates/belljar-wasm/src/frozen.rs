//! A live interpreter as a value: what a snapshot holds and a fork starts from.

use std::sync::Arc;

use belljar_core::ToolCall;
use belljar_core::limits::DRIVER_MEMORY_RESERVE;
use serde::{Deserialize, Serialize};

use crate::error::EngineError;
use crate::instance::Holdings;
use crate::interpreter::{Interpreter, Setup};
use crate::live::{Live, Waiting};
use crate::memory::{MemoryState, PAGE};
use crate::wasi::{SavedWasi, Wasi};
use belljar_host::{Desk, SavedCalls};

/// Bytes in one page of a snapshot.
pub const PAGE_BYTES: usize = PAGE;

/// A live interpreter at some time. Cheap to keep: it holds only what differs from a fresh one, and
/// shares most of that with the session it was taken from.
#[derive(Clone)]
pub struct Frozen {
    interpreter: Arc<Interpreter>,
    memory: MemoryState,
    host: FrozenHost,
}

/// The part of it that is not memory.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FrozenHost {
    memory_bytes: u64,
    wasi: SavedWasi,
    calls: SavedCalls,
    /// Fuel used so far by a cell that waits.
    waiting: Option<u64>,
}

impl Frozen {
    pub(crate) fn new(
        interpreter: Arc<Interpreter>,
        memory: MemoryState,
        wasi: SavedWasi,
        calls: SavedCalls,
        waiting: Option<Waiting>,
    ) -> Frozen {
        let memory_bytes = memory.size() as u64;
        let waiting = waiting.map(|waiting| waiting.fuel_used);
        Frozen { interpreter, memory, host: FrozenHost { memory_bytes, wasi, calls, waiting } }
    }

    /// The same from what a file holds: the numbers of pages, rising, and their contents one behind
    /// the other.
    pub fn from_parts(
        interpreter: &Arc<Interpreter>,
        host: FrozenHost,
        numbers: &[u32],
        contents: Vec<u8>,
    ) -> Result<Frozen, EngineError> {
        let damaged = || EngineError::abi("the saved memory makes no sense");
        let slots = &interpreter.ready().slots;
        let size = usize::try_from(host.memory_bytes).map_err(|_| damaged())?;
        let limit = belljar_core::limits::MAX_MEMORY_BYTES;
        let whole = host.memory_bytes.is_multiple_of(belljar_core::limits::WASM_PAGE_BYTES);
        if size < slots.image_len() || host.memory_bytes > limit || !whole {
            return Err(damaged());
        }
        let addresses: Option<Vec<usize>> =
            numbers.iter().map(|number| (*number as usize).checked_mul(PAGE)).collect();
        let addresses = addresses.ok_or_else(damaged)?;
        let rising = addresses.is_sorted_by(|before, after| before < after);
        // Sizes are whole pages: if the last page begins inside the memory, it ends there too.
        let inside = addresses.last().is_none_or(|last| *last < size);
        if !rising || !inside || Some(contents.len()) != numbers.len().checked_mul(PAGE) {
            return Err(damaged());
        }
        let memory = MemoryState::from_pages(slots, size, &addresses, contents)?;
        Ok(Frozen { interpreter: Arc::clone(interpreter), memory, host })
    }

    /// What is not memory.
    #[must_use]
    pub fn host(&self) -> &FrozenHost {
        &self.host
    }

    /// The interpreter it is of.
    #[must_use]
    pub fn interpreter(&self) -> &Arc<Interpreter> {
        &self.interpreter
    }

    /// The calls it waits for.
    #[must_use]
    pub fn pending(&self) -> &[ToolCall] {
        if self.host.waiting.is_some() { &self.host.calls.deferred } else { &[] }
    }

    /// How large the interpreter's memory is.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        self.host.memory_bytes
    }

    /// Bytes of it that differ from a fresh one, or may.
    #[must_use]
    pub fn held_bytes(&self) -> u64 {
        self.memory.held_bytes()
    }

    /// Calls `visit` with address and contents of every page that differs from a fresh interpreter.
    pub fn for_each_page(
        &self,
        mut visit: impl FnMut(u64, &[u8]) -> std::io::Result<()>,
    ) -> Result<(), EngineError> {
        let slots = &self.interpreter.ready().slots;
        Ok(self.memory.for_each_page(slots, |at, page| visit(at as u64, page))?)
    }

    /// Brings it to life, with what it is given now. Clock and randomness are new, except where
    /// they are to repeat.
    pub fn thaw(&self, setup: Setup) -> Result<Live, EngineError> {
        // The driver may have grown a little beyond the limit.
        let charged = self.interpreter.charged_bytes(self.host.memory_bytes);
        let needed = charged.saturating_sub(DRIVER_MEMORY_RESERVE);
        if setup.memory_bytes < needed {
            let given = setup.memory_bytes;
            return Err(EngineError::MemoryTooSmall { given, needed });
        }
        let deterministic = setup.grant.deterministic;
        let wasi = Wasi::restore(setup.grant, &self.host.wasi);
        let desk = Desk::new(setup.host, setup.tool_limits);
        let holdings = Holdings { wasi, desk };
        let mut live = Live::new(&self.interpreter, holdings, setup.memory_bytes, &setup.cancel)?;
        let waiting = self.host.waiting.map(|fuel_used| Waiting { fuel_used });
        live.become_saved(&self.memory, &self.host.calls, waiting)?;
        if !deterministic {
            live.renew_random()?;
        }
        Ok(live)
    }
}
