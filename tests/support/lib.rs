//! What Belljar's test suites share: a sandbox in a workspace of its own, checks of results, and a
//! watch on the host's memory.
#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::missing_panics_doc,
    reason = "what fails here fails the test that asked for it"
)]

mod agent;
mod daemon;
mod docker;
mod e2b;
mod jar;
mod memory;
mod native;
mod process;
mod results;
mod session;
mod snapshot_file;
mod third_party;

pub use agent::Agent;
pub use daemon::Daemon;
pub use docker::{belongs_to_nobody, containers, docker_settings, engine};
pub use e2b::{e2b_settings, other_role};
pub use jar::{Jar, build_dir, home};
pub use memory::{Alone, Usage, attack, attacked, exclusive, permitted};
pub use native::{attack_native, attacked_natively, permitted_native, processes_of};
pub use process::{again_as_nobody, alone, given, in_new_processes};
pub use results::{Expect, assert_no_host_paths};
pub use session::{Cells, Lines, cancelled, eventually};
pub use snapshot_file::SnapshotFile;
pub use third_party::{
    Interpreter, deno_from_npm, interpreter_from_npm, packages_home, pyodide_from_npm, skipped,
};
