//! Sandboxes for other processes.
//!
//! [`serve::serve`] answers the protocol of [`belljar_core::protocol`] on any pair of streams: the
//! standard streams of `belljar serve --stdio`, or a socket. [`client::Client`] is the other side of
//! it. [`mcp`] offers the same sandboxes to agents, as tools of the Model Context Protocol.

#![forbid(unsafe_code)]

pub mod client;
pub mod mcp;
pub mod serve;
