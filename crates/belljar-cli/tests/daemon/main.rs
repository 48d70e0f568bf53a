//! The daemon as the command starts it: what clients can do, what they cannot do to it or to each
//! other, and what happens when its processes are killed.

#![cfg(target_os = "linux")]
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::cast_possible_truncation,
    reason = "a test that cannot go on has failed, and says why"
)]

mod bad_clients;
mod confinement;
mod faults;
mod harness;
mod hostile_values;
mod hostile_workers;
mod http;
mod http_attacks;
mod http_client;
mod life;
mod load;
mod sharing;
