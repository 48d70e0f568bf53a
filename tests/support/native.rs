//! Attacks in processes: what must be gone afterwards are the processes, too.

use std::fs;
use std::path::Path;
use std::sync::Once;

use belljar::SandboxResult;

use crate::jar::Jar;
use crate::memory::{Usage, exclusive, give_large_blocks_back};
use crate::session::{Cells, eventually};

/// What may be left in the host: caches of the allocator and the result.
const TOLERANCE_BYTES: u64 = 12 * 1024 * 1024;

/// Runs hostile code in a jail and checks that afterwards no process of it runs, that the host has
/// the memory and the descriptors it had before, and that the next jail works.
#[must_use]
pub fn attack_native(jar: &Jar, code: &str) -> SandboxResult {
    attacked_natively(jar, code, || jar.open().run(code))
}

/// Does something with hostile sandboxes in a jar, and checks the same when they are gone.
pub fn attacked_natively<T>(jar: &Jar, what: &str, body: impl FnOnce() -> T) -> T {
    static WARM_UP: Once = Once::new();
    let _guard = exclusive();
    WARM_UP.call_once(|| {
        give_large_blocks_back();
        // Opens what the host opens once and keeps.
        drop(Jar::native().open().run("import json; 1"));
    });
    let before = Usage::of(Some(jar.workspace()));
    let result = body();
    assert_eq!(processes_of(jar.workspace()), Vec::<String>::new(), "{what} survived");
    eventually("every child was waited for", || zombies().is_empty());
    before.assert_no_growth(TOLERANCE_BYTES, what);
    let still = Jar::native().open().run("print('still here')");
    assert_eq!(still.stdout, "still here\n", "jails no longer work after {what}");
    result
}

/// Runs what is allowed: the twin of an attack.
#[must_use]
pub fn permitted_native(jar: &Jar, code: &str) -> SandboxResult {
    let _guard = exclusive();
    jar.open().run(code)
}

/// The processes that have this workspace mounted: those of its jails, wherever they have hidden.
#[must_use]
pub fn processes_of(workspace: &Path) -> Vec<String> {
    let name = workspace.file_name().expect("a name").to_string_lossy().into_owned();
    let has_it = |pid: &String| {
        fs::read_to_string(format!("/proc/{pid}/mountinfo")).is_ok_and(|text| text.contains(&name))
    };
    pids().into_iter().filter(has_it).collect()
}

/// Children of this process that have ended and that nobody has waited for.
fn zombies() -> Vec<String> {
    let own = std::process::id().to_string();
    let is_ours = |pid: &String| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // The name before these may hold anything.
        let mut fields = stat.rsplit(") ").next().unwrap_or_default().split(' ');
        fields.next() == Some("Z") && fields.next() == Some(&own)
    };
    pids().into_iter().filter(is_ours).collect()
}

fn pids() -> Vec<String> {
    let entries = fs::read_dir("/proc").expect("/proc").flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.bytes().all(|byte| byte.is_ascii_digit())).collect()
}
