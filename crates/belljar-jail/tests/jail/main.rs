//! Real programs in the jail: each layer must hold, and what is permitted must work.
//!
//! Every test of `both_users!` runs as whoever runs the tests and, when that is root, once more as
//! an ordinary user.

#![cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "tests; helpers of tests are not seen as such"
)]

mod harness;

mod ends;
mod errors;
mod files;
mod limits;
mod network;
mod processes;
mod programs;
mod sealed;
mod syscalls;
mod terminals;
mod zygote;
