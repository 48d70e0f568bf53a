//! The fields of a policy, each declared once.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};

use crate::image::ImageChoice;
use crate::limits;

/// What `SANDBOX_BLOCK_DANGEROUS_IMPORTS` blocks: the modules by which Python reaches the system,
/// other programs, whole trees of files, and the network.
pub const DANGEROUS_IMPORTS: [&str; 4] = ["os", "subprocess", "shutil", "socket"];

/// Fuel of the preset `strict`.
const STRICT_FUEL_BUDGET: u64 = 2_000_000_000;

/// Fuel of the preset `agent`: enough that the 30-second clock decides.
const AGENT_FUEL_BUDGET: u64 = 200_000_000_000;

/// The values of a policy. Field names are the ones of policy files and JSON.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(default)]
#[schemars(deny_unknown_fields)]
pub struct PolicyValues {
    /// Instructions the guest may execute, counted deterministically.
    #[schemars(range(min = 1, max = limits::MAX_FUEL_BUDGET))]
    pub fuel_budget: u64,
    /// Memory the guest may use, in bytes.
    #[schemars(range(min = 1, max = limits::MAX_MEMORY_BYTES))]
    pub memory_bytes: u64,
    /// Bytes of standard output that are kept.
    #[schemars(range(min = 1, max = limits::MAX_OUTPUT_BYTES))]
    pub stdout_max_bytes: u64,
    /// Bytes of standard error that are kept.
    #[schemars(range(min = 1, max = limits::MAX_OUTPUT_BYTES))]
    pub stderr_max_bytes: u64,
    /// The host directory the guest sees read-write: its workspace.
    #[serde(serialize_with = "path_as_text")]
    pub mount_host_dir: PathBuf,
    /// Where the guest sees its workspace.
    pub guest_mount_path: String,
    /// A host directory the guest sees read-only.
    #[serde(serialize_with = "optional_path_as_text")]
    pub mount_data_dir: Option<PathBuf>,
    /// Where the guest sees the read-only directory.
    pub guest_data_path: String,
    /// The guest's arguments, program name first.
    pub argv: Vec<String>,
    /// The guest's whole environment. Nothing of the host's is added to it.
    pub env: BTreeMap<String, String>,
    /// Wall-clock seconds one execution may take.
    #[schemars(range(min = limits::MIN_TIMEOUT_SECONDS, max = limits::MAX_TIMEOUT_SECONDS))]
    pub timeout_seconds: f64,
    /// Bytes one execution may add to the workspace.
    #[schemars(range(min = 1, max = limits::MAX_WORKSPACE_BYTES))]
    pub workspace_max_bytes: u64,
    /// Files, directories and links one execution may add to the workspace.
    #[schemars(range(min = 1, max = limits::MAX_WORKSPACE_FILES))]
    pub workspace_max_files: u64,
    /// Processes the guest may have at once, where the backend has processes.
    #[schemars(range(min = 1, max = limits::MAX_PROCESSES))]
    pub max_processes: u64,
    /// Calls of tools one execution may make, whatever becomes of them.
    #[schemars(range(min = 1, max = limits::MAX_TOOL_CALLS))]
    pub max_tool_calls: u64,
    /// Bytes of the arguments and results of tools in one execution, as JSON.
    #[schemars(range(min = 1, max = limits::MAX_TOOL_BYTES))]
    pub max_tool_bytes: u64,
    /// How deep `rlm_query` may be nested.
    #[schemars(range(min = 1, max = limits::MAX_RLM_DEPTH))]
    pub max_rlm_depth: u64,
    /// Seconds after which a session that nobody used may be removed.
    #[schemars(range(min = limits::MIN_IDLE_TIMEOUT_SECONDS, max = limits::MAX_IDLE_TIMEOUT_SECONDS))]
    pub idle_timeout_seconds: f64,
    /// Whether the guest may use the network.
    pub network: Network,
    /// Fixed clock and seeded randomness, so that a run can be repeated exactly.
    pub deterministic: bool,
    /// Modules whose import is refused before the code runs. A guard-rail, not a boundary.
    pub block_imports: Vec<String>,
    /// What the interpreter has in it: `plain`, `data` with numpy, pandas and matplotlib, or `auto`, which is the
    /// one that has what the code imports.
    pub image: ImageChoice,
}

impl Default for PolicyValues {
    fn default() -> Self {
        Self {
            fuel_budget: STRICT_FUEL_BUDGET,
            memory_bytes: 128_000_000,
            stdout_max_bytes: 2_000_000,
            stderr_max_bytes: 1_000_000,
            mount_host_dir: PathBuf::from("workspace"),
            guest_mount_path: "/app".to_owned(),
            mount_data_dir: None,
            guest_data_path: "/data".to_owned(),
            argv: ["python", "/app/user_code.py", "-X", "utf8"].map(str::to_owned).to_vec(),
            env: [("PYTHONUTF8", "1"), ("PYTHONIOENCODING", "utf-8"), ("LC_ALL", "C.UTF-8")]
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into(),
            timeout_seconds: 30.0,
            workspace_max_bytes: 256 * 1024 * 1024,
            workspace_max_files: 10_000,
            max_processes: 64,
            max_tool_calls: 1000,
            max_tool_bytes: 64 * 1024 * 1024,
            max_rlm_depth: 3,
            idle_timeout_seconds: 86_400.0,
            network: Network::Denied,
            deterministic: false,
            block_imports: Vec::new(),
            image: ImageChoice::Auto,
        }
    }
}

/// A field of a policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "the variants are the fields of PolicyValues, documented there")]
pub enum Field {
    FuelBudget,
    MemoryBytes,
    StdoutMaxBytes,
    StderrMaxBytes,
    MountHostDir,
    GuestMountPath,
    MountDataDir,
    GuestDataPath,
    Argv,
    Env,
    TimeoutSeconds,
    WorkspaceMaxBytes,
    WorkspaceMaxFiles,
    MaxProcesses,
    MaxToolCalls,
    MaxToolBytes,
    MaxRlmDepth,
    IdleTimeoutSeconds,
    Network,
    Deterministic,
    BlockImports,
    Image,
}

impl Field {
    /// Every field, in the order of [`PolicyValues`].
    pub const ALL: [Self; 22] = [
        Self::FuelBudget,
        Self::MemoryBytes,
        Self::StdoutMaxBytes,
        Self::StderrMaxBytes,
        Self::MountHostDir,
        Self::GuestMountPath,
        Self::MountDataDir,
        Self::GuestDataPath,
        Self::Argv,
        Self::Env,
        Self::TimeoutSeconds,
        Self::WorkspaceMaxBytes,
        Self::WorkspaceMaxFiles,
        Self::MaxProcesses,
        Self::MaxToolCalls,
        Self::MaxToolBytes,
        Self::MaxRlmDepth,
        Self::IdleTimeoutSeconds,
        Self::Network,
        Self::Deterministic,
        Self::BlockImports,
        Self::Image,
    ];

    /// The name in policy files and JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::FuelBudget => "fuel_budget",
            Self::MemoryBytes => "memory_bytes",
            Self::StdoutMaxBytes => "stdout_max_bytes",
            Self::StderrMaxBytes => "stderr_max_bytes",
            Self::MountHostDir => "mount_host_dir",
            Self::GuestMountPath => "guest_mount_path",
            Self::MountDataDir => "mount_data_dir",
            Self::GuestDataPath => "guest_data_path",
            Self::Argv => "argv",
            Self::Env => "env",
            Self::TimeoutSeconds => "timeout_seconds",
            Self::WorkspaceMaxBytes => "workspace_max_bytes",
            Self::WorkspaceMaxFiles => "workspace_max_files",
            Self::MaxProcesses => "max_processes",
            Self::MaxToolCalls => "max_tool_calls",
            Self::MaxToolBytes => "max_tool_bytes",
            Self::MaxRlmDepth => "max_rlm_depth",
            Self::IdleTimeoutSeconds => "idle_timeout_seconds",
            Self::Network => "network",
            Self::Deterministic => "deterministic",
            Self::BlockImports => "block_imports",
            Self::Image => "image",
        }
    }

    /// The environment variable that sets it.
    #[must_use]
    pub fn variable(self) -> String {
        format!("SANDBOX_{}", self.name().to_ascii_uppercase())
    }

    /// The field of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|field| field.name() == name)
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Whether a guest may use the network. No backend of this version offers any.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Network {
    /// No network at all.
    #[default]
    Denied,
}

impl Network {
    /// The name in policy files and JSON.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Denied => "denied",
        }
    }
}

/// A named set of values to start a policy from.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Default,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Preset {
    /// The documented defaults: two billion fuel, about a third of a second of work.
    #[default]
    Strict,
    /// The same with two hundred billion fuel, so that the 30-second clock decides.
    Agent,
}

impl Preset {
    /// Every preset.
    pub const ALL: [Self; 2] = [Self::Strict, Self::Agent];

    /// The name on the command line.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Strict => "strict",
            Self::Agent => "agent",
        }
    }

    /// The values it stands for.
    #[must_use]
    pub fn values(self) -> PolicyValues {
        match self {
            Self::Strict => PolicyValues::default(),
            Self::Agent => {
                PolicyValues { fuel_budget: AGENT_FUEL_BUDGET, ..PolicyValues::default() }
            }
        }
    }
}

impl fmt::Display for Preset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A preset name nobody knows.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown preset `{0}`; the presets are strict and agent")]
pub struct UnknownPreset(String);

impl FromStr for Preset {
    type Err = UnknownPreset;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|preset| preset.as_str() == name)
            .ok_or_else(|| UnknownPreset(name.to_owned()))
    }
}

fn path_as_text<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&path.to_string_lossy())
}

#[expect(clippy::ref_option, reason = "serde passes a reference to the field")]
fn optional_path_as_text<S: Serializer>(
    path: &Option<PathBuf>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match path {
        Some(path) => path_as_text(path, serializer),
        None => serializer.serialize_none(),
    }
}
