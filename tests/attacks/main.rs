//! Code that means harm. Each test is named after the attack, checks how it ends, and runs a
//! permitted twin in the same process afterwards. `attack` itself checks that the host has the
//! memory and the descriptors it had before, and still works.
#![expect(clippy::expect_used, reason = "helpers of tests fail by panicking")]

mod artifacts;
mod data;
mod docker;
mod environment;
mod files;
mod import_guard;
mod interpreter;
mod javascript;
mod javascript_driver;
mod leftovers;
mod memory;
mod native;
mod native_limits;
mod native_protocol;
mod native_workspace;
mod output;
mod plots;
mod protocol;
mod pyodide;
mod quota;
mod recursion;
mod scale;
mod sessions;
mod snapshots;
mod time;
mod tools;
