//! The data image: numpy, pandas and matplotlib in the sandbox, when code has them, what they cost,
//! and what can be done with sessions that use them.
#![expect(clippy::expect_used, reason = "helpers of tests fail by panicking")]

mod choice;
mod library;
mod memory;
mod plots;
mod state;

use belljar::{GuestImage, ImageChoice, SandboxResult};
use support::Jar;

/// A jar whose policy names an image.
fn jar(image: ImageChoice) -> Jar {
    Jar::new().with(|layer| layer.image(image))
}

/// The image an execution had.
fn image(result: &SandboxResult) -> GuestImage {
    result.meta.image.unwrap_or_default()
}
