//! The built guests as bytes. `guests/README.md` tells how they are made.
#![forbid(unsafe_code)]

/// A guest as it is shipped. Both parts are compressed with Zstandard.
#[derive(Clone, Copy, Debug)]
pub struct Guest {
    /// JSON: versions, hashes, layout of the image.
    pub manifest: &'static str,
    /// The WebAssembly module without its data.
    pub module: &'static [u8],
    /// The memory of the booted interpreter.
    pub image: &'static [u8],
}

/// CPython.
pub const PYTHON: Guest = Guest {
    manifest: include_str!("../dist/python.json"),
    module: include_bytes!("../dist/python.wasm.zst"),
    image: include_bytes!("../dist/python.img.zst"),
};

/// CPython with numpy and pandas, already imported.
pub const PYTHON_DATA: Guest = Guest {
    manifest: include_str!("../dist/python-data.json"),
    module: include_bytes!("../dist/python-data.wasm.zst"),
    image: include_bytes!("../dist/python-data.img.zst"),
};

/// QuickJS.
pub const JAVASCRIPT: Guest = Guest {
    manifest: include_str!("../dist/javascript.json"),
    module: include_bytes!("../dist/javascript.wasm.zst"),
    image: include_bytes!("../dist/javascript.img.zst"),
};

/// The sources of drivers for interpreters that run in processes of their own.
pub mod drivers {
    use include_dir::{Dir, include_dir};

    /// The Python driver, the same that is in [`PYTHON`](super::PYTHON).
    pub static PYTHON: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/python/driver");

    /// What lets it run in any CPython; one module of it goes to services, too.
    pub static PYTHON_NATIVE: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/python/native");

    /// What lets it run in Pyodide.
    pub static PYODIDE: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/pyodide");

    /// How the two threads of a JavaScript engine work together: for Pyodide and Node.
    pub static THREADS: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/threads");

    /// The JavaScript driver, the same that is in [`JAVASCRIPT`](super::JAVASCRIPT).
    pub static JAVASCRIPT: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/javascript/driver");

    /// What lets it run in Node.
    pub static JAVASCRIPT_NODE: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/javascript/node");
}
