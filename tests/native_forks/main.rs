//! Executions of the native backend that come from one zygote: each is as fresh as any, and none
//! reaches the zygote or another. Attacks stand beside what is permitted.
#![cfg(target_os = "linux")]
#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test stops where it fails, and says when it is skipped"
)]

mod attacks;
mod ends;
mod freshness;
mod harness;
mod processes;
