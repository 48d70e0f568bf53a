//! The docker backend against a real engine, and against what is none. Where the tests have no
//! engine they are shown as skipped.
#![expect(clippy::panic, reason = "what fails here fails the test")]

mod bad_input;
mod behaviour;
mod lifetime;
