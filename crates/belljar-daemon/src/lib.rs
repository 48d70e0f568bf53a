//! Sandboxes for other processes.
//!
//! [`serve::serve`] answers the protocol of [`belljar_core::protocol`] on any pair of streams: the
//! standard streams of `belljar serve --stdio`, or a socket.

#![forbid(unsafe_code)]

pub mod serve;
