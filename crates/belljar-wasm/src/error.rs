//! What can go wrong on our side. A guest's failure is never here.

use std::path::PathBuf;

use belljar_core::GuestImage;

/// The engine could not do its part. Nothing of the guest ran on, and other guests are unaffected.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// wasmtime refused to compile, load or instantiate.
    #[error("the WebAssembly engine failed: {0}")]
    Engine(String),
    /// The guest and this crate do not fit together.
    #[error("the guest does not speak this version's protocol: {0}")]
    Abi(String),
    /// The code to run is larger than any guest can take.
    #[error("the request is {bytes} bytes long, more than a guest can take")]
    RequestTooLarge {
        /// Its size.
        bytes: usize,
    },
    /// A directory to be mounted cannot be opened.
    #[error("cannot open {path}: {source}", path = path.display())]
    Mount {
        /// The directory.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A custom guest cannot be read.
    #[error("{path}: {problem}", path = path.display())]
    Binary {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
        /// Whether it is there at all.
        missing: bool,
    },
    /// The cache of compiled guests cannot be used.
    #[error("the cache directory {path} cannot be used: {problem}", path = path.display())]
    Cache {
        /// The directory.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// The memory limit leaves no room for the interpreter.
    #[error("memory_bytes = {given} is too small: this guest needs at least {needed}")]
    MemoryTooSmall {
        /// The policy's limit.
        given: u64,
        /// The least that works.
        needed: u64,
    },
    /// With what the image itself holds, the memory limit is more than a guest can address.
    #[error("memory_bytes = {given} is too large: this guest can have at most {most}")]
    MemoryTooLarge {
        /// The policy's limit.
        given: u64,
        /// The most that works.
        most: u64,
    },
    /// The guest is not in the cache, and it is not for this process to compile it.
    #[error("the image {0} is not compiled yet")]
    NotCompiled(GuestImage),
    /// The interpreter could not be put back to where it was, so there is none any more.
    #[error("the interpreter is gone: it could not be put back to its state before the last cell")]
    Lost,
    /// There is no cell to go on with.
    #[error("no cell is waiting for answers")]
    NotWaiting,
    /// The system failed us.
    #[error("{0}")]
    Io(#[from] std::io::Error),
}

impl EngineError {
    pub(crate) fn engine(error: wasmtime::Error) -> EngineError {
        EngineError::Engine(format!("{error:#}"))
    }

    pub(crate) fn abi(what: &str) -> EngineError {
        EngineError::Abi(what.to_owned())
    }
}
