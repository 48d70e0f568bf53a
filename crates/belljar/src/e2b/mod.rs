//! The backend `e2b`: sandboxes of E2B's cloud, or of any service that speaks as it does.
//!
//! `service.rs` sandboxes there, `driver.rs` what goes along with code, `execution.rs` code that runs
//! in one, `files.rs` its files, `sandbox.rs` all of that behind the trait.

mod driver;
mod execution;
mod files;
mod sandbox;
mod service;

pub use sandbox::E2bSandbox;
