//! Sessions: state that lives from cell to cell, and what can be done with it.
#![expect(clippy::expect_used, clippy::panic, reason = "helpers of tests fail by panicking")]

mod bad_input;
mod damaged;
mod forks;
mod javascript;
mod notebook;
mod open_files;
mod rollback;
mod scale;
mod snapshots;
mod streaming;
mod suspend;
mod tool_docs;
mod tool_failures;
mod tool_limits;
mod tools;
