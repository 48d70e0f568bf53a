//! One source's opinion about a policy: every field optional, each value with its origin.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::fields::{DANGEROUS_IMPORTS, Field, Network, PolicyValues};
use super::issue::Origin;
use crate::image::ImageChoice;

/// A value and where it came from.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Setting<T> {
    pub(super) value: T,
    pub(super) origin: Origin,
}

/// Some fields of a policy, from one source. Made by the setters, by [`PolicyLayer::from_toml`],
/// [`PolicyLayer::from_json`] or [`PolicyLayer::from_variables`].
#[derive(Debug, Clone, PartialEq)]
pub struct PolicyLayer {
    /// What the setters below give as origin.
    source: Origin,
    pub(super) fuel_budget: Option<Setting<u64>>,
    pub(super) memory_bytes: Option<Setting<u64>>,
    pub(super) stdout_max_bytes: Option<Setting<u64>>,
    pub(super) stderr_max_bytes: Option<Setting<u64>>,
    pub(super) mount_host_dir: Option<Setting<PathBuf>>,
    pub(super) guest_mount_path: Option<Setting<String>>,
    pub(super) mount_data_dir: Option<Setting<Option<PathBuf>>>,
    pub(super) guest_data_path: Option<Setting<String>>,
    pub(super) argv: Option<Setting<Vec<String>>>,
    pub(super) env: BTreeMap<String, Setting<String>>,
    pub(super) timeout_seconds: Option<Setting<f64>>,
    pub(super) workspace_max_bytes: Option<Setting<u64>>,
    pub(super) workspace_max_files: Option<Setting<u64>>,
    pub(super) max_processes: Option<Setting<u64>>,
    pub(super) max_tool_calls: Option<Setting<u64>>,
    pub(super) max_tool_bytes: Option<Setting<u64>>,
    pub(super) max_rlm_depth: Option<Setting<u64>>,
    pub(super) idle_timeout_seconds: Option<Setting<f64>>,
    pub(super) network: Option<Setting<Network>>,
    pub(super) deterministic: Option<Setting<bool>>,
    pub(super) block_imports: Option<Setting<Vec<String>>>,
    pub(super) image: Option<Setting<ImageChoice>>,
    /// No field of its own: adds to `block_imports`, whichever layer sets that.
    pub(super) block_dangerous_imports: Option<Setting<bool>>,
}

impl Default for PolicyLayer {
    fn default() -> Self {
        Self {
            source: Origin::Code,
            fuel_budget: None,
            memory_bytes: None,
            stdout_max_bytes: None,
            stderr_max_bytes: None,
            mount_host_dir: None,
            guest_mount_path: None,
            mount_data_dir: None,
            guest_data_path: None,
            argv: None,
            env: BTreeMap::new(),
            timeout_seconds: None,
            workspace_max_bytes: None,
            workspace_max_files: None,
            max_processes: None,
            max_tool_calls: None,
            max_tool_bytes: None,
            max_rlm_depth: None,
            idle_timeout_seconds: None,
            network: None,
            deterministic: None,
            block_imports: None,
            image: None,
            block_dangerous_imports: None,
        }
    }
}

/// Runs a macro over every field that is a plain replaceable value, which is all but `env`.
macro_rules! for_each_plain_field {
    ($apply:ident) => {
        $apply!(FuelBudget, fuel_budget);
        $apply!(MemoryBytes, memory_bytes);
        $apply!(StdoutMaxBytes, stdout_max_bytes);
        $apply!(StderrMaxBytes, stderr_max_bytes);
        $apply!(MountHostDir, mount_host_dir);
        $apply!(GuestMountPath, guest_mount_path);
        $apply!(MountDataDir, mount_data_dir);
        $apply!(GuestDataPath, guest_data_path);
        $apply!(Argv, argv);
        $apply!(TimeoutSeconds, timeout_seconds);
        $apply!(WorkspaceMaxBytes, workspace_max_bytes);
        $apply!(WorkspaceMaxFiles, workspace_max_files);
        $apply!(MaxProcesses, max_processes);
        $apply!(MaxToolCalls, max_tool_calls);
        $apply!(MaxToolBytes, max_tool_bytes);
        $apply!(MaxRlmDepth, max_rlm_depth);
        $apply!(IdleTimeoutSeconds, idle_timeout_seconds);
        $apply!(Network, network);
        $apply!(Deterministic, deterministic);
        $apply!(BlockImports, block_imports);
        $apply!(Image, image);
    };
}

impl PolicyLayer {
    /// A layer that says nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Says where the values set next come from, for messages.
    #[must_use]
    pub fn from_source(mut self, origin: Origin) -> Self {
        self.source = origin;
        self
    }

    /// Sets [`PolicyValues::fuel_budget`].
    #[must_use]
    pub fn fuel_budget(mut self, fuel: u64) -> Self {
        self.fuel_budget = self.setting(fuel);
        self
    }

    /// Sets [`PolicyValues::memory_bytes`].
    #[must_use]
    pub fn memory_bytes(mut self, bytes: u64) -> Self {
        self.memory_bytes = self.setting(bytes);
        self
    }

    /// Sets [`PolicyValues::stdout_max_bytes`].
    #[must_use]
    pub fn stdout_max_bytes(mut self, bytes: u64) -> Self {
        self.stdout_max_bytes = self.setting(bytes);
        self
    }

    /// Sets [`PolicyValues::stderr_max_bytes`].
    #[must_use]
    pub fn stderr_max_bytes(mut self, bytes: u64) -> Self {
        self.stderr_max_bytes = self.setting(bytes);
        self
    }

    /// Sets [`PolicyValues::mount_host_dir`].
    #[must_use]
    pub fn mount_host_dir(mut self, path: impl Into<PathBuf>) -> Self {
        self.mount_host_dir = self.setting(path.into());
        self
    }

    /// Sets [`PolicyValues::guest_mount_path`].
    #[must_use]
    pub fn guest_mount_path(mut self, path: impl Into<String>) -> Self {
        self.guest_mount_path = self.setting(path.into());
        self
    }

    /// Sets [`PolicyValues::mount_data_dir`].
    #[must_use]
    pub fn mount_data_dir(mut self, path: impl Into<PathBuf>) -> Self {
        self.mount_data_dir = self.setting(Some(path.into()));
        self
    }

    /// Sets [`PolicyValues::guest_data_path`].
    #[must_use]
    pub fn guest_data_path(mut self, path: impl Into<String>) -> Self {
        self.guest_data_path = self.setting(path.into());
        self
    }

    /// Sets [`PolicyValues::argv`].
    #[must_use]
    pub fn argv(mut self, argv: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.argv = self.setting(argv.into_iter().map(Into::into).collect());
        self
    }

    /// Adds one variable to [`PolicyValues::env`].
    #[must_use]
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        let origin = self.source.clone();
        self.env.insert(name.into(), Setting { value: value.into(), origin });
        self
    }

    /// Sets [`PolicyValues::timeout_seconds`].
    #[must_use]
    pub fn timeout_seconds(mut self, seconds: f64) -> Self {
        self.timeout_seconds = self.setting(seconds);
        self
    }

    /// Sets [`PolicyValues::workspace_max_bytes`].
    #[must_use]
    pub fn workspace_max_bytes(mut self, bytes: u64) -> Self {
        self.workspace_max_bytes = self.setting(bytes);
        self
    }

    /// Sets [`PolicyValues::workspace_max_files`].
    #[must_use]
    pub fn workspace_max_files(mut self, files: u64) -> Self {
        self.workspace_max_files = self.setting(files);
        self
    }

    /// Sets [`PolicyValues::max_processes`].
    #[must_use]
    pub fn max_processes(mut self, processes: u64) -> Self {
        self.max_processes = self.setting(processes);
        self
    }

    /// Sets [`PolicyValues::max_tool_calls`].
    #[must_use]
    pub fn max_tool_calls(mut self, calls: u64) -> Self {
        self.max_tool_calls = self.setting(calls);
        self
    }

    /// Sets [`PolicyValues::max_tool_bytes`].
    #[must_use]
    pub fn max_tool_bytes(mut self, bytes: u64) -> Self {
        self.max_tool_bytes = self.setting(bytes);
        self
    }

    /// Sets [`PolicyValues::max_rlm_depth`].
    #[must_use]
    pub fn max_rlm_depth(mut self, depth: u64) -> Self {
        self.max_rlm_depth = self.setting(depth);
        self
    }

    /// Sets [`PolicyValues::idle_timeout_seconds`].
    #[must_use]
    pub fn idle_timeout_seconds(mut self, seconds: f64) -> Self {
        self.idle_timeout_seconds = self.setting(seconds);
        self
    }

    /// Sets [`PolicyValues::network`].
    #[must_use]
    pub fn network(mut self, network: Network) -> Self {
        self.network = self.setting(network);
        self
    }

    /// Sets [`PolicyValues::deterministic`].
    #[must_use]
    pub fn deterministic(mut self, on: bool) -> Self {
        self.deterministic = self.setting(on);
        self
    }

    /// Sets [`PolicyValues::block_imports`].
    #[must_use]
    pub fn block_imports(mut self, modules: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.block_imports = self.setting(modules.into_iter().map(Into::into).collect());
        self
    }

    /// Sets [`PolicyValues::image`].
    #[must_use]
    pub fn image(mut self, image: ImageChoice) -> Self {
        self.image = self.setting(image);
        self
    }

    /// Whether [`DANGEROUS_IMPORTS`] are blocked, too, whatever else is.
    #[must_use]
    pub fn block_dangerous_imports(mut self, on: bool) -> Self {
        self.block_dangerous_imports = self.setting(on);
        self
    }

    /// This layer with another on top: the other's values win, environments are merged.
    #[must_use]
    pub fn merge(mut self, later: Self) -> Self {
        macro_rules! take_later {
            ($variant:ident, $name:ident) => {
                self.$name = later.$name.or(self.$name);
            };
        }
        for_each_plain_field!(take_later);
        self.block_dangerous_imports =
            later.block_dangerous_imports.or(self.block_dangerous_imports);
        self.env.extend(later.env);
        self
    }

    /// The values with this layer on top, and where each replaced value came from.
    pub(super) fn over(self, mut values: PolicyValues) -> (PolicyValues, BTreeMap<Field, Origin>) {
        let mut origins = BTreeMap::new();
        macro_rules! replace {
            ($variant:ident, $name:ident) => {
                if let Some(setting) = self.$name {
                    values.$name = setting.value;
                    origins.insert(Field::$variant, setting.origin);
                }
            };
        }
        for_each_plain_field!(replace);
        if let Some(Setting { value: true, origin }) = self.block_dangerous_imports {
            let missing = |name: &&str| !values.block_imports.iter().any(|other| other == name);
            let added: Vec<&str> = DANGEROUS_IMPORTS.into_iter().filter(missing).collect();
            values.block_imports.extend(added.into_iter().map(str::to_owned));
            origins.entry(Field::BlockImports).or_insert(origin);
        }
        for (name, setting) in self.env {
            values.env.insert(name, setting.value);
            origins.insert(Field::Env, setting.origin);
        }
        (values, origins)
    }

    fn setting<T>(&self, value: T) -> Option<Setting<T>> {
        Some(Setting { value, origin: self.source.clone() })
    }
}
