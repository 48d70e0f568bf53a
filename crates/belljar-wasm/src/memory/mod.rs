//! Linear memories as copy-on-write views of a booted interpreter.
//!
//! A [`SlotPool`] hands wasmtime memories that already hold the image and takes them back when
//! their sandbox ends. A used slot is made equal to the image again by copying back the few pages
//! that were written, so the next tenant takes no page faults for them.

mod faults;
mod layers;
mod mapping;
mod pagemap;
mod slots;
mod state;

pub use mapping::{Mapping, PAGE};
pub use slots::{EXCEPTION_HEAP_BYTES, Image, SlotCreator, SlotMemory, SlotPool, take_newest};
pub use state::MemoryState;
