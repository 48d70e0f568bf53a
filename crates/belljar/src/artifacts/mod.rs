//! Executions that are kept: `executions/<time>_<hash>.json` below a directory, for their owner
//! only, without secrets, bounded in size and age.

mod name;
mod record;
mod redact;
mod replay;
mod shapes;
mod store;

pub use belljar_core::StoreCode;
pub use record::{Artifact, Metadata, Summary};
pub use redact::{REDACTED, Redactor};
pub use replay::{Difference, Replay, replay};
pub use store::{ArtifactStore, Listed, Pruned, Retention};

#[cfg(test)]
mod tests;
