//! The guest's standard library: what works, and what says clearly that it cannot.
#![expect(clippy::expect_used, reason = "helpers of tests fail by panicking")]

mod absent;
mod present;
