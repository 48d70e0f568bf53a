//! From a configuration to a launch plan: plain data, printed by `--explain`, launched by the
//! factory.

use std::path::{Path, PathBuf};

use belljar_core::{
    Abilities, Backend, ExecutionPolicy, Field, GuestImage, PolicyLayer, ResolvedPolicy, Rule,
    RuntimeType, SandboxError, resolve,
};
use serde::{Serialize, Serializer};

use crate::choice;
use crate::factory::SandboxConfig;
use crate::packages;
use crate::workspace;

/// Where a guest sees the packages that were added, below its workspace's mount.
pub const SITE_PACKAGES_DIR: &str = "site-packages";

/// Everything a backend needs to start a sandbox.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LaunchPlan {
    /// The backend.
    pub backend: Backend,
    /// The language.
    pub language: RuntimeType,
    /// What runs inside.
    pub guest: Guest,
    /// The workspace on the host, absolute. Empty when it is the daemon's own.
    #[serde(serialize_with = "as_text")]
    pub workspace: PathBuf,
    /// The directories the guest sees, the workspace first. There are no others.
    pub mounts: Vec<Mount>,
    /// The rules that will hold.
    pub policy: ResolvedPolicy,
    /// The jail around a guest that is a process.
    #[cfg(target_os = "linux")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jail: Option<belljar_jail::JailPlan>,
    /// The container around a guest that is in one.
    #[cfg(all(target_os = "linux", feature = "docker"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container: Option<crate::docker::ContainerPlan>,
    /// The backend that was asked for, where it was not there and this one stands in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fallback_from: Option<Backend>,
}

/// What runs inside a sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Guest {
    /// The interpreter that comes with Belljar.
    Embedded,
    /// A WASI command from a file.
    File(PathBuf),
    /// A program of this machine.
    Program(PathBuf),
    /// What an image holds.
    Image(String),
    /// Whatever the daemon behind this socket has.
    Daemon(PathBuf),
    /// What a service elsewhere has.
    Service,
}

/// A host directory a guest sees.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Mount {
    /// On the host, absolute.
    #[serde(serialize_with = "as_text")]
    pub host: PathBuf,
    /// In the guest, absolute.
    pub guest: String,
    /// Whether the guest may change it.
    pub writable: bool,
}

impl LaunchPlan {
    /// Checks a configuration and works out what it means. Starts nothing and writes nothing.
    ///
    /// # Errors
    /// When the backend cannot enforce the policy or a directory cannot be used.
    pub fn new(config: &SandboxConfig) -> Result<Self, SandboxError> {
        let backend = choice::settle(config);
        let (wanted, abilities) = rules(config, backend)?;
        let policy = resolve(&wanted, backend, abilities)?;
        match backend {
            Backend::Daemon => {
                return Self::elsewhere(config, policy, Guest::Daemon(config.socket()?));
            }
            Backend::E2b => return Self::elsewhere(config, policy, Guest::Service),
            _ => {}
        }
        let workspace = workspace::check_workspace(policy.mount_host_dir())?;
        let plan = Self {
            backend,
            language: config.runtime,
            guest: guest(config)?,
            mounts: mounts(config, &policy, &workspace)?,
            workspace,
            policy,
            #[cfg(target_os = "linux")]
            jail: None,
            #[cfg(all(target_os = "linux", feature = "docker"))]
            container: None,
            fallback_from: None,
        };
        plan.with_jail(config)?.with_container(config)
    }

    /// The image that a fresh sandbox for this code would have, where this plan leaves that open or
    /// names one. A daemon decides for itself.
    #[must_use]
    pub fn image_for(&self, code: &str) -> Option<GuestImage> {
        crate::wasm::of_code(self, code)
    }

    /// A daemon's workers, and services, see directories of their own. A workspace that the caller
    /// names is copied there and back; what cannot be copied without becoming something else is
    /// refused.
    fn elsewhere(
        config: &SandboxConfig,
        policy: ResolvedPolicy,
        guest: Guest,
    ) -> Result<Self, SandboxError> {
        let backend = policy.backend();
        let refused = |reason: &str, hint: &str| SandboxError::BackendUnavailable {
            backend,
            reason: reason.to_owned(),
            hint: Some(hint.to_owned()),
        };
        if policy.data_mount().is_some() {
            return Err(refused(
                "mount_data_dir is a directory of this machine, which its workers do not see, and \
                 a copy would not be read-only",
                "put the data into the workspace, which is sent to it, or use the wasm backend",
            ));
        }
        if config.wasm_binary_path.is_some() {
            return Err(refused(
                "it runs its own interpreters, and none that is given to it",
                "use the wasm backend for an interpreter of your own",
            ));
        }
        let named = config.workspace.is_some() || config.policy.is_explicit(Field::MountHostDir);
        let workspace = match named {
            true => workspace::check_workspace(policy.mount_host_dir())?,
            false => PathBuf::new(),
        };
        let place = policy.guest_mount_path().to_owned();
        let mount = named.then(|| Mount { host: workspace.clone(), guest: place, writable: true });
        Ok(Self {
            backend,
            language: config.runtime,
            guest,
            workspace,
            mounts: mount.into_iter().collect(),
            policy,
            #[cfg(target_os = "linux")]
            jail: None,
            #[cfg(all(target_os = "linux", feature = "docker"))]
            container: None,
            fallback_from: None,
        })
    }

    #[cfg(target_os = "linux")]
    fn with_jail(mut self, config: &SandboxConfig) -> Result<Self, SandboxError> {
        let jail = match (self.backend, self.language) {
            (Backend::Native, _) => crate::native::jail_plan(&self, config)?,
            (Backend::Pyodide, RuntimeType::Python) => crate::pyodide::jail_plan(&self, config)?,
            (Backend::Pyodide, RuntimeType::Javascript) => {
                return Err(SandboxError::BackendUnavailable {
                    backend: self.backend,
                    reason: "it runs Python only".to_owned(),
                    hint: Some("use the wasm or the native backend for JavaScript".to_owned()),
                });
            }
            _ => return Ok(self),
        };
        self.guest = Guest::Program(jail.program.clone());
        self.jail = Some(jail);
        Ok(self)
    }

    #[cfg(all(target_os = "linux", feature = "docker"))]
    fn with_container(mut self, config: &SandboxConfig) -> Result<Self, SandboxError> {
        if self.backend == Backend::Docker {
            let container = crate::docker::container_plan(&self, config)?;
            self.guest = Guest::Image(container.image.clone());
            self.container = Some(container);
        }
        Ok(self)
    }

    #[cfg(not(all(target_os = "linux", feature = "docker")))]
    fn with_container(self, _: &SandboxConfig) -> Result<Self, SandboxError> {
        Ok(self)
    }

    #[cfg(not(target_os = "linux"))]
    fn with_jail(self, _: &SandboxConfig) -> Result<Self, SandboxError> {
        Ok(self)
    }
}

/// What is wanted, and what the backend can enforce of it.
fn rules(
    config: &SandboxConfig,
    backend: Backend,
) -> Result<(ExecutionPolicy, Abilities), SandboxError> {
    let policy = with_workspace(config)?;
    let abilities = backend.abilities().unwrap_or_default();
    let abilities = match config.runtime {
        RuntimeType::Python => abilities,
        // The import guard reads Python only.
        RuntimeType::Javascript => abilities.without(Rule::Imports).without(Rule::Image),
    };
    // An interpreter of the caller's is what it is.
    let abilities = match backend {
        Backend::Wasm if guest(config)? != Guest::Embedded => abilities.without(Rule::Image),
        _ => abilities,
    };
    #[cfg(all(target_os = "linux", feature = "docker"))]
    if backend == Backend::Docker {
        return crate::docker::rules(&policy, abilities, &config.docker);
    }
    Ok((policy, abilities))
}

/// The policy with the configuration's workspace, if it names one.
fn with_workspace(config: &SandboxConfig) -> Result<ExecutionPolicy, SandboxError> {
    match &config.workspace {
        Some(path) => Ok(config.policy.with(PolicyLayer::new().mount_host_dir(path))?),
        None => Ok(config.policy.clone()),
    }
}

/// The file the caller named; else the one in Belljar's directory if there is one; else our own.
/// A named file is looked at only when it is loaded.
fn guest(config: &SandboxConfig) -> Result<Guest, SandboxError> {
    if let Some(path) = &config.wasm_binary_path {
        return Ok(Guest::File(path.clone()));
    }
    if config.runtime == RuntimeType::Python {
        let default = config.home()?.python_wasm();
        if default.is_file() {
            return Ok(Guest::File(default));
        }
    }
    Ok(Guest::Embedded)
}

fn mounts(
    config: &SandboxConfig,
    policy: &ResolvedPolicy,
    workspace: &Path,
) -> Result<Vec<Mount>, SandboxError> {
    let guest_root = policy.guest_mount_path();
    let mut mounts =
        vec![Mount { host: workspace.to_owned(), guest: guest_root.to_owned(), writable: true }];
    if let Some((host, guest)) = policy.data_mount() {
        let host = workspace::check_directory(host)?;
        mounts.push(Mount { host, guest: guest.to_owned(), writable: false });
    }
    if config.runtime == RuntimeType::Python
        && let Some(host) = packages::site_packages(&config.home()?)?
    {
        let guest = format!("{guest_root}/{SITE_PACKAGES_DIR}");
        mounts.push(Mount { host, guest, writable: false });
    }
    Ok(mounts)
}

fn as_text<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&path.to_string_lossy())
}

#[cfg(test)]
mod tests {
    use belljar_core::Preset;

    use super::*;
    use crate::home::Home;

    fn shown(plan: &LaunchPlan, dir: &Path) -> String {
        let real = std::fs::canonicalize(dir).unwrap();
        serde_json::to_string_pretty(plan)
            .unwrap()
            .replace(&real.display().to_string(), "DIR")
            .replace(&dir.display().to_string(), "DIR")
    }

    #[test]
    fn a_plan_names_every_mount_and_every_limit() {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("data");
        std::fs::create_dir(&data).unwrap();
        let policy =
            ExecutionPolicy::build(Preset::Agent, [PolicyLayer::new().mount_data_dir(&data)])
                .unwrap();
        let config = SandboxConfig {
            policy,
            workspace: Some(dir.path().to_owned()),
            home: Some(Home::at(dir.path().join("home"))),
            ..SandboxConfig::default()
        };
        insta::assert_snapshot!(shown(&LaunchPlan::new(&config).unwrap(), dir.path()));
    }

    #[test]
    fn a_guest_in_belljars_directory_is_preferred_to_the_embedded_one() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::at(dir.path());
        std::fs::create_dir_all(home.python_wasm().parent().unwrap()).unwrap();
        std::fs::write(home.python_wasm(), "").unwrap();
        let mut config = SandboxConfig {
            workspace: Some(dir.path().to_owned()),
            home: Some(home.clone()),
            ..SandboxConfig::default()
        };
        assert_eq!(LaunchPlan::new(&config).unwrap().guest, Guest::File(home.python_wasm()));
        config.wasm_binary_path = Some("own.wasm".into());
        assert_eq!(LaunchPlan::new(&config).unwrap().guest, Guest::File("own.wasm".into()));
    }

    #[test]
    fn a_daemon_needs_no_workspace_and_gets_one_that_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let mut config = SandboxConfig {
            backend: Backend::Daemon,
            home: Some(Home::at(dir.path())),
            socket: Some("/run/s".into()),
            ..SandboxConfig::default()
        };
        let plan = LaunchPlan::new(&config).unwrap();
        assert_eq!(plan.guest, Guest::Daemon("/run/s".into()));
        assert!(plan.workspace.as_os_str().is_empty() && plan.mounts.is_empty());
        config.workspace = Some(dir.path().to_owned());
        let plan = LaunchPlan::new(&config).unwrap();
        assert_eq!(plan.workspace, std::fs::canonicalize(dir.path()).unwrap());
        assert!(plan.mounts.iter().all(|mount| mount.guest == "/app" && mount.writable));
        assert_eq!(plan.policy.fuel_budget(), Some(2_000_000_000));
    }

    #[test]
    fn a_missing_data_directory_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let layer = PolicyLayer::new().mount_data_dir(dir.path().join("gone"));
        let config = SandboxConfig {
            policy: ExecutionPolicy::build(Preset::Strict, [layer]).unwrap(),
            workspace: Some(dir.path().to_owned()),
            home: Some(Home::at(dir.path())),
            ..SandboxConfig::default()
        };
        let error = LaunchPlan::new(&config).unwrap_err();
        assert!(matches!(error, SandboxError::Workspace { .. }), "{error}");
    }
}
