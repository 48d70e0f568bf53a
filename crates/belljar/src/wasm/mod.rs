//! The wasm backend: interpreters inside the embedded WebAssembly engine.

mod failure;
mod fork_directories;
mod guests;
mod host;
mod outcome;
mod report;
mod sandbox;
mod session;

use std::sync::Arc;

use belljar_core::{RuntimeType, SandboxError};
use belljar_wasm::Interpreter;

pub(crate) use failure::failure;
pub use guests::{CompileEvent, on_compile};
pub use host::{Links, RunOptions, WasmHost, run_untrusted};
pub use sandbox::{JavaScript, JavaScriptSandbox, Language, Python, PythonSandbox, WasmSandbox};

use crate::home::Home;

/// The host layer under the name Python's specification gives it.
pub use host::WasmHost as PythonHost;
/// The host layer's one function under the name Python's specification gives it.
pub use host::run_untrusted as run_untrusted_python;

pub(crate) fn embedded_guest(
    language: RuntimeType,
    home: &Home,
) -> Result<Arc<Interpreter>, SandboxError> {
    guests::embedded(language, &home.cache()).map_err(failure)
}
