//! What a container will be: plain data, printed by `--explain`, made without asking an engine.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use belljar_core::limits::MAX_OPEN_FILES;
use belljar_core::{
    Abilities, ExecutionPolicy, Field, PolicyLayer, PolicyValidationError, Rule, RuntimeType,
    SandboxError,
};
use serde::Serialize;

use super::{DRIVER, PACKAGES, driver_place};
use crate::docker_settings::DockerSettings;
use crate::factory::SandboxConfig;
use crate::plan::{LaunchPlan, Mount, SITE_PACKAGES_DIR};

/// Nobody in particular: owns nothing, belongs to no group.
pub(super) const NOBODY: u32 = 65534;

/// What fits in `/tmp`, and as much again in `/dev/shm`, unless half of the memory is less: both are
/// memory of the container's.
const TMP_BYTES: u64 = 64 * 1024 * 1024;

/// Processes of a policy that sets no limit.
const PROCESSES: u64 = 64;

/// What a process leaves of the container's memory for files in memory and other processes, so
/// that it hears of the limit before the system ends it.
const DATA_SHARE: u64 = 8;

/// What Node needs beside the memory of the user's code.
const ENGINE_SHARE: u64 = 2;

/// The smallest part of a processor that engines know.
const LEAST_CPUS: f64 = 0.01;

const MIB: u64 = 1024 * 1024;

/// A container for one interpreter.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ContainerPlan {
    /// The image.
    pub image: String,
    /// What runs in it.
    pub command: Vec<String>,
    /// User and group by number. `None` when the workspace belongs to root alone: no container runs
    /// as root, so that there is none for it.
    pub user: Option<String>,
    /// The directories it sees beside those of the image, the workspace first.
    pub mounts: Vec<Mount>,
    /// Its environment, beside the image's own.
    pub env: BTreeMap<String, String>,
    /// Whether it reaches the network.
    pub network: bool,
    /// Processors, and parts of one.
    pub cpus: f64,
    /// Memory of all its processes, swap included.
    pub memory_bytes: u64,
    /// Memory of one process, where the interpreter can tell its code that it is used up.
    pub process_memory_bytes: Option<u64>,
    /// Processes and threads.
    pub max_processes: u64,
    /// Descriptors of one process.
    pub max_open_files: u64,
    /// Size of one file.
    pub max_file_bytes: u64,
    /// What fits in `/tmp`, and as much again in `/dev/shm`: the only places beside the workspace that
    /// can be written to.
    pub tmp_bytes: u64,
    /// The root is read-only. Always so.
    pub read_only_root: bool,
    /// Linux capabilities. None, always.
    pub capabilities: Vec<String>,
    /// Whether a program may get more rights than its parent has. Never.
    pub new_privileges: bool,
}

/// The policy that a container can hold, and the rules of it that can be enforced. Its memory is
/// the settings', unless somebody wants less; where they give it a network, none is denied.
pub(crate) fn rules(
    policy: &ExecutionPolicy,
    abilities: Abilities,
    settings: &DockerSettings,
) -> Result<(ExecutionPolicy, Abilities), SandboxError> {
    let networked = has_network(policy, settings);
    let abilities = if networked { abilities.without(Rule::Network) } else { abilities };
    let wants_less =
        policy.is_explicit(Field::MemoryBytes) && policy.memory_bytes <= settings.memory_bytes;
    let memory = PolicyLayer::new().memory_bytes(settings.memory_bytes);
    let policy = if wants_less { policy.clone() } else { policy.with(memory)? };
    Ok((policy, abilities))
}

/// Whether the container reaches the network: only when the settings say so and no policy denies it.
fn has_network(policy: &ExecutionPolicy, settings: &DockerSettings) -> bool {
    settings.network && !policy.is_explicit(Field::Network)
}

/// The container of a launch plan.
///
/// # Errors
/// When a number in the settings makes no sense, or Belljar has no directory of its own.
pub(crate) fn container_plan(
    plan: &LaunchPlan,
    config: &SandboxConfig,
) -> Result<ContainerPlan, SandboxError> {
    let settings = &config.docker;
    // To an engine none at all means all there are.
    if !(settings.cpus.is_finite() && settings.cpus >= LEAST_CPUS) {
        let problem = format!("must be a number of at least {LEAST_CPUS}, not {}", settings.cpus);
        return Err(PolicyValidationError::single("docker.cpus", problem, None).into());
    }
    let policy = &plan.policy;
    let memory_bytes = policy.memory_bytes().unwrap_or(settings.memory_bytes);
    let process_memory_bytes = match plan.language {
        RuntimeType::Python => Some(memory_bytes - memory_bytes / DATA_SHARE),
        // V8 reserves what it never uses.
        RuntimeType::Javascript => None,
    };
    let env = [("HOME", policy.guest_mount_path()), ("LANG", "C.UTF-8"), ("TMPDIR", "/tmp")];
    Ok(ContainerPlan {
        image: settings.image.clone(),
        command: command(plan.language, memory_bytes),
        user: user_of(&plan.workspace),
        mounts: mounts(plan, config)?,
        env: env.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
        network: has_network(&config.policy, settings),
        cpus: settings.cpus,
        memory_bytes,
        process_memory_bytes,
        max_processes: policy.max_processes().unwrap_or(PROCESSES),
        max_open_files: MAX_OPEN_FILES as u64,
        max_file_bytes: policy.workspace_max_bytes().unwrap_or(u64::MAX),
        tmp_bytes: TMP_BYTES.min(memory_bytes / 2),
        read_only_root: true,
        capabilities: Vec::new(),
        new_privileges: false,
    })
}

fn command(language: RuntimeType, memory_bytes: u64) -> Vec<String> {
    match language {
        RuntimeType::Python => ["python3", "-I", "-B", "-X", "utf8"]
            .map(str::to_owned)
            .into_iter()
            .chain([format!("{DRIVER}/native/main.py")])
            .collect(),
        RuntimeType::Javascript => vec![
            "node".to_owned(),
            format!("--max-old-space-size={}", (memory_bytes / ENGINE_SHARE / MIB).max(1)),
            format!("{DRIVER}/javascript/node/main.mjs"),
        ],
    }
}

fn mounts(plan: &LaunchPlan, config: &SandboxConfig) -> Result<Vec<Mount>, SandboxError> {
    let packages = format!("{}/{SITE_PACKAGES_DIR}", plan.policy.guest_mount_path());
    let mut mounts = plan.mounts.clone();
    for mount in &mut mounts {
        // Below the workspace it would leave an empty directory there.
        if mount.guest == packages {
            PACKAGES.clone_into(&mut mount.guest);
        }
    }
    let host = driver_place(plan.language, &config.home()?.cache());
    mounts.push(Mount { host, guest: DRIVER.to_owned(), writable: false });
    Ok(mounts)
}

/// Who can write to the workspace and leave files there that the caller can remove: the caller
/// itself, or, where that is root, the owner of the workspace.
fn user_of(workspace: &Path) -> Option<String> {
    let ordinary = |id: u32| if id == 0 { NOBODY } else { id };
    let own = rustix::process::geteuid().as_raw();
    if own != 0 {
        return Some(format!("{own}:{}", ordinary(rustix::process::getegid().as_raw())));
    }
    let owner = std::fs::metadata(workspace).ok().filter(|found| found.uid() != 0)?;
    Some(format!("{}:{}", owner.uid(), ordinary(owner.gid())))
}

/// Makes a temporary directory usable as the workspace of a container: where Belljar runs as root,
/// it is given to nobody in particular, who the container then runs as. Directories that are not
/// root's stay as they are.
///
/// Only for directories that the caller has just made and will remove.
///
/// # Errors
/// When its owner cannot be changed.
pub fn hand_over(directory: &Path) -> Result<(), SandboxError> {
    let unusable = |error: std::io::Error| SandboxError::Workspace {
        path: directory.to_owned(),
        problem: format!("it cannot be given to the user of a container: {error}"),
        hint: None,
    };
    let found = std::fs::symlink_metadata(directory).map_err(unusable)?;
    if !rustix::process::geteuid().is_root() || found.uid() != 0 || !found.is_dir() {
        return Ok(());
    }
    std::os::unix::fs::lchown(directory, Some(NOBODY), Some(NOBODY)).map_err(unusable)
}

#[cfg(test)]
mod tests {
    use belljar_core::{Backend, Network, Preset};

    use super::*;
    use crate::home::Home;

    fn config(dir: &Path, layer: PolicyLayer) -> SandboxConfig {
        hand_over(dir).unwrap();
        SandboxConfig {
            backend: Backend::Docker,
            policy: ExecutionPolicy::build(Preset::Agent, [layer]).unwrap(),
            workspace: Some(dir.to_owned()),
            home: Some(Home::at(dir.join("home"))),
            ..SandboxConfig::default()
        }
    }

    #[test]
    fn a_container_is_told_before_it_is_started() {
        let dir = tempfile::tempdir().unwrap();
        let plan = LaunchPlan::new(&config(dir.path(), PolicyLayer::new())).unwrap();
        let container = plan.container.unwrap();
        assert!(container.user.is_some_and(|user| !user.starts_with("0:")));
        let shown = ContainerPlan { user: Some("USER".to_owned()), ..container };
        let real = std::fs::canonicalize(dir.path()).unwrap();
        let shown = serde_json::to_string_pretty(&shown).unwrap();
        let shown = shown.replace(&real.display().to_string(), "DIR");
        let shown = shown.replace(&dir.path().display().to_string(), "DIR");
        let driver = shown.find("docker-python-driver-").unwrap();
        let shown = shown.replace(&shown[driver..driver + 37], "DRIVER");
        insta::assert_snapshot!(shown);
    }

    #[test]
    fn memory_is_the_settings_unless_somebody_wants_less() {
        let dir = tempfile::tempdir().unwrap();
        let memory = |layer: PolicyLayer| {
            let plan = LaunchPlan::new(&config(dir.path(), layer)).unwrap();
            let enforced = plan.policy.resource_limits().memory_bytes;
            assert_eq!(Some(plan.container.unwrap().memory_bytes), enforced);
            enforced.unwrap()
        };
        assert_eq!(memory(PolicyLayer::new()), 256 * MIB);
        assert_eq!(memory(PolicyLayer::new().memory_bytes(64 * MIB)), 64 * MIB);
        assert_eq!(memory(PolicyLayer::new().memory_bytes(1024 * MIB)), 256 * MIB);
    }

    #[test]
    fn settings_that_would_be_no_limit_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let mut config = config(dir.path(), PolicyLayer::new());
        for cpus in [0.0, -1.0, 0.001, f64::NAN, f64::INFINITY] {
            config.docker.cpus = cpus;
            let error = LaunchPlan::new(&config).unwrap_err().to_string();
            assert!(error.contains("docker.cpus"), "{error}");
        }
        config.docker.cpus = 0.01;
        assert!(LaunchPlan::new(&config).is_ok());
        config.docker.memory_bytes = 0;
        assert!(LaunchPlan::new(&config).is_err());
    }

    #[test]
    fn the_network_needs_the_settings_and_no_policy_against_it() {
        let dir = tempfile::tempdir().unwrap();
        let network = |network: bool, layer: PolicyLayer| {
            let mut config = config(dir.path(), layer);
            config.docker.network = network;
            let plan = LaunchPlan::new(&config).unwrap();
            let told = plan.policy.resource_limits().network;
            let reaches = plan.container.unwrap().network;
            assert_eq!(told, (!reaches).then_some(Network::Denied), "what is told is what holds");
            reaches
        };
        let denied = || PolicyLayer::new().network(Network::Denied);
        assert!(!network(false, PolicyLayer::new()) && !network(false, denied()));
        assert!(network(true, PolicyLayer::new()) && !network(true, denied()));
    }
}
