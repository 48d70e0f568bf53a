//! The connection to an engine on this machine. Every question has a time-out: whatever listens
//! behind a socket, the host goes on.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, mpsc};
use std::time::Duration;

use belljar_core::{Backend, SandboxError};
use bollard::models::SystemInfo;
use bollard::{API_DEFAULT_VERSION, Docker};
use tokio::runtime::Handle;

use super::address::{Identity, find_socket, identity, knock};
use super::orphans;
use super::removals::{self, Left};
use crate::docker_settings::DockerSettings;

/// How long an engine may take to say who it is.
const GREETING: Duration = Duration::from_secs(5);

/// How long anything else may take that it is asked.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

/// How much later than its own time-out an answer is given up.
const SLACK: Duration = Duration::from_secs(1);

/// An engine's own words beyond this are cut.
const MAX_WORDS: usize = 400;

/// An engine that has answered.
#[derive(Clone)]
pub(crate) struct Engine {
    docker: Docker,
    socket: PathBuf,
    facts: Facts,
    left: Arc<Left>,
}

/// What an engine says about itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Facts {
    pub(super) seccomp: bool,
    pub(super) swap_limit: bool,
}

/// Why an engine did not do what it was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refused {
    /// The HTTP status, if it gave one.
    pub(super) status: Option<u16>,
    message: String,
}

impl Engine {
    /// The engine that the settings or the environment name. The first time in this process what
    /// a crashed Belljar has left there is removed, and later what this one could not remove.
    pub(crate) fn connect(settings: &DockerSettings) -> Result<Self, SandboxError> {
        let (engine, is_new) = Self::reach(settings)?;
        removals::retry(&engine);
        if is_new && let Err(refused) = orphans::collect(&engine) {
            // What is left over costs its place, not this run.
            tracing::warn!(target: crate::logging::TARGET, event = "orphans_left", %refused);
        }
        Ok(engine)
    }

    /// The same engine, and whether it is new to this process. Nothing is removed.
    pub(super) fn reach(settings: &DockerSettings) -> Result<(Self, bool), SandboxError> {
        let socket = find_socket(settings)?;
        knock(&socket, GREETING)?;
        let key = identity(&socket);
        if let Some(engine) = key.and_then(|key| known().get(&key).cloned()) {
            let ping = engine.ask(GREETING, |docker| async move { docker.ping().await });
            ping.map_err(|refused| unavailable(&format!("{}: {refused}", socket.display())))?;
            return Ok((engine, false));
        }
        let engine = Self::greet(socket)?;
        if let Some(key) = key {
            known().insert(key, engine.clone());
        }
        Ok((engine, true))
    }

    fn greet(socket: PathBuf) -> Result<Self, SandboxError> {
        let shown = socket.display().to_string();
        let strange = |refused: Refused| unavailable(&format!("{shown}: {refused}"));
        let docker = Docker::connect_with_unix(&shown, PATIENCE.as_secs(), API_DEFAULT_VERSION)
            .map_err(|error| strange(Refused::from(error)))?;
        let docker = ask(docker, GREETING, Docker::negotiate_version).map_err(strange)?;
        let info = ask(docker.clone(), GREETING, |docker| async move { docker.info().await });
        let facts = Facts::of(&info.map_err(strange)?).map_err(|problem| {
            SandboxError::BackendUnavailable {
                backend: Backend::Docker,
                reason: format!("the engine at {shown} cannot hold its containers: {problem}"),
                hint: Some("use another engine, or the native or wasm backend".to_owned()),
            }
        })?;
        Ok(Self { docker, socket, facts, left: Arc::default() })
    }

    /// One that was never asked who it is.
    #[cfg(test)]
    pub(super) fn unasked(socket: PathBuf) -> Self {
        let docker =
            Docker::connect_with_unix(&socket.to_string_lossy(), 30, API_DEFAULT_VERSION).unwrap();
        let facts = Facts { seccomp: true, swap_limit: true };
        Self { docker, socket, facts, left: Arc::default() }
    }

    pub(super) fn socket(&self) -> &Path {
        &self.socket
    }

    /// Its containers that could not be removed.
    pub(super) const fn left(&self) -> &Arc<Left> {
        &self.left
    }

    pub(super) const fn facts(&self) -> Facts {
        self.facts
    }

    /// Asks something and waits for the answer.
    pub(super) fn ask<T, F>(
        &self,
        patience: Duration,
        question: impl FnOnce(Docker) -> F,
    ) -> Result<T, Refused>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, bollard::errors::Error>> + Send + 'static,
    {
        ask(self.docker.clone(), patience, question)
    }

    /// Asks something that takes long; `heard` is told what is said meanwhile.
    pub(super) fn follow<F>(
        &self,
        patience: Duration,
        question: impl FnOnce(Docker, mpsc::Sender<String>) -> F,
        heard: &mut dyn FnMut(&str),
    ) -> Result<(), Refused>
    where
        F: Future<Output = Result<(), bollard::errors::Error>> + Send + 'static,
    {
        let (say, said) = mpsc::channel();
        let (tell, told) = mpsc::sync_channel(1);
        let asked = question(self.docker.clone(), say);
        runtime()?.spawn(async move {
            let _ = tell.send(tokio::time::timeout(patience, asked).await);
        });
        // Ends when the other side has nothing more to say, and is dropped.
        for line in said {
            heard(&line);
        }
        match told.recv_timeout(SLACK) {
            Ok(Ok(answer)) => answer.map_err(Refused::from),
            Ok(Err(_)) | Err(_) => Err(Refused::late(patience)),
        }
    }

    /// Asks something whose answer nobody waits for; `then` is told when it has come, or is late.
    pub(super) fn tell<T, F>(
        &self,
        question: impl FnOnce(Docker) -> F,
        then: impl FnOnce(Result<T, Refused>) + Send + 'static,
    ) where
        F: Future<Output = Result<T, bollard::errors::Error>> + Send + 'static,
        T: Send + 'static,
    {
        let asked = question(self.docker.clone());
        match runtime() {
            Ok(runtime) => drop(runtime.spawn(async move {
                then(match tokio::time::timeout(PATIENCE, asked).await {
                    Ok(answer) => answer.map_err(Refused::from),
                    Err(_) => Err(Refused::late(PATIENCE)),
                });
            })),
            Err(refused) => then(Err(refused)),
        }
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("socket", &self.socket).finish_non_exhaustive()
    }
}

impl Facts {
    /// What it says of itself, unless that is too little to hold anybody.
    fn of(info: &SystemInfo) -> Result<Self, String> {
        let lacks = |has: Option<bool>| has != Some(true);
        if lacks(info.memory_limit) || lacks(info.pids_limit) || lacks(info.cpu_cfs_quota) {
            return Err("it has no cgroup limits for memory, processes and CPU".to_owned());
        }
        if lacks(info.swap_limit) && swaps() {
            return Err("it cannot limit swap, so that memory has no limit".to_owned());
        }
        let options = info.security_options.clone().unwrap_or_default();
        let has = |name: &str| {
            options
                .iter()
                .any(|option| option.split(',').any(|part| part == format!("name={name}")))
        };
        if has("rootless") || has("userns") {
            return Err("it maps user ids, so that files in the workspace would be of somebody \
                        else"
                .to_owned());
        }
        Ok(Self { seccomp: has("seccomp"), swap_limit: !lacks(info.swap_limit) })
    }
}

/// Whether this machine has any swap.
fn swaps() -> bool {
    let memory = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total = memory.lines().find_map(|line| line.strip_prefix("SwapTotal:"));
    total.is_none_or(|total| !total.trim().starts_with("0 "))
}

/// The error that the specification wants where there is no engine.
pub(super) fn unavailable(why: &str) -> SandboxError {
    SandboxError::BackendUnavailable {
        backend: Backend::Docker,
        reason: format!("Docker daemon not available: {why}"),
        hint: Some("Set SANDBOX_TYPE=local or start Docker daemon".to_owned()),
    }
}

/// Engines that have answered, by the socket they listen at: one that was restarted has another.
type Known = BTreeMap<Identity, Engine>;

fn known() -> std::sync::MutexGuard<'static, Known> {
    static KNOWN: Mutex<Known> = Mutex::new(BTreeMap::new());
    // Nothing panics while holding the lock; if it did, the map would still be whole.
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Works wherever it is called from, a thread of another runtime included.
fn ask<T, F>(
    docker: Docker,
    patience: Duration,
    question: impl FnOnce(Docker) -> F,
) -> Result<T, Refused>
where
    T: Send + 'static,
    F: Future<Output = Result<T, bollard::errors::Error>> + Send + 'static,
{
    let (tell, told) = mpsc::sync_channel(1);
    let asked = question(docker);
    runtime()?.spawn(async move {
        // Nobody listens any more when the answer is later than late.
        let _ = tell.send(tokio::time::timeout(patience, asked).await);
    });
    match told.recv_timeout(patience + SLACK) {
        Ok(Ok(answer)) => answer.map_err(Refused::from),
        Ok(Err(_)) | Err(_) => Err(Refused::late(patience)),
    }
}

/// One thread for all conversations with engines, started with the first.
fn runtime() -> Result<&'static Handle, Refused> {
    static RUNTIME: OnceLock<Result<Handle, String>> = OnceLock::new();
    let start = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        std::thread::Builder::new()
            .name("belljar-docker".to_owned())
            .spawn(move || runtime.block_on(std::future::pending::<()>()))?;
        Ok(handle)
    };
    let started = RUNTIME.get_or_init(|| start().map_err(|error: io::Error| error.to_string()));
    started.as_ref().map_err(|error| Refused {
        status: None,
        message: format!("no thread to speak with it: {error}"),
    })
}

impl Refused {
    fn late(patience: Duration) -> Self {
        Self { status: None, message: format!("it does not answer within {patience:?}") }
    }
}

impl From<bollard::errors::Error> for Refused {
    fn from(error: bollard::errors::Error) -> Self {
        use bollard::errors::Error;
        let (status, message) = match error {
            Error::DockerResponseServerError { status_code, message } => {
                (Some(status_code), message)
            }
            Error::DockerStreamError { error } => (None, error),
            Error::JsonDataError { .. } | Error::APIVersionParseError {} => {
                (None, "what answers there is no Docker engine".to_owned())
            }
            Error::HyperResponseError { err } if err.is_parse() => {
                (None, "what answers there is no Docker engine".to_owned())
            }
            other => (None, innermost(&other)),
        };
        Self { status, message: message.chars().take(MAX_WORDS).collect() }
    }
}

/// The cause that says most: those around it only say that something failed.
fn innermost(error: &dyn std::error::Error) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message.trim())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaint(address: &str) -> String {
        let settings =
            DockerSettings { socket: Some(address.to_owned()), ..DockerSettings::default() };
        let error = Engine::connect(&settings).unwrap_err();
        format!("{error}\nhint: {}", error.hint().unwrap_or_default())
    }

    #[test]
    fn a_missing_engine_is_told_as_the_specification_wants() {
        insta::assert_snapshot!(complaint("unix:///nowhere/docker.sock"), @r"
        the docker backend cannot be used: Docker daemon not available: there is no socket at /nowhere/docker.sock; nothing was run
        hint: Set SANDBOX_TYPE=local or start Docker daemon
        ");
    }

    #[test]
    fn an_engine_elsewhere_is_refused() {
        insta::assert_snapshot!(complaint("tcp://10.0.0.1:2375"), @r#"
        the docker backend cannot be used: Docker daemon not available: "tcp://10.0.0.1:2375" is no socket of this machine, and only an engine here can mount the workspace; an address looks like unix:///var/run/docker.sock; nothing was run
        hint: Set SANDBOX_TYPE=local or start Docker daemon
        "#);
    }

    fn info(options: &[&str]) -> SystemInfo {
        let yes = Some(true);
        SystemInfo {
            memory_limit: yes,
            swap_limit: yes,
            pids_limit: yes,
            cpu_cfs_quota: yes,
            security_options: Some(options.iter().map(|&option| option.to_owned()).collect()),
            ..SystemInfo::default()
        }
    }

    #[test]
    fn an_engine_that_cannot_limit_is_refused() {
        assert_eq!(
            Facts::of(&info(&["name=seccomp,profile=default"])),
            Ok(Facts { seccomp: true, swap_limit: true })
        );
        assert_eq!(Facts::of(&info(&[])), Ok(Facts { seccomp: false, swap_limit: true }));
        assert!(Facts::of(&SystemInfo::default()).is_err());
        assert!(Facts::of(&SystemInfo { pids_limit: None, ..info(&[]) }).is_err());
        assert!(Facts::of(&info(&["name=rootless"])).is_err());
        assert!(Facts::of(&info(&["name=userns"])).is_err());
    }
}
