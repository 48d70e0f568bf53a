//! The wasm backend: interpreters inside the embedded WebAssembly engine.

mod failure;
mod fork_directories;
mod guests;
mod host;
mod image;
mod outcome;
mod report;
mod sandbox;
mod session;

use std::sync::Arc;

use belljar_core::{GuestImage, RuntimeType, SandboxError};
use belljar_wasm::Interpreter;
pub use belljar_wasm::Package;

pub(crate) use failure::failure;
pub use guests::{CompileEvent, leave_data_image_to_others, on_compile};
pub use host::{Links, RunOptions, WasmHost, run_untrusted};
pub(crate) use image::of_code;
pub use sandbox::{JavaScript, JavaScriptSandbox, Language, Python, PythonSandbox, WasmSandbox};

use crate::home::Home;

/// The host layer under the name Python's specification gives it.
pub use host::WasmHost as PythonHost;
/// The host layer's one function under the name Python's specification gives it.
pub use host::run_untrusted as run_untrusted_python;

pub(crate) fn embedded_guest(
    language: RuntimeType,
    image: GuestImage,
    home: &Home,
) -> Result<Arc<Interpreter>, SandboxError> {
    guests::embedded(language, image, &home.cache()).map_err(failure)
}

/// Compiles an image into Belljar's directory, if it is not there yet.
///
/// # Errors
/// When there is no such image, or the directory cannot be used.
pub fn prepare(language: RuntimeType, image: GuestImage, home: &Home) -> Result<(), SandboxError> {
    guests::prepare(language, image, &home.cache()).map_err(failure)
}

/// The most `memory_bytes` that a sandbox with that image can have.
///
/// # Errors
/// When there is no such image.
pub fn most_memory(image: GuestImage) -> Result<u64, SandboxError> {
    belljar_wasm::most_memory(RuntimeType::Python, image).map_err(failure)
}

/// What is in an image beyond the language's own library.
///
/// # Errors
/// When there is no such image.
pub fn packages_in(language: RuntimeType, image: GuestImage) -> Result<Vec<Package>, SandboxError> {
    let manifest = belljar_wasm::manifest_of(language, image).map_err(failure)?;
    Ok(manifest.packages)
}
