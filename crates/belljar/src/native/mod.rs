//! The native backend: CPython or Node of this machine, in a jail.

mod jail;
mod python;

use belljar_core::{Backend, RuntimeType, SandboxError};
use belljar_guests::drivers;
use belljar_jail::JailPlan;

pub(crate) use jail::spawn;
pub(crate) use python::Python;

use crate::drivers::unpack;
use crate::factory::SandboxConfig;
use crate::plan::LaunchPlan;
use crate::process::launch::{Launched, Launcher};

/// Where the driver is in the jail.
const DRIVER: &str = "/opt/belljar";

/// Where added packages are in the jail.
const PACKAGES: &str = "/opt/site-packages";

/// Starts a CPython for each interpreter.
pub(crate) struct PythonLauncher {
    plan: JailPlan,
}

impl PythonLauncher {
    pub(crate) fn new(plan: &LaunchPlan, config: &SandboxConfig) -> Result<Self, SandboxError> {
        let python = Python::find(config.python.as_deref())?;
        Ok(Self { plan: jail_plan(plan, config, &python)? })
    }
}

/// What the jail around a Python will be.
fn jail_plan(
    plan: &LaunchPlan,
    config: &SandboxConfig,
    python: &Python,
) -> Result<JailPlan, SandboxError> {
    let parts = [("driver", &drivers::PYTHON), ("native", &drivers::PYTHON_NATIVE)];
    let driver = unpack(&config.home()?.cache(), "python-driver", &parts, |folder| {
        python.compile(folder);
    })?;
    let mut jail = jail::plan(plan, &python.program);
    for directory in &python.directories {
        jail::read_once(&mut jail, directory);
    }
    jail.read_at(driver, DRIVER);
    jail.args = ["-I", "-B", "-X", "utf8"].map(str::to_owned).to_vec();
    jail.args.push(format!("{DRIVER}/native/main.py"));
    Ok(jail)
}

impl Launcher for PythonLauncher {
    fn launch(&mut self) -> Result<Launched, SandboxError> {
        spawn(&self.plan, Backend::Native)
    }

    fn backend(&self) -> Backend {
        Backend::Native
    }

    fn language(&self) -> RuntimeType {
        RuntimeType::Python
    }

    fn path(&self) -> Vec<String> {
        let packages = self.plan.mounts.iter().any(|mount| mount.inside == *PACKAGES);
        packages.then(|| PACKAGES.to_owned()).into_iter().collect()
    }
}
