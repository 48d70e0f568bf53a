//! Linux confinement for programs that run untrusted code: first a plan, which is plain data, then
//! a jail made after it.

mod cgroup;
mod embedded;
mod error;
mod messages;
mod plan;
mod probe;
mod seccomp;
mod spawn;
mod wire;

pub use cgroup::Cgroup;
pub use error::JailError;
pub use plan::{HOST_NAME, JailPlan, Limits, Link, MemoryRule, Mount, TextFile, WORKSPACE};
pub use probe::Layer;
pub use spawn::{Descriptors, Ended, Jailed};
