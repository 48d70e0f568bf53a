//! Belljar's WebAssembly engine: a fresh interpreter is a copy-on-write view of a booted one.
//!
//! The only crate that names wasmtime. It knows guests, memory, time and fuel; it decides nothing
//! about policies and classifies nothing: see the `belljar` crate for that.

mod abi;
#[cfg(feature = "bake")]
pub mod bake;
mod cache;
mod command;
mod engine;
mod error;
mod frozen;
mod guest;
mod host_call;
mod instance;
mod interpreter;
mod live;
mod memory;
mod shelf;
mod stacks;
mod state;
mod wasi;

pub use abi::{ABI_VERSION, Layout};
pub use command::{CommandGuest, CommandRun};
pub use error::EngineError;
pub use frozen::{Frozen, FrozenHost, PAGE_BYTES};
pub use guest::{Manifest, Package, Part};
pub use instance::{CallEnd, Called};
pub use interpreter::{
    CompileEvent, Interpreter, Missing, Observer, Setup, manifest_of, most_memory,
};
pub use live::{Cell, Limits, Live, Point, Ran, Surroundings};
pub use wasi::{Delta, Denials, Grant, Mount, Overlay, Quota, Traces, open_directory};
