//! Belljar's WebAssembly engine: a fresh interpreter is a copy-on-write view of a booted one.
//!
//! The only crate that names wasmtime. It knows guests, memory, time and fuel; it decides nothing
//! about policies and classifies nothing: see the `belljar` crate for that.

mod abi;
mod answer;
#[cfg(feature = "bake")]
pub mod bake;
mod cache;
mod command;
mod drive;
mod engine;
mod error;
mod guest;
mod instance;
mod memory;
mod python;
mod stacks;
mod state;
mod wasi;

pub use abi::{ABI_VERSION, Layout};
pub use answer::{Answer, CellEnd};
pub use command::{CommandGuest, CommandRun};
pub use drive::{CancelHandle, StopCause};
pub use error::EngineError;
pub use guest::{Manifest, Part};
pub use instance::{CallEnd, Called};
pub use python::{Cell, CompileEvent, Limits, Observer, PythonGuest, PythonInstance, Surroundings};
pub use wasi::{Delta, Denials, Grant, Mount, Overlay, Quota, Traces, open_directory};
