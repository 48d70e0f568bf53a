//! One container: made, started, spoken to, ended and removed.

use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use belljar_core::{Backend, SandboxError, Survives};
use bollard::models::{ContainerInspectResponse, ContainerState};
use bollard::query_parameters::{CreateContainerOptionsBuilder, KillContainerOptionsBuilder};

use super::body;
use super::channel::{Channel, NotReady, Opened};
use super::engine::{Engine, PATIENCE, Refused, unavailable};
use super::plan::ContainerPlan;
use super::removals::Removals;
use super::spare::Spare;
use crate::process::launch::{Ancestor, Ended, Launched, Process};

/// How long a container may take until its first program runs.
const STARTING: Duration = Duration::from_secs(60);

/// How long freezing may take before killing is tried.
const FREEZING: Duration = Duration::from_secs(5);

/// An engine hears of an end later than we do.
const HEARSAY: Duration = Duration::from_secs(2);

/// How often a container that should end is looked at.
const INTERVAL: Duration = Duration::from_millis(5);

/// How long a killed container is asked whether memory was the reason.
const REASONING: Duration = Duration::from_millis(100);

/// What a shell ends with when there is no such program; as does the engine's first process.
const NOT_FOUND: i32 = 127;

/// Signals are above this in an exit code: the engine's first process knows no other way.
const SIGNALLED: i64 = 128;
const MOST_SIGNALS: i64 = 64;
const SIGKILL: i32 = 9;

/// A container that was made. Dropping it removes it.
pub(super) struct Container {
    engine: Engine,
    id: String,
    layers: Vec<String>,
    /// Its first process, if that can be seen from here.
    ancestor: Option<Ancestor>,
    /// Where the system tells how much memory was used most.
    peak_file: Option<PathBuf>,
    peak: Option<u64>,
    ended: Option<Ended>,
    is_frozen: bool,
    removals: Arc<Removals>,
    /// Told when this one ends, so that the next is ready.
    spare: Weak<Spare>,
}

impl Container {
    /// Makes and starts one, and waits until its first program runs.
    pub(super) fn launch(
        engine: &Engine,
        plan: &ContainerPlan,
        removals: &Arc<Removals>,
        spare: Weak<Spare>,
    ) -> Result<Launched, SandboxError> {
        let channel = Channel::new().map_err(|error| SandboxError::Internal {
            problem: format!("no pipes for a container: {error}"),
            survives: Survives::NothingWasRun,
        })?;
        let mut container = Self::create(engine, plan, &channel, removals, spare)?;
        let pid = container.start(plan)?;
        let opened = channel.open(STARTING, || container.look().ok().flatten());
        match opened {
            Ok(Opened { protocol, stdout, stderr }) => {
                // Until now it may have been the engine's own program.
                container.ancestor = pid.and_then(|pid| seen(pid, &container.id));
                Ok(Launched { protocol, stdout, stderr, process: Box::new(container) })
            }
            Err(not_ready) => Err(explain(&not_ready, plan)),
        }
    }

    fn create(
        engine: &Engine,
        plan: &ContainerPlan,
        channel: &Channel,
        removals: &Arc<Removals>,
        spare: Weak<Spare>,
    ) -> Result<Self, SandboxError> {
        let user = plan.user.as_deref().ok_or_else(|| no_user(plan))?;
        let body = body::body(plan, user, &channel.host_folder().to_string_lossy());
        let name = channel.name();
        // Known by its name until the engine has given it another: it may be made even when its
        // answer is late.
        let mut container = Self {
            engine: engine.clone(),
            id: name.clone(),
            layers: Vec::new(),
            ancestor: None,
            peak_file: None,
            peak: None,
            ended: None,
            is_frozen: false,
            removals: Arc::clone(removals),
            spare,
        };
        let options = CreateContainerOptionsBuilder::default().name(&name).build();
        let created = engine.ask(PATIENCE, |docker| async move {
            docker.create_container(Some(options), body).await
        });
        match created {
            Ok(created) => container.id = created.id,
            Err(Refused { status: Some(404), .. }) => return Err(no_image(&plan.image)),
            Err(refused) => return Err(refuses(&refused)),
        }
        Ok(container)
    }

    /// Starts it, unless it is not what was asked for; gives the number of its first process.
    fn start(&mut self, plan: &ContainerPlan) -> Result<Option<u32>, SandboxError> {
        self.check(plan)?;
        let id = self.id.clone();
        self.engine
            .ask(PATIENCE, |docker| async move { docker.start_container(&id, None).await })
            .map_err(|refused| refuses(&refused))?;
        // Some layers are known only now.
        let found = self.check(plan)?;
        let pid = found.state.and_then(|state| state.pid).filter(|pid| *pid > 0);
        let pid = pid.and_then(|pid| u32::try_from(pid).ok());
        self.peak_file = pid.and_then(peak_file);
        Ok(pid)
    }

    /// Asks the engine what it has made.
    fn check(&mut self, plan: &ContainerPlan) -> Result<ContainerInspectResponse, SandboxError> {
        let found = self.inspect().map_err(|refused| refuses(&refused))?;
        let layers = body::layers(&found, plan, self.engine.facts());
        self.layers = layers.map_err(|problem| SandboxError::BackendUnavailable {
            backend: Backend::Docker,
            reason: problem,
            hint: Some("use another engine, or the native or wasm backend".to_owned()),
        })?;
        Ok(found)
    }

    fn inspect(&self) -> Result<ContainerInspectResponse, Refused> {
        let id = self.id.clone();
        self.engine.ask(PATIENCE, |docker| async move { docker.inspect_container(&id, None).await })
    }

    /// How it has ended; nothing while it runs.
    fn look(&mut self) -> Result<Option<Ended>, Refused> {
        if self.ended.is_some() {
            return Ok(self.ended);
        }
        let Some(state) = self.inspect()?.state else { return Ok(None) };
        if state.running == Some(true) {
            return Ok(None);
        }
        let mut ended = how_it_ended(&state);
        let until = Instant::now() + REASONING;
        // That memory was the reason comes to the engine's ears later than the end itself.
        while ended == Ended::Signalled(SIGKILL) && Instant::now() < until {
            std::thread::sleep(INTERVAL);
            match self.inspect() {
                Ok(ContainerInspectResponse { state: Some(state), .. }) => {
                    ended = how_it_ended(&state);
                }
                _ => break,
            }
        }
        self.ended = Some(ended);
        Ok(self.ended)
    }

    /// Stops everything in it at once, so that nothing changes any more; it is removed meanwhile.
    fn freeze(&mut self) {
        if self.is_frozen {
            return;
        }
        self.is_frozen = true;
        self.note_peak();
        let id = self.id.clone();
        let frozen =
            self.engine.ask(FREEZING, |docker| async move { docker.pause_container(&id).await });
        if frozen.is_err() && self.look().ok().flatten().is_none() {
            let id = self.id.clone();
            let killed = self
                .engine
                .ask(PATIENCE, |docker| async move { docker.kill_container(&id, None).await });
            if let Err(refused) = killed {
                let event = "container_not_killed";
                tracing::warn!(target: crate::logging::TARGET, event, %refused);
            }
        }
        self.removals.remove(&self.engine, &self.id);
    }

    fn note_peak(&mut self) {
        let text = self.peak_file.as_ref().and_then(|file| std::fs::read_to_string(file).ok());
        self.peak = text.and_then(|text| text.trim().parse().ok()).or(self.peak);
    }
}

impl Process for Container {
    fn interrupt(&mut self) {
        let id = self.id.clone();
        let options = KillContainerOptionsBuilder::default().signal("SIGINT").build();
        // Fails only when it has ended, which is noticed elsewhere.
        self.engine
            .tell(|docker| async move { docker.kill_container(&id, Some(options)).await }, drop);
    }

    fn end(&mut self) -> Ended {
        self.freeze();
        if let Some(spare) = self.spare.upgrade() {
            spare.prepare();
        }
        self.ended.unwrap_or(Ended::Unknown)
    }

    fn wait(&mut self, patience: Duration) -> Option<Ended> {
        let until = Instant::now() + patience.max(HEARSAY);
        loop {
            match self.look() {
                Ok(Some(ended)) => return Some(ended),
                Ok(None) if Instant::now() < until => std::thread::sleep(INTERVAL),
                Ok(None) => return None,
                // The engine is gone, or somebody has removed it.
                Err(_) => return Some(Ended::Unknown),
            }
        }
    }

    fn ancestor(&self) -> Option<Ancestor> {
        self.ancestor.filter(|_| self.ended.is_none())
    }

    fn layers(&self) -> Vec<String> {
        self.layers.clone()
    }

    fn peak_memory_bytes(&mut self) -> Option<u64> {
        if !self.is_frozen {
            self.note_peak();
        }
        self.peak
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        if !self.is_frozen {
            self.is_frozen = true;
            self.removals.remove(&self.engine, &self.id);
        }
    }
}

fn how_it_ended(state: &ContainerState) -> Ended {
    if state.oom_killed == Some(true) {
        return Ended::OutOfMemory;
    }
    match state.exit_code {
        Some(code) if (SIGNALLED + 1..=SIGNALLED + MOST_SIGNALS).contains(&code) => {
            i32::try_from(code - SIGNALLED).map_or(Ended::Unknown, Ended::Signalled)
        }
        Some(code) => i32::try_from(code).map_or(Ended::Unknown, Ended::Exited),
        None => Ended::Unknown,
    }
}

/// A container's first process, if a process with this number is that one here too, and may be looked
/// into. An engine may count processes in another way, and another user's processes are not ours.
fn seen(pid: u32, id: &str) -> Option<Ancestor> {
    let names_it = |file: &str| {
        std::fs::read_to_string(format!("/proc/{pid}/{file}")).is_ok_and(|text| text.contains(id))
    };
    let is_it = names_it("cgroup") || names_it("mountinfo");
    let may_look = || std::fs::read_dir(format!("/proc/{pid}/fd")).is_ok();
    (is_it && may_look()).then_some(Ancestor { pid, owns_first: false })
}

/// Where the memory of a process's control group is counted, if that can be seen from here.
fn peak_file(pid: u32) -> Option<PathBuf> {
    let groups = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    groups.lines().find_map(|line| {
        let (_, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        let file = match controllers {
            "" => format!("/sys/fs/cgroup{path}/memory.peak"),
            _ if controllers.split(',').any(|name| name == "memory") => {
                format!("/sys/fs/cgroup/memory{path}/memory.max_usage_in_bytes")
            }
            _ => return None,
        };
        Some(PathBuf::from(file)).filter(|file| file.exists())
    })
}

fn explain(not_ready: &NotReady<Ended>, plan: &ContainerPlan) -> SandboxError {
    let image = &plan.image;
    let program = plan.command.first().map(String::as_str).unwrap_or_default();
    let reason = match not_ready {
        NotReady::Ended(Ended::Exited(NOT_FOUND)) => {
            format!("the image `{image}` has no {program}, or no /bin/sh to start it with")
        }
        NotReady::Ended(ended) => {
            format!("a container of the image `{image}` was not ready before {ended}")
        }
        NotReady::Late => {
            format!("a container of the image `{image}` was not ready within {STARTING:?}")
        }
        NotReady::Broken(error) => {
            format!("a container of the image `{image}` cannot be spoken to: {error}")
        }
    };
    SandboxError::BackendUnavailable {
        backend: Backend::Docker,
        reason,
        hint: Some("`belljar docker image` makes an image that works".to_owned()),
    }
}

pub(super) fn no_image(image: &str) -> SandboxError {
    SandboxError::BackendUnavailable {
        backend: Backend::Docker,
        reason: format!("there is no image `{image}`"),
        hint: Some(
            "make it with `belljar docker image`, or name another one with DOCKER_IMAGE".to_owned(),
        ),
    }
}

fn no_user(plan: &ContainerPlan) -> SandboxError {
    SandboxError::Workspace {
        path: plan.mounts.first().map(|mount| mount.host.clone()).unwrap_or_default(),
        problem: "it belongs to root, and no container runs as root".to_owned(),
        hint: Some(
            "give it to an ordinary user, as in `chown nobody DIR`, or run Belljar as one"
                .to_owned(),
        ),
    }
}

/// An engine that is there and does not want to.
fn refuses(refused: &Refused) -> SandboxError {
    if refused.status.is_none() {
        return unavailable(&refused.to_string());
    }
    SandboxError::BackendUnavailable {
        backend: Backend::Docker,
        reason: format!("the engine refuses the container: {refused}"),
        hint: Some("`belljar doctor` shows what works here".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::fake_engine::{answering, plan};
    use super::*;

    #[test]
    fn a_container_that_is_weaker_than_its_plan_is_removed_and_never_started() {
        let (engine, asked) = answering(&[
            ("201 Created", r#"{"Id":"c","Warnings":[]}"#),
            ("200 OK", r#"{"Id":"c","HostConfig":{"Memory":0},"Config":{"User":"65534:65534"}}"#),
            ("204 Gone", ""),
        ]);
        let refused = Container::launch(&engine, &plan(), &Arc::default(), Weak::new());
        let refused = refused.map(drop).unwrap_err().to_string();
        assert!(refused.contains("the engine has made a container without"), "{refused}");
        let asked: Vec<String> = asked.iter().collect();
        let ways = ["POST /", "GET /", "DELETE /"];
        assert!(asked.iter().zip(ways).all(|(line, way)| line.starts_with(way)), "{asked:?}");
        assert!(asked.len() == 3 && !asked.iter().any(|line| line.contains("/start")), "{asked:?}");
    }

    #[test]
    fn a_process_that_is_no_containers_is_not_looked_into() {
        let own = std::process::id();
        assert_eq!(seen(own, &"0123456789abcdef".repeat(4)), None);
        // Any path that stands there will do as a name.
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
        let place = mounts.split_ascii_whitespace().find(|field| field.starts_with("/proc"));
        assert_eq!(seen(own, place.unwrap()).map(|seen| seen.pid), Some(own));
        assert_eq!(seen(u32::MAX, "/"), None);
    }

    #[test]
    fn how_a_container_ended() {
        let state = |exit_code: i64, oom_killed: bool| {
            how_it_ended(&ContainerState {
                exit_code: Some(exit_code),
                oom_killed: Some(oom_killed),
                ..ContainerState::default()
            })
        };
        assert_eq!(state(0, false), Ended::Exited(0));
        assert_eq!(state(3, false), Ended::Exited(3));
        assert_eq!(state(137, false), Ended::Signalled(9));
        assert_eq!(state(137, true), Ended::OutOfMemory);
        assert_eq!(state(255, false), Ended::Exited(255));
        assert_eq!(how_it_ended(&ContainerState::default()), Ended::Unknown);
    }
}
