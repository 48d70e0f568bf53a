//! A sandbox with a workspace of its own, made in one line.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use belljar::{
    Backend, DockerSettings, ExecutionPolicy, Home, JavaScriptSandbox, PolicyLayer, Preset,
    PythonSandbox, Sandbox, SandboxConfig, SandboxError, SandboxResult, Tools, create_sandbox,
};
use serde_json::Value;
use tempfile::TempDir;

use crate::daemon::Daemon;
use crate::docker::{belongs_to_nobody, docker_settings};
use crate::e2b::e2b_settings;
use crate::third_party::{pyodide_from_npm, skipped};

/// No test should need longer; whatever does has met a bug.
const TIMEOUT_SECONDS: f64 = 20.0;

/// Names another directory for [`home`], for tests that run as somebody else.
pub(crate) const OTHER_HOME: &str = "BELLJAR_TEST_HOME";

/// Belljar's directory of the tests, below the build directory, so that the guest is compiled once
/// and not per test.
#[must_use]
pub fn home() -> Home {
    let other = std::env::var_os(OTHER_HOME).map(PathBuf::from);
    Home::at(other.unwrap_or_else(|| build_dir().join("test-home")))
}

/// The directory cargo builds into: this program is in its `PROFILE/deps`.
#[must_use]
pub fn build_dir() -> PathBuf {
    let program = std::env::current_exe().expect("the test's own path");
    program.ancestors().nth(3).expect("a build directory").to_owned()
}

/// A policy, a fresh workspace and, when asked for, a data directory. The preset is `agent`.
#[derive(Debug)]
pub struct Jar {
    workspace: TempDir,
    data: Option<TempDir>,
    home: Home,
    wasm_binary_path: Option<PathBuf>,
    backend: Backend,
    preset: Preset,
    layer: PolicyLayer,
    tools: Tools,
}

/// Names an image for tests of Python on wasm that name none themselves.
const IMAGE: &str = "BELLJAR_TEST_IMAGE";

impl Default for Jar {
    fn default() -> Self {
        Self::new()
    }
}

impl Jar {
    /// A jar with an empty workspace.
    #[must_use]
    pub fn new() -> Self {
        Self {
            workspace: tempfile::tempdir().expect("a workspace"),
            data: None,
            home: home(),
            wasm_binary_path: None,
            backend: Backend::default(),
            preset: Preset::Agent,
            layer: PolicyLayer::new().timeout_seconds(TIMEOUT_SECONDS),
            tools: Tools::new(),
        }
    }

    /// A jar for an interpreter of this machine.
    #[must_use]
    pub fn native() -> Self {
        Self { backend: Backend::Native, ..Self::new() }
    }

    /// A jar with the default policy, to the letter.
    #[must_use]
    pub fn with_default_policy() -> Self {
        Self { preset: Preset::Strict, layer: PolicyLayer::new(), ..Self::new() }
    }

    /// Changes the policy.
    #[must_use]
    pub fn with(mut self, change: impl FnOnce(PolicyLayer) -> PolicyLayer) -> Self {
        self.layer = change(self.layer);
        self
    }

    /// Sets the time-out.
    #[must_use]
    pub fn timeout(self, timeout: Duration) -> Self {
        self.with(|layer| layer.timeout_seconds(timeout.as_secs_f64()))
    }

    /// Gives the guest a read-only directory with these files.
    #[must_use]
    pub fn with_data(mut self, files: &[(&str, &str)]) -> Self {
        let data = tempfile::tempdir().expect("a data directory");
        for (name, contents) in files {
            fs::write(data.path().join(name), contents).expect("a data file");
        }
        self.layer = self.layer.mount_data_dir(data.path());
        self.data = Some(data);
        self
    }

    /// Uses another home, for its packages.
    #[must_use]
    pub fn with_home(mut self, home: Home) -> Self {
        self.home = home;
        self
    }

    /// Uses another interpreter.
    #[must_use]
    pub fn with_wasm_binary(mut self, path: impl Into<PathBuf>) -> Self {
        self.wasm_binary_path = Some(path.into());
        self
    }

    /// Offers tools.
    #[must_use]
    pub fn with_tools(mut self, tools: Tools) -> Self {
        self.tools = tools;
        self
    }

    /// The workspace on the host.
    #[must_use]
    pub fn workspace(&self) -> &Path {
        self.workspace.path()
    }

    /// The data directory on the host.
    #[must_use]
    pub fn data(&self) -> &Path {
        self.data.as_ref().expect("a jar with data").path()
    }

    /// Puts a file into the workspace.
    pub fn write(&self, name: &str, contents: &str) {
        let path = self.workspace().join(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
        fs::write(path, contents).expect("a file");
    }

    /// The text of a file in the workspace.
    #[must_use]
    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.workspace().join(name)).expect("a file")
    }

    /// The configuration of this jar's sandboxes.
    #[must_use]
    pub fn config(&self) -> SandboxConfig {
        self.config_with_image(self.backend)
    }

    fn config_with_image(&self, backend: Backend) -> SandboxConfig {
        let named = std::env::var(IMAGE).ok().filter(|_| backend == Backend::Wasm);
        let image = named.map(|name| name.parse().expect("an image"));
        self.config_above(image.map(|image| PolicyLayer::new().image(image)))
    }

    /// The same for JavaScript, which has no images to choose from.
    #[must_use]
    pub fn javascript_config(&self) -> SandboxConfig {
        self.config_above(None)
    }

    fn config_above(&self, lowest: Option<PolicyLayer>) -> SandboxConfig {
        let layers = lowest.into_iter().chain([self.layer.clone()]);
        SandboxConfig {
            policy: ExecutionPolicy::build(self.preset, layers).expect("a valid policy"),
            workspace: Some(self.workspace().to_owned()),
            home: Some(self.home.clone()),
            wasm_binary_path: self.wasm_binary_path.clone(),
            backend: self.backend,
            tools: self.tools.clone(),
            // Whatever else runs on this machine is no part of a test.
            socket: Some(self.home.root().join("no-daemon.sock")),
            ..SandboxConfig::default()
        }
    }

    /// The same on another backend, with what that one needs.
    #[must_use]
    pub fn config_on(&self, backend: Backend) -> SandboxConfig {
        let index_url = match backend {
            Backend::Pyodide => pyodide_from_npm().ok(),
            _ => None,
        };
        let index_url = index_url.iter().map(|folder| folder.display().to_string()).collect();
        let docker = match backend {
            Backend::Docker => {
                belongs_to_nobody(self.workspace());
                docker_settings().unwrap_or_default()
            }
            _ => DockerSettings::default(),
        };
        let config =
            SandboxConfig { backend, index_url, docker, ..self.config_with_image(backend) };
        match backend {
            Backend::E2b => SandboxConfig { e2b: e2b_settings().ok(), ..config },
            Backend::Daemon => SandboxConfig { socket: Some(Daemon::shared().socket()), ..config },
            _ => config,
        }
    }

    /// The configuration with a container; `None`, visibly, where there is no engine for tests.
    #[must_use]
    pub fn docker(&self, test: &str) -> Option<SandboxConfig> {
        match docker_settings() {
            Ok(_) => Some(self.config_on(Backend::Docker)),
            Err(why) => {
                skipped(test, &why);
                None
            }
        }
    }

    /// The configuration with Pyodide; `None`, visibly, where it cannot be had.
    #[must_use]
    pub fn pyodide(&self, test: &str) -> Option<SandboxConfig> {
        let (jailed, layers, _) = belljar::jail_report();
        let why = match pyodide_from_npm() {
            Ok(_) if jailed => return Some(self.config_on(Backend::Pyodide)),
            Ok(_) => layers,
            Err(why) => why,
        };
        skipped(test, &why);
        None
    }

    /// A new sandbox.
    #[must_use]
    pub fn sandbox(&self) -> PythonSandbox {
        PythonSandbox::from_config(&self.config()).expect("a sandbox")
    }

    /// A new sandbox of the jar's backend.
    #[must_use]
    pub fn open(&self) -> Box<dyn Sandbox> {
        create_sandbox(&self.config()).expect("a sandbox")
    }

    /// A new session of the jar's backend.
    #[must_use]
    pub fn open_session(&self, context: impl Into<Value>) -> Box<dyn Sandbox> {
        let mut sandbox = self.open();
        sandbox.initialize(context.into()).expect("a session");
        sandbox
    }

    /// A new session without a context.
    #[must_use]
    pub fn session(&self) -> PythonSandbox {
        self.session_about(Value::Null)
    }

    /// A new session with a context.
    #[must_use]
    pub fn session_about(&self, context: Value) -> PythonSandbox {
        let mut sandbox = self.sandbox();
        sandbox.initialize(context).expect("a session");
        sandbox
    }

    /// A new session in JavaScript, without a context.
    #[must_use]
    pub fn javascript(&self) -> JavaScriptSandbox {
        let mut sandbox =
            JavaScriptSandbox::from_config(&self.javascript_config()).expect("a sandbox");
        sandbox.initialize(Value::Null).expect("a session");
        sandbox
    }

    /// Runs code in a new sandbox.
    #[must_use]
    pub fn run(&self, code: &str) -> SandboxResult {
        self.try_run(code).expect("the host is fine")
    }

    /// Runs code in a new sandbox; the host may refuse.
    ///
    /// # Errors
    /// When it does.
    pub fn try_run(&self, code: &str) -> Result<SandboxResult, SandboxError> {
        self.sandbox().execute(code)
    }
}
