//! JavaScript by Node.

use std::path::{Path, PathBuf};

use belljar_core::{Backend, RuntimeType, SandboxError};
use belljar_guests::drivers;
use belljar_jail::{JailPlan, MemoryRule};
use serde::Deserialize;

use super::{DRIVER, jail};
use crate::drivers::{Part, place, unpack};
use crate::factory::SandboxConfig;
use crate::plan::LaunchPlan;
use crate::process::asking;
use crate::process::launch::{Launched, Launcher};

/// What Belljar's cache calls the driver.
const DRIVER_NAME: &str = "node-driver";

static DRIVER_PARTS: [Part; 3] = [
    ("javascript/driver", &drivers::JAVASCRIPT),
    ("javascript/node", &drivers::JAVASCRIPT_NODE),
    ("threads", &drivers::THREADS),
];

/// The oldest that the JavaScript driver runs on.
const OLDEST: u32 = 20;

/// What V8 needs beside the memory of the user's code: its own code, threads, and slack.
pub(crate) const ENGINE_BYTES: u64 = 256 * 1024 * 1024;

const MIB: u64 = 1024 * 1024;

const QUESTION: &str =
    "JSON.stringify({version: process.versions.node, executable: process.execPath})";

/// A Node of this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Node {
    /// The program.
    pub(crate) program: PathBuf,
    /// Its version.
    pub(crate) version: String,
}

#[derive(Deserialize)]
pub(crate) struct Description {
    pub(crate) version: String,
    pub(crate) executable: PathBuf,
}

impl Node {
    /// The one on the search path, if it is new enough.
    pub(crate) fn find(oldest: u32) -> Result<Self, String> {
        let answer = asking::ask(Path::new("node"), &["-p", QUESTION])
            .map_err(|problem| format!("node: {problem}"))?;
        let Description { version, executable } = serde_json::from_slice(&answer)
            .map_err(|_| "node: it does not answer as Node does".to_owned())?;
        let major = version.split('.').next().and_then(|major| major.parse::<u32>().ok());
        if major.is_none_or(|major| major < oldest) {
            return Err(format!("node is version {version}, and at least {oldest} is needed"));
        }
        let program = std::fs::canonicalize(&executable).unwrap_or(executable);
        Ok(Self { program, version })
    }
}

/// A jail for a program with V8 in it.
pub(crate) fn engine_plan(plan: &LaunchPlan, program: &Path) -> JailPlan {
    let mut jail = jail::plan(plan, program);
    jail::read_once(&mut jail, program);
    jail.limits.memory_rule = MemoryRule::Data;
    jail.limits.memory_bytes = jail.limits.memory_bytes.saturating_add(ENGINE_BYTES);
    jail
}

pub(super) fn jail_plan(
    plan: &LaunchPlan,
    config: &SandboxConfig,
) -> Result<JailPlan, SandboxError> {
    let node = Node::find(OLDEST).map_err(|reason| SandboxError::BackendUnavailable {
        backend: Backend::Native,
        reason,
        hint: Some(format!("install Node {OLDEST} or newer, or use the wasm backend")),
    })?;
    let memory = jail::limits(&plan.policy).memory_bytes;
    let mut jail = engine_plan(plan, &node.program);
    jail.read_at(place(&config.home()?.cache(), DRIVER_NAME, &DRIVER_PARTS), DRIVER);
    jail.args = vec![
        format!("--max-old-space-size={}", (memory / MIB).max(1)),
        format!("{DRIVER}/javascript/node/main.mjs"),
    ];
    Ok(jail)
}

/// Starts a Node for each interpreter.
pub(crate) struct NodeLauncher {
    plan: JailPlan,
    cache: PathBuf,
}

impl NodeLauncher {
    pub(crate) fn new(plan: JailPlan, cache: PathBuf) -> Self {
        Self { plan, cache }
    }
}

impl Launcher for NodeLauncher {
    fn launch(&mut self) -> Result<Launched, SandboxError> {
        unpack(&self.cache, DRIVER_NAME, &DRIVER_PARTS, |_| {})?;
        jail::spawn(&self.plan, Backend::Native)
    }

    fn backend(&self) -> Backend {
        Backend::Native
    }

    fn language(&self) -> RuntimeType {
        RuntimeType::Javascript
    }

    fn path(&self) -> Vec<String> {
        Vec::new()
    }
}
