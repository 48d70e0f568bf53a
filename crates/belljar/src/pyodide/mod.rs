//! The pyodide backend: Python compiled to WebAssembly, in Deno or Node, in a jail.

mod engine;
mod index;

use std::path::PathBuf;
use std::process::{Command, Stdio};

use belljar_core::{Backend, RuntimeType, SandboxError};
use belljar_guests::drivers;
use belljar_jail::JailPlan;

pub use index::DEFAULT_INDEX_URL;

use crate::drivers::{Part, place, unpack};
use crate::factory::SandboxConfig;
use crate::native::{DRIVER, jail};
use crate::plan::LaunchPlan;
use crate::process::launch::{Launched, Launcher};
use engine::Engine;

/// Where Pyodide is in the jail.
const PYODIDE: &str = "/opt/pyodide";

/// Where its memory snapshot is in the jail.
const SNAPSHOT: &str = "/opt/pyodide-snapshot";

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
    jail.read_at(place(&cache, DRIVER_NAME, &DRIVER_PARTS), DRIVER);
    jail.read_at(&folder, PYODIDE);
    // Made by the first start; later ones find it.
    jail.mounts.push(belljar_jail::Mount {
        host: snapshot_file(&cache, &folder, &engine),
        inside: SNAPSHOT.into(),
        optional: true,
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
fn snapshot_file(cache: &std::path::Path, folder: &std::path::Path, engine: &Engine) -> PathBuf {
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
    /// later start takes a fraction of the first. Only code of Pyodide's and ours runs for that.
    fn prepare(&mut self) -> Result<(), SandboxError> {
        let driver = unpack(&self.cache, DRIVER_NAME, &DRIVER_PARTS, |_| {})?;
        let host = |inside: &str| {
            let mount =
                self.plan.mounts.iter().find(|mount| mount.inside == std::path::Path::new(inside));
            mount.map(|mount| mount.host.clone())
        };
        let (Some(folder), Some(snapshot)) = (host(PYODIDE), host(SNAPSHOT)) else { return Ok(()) };
        if snapshot.is_file() {
            return Ok(());
        }
        let engine = self.plan.args.iter().take_while(|argument| !argument.ends_with("main.mjs"));
        // Without a snapshot it starts all the same, only slower.
        let _ = Command::new(&self.plan.program)
            .args(engine)
            .arg(driver.join("pyodide/main.mjs"))
            .arg("--index-url")
            .arg(folder)
            .arg("--make-snapshot")
            .arg(snapshot)
            .env("DENO_DIR", self.cache.join("deno"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        Ok(())
    }
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
