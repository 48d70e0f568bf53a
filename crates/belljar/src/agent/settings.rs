//! What the environment says about the agent's tool.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use belljar_core::variables::{self, Variable};
use belljar_core::{
    Backend, BadVariable, ExecutionPolicy, Field, Origin, PolicyLayer, PolicyValidationError,
    RuntimeType, SandboxError, StoreCode,
};

use super::OnStart;
use crate::artifacts::{ArtifactStore, Redactor, Retention};
use crate::defaults::Defaults;
use crate::docker_settings::DockerSettings;
use crate::home::Home;
use crate::logging::SandboxLogger;

/// Where the pyodide backend loads Pyodide from.
const PYODIDE: &str = "BELLJAR_PYODIDE";

const KIB: u64 = 1024;
const MIB: u64 = 1024 * 1024;
const DAY: u64 = 24 * 60 * 60;

/// How the agent's tool runs code.
#[derive(Debug, Clone)]
pub struct AgentSettings {
    /// What runs the code.
    pub backend: Backend,
    /// What the code may do. Its workspace is not used: every call has a temporary one.
    pub policy: ExecutionPolicy,
    /// The languages that may be asked for.
    pub languages: Vec<RuntimeType>,
    /// Which executions are kept.
    pub store_code: StoreCode,
    /// Where they are kept.
    pub artifacts: ArtifactStore,
    /// How much of them is kept, for how long.
    pub retention: Retention,
    /// Finds what must not be kept.
    pub redactor: Redactor,
    /// How containers are made.
    pub docker: DockerSettings,
    /// The Python of the local backend, if not the first that is found.
    pub python: Option<PathBuf>,
    /// Where the pyodide backend loads Pyodide from.
    pub index_url: Vec<String>,
    /// Belljar's own directory, if not the one the environment names.
    pub home: Option<Home>,
    /// Where events go, if not to the program's `tracing` subscriber.
    pub logger: Option<SandboxLogger>,
    /// Told how to stop the code that is about to start.
    pub on_start: Option<OnStart>,
}

impl AgentSettings {
    /// As the process's environment and Belljar's configuration file say. The file's backend does
    /// not count: the tool has a default of its own.
    ///
    /// # Errors
    /// Every variable that is not valid, all at once; or a configuration file that is not.
    pub fn from_env() -> Result<Self, SandboxError> {
        let Texts { pairs, mut unreadable } = texts(std::env::vars_os());
        let mut settings = match (Self::from_variables(pairs), unreadable.is_empty()) {
            (settings, true) => settings?,
            (Err(SandboxError::Variables(others)), false) => {
                unreadable.extend(others);
                return Err(SandboxError::Variables(unreadable));
            }
            (Ok(_) | Err(_), false) => return Err(SandboxError::Variables(unreadable)),
        };
        let defaults = Defaults::read(&Home::locate()?)?;
        settings.python = std::env::var_os("BELLJAR_PYTHON").map(PathBuf::from).or(defaults.python);
        let place = std::env::var_os(PYODIDE).filter(|place| !place.is_empty());
        settings.index_url = match place.map(OsString::into_string) {
            Some(Ok(place)) => vec![place],
            Some(Err(_)) => {
                return Err(SandboxError::Variables(vec![not_text(PYODIDE.to_owned())]));
            }
            None => defaults.index_url.into(),
        };
        Ok(settings)
    }

    /// As these variables say; what is not among them has its default. Values of variables that
    /// are secret by their name are remembered, so that they can be taken out of artifacts.
    ///
    /// # Errors
    /// Every variable that is not valid, all at once.
    pub fn from_variables<N: AsRef<str>, V: AsRef<str>>(
        variables: impl IntoIterator<Item = (N, V)>,
    ) -> Result<Self, SandboxError> {
        let owned: BTreeMap<String, String> = variables
            .into_iter()
            .map(|(name, value)| (name.as_ref().to_owned(), value.as_ref().to_owned()))
            .collect();
        let mut reader = Reader { values: &owned, problems: Vec::new() };
        let settings = reader.settings();
        match settings {
            Some(settings) if reader.problems.is_empty() => Ok(settings),
            Some(_) | None => Err(SandboxError::Variables(reader.problems)),
        }
    }
}

impl DockerSettings {
    /// As the environment says, or as the defaults do.
    ///
    /// # Errors
    /// Every variable that is not valid.
    pub fn from_env() -> Result<Self, SandboxError> {
        Self::from_texts(texts(std::env::vars_os()))
    }

    fn from_texts(Texts { pairs, mut unreadable }: Texts) -> Result<Self, SandboxError> {
        // The others are nothing to containers.
        let fallback = variables::FALLBACK.declared.name;
        unreadable.retain(|bad| bad.name.starts_with("DOCKER_") || bad.name == fallback);
        let values: BTreeMap<String, String> = pairs.into_iter().collect();
        let mut reader = Reader { values: &values, problems: unreadable };
        match reader.docker() {
            Some(settings) if reader.problems.is_empty() => Ok(settings),
            Some(_) | None => Err(SandboxError::Variables(reader.problems)),
        }
    }
}

/// An environment as texts.
struct Texts {
    pairs: Vec<(String, String)>,
    /// Variables of ours that are none.
    unreadable: Vec<BadVariable>,
}

/// Variables of ours must be text. Others are taken as well as they can be: what is secret among
/// them must be known to be taken out of artifacts, where it would stand as such text.
fn texts(variables: impl IntoIterator<Item = (OsString, OsString)>) -> Texts {
    let mut texts = Texts { pairs: Vec::new(), unreadable: Vec::new() };
    for (name, value) in variables {
        let name = name.to_string_lossy().into_owned();
        match value.into_string() {
            Ok(value) => texts.pairs.push((name, value)),
            Err(_) if variables::is_declared(&name) || name.starts_with("SANDBOX_") => {
                texts.unreadable.push(not_text(name));
            }
            Err(value) => texts.pairs.push((name, value.to_string_lossy().into_owned())),
        }
    }
    texts
}

fn not_text(name: String) -> BadVariable {
    BadVariable { name, problem: "is not UTF-8 text".to_owned() }
}

/// Reads variables and collects everything that is wrong with them.
struct Reader<'a> {
    values: &'a BTreeMap<String, String>,
    problems: Vec<BadVariable>,
}

impl Reader<'_> {
    /// Everything is read before anything is given up, so that all problems are found.
    fn settings(&mut self) -> Option<AgentSettings> {
        let backend = self.value(&variables::TYPE);
        let languages = self.value(&variables::SUPPORTED_LANGUAGES);
        let store_code = self.value(&variables::STORE_CODE);
        let dir = self.value(&variables::ARTIFACTS_DIR);
        let days = self.value(&variables::ARTIFACTS_MAX_AGE_DAYS);
        let megabytes = self.value(&variables::ARTIFACTS_MAX_MB);
        let policy = self.policy();
        let docker = self.docker();
        Some(AgentSettings {
            backend: backend?,
            policy: policy?,
            languages: languages?,
            store_code: store_code?,
            artifacts: ArtifactStore::at(dir?),
            retention: Retention {
                max_age: Duration::from_secs(days? * DAY),
                max_bytes: megabytes? * MIB,
            },
            redactor: Redactor::of_variables(self.values),
            docker: docker?,
            python: None,
            index_url: Vec::new(),
            home: None,
            logger: None,
            on_start: None,
        })
    }

    /// The preset, the tool's defaults, the policy's own variables, the tool's variables: the last
    /// that says something holds.
    fn policy(&mut self) -> Option<ExecutionPolicy> {
        let preset = self.value(&variables::PRESET);
        let kilobytes = self.value(&variables::MAX_OUTPUT_KB);
        let seconds = self.value(&variables::TIMEOUT_SEC);
        let guarded = self.value(&variables::BLOCK_DANGEROUS_IMPORTS);
        let own = self.values.iter().filter(|(name, _)| !variables::is_declared(name));
        let fields = PolicyLayer::from_variables(own);
        let fields = fields.map_err(|error| self.refused(error)).ok()?;
        let (mut low, mut high) = (PolicyLayer::new(), PolicyLayer::new());
        let bytes = kilobytes? * KIB;
        let (layer, name) = self.place(&variables::MAX_OUTPUT_KB, &mut low, &mut high);
        *layer = from(layer, name).stdout_max_bytes(bytes).stderr_max_bytes(bytes);
        let (layer, name) = self.place(&variables::TIMEOUT_SEC, &mut low, &mut high);
        *layer = from(layer, name).timeout_seconds(seconds?);
        let name = variables::BLOCK_DANGEROUS_IMPORTS.declared.name;
        high = from(&high, name).block_dangerous_imports(guarded?);
        let policy = ExecutionPolicy::build_with_defaults(preset?, low, [fields, high]);
        let policy = policy.map_err(|error| self.refused(error)).ok()?;
        if policy.is_explicit(Field::MountHostDir) {
            self.problems.push(BadVariable {
                name: Field::MountHostDir.variable(),
                problem: "is set, but the tool's code always gets a temporary directory; unset it"
                    .to_owned(),
            });
        }
        Some(policy)
    }

    fn docker(&mut self) -> Option<DockerSettings> {
        let image = self.value(&variables::DOCKER_IMAGE);
        let network = self.value(&variables::DOCKER_NETWORK_ENABLED);
        let cpus = self.value(&variables::DOCKER_CPU_LIMIT);
        let memory = self.value(&variables::DOCKER_MEMORY_LIMIT);
        let fallback = self.value(&variables::FALLBACK);
        Some(DockerSettings {
            image: image?,
            network: network?,
            cpus: cpus?,
            memory_bytes: memory?,
            socket: None,
            fallback: fallback?,
        })
    }

    /// The value of a variable, or its default. `None` when it is wrong.
    fn value<T>(&mut self, variable: &Variable<T>) -> Option<T> {
        let text = self.values.get(variable.declared.name).map(String::as_str);
        match variable.read(text.unwrap_or(variable.declared.default)) {
            Ok(value) => Some(value),
            Err(problem) => {
                self.problems.push(problem);
                None
            }
        }
    }

    /// The layer a variable belongs to: the defaults while it is not set.
    fn place<'a, T>(
        &self,
        variable: &Variable<T>,
        low: &'a mut PolicyLayer,
        high: &'a mut PolicyLayer,
    ) -> (&'a mut PolicyLayer, &'static str) {
        let name = variable.declared.name;
        (if self.values.contains_key(name) { high } else { low }, name)
    }

    fn refused(&mut self, error: PolicyValidationError) {
        self.problems.extend(error.issues.into_iter().map(|issue| {
            let name = match issue.location {
                Some(Origin::Variable(name)) => name,
                Some(_) | None => issue.field,
            };
            BadVariable { name, problem: issue.message }
        }));
    }
}

/// A layer whose next value comes from this variable.
fn from(layer: &PolicyLayer, name: &str) -> PolicyLayer {
    layer.clone().from_source(Origin::Variable(name.to_owned()))
}

#[cfg(test)]
#[path = "settings_tests.rs"]
mod tests;
