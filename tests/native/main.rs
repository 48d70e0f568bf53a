//! The native backend with interpreters and workspaces as they come: broken ones, missing ones, and
//! those with packages.
#![expect(clippy::expect_used, clippy::panic, reason = "helpers of tests fail by panicking")]

mod bad_input;
mod deno;
mod javascript;
mod virtualenv;
