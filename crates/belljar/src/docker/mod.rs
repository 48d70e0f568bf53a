//! The docker backend: an interpreter in a container of an engine on this machine. No other module
//! names bollard.

mod address;
mod body;
mod channel;
mod container;
mod engine;
#[cfg(test)]
mod fake_engine;
mod image;
mod orphans;
mod plan;
mod removals;
mod spare;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use belljar_core::{Backend, RuntimeType, SandboxError};
use belljar_guests::drivers;

pub(crate) use engine::Engine;
pub use image::{ImageSource, make_image};
pub use plan::{ContainerPlan, hand_over};
pub(crate) use plan::{container_plan, rules};

use crate::docker_settings::DockerSettings;
use crate::drivers::{Part, place, unpack};
use crate::process::launch::{Launched, Launcher};
use spare::Spare;

/// Where the driver is in a container.
const DRIVER: &str = "/opt/belljar";

/// Where added packages are in a container.
const PACKAGES: &str = "/opt/site-packages";

static PYTHON_PARTS: [Part; 2] =
    [("driver", &drivers::PYTHON), ("native", &drivers::PYTHON_NATIVE)];

static NODE_PARTS: [Part; 3] = [
    ("javascript/driver", &drivers::JAVASCRIPT),
    ("javascript/node", &drivers::JAVASCRIPT_NODE),
    ("threads", &drivers::THREADS),
];

/// What Belljar's cache calls a driver, and what it is made of.
fn driver(language: RuntimeType) -> (&'static str, &'static [Part]) {
    match language {
        RuntimeType::Python => ("docker-python-driver", &PYTHON_PARTS),
        RuntimeType::Javascript => ("docker-node-driver", &NODE_PARTS),
    }
}

fn driver_place(language: RuntimeType, cache: &Path) -> PathBuf {
    let (name, parts) = driver(language);
    place(cache, name, parts)
}

/// Whether an engine answers that can run what these settings ask for.
#[must_use]
pub(crate) fn answers(settings: &DockerSettings) -> bool {
    Engine::connect(settings).is_ok()
}

/// Removes containers that a Belljar which is gone has left behind; says how many.
///
/// # Errors
/// When there is no engine, or it does not want to.
pub fn prune(settings: &DockerSettings) -> Result<usize, SandboxError> {
    let (engine, _) = Engine::reach(settings)?;
    orphans::collect(&engine).map_err(|refused| engine::unavailable(&refused.to_string()))
}

/// Starts a container for each interpreter.
pub(crate) struct DockerLauncher {
    language: RuntimeType,
    path: Vec<String>,
    cache: PathBuf,
    spare: Arc<Spare>,
}

impl DockerLauncher {
    /// Starts nothing, but looks whether the image is there and will do.
    pub(crate) fn new(
        engine: Engine,
        plan: ContainerPlan,
        language: RuntimeType,
        cache: PathBuf,
    ) -> Result<Self, SandboxError> {
        image::check(&engine, &plan.image)?;
        keep_socket_out(&engine, &plan)?;
        let packages = plan.mounts.iter().any(|mount| mount.guest == PACKAGES);
        let path = packages.then(|| PACKAGES.to_owned()).into_iter().collect();
        Ok(Self { language, path, cache, spare: Spare::new(engine, plan) })
    }
}

/// Whoever speaks to the engine has the whole machine, so no mounted directory may hold its socket.
fn keep_socket_out(engine: &Engine, plan: &ContainerPlan) -> Result<(), SandboxError> {
    let socket = std::fs::canonicalize(engine.socket()).unwrap_or(engine.socket().to_owned());
    match plan.mounts.iter().find(|mount| socket.starts_with(&mount.host)) {
        None => Ok(()),
        Some(mount) => Err(SandboxError::Workspace {
            path: mount.host.clone(),
            problem: "it holds the socket of the Docker engine".to_owned(),
            hint: Some("use another directory".to_owned()),
        }),
    }
}

impl Launcher for DockerLauncher {
    fn launch(&mut self) -> Result<Launched, SandboxError> {
        let (name, parts) = driver(self.language);
        unpack(&self.cache, name, parts, |_| {})?;
        self.spare.launch()
    }

    fn backend(&self) -> Backend {
        Backend::Docker
    }

    fn language(&self) -> RuntimeType {
        self.language
    }

    fn path(&self) -> Vec<String> {
        self.path.clone()
    }
}
