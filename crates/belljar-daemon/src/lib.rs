//! Sandboxes for other processes.
//!
//! [`serve::serve`] answers the protocol of [`belljar_core::protocol`] on any pair of streams: the
//! standard streams of `belljar serve --stdio`, or a socket. [`daemon`] is a process that many
//! clients connect to and that keeps their sandboxes in workers of its own.

#![forbid(unsafe_code)]

#[cfg(unix)]
pub mod daemon;
pub mod serve;
