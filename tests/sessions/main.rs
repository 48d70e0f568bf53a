//! Sessions: state that lives from cell to cell, and what can be done with it.
#![expect(clippy::expect_used, clippy::panic, reason = "helpers of tests fail by panicking")]

mod notebook;
mod rollback;
