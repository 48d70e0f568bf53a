//! The pyodide backend: Python compiled to WebAssembly, in Deno or Node, in a jail.

mod engine;
mod index;

use std::path::{Path, PathBuf};
use std::time::Duration;

use belljar_core::{Backend, RuntimeType, SandboxError};
use belljar_guests::drivers;
use belljar_jail::JailPlan;

pub use index::DEFAULT_INDEX_URL;

use crate::drivers::{Part, place, unpack};
use crate::factory::SandboxConfig;
use crate::logging::TARGET;
use crate::native::{DRIVER, jail};
use crate::plan::LaunchPlan;
use crate::process::launch::{Ended, Launched, Launcher};
use engine::Engine;

/// Where Pyodide is in the jail.
const PYODIDE: &str = "/opt/pyodide";

/// Where its memory snapshot is in the jail.
const SNAPSHOT: &str = "/opt/pyodide-snapshot";

/// How long making it may take.
const MAKING_SNAPSHOT: Duration = Duration::from_secs(60);

/// How long it may be.
const MAX_SNAPSHOT_BYTES: u64 = 512 * 1024 * 1024;

/// What Belljar's cache calls the driver.
const DRIVER_NAME: &str = "pyodide-driver";

static DRIVER_PARTS: [Part; 3] = [
    ("pyodide", &drivers::PYODIDE),
    ("threads", &drivers::THREADS),
    ("python/driver", &drivers::PYTHON),
];

/// What the jail around Pyodide will be.
///
/// # Errors
/// When there is neither Deno nor Node, or no place to load Pyodide from.
pub(crate) fn jail_plan(
    plan: &LaunchPlan,
    config: &SandboxConfig,
) -> Result<JailPlan, SandboxError> {
    let engine = Engine::find()?;
    let cache = config.home()?.cache();
    let folder = index::folder(&config.index_url, &cache, &engine)?;
    let mut jail = crate::native::engine_plan(plan, engine.program());
    jail.limits.memory_bytes = jail.limits.memory_bytes.saturating_add(index::MODULE_BYTES);
    jail.limits.code_bytes = engine.code_bytes();
    jail.read_at(place(&cache, DRIVER_NAME, &DRIVER_PARTS), DRIVER);
    jail.read_at(&folder, PYODIDE);
    // Made by the first start; later ones find it.
    jail.mounts.push(belljar_jail::Mount {
        host: snapshot_file(&cache, &folder, &engine),
        inside: SNAPSHOT.into(),
        optional: true,
        writable: false,
    });
    jail.args = engine.arguments(config.use_worker == Some(false));
    jail.args.push(format!("{DRIVER}/pyodide/main.mjs"));
    jail.args.extend(["--index-url", PYODIDE, "--snapshot", SNAPSHOT].map(str::to_owned));
    let memory = jail::limits(&plan.policy).memory_bytes;
    jail.args.extend(["--memory".to_owned(), memory.to_string()]);
    for mount in plan.mounts.iter().skip(1) {
        let inside = jail.mounts.iter().find(|jailed| jailed.host == mount.host);
        let inside = inside.map(|mount| mount.inside.display().to_string());
        jail.args.extend(inside.into_iter().flat_map(|inside| ["--mount".to_owned(), inside]));
    }
    if config.use_worker == Some(false) {
        jail.args.push("--direct".to_owned());
    }
    jail.env.insert("DENO_DIR".to_owned(), "/tmp/deno".to_owned());
    Ok(jail)
}

/// Named after everything it is made of.
fn snapshot_file(cache: &Path, folder: &Path, engine: &Engine) -> PathBuf {
    let mut made_of = blake3::Hasher::new();
    made_of.update(folder.as_os_str().as_encoded_bytes());
    made_of.update(engine.describe().as_bytes());
    made_of.update(place(cache, DRIVER_NAME, &DRIVER_PARTS).as_os_str().as_encoded_bytes());
    for file in index::FILES {
        if let Ok(found) = std::fs::metadata(folder.join(file)) {
            made_of.update(&found.len().to_le_bytes());
        }
    }
    cache.join(format!("pyodide-{}.snapshot", &made_of.finalize().to_hex()[..16]))
}

/// Starts a Pyodide for each interpreter.
pub(crate) struct PyodideLauncher {
    plan: JailPlan,
    cache: PathBuf,
    prepared: bool,
}

impl PyodideLauncher {
    pub(crate) fn new(plan: JailPlan, cache: PathBuf) -> Self {
        Self { plan, cache, prepared: false }
    }

    /// Unpacks the driver and, the first time, keeps the memory of a started interpreter: every
    /// later start takes a fraction of the first.
    fn prepare(&mut self) -> Result<(), SandboxError> {
        unpack(&self.cache, DRIVER_NAME, &DRIVER_PARTS, |_| {})?;
        let snapshot = self.plan.mounts.iter().find(|mount| mount.inside == Path::new(SNAPSHOT));
        match snapshot.map(|mount| mount.host.clone()) {
            Some(file) if !file.is_file() => {
                // Without a snapshot it starts all the same, only slower.
                if let Err(error) = self.make_snapshot(&file) {
                    tracing::debug!(target: TARGET, event = "no_pyodide_snapshot", %error);
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// In a jail as well: what is loaded may come from anywhere.
    fn make_snapshot(&self, file: &Path) -> Result<(), Box<dyn std::error::Error>> {
        let workspace = tempfile::tempdir_in(&self.cache)?;
        let mut plan = self.plan.clone();
        plan.workspace = Some(workspace.path().to_owned());
        plan.limits.max_file_bytes = MAX_SNAPSHOT_BYTES;
        let options = plan.args.iter().position(|argument| argument == "--snapshot");
        plan.args.truncate(options.unwrap_or(plan.args.len()));
        plan.args.extend(["--make-snapshot", "/app/snapshot"].map(str::to_owned));
        let mut launched = jail::spawn(&plan, Backend::Pyodide)?;
        match launched.process.wait(MAKING_SNAPSHOT) {
            Some(Ended::Exited(0)) => keep_snapshot(&workspace.path().join("snapshot"), file),
            ended => Err(format!("the interpreter that should have been kept: {ended:?}").into()),
        }
    }
}

/// Puts it in its place, from where every later jail mounts it: so it must not be a link, which
/// could lead to any file of the host.
fn keep_snapshot(made: &Path, file: &Path) -> Result<(), Box<dyn std::error::Error>> {
    if !std::fs::symlink_metadata(made)?.is_file() {
        return Err("what should have been kept is no file".into());
    }
    Ok(std::fs::rename(made, file)?)
}

impl Launcher for PyodideLauncher {
    fn launch(&mut self) -> Result<Launched, SandboxError> {
        if !self.prepared {
            self.prepare()?;
            self.prepared = true;
        }
        jail::spawn(&self.plan, Backend::Pyodide)
    }

    fn backend(&self) -> Backend {
        Backend::Pyodide
    }

    fn language(&self) -> RuntimeType {
        RuntimeType::Python
    }

    fn interruptible(&self) -> bool {
        !self.plan.args.iter().any(|argument| argument == "--direct")
    }

    fn path(&self) -> Vec<String> {
        jail::packages(&self.plan)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_not_kept_as_a_snapshot_and_a_file_is() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        std::fs::write(at("secret"), "of the host").unwrap();
        std::os::unix::fs::symlink(at("secret"), at("link")).unwrap();
        assert!(keep_snapshot(&at("link"), &at("kept")).is_err() && !at("kept").exists());
        std::fs::write(at("made"), "memory").unwrap();
        assert!(keep_snapshot(&at("made"), &at("kept")).is_ok() && at("kept").is_file());
    }
}
