//! Stacks for suspended guests, kept and reused: making one costs more than a small execution.

use std::ops::Range;
use std::sync::Arc;

use wasmtime::{StackCreator, StackMemory};

use crate::memory::{Mapping, PAGE};
use crate::shelf::Shelf;

/// Idle stacks kept; each costs at most [`KEPT_BYTES`] of memory.
const MAX_IDLE_STACKS: usize = 64;

/// The part of a stack, from its top, that stays resident. Deep recursion touches more; that is
/// given back.
const KEPT_BYTES: usize = 128 * 1024;

pub struct StackPool {
    idle: Arc<Shelf<Mapping>>,
}

impl StackPool {
    pub fn new() -> StackPool {
        StackPool { idle: Arc::new(Shelf::new(MAX_IDLE_STACKS)) }
    }
}

// SAFETY: a stack is a page-aligned mapping of its own with one inaccessible page at its bottom.
// Reused stacks are not zeroed: only host and compiled frames live there, which guests cannot read.
unsafe impl StackCreator for StackPool {
    fn new_stack(&self, size: usize, _zeroed: bool) -> wasmtime::Result<Box<dyn StackMemory>> {
        let len = PAGE + size.next_multiple_of(PAGE);
        let mapping = match self.idle.take() {
            Some(mapping) if mapping.len() == len => mapping,
            _ => {
                let mapping = Mapping::reserve(len).map_err(std::io::Error::from)?;
                mapping.open(PAGE..len).map_err(std::io::Error::from)?;
                mapping
            }
        };
        Ok(Box::new(Stack { mapping: Some(mapping), idle: Arc::clone(&self.idle) }))
    }
}

struct Stack {
    /// `None` only while dropping.
    mapping: Option<Mapping>,
    idle: Arc<Shelf<Mapping>>,
}

impl Stack {
    fn base(&self) -> *mut u8 {
        self.mapping.as_ref().map_or(std::ptr::null_mut(), Mapping::base)
    }

    fn len(&self) -> usize {
        self.mapping.as_ref().map_or(0, Mapping::len)
    }
}

// SAFETY: the three ranges describe the mapping made in `new_stack`: guard page, then stack.
unsafe impl StackMemory for Stack {
    fn top(&self) -> *mut u8 {
        self.base().wrapping_add(self.len())
    }

    fn range(&self) -> Range<usize> {
        let base = self.base() as usize;
        base + PAGE..base + self.len()
    }

    fn guard_range(&self) -> Range<*mut u8> {
        self.base()..self.base().wrapping_add(PAGE)
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        let Some(mapping) = self.mapping.take() else { return };
        let rest = PAGE..mapping.len().saturating_sub(KEPT_BYTES).max(PAGE);
        // Giving memory back interrupts every thread of the process; most stacks have none to give.
        // SAFETY: wasmtime drops a stack only when nothing runs on it any more.
        if !mapping.has_memory(rest.clone()) || unsafe { mapping.forget(rest) }.is_ok() {
            let _ = self.idle.put(mapping);
        }
    }
}
