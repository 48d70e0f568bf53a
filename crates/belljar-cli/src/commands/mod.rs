//! One module per command.

pub(crate) mod bench;
pub(crate) mod check;
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
