//! Sandboxes for other processes.
//!
//! [`serve::serve`] answers the protocol of [`belljar_core::protocol`] on any pair of streams: the
//! standard streams of `belljar serve --stdio`, or a socket. [`client::Client`] is the other side of
//! it. [`daemon`] is a process that many clients connect to and that keeps their sandboxes in workers
//! of its own. [`mcp`] offers sandboxes to agents, as tools of the Model Context Protocol.

#![forbid(unsafe_code)]

#[cfg(unix)]
pub mod agent;
pub mod client;
#[cfg(unix)]
pub mod daemon;
mod desk;
mod gathered;
pub mod mcp;
pub mod serve;
mod web;
