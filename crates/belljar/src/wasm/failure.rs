//! The engine's errors in the library's words.

use belljar_core::{PolicyValidationError, SandboxError, SandboxExecutionError, Survives};
use belljar_wasm::EngineError;

pub(crate) fn failure(error: EngineError) -> SandboxError {
    let problem = error.to_string();
    match error {
        EngineError::Binary { path, problem, .. } => SandboxError::ArtifactNotFound {
            what: "the interpreter".to_owned(),
            path,
            problem,
            hint: Some(
                "give a WASI build of Python as wasm_binary_path, or none to use the embedded one"
                    .to_owned(),
            ),
        },
        EngineError::Mount { path, source } => {
            SandboxError::Workspace { path, problem: source.to_string(), hint: None }
        }
        EngineError::Cache { path, problem } => SandboxError::Cache {
            what: "compiled guests".to_owned(),
            path,
            problem,
            hint: Some("set BELLJAR_HOME to a directory that only you can write".to_owned()),
        },
        EngineError::MemoryTooSmall { needed, .. } => PolicyValidationError::single(
            "memory_bytes",
            format!("must be at least {needed}, which the interpreter itself needs"),
            None,
        )
        .into(),
        EngineError::MemoryTooLarge { most, .. } => PolicyValidationError::single(
            "memory_bytes",
            format!("must be at most {most} with this image, which itself takes up the rest"),
            None,
        )
        .into(),
        EngineError::NotCompiled(image) => SandboxError::ImageMissing { image },
        EngineError::RequestTooLarge { .. } => SandboxError::Source { problem, hint: None },
        EngineError::NotWaiting => SandboxError::NotSuspended,
        EngineError::Io(_) | EngineError::Lost => {
            SandboxExecutionError { problem, survives: Survives::OtherSandboxes, hint: None }.into()
        }
        EngineError::Engine(_) | EngineError::Abi(_) => {
            SandboxError::Internal { problem, survives: Survives::OtherSandboxes }
        }
    }
}
