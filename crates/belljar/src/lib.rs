//! Belljar runs code a language model wrote, in a fresh sandbox, and tells exactly what happened.
//!
//! A [`SandboxConfig`] says what to run where; [`create_sandbox`] makes a [`Sandbox`] of it;
//! [`Sandbox::execute`] gives a [`SandboxResult`]. A guest's failure, of whatever kind, is an `Ok`
//! result; an [`SandboxError`] means that Belljar or the caller failed.

pub mod agent;
pub mod artifacts;
mod choice;
mod defaults;
#[cfg(all(target_os = "linux", feature = "docker"))]
pub mod docker;
mod docker_settings;
#[cfg(target_os = "linux")]
mod drivers;
#[cfg(feature = "e2b")]
pub mod e2b;
mod e2b_settings;
mod execution_id;
pub mod factory;
pub mod files;
pub mod home;
mod import_guard;
pub mod logging;
#[cfg(target_os = "linux")]
mod native;
pub mod packages;
pub mod plan;
pub mod policy_file;
#[cfg(target_os = "linux")]
mod process;
#[cfg(target_os = "linux")]
pub mod pyodide;
pub mod remote;
pub mod sandbox;
pub mod sessions;
mod snapshot;
mod snapshot_file;
mod surroundings;
pub mod tools;
mod verdict;
pub mod wasm;
pub mod workspace;
mod workspace_files;

pub use agent::{AgentSettings, AgentTool, run_code, run_python_code};
pub use artifacts::{Artifact, ArtifactStore, StoreCode};
pub use belljar_core as core;
pub use belljar_core::{
    Backend, CellValue, DANGEROUS_IMPORTS, ExecutionPolicy, Field, FieldIssue, GuestError,
    GuestImage, ImageChoice, Meta, Network, Origin, Outcome, PolicyLayer, PolicyValidationError,
    Preset, ResolvedPolicy, RuntimeType, SandboxError, SandboxExecutionError, SandboxResult,
    StateAfter, Status, Stop, Survives, ToolAnswer, ToolCall, ToolDoc, ToolFailure, ToolOutcome,
    ToolUsage,
};
pub use belljar_host::{CancelHandle, Completions, LineSink, Variable};
pub use choice::jail_report;
pub use defaults::Defaults;
pub use docker_settings::DockerSettings;
pub use e2b_settings::E2bSettings;
pub use factory::{SandboxConfig, create_sandbox};
pub use files::WorkspaceFiles;
pub use home::Home;
pub use logging::{LogFormat, SandboxLogger, SecurityEvent};
pub use plan::LaunchPlan;
pub use policy_file::load_policy;
#[cfg(target_os = "linux")]
pub use process::removed_bytes;
#[cfg(unix)]
pub use remote::DaemonSandbox;
pub use sandbox::{Sandbox, SandboxBase};
pub use sessions::{Durability, Session, SessionRecord, SessionStore, check_id};
pub use snapshot::{Files, Snapshot, SnapshotInfo};
pub use tools::{InputRequest, InputSource, ToolRequest, Tools};
pub use wasm::{JavaScriptSandbox, PythonSandbox, run_untrusted_python};
