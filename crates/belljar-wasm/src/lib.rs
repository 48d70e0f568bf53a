//! Belljar's WebAssembly engine: a fresh interpreter is a copy-on-write view of a booted one.
//!
//! The only crate that names wasmtime. It knows guests, memory, time and fuel; it decides nothing
//! about policies and classifies nothing: see the `belljar` crate for that.

mod abi;
mod answer;
#[cfg(feature = "bake")]
pub mod bake;
mod cache;
mod calls;
mod command;
mod drive;
mod engine;
mod error;
mod frozen;
mod guest;
mod host_call;
mod instance;
mod interpreter;
mod live;
mod memory;
mod stacks;
mod state;
mod wasi;

pub use abi::{ABI_VERSION, Layout};
pub use answer::{Answer, CellEnd, Completions, Variable};
pub use calls::{CallHost, Offer, Reply, Wish};
pub use command::{CommandGuest, CommandRun};
pub use drive::{CancelHandle, StopCause};
pub use error::EngineError;
pub use frozen::{Frozen, FrozenHost, PAGE_BYTES};
pub use guest::{Manifest, Part};
pub use instance::{CallEnd, Called};
pub use interpreter::{CompileEvent, Interpreter, Observer, Setup};
pub use live::{Cell, Limits, Live, Point, Ran, Surroundings};
pub use wasi::{Delta, Denials, Grant, LineSink, Mount, Overlay, Quota, Traces, open_directory};
