//! Sessions: state that lives from cell to cell, and what can be done with it.
#![expect(clippy::expect_used, clippy::panic, reason = "helpers of tests fail by panicking")]

mod forks;
mod notebook;
mod open_files;
mod rollback;
mod snapshots;
mod suspend;
