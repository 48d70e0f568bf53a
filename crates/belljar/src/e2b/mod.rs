//! The backend `e2b`: sandboxes of E2B's cloud, or of any service that speaks as it does.
//!
//! `settings.rs` where the service is and who asks, `service.rs` sandboxes there, `execution.rs` code
//! that runs in one, `files.rs` its files, `sandbox.rs` all of that behind the trait.

mod execution;
mod files;
mod sandbox;
mod service;
mod settings;

pub use sandbox::E2bSandbox;
pub use settings::E2bSettings;
