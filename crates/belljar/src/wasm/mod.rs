//! The wasm backend: interpreters inside the embedded WebAssembly engine.

mod guests;
mod host;
mod outcome;
mod python;

pub use guests::{CompileEvent, on_compile};
pub use host::{PythonHost, RunOptions, run_untrusted_python};
pub use python::PythonSandbox;
