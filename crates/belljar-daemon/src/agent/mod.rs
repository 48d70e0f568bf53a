//! The agent in a command jail: starts processes for the daemon, gives them terminals, passes on
//! what they read and write. It runs where the code it starts runs, and is trusted no more.

#[cfg(target_os = "linux")]
mod child;
pub(crate) mod messages;

#[cfg(target_os = "linux")]
pub use child::{become_in_terminal, serve};
