//! The `daemon` backend: sandboxes that live in a running Belljar daemon, reached over its socket.
//!
//! One connection serves a sandbox and its forks. Each call talks on its caller's thread, which also
//! reads what the daemon says and sorts it to whoever waits. What is on the other side may be
//! anything: it is believed as little as a guest is.

#[cfg(unix)]
mod connection;
#[cfg(unix)]
mod errors;
#[cfg(unix)]
mod input;
pub mod local;
#[cfg(unix)]
mod mailbox;
#[cfg(unix)]
mod mirror;
#[cfg(unix)]
mod place;
#[cfg(unix)]
mod routes;
#[cfg(unix)]
mod sandbox;
#[cfg(unix)]
mod snapshots;
mod socket;
#[cfg(unix)]
mod talk;
#[cfg(unix)]
mod wait;

#[cfg(unix)]
#[cfg(test)]
mod tests;

#[cfg(unix)]
pub use sandbox::DaemonSandbox;
#[cfg(unix)]
pub use socket::available;
pub use socket::{SOCKET_VARIABLE, WINDOWS_PIPE, socket_path};
