//! The native backend: CPython or Node of this machine, in a jail.

mod fork;
pub(crate) mod jail;
mod node;
mod python;
mod warm;
mod zygote;

use std::path::{Path, PathBuf};

use belljar_core::{Backend, RuntimeType, SandboxError};
use belljar_guests::drivers;
use belljar_jail::JailPlan;

pub(crate) use node::{Description, Node, NodeLauncher, engine_plan};
pub(crate) use python::Python;

use crate::drivers::{Part, place, unpack};
use crate::factory::SandboxConfig;
use crate::plan::LaunchPlan;
use crate::process::launch::{Launched, Launcher};
use warm::Warm;

/// Where the driver is in the jail.
pub(crate) const DRIVER: &str = "/opt/belljar";

/// Where added packages are in the jail.
const PACKAGES: &str = "/opt/site-packages";

/// What Belljar's cache calls the driver.
const DRIVER_NAME: &str = "python-driver";

static DRIVER_PARTS: [Part; 2] =
    [("driver", &drivers::PYTHON), ("native", &drivers::PYTHON_NATIVE)];

/// What the jail around an interpreter will be. Starts nothing but the interpreter, to ask it what
/// it is, and writes nothing.
///
/// # Errors
/// When there is no interpreter.
pub(crate) fn jail_plan(
    plan: &LaunchPlan,
    config: &SandboxConfig,
) -> Result<JailPlan, SandboxError> {
    match plan.language {
        RuntimeType::Python => python_plan(plan, config),
        RuntimeType::Javascript => node::jail_plan(plan, config),
    }
}

fn python_plan(plan: &LaunchPlan, config: &SandboxConfig) -> Result<JailPlan, SandboxError> {
    let python = Python::find(config.python.as_deref())?;
    let mut jail = jail::plan(plan, &python.program);
    for directory in &python.directories {
        jail::read_once(&mut jail, directory);
    }
    jail.read_at(place(&config.home()?.cache(), DRIVER_NAME, &DRIVER_PARTS), DRIVER);
    jail.args = ["-I", "-B", "-X", "utf8"].map(str::to_owned).to_vec();
    jail.args.push(format!("{DRIVER}/native/main.py"));
    Ok(jail)
}

/// Starts a CPython for each interpreter: the first by itself, later ones as forks of a zygote.
pub(crate) struct PythonLauncher {
    plan: JailPlan,
    cache: PathBuf,
    unpacked: bool,
    warm: Warm,
}

impl PythonLauncher {
    pub(crate) fn new(plan: JailPlan, workspace: &Path, cache: PathBuf) -> Self {
        let warm = Warm::new(&plan, workspace);
        Self { plan, cache, unpacked: false, warm }
    }
}

impl Launcher for PythonLauncher {
    fn launch(&mut self) -> Result<Launched, SandboxError> {
        if !self.unpacked {
            let program = self.plan.program.clone();
            let compile = |folder: &Path| python::compile(&program, folder);
            unpack(&self.cache, DRIVER_NAME, &DRIVER_PARTS, compile)?;
            self.unpacked = true;
        }
        match self.warm.launch() {
            Some(launched) => Ok(launched),
            None => jail::spawn(&self.plan, Backend::Native),
        }
    }

    fn backend(&self) -> Backend {
        Backend::Native
    }

    fn language(&self) -> RuntimeType {
        RuntimeType::Python
    }

    fn path(&self) -> Vec<String> {
        jail::packages(&self.plan)
    }
}
