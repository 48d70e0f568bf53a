//! From a configuration to a sandbox.

use std::path::PathBuf;

use belljar_core::{Backend, ExecutionPolicy, RuntimeType, SandboxError};
use belljar_host::LineSink;

use crate::docker_settings::DockerSettings;
use crate::e2b_settings::E2bSettings;
use crate::home::Home;
use crate::logging::SandboxLogger;
use crate::plan::LaunchPlan;
use crate::sandbox::Sandbox;
use crate::tools::{InputSource, Tools};
use crate::wasm::{JavaScriptSandbox, PythonSandbox};

/// What to run where. `SandboxConfig::default()` is Python on wasm with the strict policy.
#[derive(Clone, Default)]
pub struct SandboxConfig {
    /// The language.
    pub runtime: RuntimeType,
    /// The backend.
    pub backend: Backend,
    /// What is allowed.
    pub policy: ExecutionPolicy,
    /// The workspace, if not the policy's `mount_host_dir`.
    pub workspace: Option<PathBuf>,
    /// Where events go, if not to the program's `tracing` subscriber.
    pub logger: Option<SandboxLogger>,
    /// A WASI interpreter to use instead of the embedded one.
    pub wasm_binary_path: Option<PathBuf>,
    /// The Python of the native backend, if not the first that is found.
    pub python: Option<PathBuf>,
    /// Where the pyodide backend loads Pyodide from: folders or addresses, the first that works.
    /// None means jsDelivr.
    pub index_url: Vec<String>,
    /// Whether Pyodide runs in a worker thread, where it can be interrupted. `None` means yes, if
    /// there are worker threads.
    pub use_worker: Option<bool>,
    /// What the docker backend is told about its containers.
    pub docker: DockerSettings,
    /// The service of the e2b backend, if not the one the environment names.
    pub e2b: Option<E2bSettings>,
    /// The name the code has in tracebacks.
    pub code_name: Option<String>,
    /// Belljar's own directory, if not the one the environment names.
    pub home: Option<Home>,
    /// Functions the guest may call.
    pub tools: Tools,
    /// Told each line of stdout while code runs, and the rest at its end. The code waits meanwhile.
    pub on_stdout: Option<LineSink>,
    /// Told each line of stderr.
    pub on_stderr: Option<LineSink>,
    /// Who answers `input()`; without, it is refused.
    pub on_input: Option<InputSource>,
    /// The name a session has in its results.
    pub session_id: Option<String>,
    /// The daemon's socket, if not the one the environment names.
    pub socket: Option<PathBuf>,
}

impl SandboxConfig {
    /// Belljar's own directory: the one given here, or the one the environment names.
    ///
    /// # Errors
    /// When neither is usable.
    pub fn home(&self) -> Result<Home, SandboxError> {
        self.home.clone().map_or_else(Home::locate, Ok)
    }

    /// The daemon's socket: the one given here, or the one the environment names.
    ///
    /// # Errors
    /// When neither is usable.
    pub fn socket(&self) -> Result<PathBuf, SandboxError> {
        self.socket.clone().map_or_else(crate::remote::socket_path, Ok)
    }
}

/// Makes the sandbox a configuration asks for.
///
/// # Errors
/// When the backend is not available here, cannot enforce the policy, or a directory cannot be
/// used.
pub fn create_sandbox(config: &SandboxConfig) -> Result<Box<dyn Sandbox>, SandboxError> {
    launch(LaunchPlan::new(config)?, config)
}

fn launch(plan: LaunchPlan, config: &SandboxConfig) -> Result<Box<dyn Sandbox>, SandboxError> {
    match (plan.backend, plan.language) {
        (Backend::Wasm, RuntimeType::Python) => {
            Ok(Box::new(PythonSandbox::from_plan(plan, config)?))
        }
        (Backend::Wasm, RuntimeType::Javascript) => {
            Ok(Box::new(JavaScriptSandbox::from_plan(plan, config)?))
        }
        (Backend::Native | Backend::Pyodide, _) => in_a_process(plan, config),
        (Backend::Docker, _) => in_a_container(plan, config),
        (Backend::Daemon, _) => at_a_daemon(plan, config),
        (Backend::E2b, _) => at_a_service(plan, config),
        (Backend::Auto, RuntimeType::Python | RuntimeType::Javascript) => {
            Err(unavailable(plan.backend))
        }
    }
}

#[cfg(target_os = "linux")]
fn in_a_process(
    plan: LaunchPlan,
    config: &SandboxConfig,
) -> Result<Box<dyn Sandbox>, SandboxError> {
    use crate::native::{NodeLauncher, PythonLauncher};
    use crate::process::launch::Launcher;
    use crate::process::sandbox::ProcessSandbox;
    use crate::pyodide::PyodideLauncher;
    let Some(jail) = plan.jail.clone() else { return Err(unavailable(plan.backend)) };
    let cache = config.home()?.cache();
    let launcher: Box<dyn Launcher> = match (plan.backend, plan.language) {
        (Backend::Pyodide, _) => Box::new(PyodideLauncher::new(jail, cache)),
        (_, RuntimeType::Python) => Box::new(PythonLauncher::new(jail, &plan.workspace, cache)),
        (_, RuntimeType::Javascript) => Box::new(NodeLauncher::new(jail, cache)),
    };
    Ok(Box::new(ProcessSandbox::new(plan, config, launcher)))
}

#[cfg(not(target_os = "linux"))]
fn in_a_process(plan: LaunchPlan, _: &SandboxConfig) -> Result<Box<dyn Sandbox>, SandboxError> {
    Err(unavailable(plan.backend))
}

#[cfg(all(target_os = "linux", feature = "docker"))]
fn in_a_container(
    plan: LaunchPlan,
    config: &SandboxConfig,
) -> Result<Box<dyn Sandbox>, SandboxError> {
    use crate::docker::{DockerLauncher, Engine};
    use crate::process::sandbox::ProcessSandbox;
    let Some(container) = plan.container.clone() else { return Err(unavailable(plan.backend)) };
    let engine = match Engine::connect(&config.docker) {
        Ok(engine) => engine,
        Err(error) if config.docker.fallback => return instead_of_a_container(config, &error),
        Err(error) => return Err(error),
    };
    let cache = config.home()?.cache();
    let launcher = DockerLauncher::new(engine, container, plan.language, cache)?;
    Ok(Box::new(ProcessSandbox::new(plan, config, Box::new(launcher))))
}

#[cfg(not(all(target_os = "linux", feature = "docker")))]
fn in_a_container(plan: LaunchPlan, _: &SandboxConfig) -> Result<Box<dyn Sandbox>, SandboxError> {
    Err(unavailable(plan.backend))
}

/// The local backend, for those who have asked for it where there is no engine. Its results say so.
#[cfg(all(target_os = "linux", feature = "docker"))]
fn instead_of_a_container(
    config: &SandboxConfig,
    why: &SandboxError,
) -> Result<Box<dyn Sandbox>, SandboxError> {
    tracing::warn!(target: crate::logging::TARGET, event = "fallback", to = "local", reason = %why);
    let local = SandboxConfig { backend: Backend::Native, ..config.clone() };
    let plan = LaunchPlan { fallback_from: Some(Backend::Docker), ..LaunchPlan::new(&local)? };
    in_a_process(plan, &local)
}

#[cfg(unix)]
fn at_a_daemon(plan: LaunchPlan, config: &SandboxConfig) -> Result<Box<dyn Sandbox>, SandboxError> {
    Ok(Box::new(crate::remote::DaemonSandbox::from_plan(plan, config, None)?))
}

#[cfg(not(unix))]
fn at_a_daemon(plan: LaunchPlan, _: &SandboxConfig) -> Result<Box<dyn Sandbox>, SandboxError> {
    Err(unavailable(plan.backend))
}

#[cfg(feature = "e2b")]
fn at_a_service(
    plan: LaunchPlan,
    config: &SandboxConfig,
) -> Result<Box<dyn Sandbox>, SandboxError> {
    Ok(Box::new(crate::e2b::E2bSandbox::from_plan(plan, config)?))
}

#[cfg(not(feature = "e2b"))]
fn at_a_service(plan: LaunchPlan, _: &SandboxConfig) -> Result<Box<dyn Sandbox>, SandboxError> {
    Err(unavailable(plan.backend))
}

pub(crate) fn unavailable(backend: Backend) -> SandboxError {
    SandboxError::BackendUnavailable {
        backend,
        reason: "this build of Belljar does not have it".to_owned(),
        hint: Some("use the wasm backend".to_owned()),
    }
}
