//! The sandboxes there are: made, found, timed, paused and ended.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::http::StatusCode;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::super::directories;
use super::E2b;
use super::copies;
use super::errors::Failure;
use super::keys::hex;
use super::place;
use super::record::{self, Kind, OnTimeout, Phase, Record};
use super::room::Room;
use super::time;

/// How often it is looked whose time is over.
const LOOK: Duration = Duration::from_millis(250);
/// Random bytes of a sandbox's name.
const ID_BYTES: usize = 10;
/// Random bytes of its token.
const TOKEN_BYTES: usize = 24;
/// Requests of which it is known what they made.
const MAX_REPEATED: usize = 1024;
/// A sandbox that nobody gave a time ends after this.
pub(super) const DEFAULT_SECONDS: u64 = 300;
/// Nobody gets more at once.
pub(super) const MAX_SECONDS: u64 = 24 * 3600;

/// A sandbox.
pub(super) struct Sandbox {
    pub(super) id: String,
    pub(super) owner: String,
    pub(super) token: String,
    state: Mutex<State>,
    /// One at a time changes whether it runs.
    pub(super) phase: tokio::sync::Mutex<()>,
    pub(super) alive: Mutex<CancellationToken>,
    /// One at a time opens a session.
    pub(super) opening: tokio::sync::Mutex<()>,
    turns: Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>,
    pub(super) room: Arc<Room>,
    pub(super) watchers: super::watch::Watchers,
    /// Where its commands run, if any do.
    pub(super) commands: tokio::sync::Mutex<Option<Arc<super::commands::Commands>>>,
}

struct State {
    record: Record,
    /// By a clock that nobody sets.
    deadline: Instant,
}

/// How a new sandbox shall be.
pub(super) struct Wanted {
    pub(super) owner: String,
    pub(super) template: String,
    pub(super) seconds: u64,
    pub(super) metadata: BTreeMap<String, String>,
    pub(super) env: BTreeMap<String, String>,
    pub(super) on_timeout: OnTimeout,
    pub(super) auto_resume: bool,
    pub(super) kind: Kind,
}

impl Sandbox {
    fn new(record: Record) -> Arc<Self> {
        Arc::new(Self {
            id: record.id.clone(),
            owner: record.owner.clone(),
            token: record.token.clone(),
            state: Mutex::new(State {
                deadline: Instant::now() + time::until(record.end_ms),
                record,
            }),
            phase: tokio::sync::Mutex::default(),
            alive: Mutex::default(),
            opening: tokio::sync::Mutex::default(),
            turns: Mutex::default(),
            room: Arc::default(),
            watchers: super::watch::Watchers::default(),
            commands: tokio::sync::Mutex::default(),
        })
    }

    pub(super) fn record(&self) -> Record {
        self.state().record.clone()
    }

    pub(super) fn slot(&self) -> usize {
        self.state().record.slot
    }

    /// Changes what is known; the caller sees to it that it is kept.
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut Record) -> T) -> T {
        change(&mut self.state().record)
    }

    pub(super) fn is_running(&self) -> bool {
        self.state().record.phase == Phase::Running
    }

    /// Ends what runs in it.
    pub(super) fn alive(&self) -> CancellationToken {
        self.alive.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Executions in a context wait for each other, in their order.
    pub(super) fn turn_in(&self, context: &str) -> Arc<tokio::sync::Mutex<()>> {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(turns.entry(context.to_owned()).or_default())
    }

    fn stop(&self) {
        let mut alive = self.alive.lock().unwrap_or_else(PoisonError::into_inner);
        alive.cancel();
        *alive = CancellationToken::new();
    }

    /// It ends so many seconds from now; with `only_later`, not before it would anyway.
    fn give(&self, seconds: u64, only_later: bool) {
        let given = Duration::from_secs(seconds);
        let mut state = self.state();
        let deadline = Instant::now() + given;
        if only_later && state.deadline > deadline {
            return;
        }
        state.deadline = deadline;
        state.record.end_ms = time::now_ms().saturating_add(seconds.saturating_mul(1000));
    }

    fn is_over(&self) -> bool {
        let state = self.state();
        state.record.phase == Phase::Running && state.deadline <= Instant::now()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Default)]
pub(super) struct Registry(Mutex<HashMap<String, Arc<Sandbox>>>);

impl Registry {
    pub(super) fn find(&self, id: &str) -> Option<Arc<Sandbox>> {
        self.known().get(id).cloned()
    }

    pub(super) fn all(&self) -> Vec<Arc<Sandbox>> {
        self.known().values().cloned().collect()
    }

    fn known(&self) -> MutexGuard<'_, HashMap<String, Arc<Sandbox>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl E2b {
    /// A sandbox of one's own; others' are not there.
    pub(super) fn own(&self, owner: &str, id: &str) -> Result<Arc<Sandbox>, Failure> {
        let is_own = |it: &Arc<Sandbox>| it.owner == owner && it.record().kind == Kind::Sandbox;
        let found = self.registry.find(id).filter(is_own);
        found.ok_or_else(|| Failure::not_found(format!("sandbox {} was not found", shown(id))))
    }

    /// Everything of one owner's, snapshots too.
    pub(super) fn records_of(&self, owner: &str) -> Vec<Record> {
        let all = self.registry.all();
        all.iter().filter(|it| it.owner == owner).map(|it| it.record()).collect()
    }

    pub(super) fn create(&self, wanted: Wanted) -> Result<Arc<Sandbox>, Failure> {
        let slot = self.next_slot();
        self.create_in(slot, wanted)
    }

    /// A sandbox in the directory of that worker.
    pub(super) fn create_in(&self, slot: usize, wanted: Wanted) -> Result<Arc<Sandbox>, Failure> {
        let most = self.hub.limits.e2b_sandboxes;
        let owned = self.registry.all().iter().filter(|it| it.owner == wanted.owner).count();
        if owned >= most {
            let problem = format!("there are {most} sandboxes of this key, and no more may be");
            return Err(Failure::new(StatusCode::TOO_MANY_REQUESTS, problem).after(5));
        }
        let id = format!("i{}", random(ID_BYTES)?);
        let record = Record {
            token: format!("ea_{}", random(TOKEN_BYTES)?),
            owner: wanted.owner,
            template: wanted.template,
            metadata: wanted.metadata,
            env: wanted.env,
            started_ms: time::now_ms(),
            end_ms: time::now_ms().saturating_add(wanted.seconds.saturating_mul(1000)),
            phase: Phase::Running,
            on_timeout: copies::on_timeout_of(&wanted.kind, wanted.on_timeout),
            kind: wanted.kind,
            auto_resume: wanted.auto_resume,
            slot,
            contexts: Vec::new(),
            last_session: 0,
            id,
        };
        place::make(&self.directory_of(slot), &record.id)
            .map_err(|error| Failure::internal(format!("no room for a sandbox: {error}")))?;
        record::keep(&self.folder, &record);
        let sandbox = Sandbox::new(record);
        self.registry.known().insert(sandbox.id.clone(), Arc::clone(&sandbox));
        Ok(sandbox)
    }

    /// What such a request has made before, if it is still there.
    pub(super) fn made_before(&self, request: &(String, String)) -> Option<Arc<Sandbox>> {
        let made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        let (_, id) = made.iter().rev().find(|(known, _)| known == request)?;
        self.registry.find(id)
    }

    pub(super) fn note_made(&self, request: (String, String), sandbox: &Sandbox) {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        made.push_back((request, sandbox.id.clone()));
        if made.len() > MAX_REPEATED {
            made.pop_front();
        }
    }

    /// Those that were there when the daemon ended last.
    pub(super) fn bring_back(&self) {
        for record in record::all(&self.folder) {
            let there = record.slot < self.hub.slots.len()
                && place::open(&self.directory_of(record.slot), &record.id).is_ok();
            if there {
                self.registry.known().insert(record.id.clone(), Sandbox::new(record));
            } else {
                tracing::warn!(sandbox = record.id, "an E2B sandbox lost its files and is gone");
                record::forget(&self.folder, &record.id);
            }
        }
    }

    /// Ends a sandbox, and removes everything of it. Nobody finds it from the start.
    pub(super) async fn kill(&self, sandbox: &Sandbox) {
        if self.registry.known().remove(&sandbox.id).is_none() {
            return;
        }
        let _phase = sandbox.phase.lock().await;
        // Whoever was let in before starts nothing any more.
        sandbox.change(|record| record.phase = Phase::Ended);
        record::forget(&self.folder, &sandbox.id);
        self.silence(sandbox).await;
        let record = sandbox.record();
        for context in &record.contexts {
            self.discard(record.slot, "sessions", &context.session);
            self.hub.forget_session(&context.session);
        }
        self.discard(record.slot, place::FOLDER, &record.id);
    }

    /// Stops what runs and puts the rest on disk.
    async fn silence(&self, sandbox: &Sandbox) {
        sandbox.stop();
        sandbox.watchers.clear();
        self.end_commands(sandbox).await;
        let record = sandbox.record();
        for context in &record.contexts {
            self.leave_session(&record.owner, &context.session).await;
        }
    }

    /// Whether it ran.
    pub(super) async fn pause(&self, sandbox: &Sandbox) -> bool {
        let _phase = sandbox.phase.lock().await;
        let ran = sandbox.change(|record| record.become_instead(Phase::Running, Phase::Paused));
        if ran {
            self.silence(sandbox).await;
            record::keep(&self.folder, &sandbox.record());
        }
        ran
    }

    /// Lets a paused one run again; whether it was paused.
    pub(super) async fn resume(&self, sandbox: &Sandbox, seconds: u64) -> bool {
        let _phase = sandbox.phase.lock().await;
        let paused = sandbox.change(|record| record.become_instead(Phase::Paused, Phase::Running));
        if !sandbox.is_running() {
            return false;
        }
        sandbox.give(seconds, !paused);
        record::keep(&self.folder, &sandbox.record());
        paused
    }

    pub(super) fn give_time(&self, sandbox: &Sandbox, seconds: u64) {
        sandbox.give(seconds, false);
        let record = sandbox.record();
        if record.phase != Phase::Ended {
            record::keep(&self.folder, &record);
        }
    }

    /// Removes something of a worker's directory, in its own time.
    pub(super) fn discard(&self, slot: usize, folder: &'static str, name: &str) {
        match directories::take_out(&self.directory_of(slot), folder, name) {
            Ok(Some(aside)) => {
                tokio::task::spawn_blocking(move || directories::clear(&aside));
            }
            Ok(None) => {}
            Err(error) => tracing::warn!(%error, name, "what a sandbox left cannot be removed"),
        }
    }

    /// Ends sandboxes whose time is over or whose owner is no more, for ever.
    pub(super) async fn watch_the_clock(self: Arc<Self>) {
        loop {
            sleep(LOOK).await;
            for sandbox in self.registry.all() {
                let known = self.keys().is_known(&sandbox.owner);
                if known && !sandbox.is_over() {
                    continue;
                }
                let e2b = Arc::clone(&self);
                tokio::spawn(async move {
                    if known && sandbox.record().on_timeout == OnTimeout::Pause {
                        e2b.pause(&sandbox).await;
                    } else {
                        e2b.kill(&sandbox).await;
                    }
                });
            }
        }
    }
}

/// So many random bytes, as text that can be part of a name.
pub(super) fn random(bytes: usize) -> Result<String, Failure> {
    let mut random = vec![0; bytes];
    getrandom::fill(&mut random)
        .map_err(|error| Failure::internal(format!("there is no randomness: {error}")))?;
    Ok(hex(&random))
}

/// A name as it may be repeated to whoever said it.
pub(super) fn shown(text: &str) -> String {
    const SHOWN: usize = 64;
    text.chars().filter(|c| !c.is_control()).take(SHOWN).collect()
}
