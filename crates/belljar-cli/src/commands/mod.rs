//! One module per command.

pub(crate) mod agent;
pub(crate) mod artifacts;
pub(crate) mod bench;
pub(crate) mod check;
pub(crate) mod daemon;
#[cfg(target_os = "linux")]
pub(crate) mod docker;
pub(crate) mod doctor;
mod explain;
pub(crate) mod generate;
pub(crate) mod mcp;
pub(crate) mod packages;
pub(crate) mod policy;
pub(crate) mod repl;
pub(crate) mod run;
pub(crate) mod serve;
pub(crate) mod session;
