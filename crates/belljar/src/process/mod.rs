//! Interpreters in processes of their own: how the host talks to one, whatever confines it.
//!
//! A [`launch::Launcher`] starts a process; [`interpreter::Interpreter`] speaks JSON-RPC with the
//! driver in it, reads what it prints and serves the tools it calls, all on the calling thread;
//! [`sandbox::ProcessSandbox`] makes results of that.

pub(crate) mod asking;
mod changes;
pub(crate) mod interpreter;
pub(crate) mod launch;
mod nameless;
pub(crate) mod pipes;
mod report;
pub(crate) mod sandbox;
pub(crate) mod wire;

pub use nameless::removed_bytes;
