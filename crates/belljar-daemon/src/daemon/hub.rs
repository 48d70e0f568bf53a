//! What all tasks of the supervisor share: workers, limits, counters, and who is there.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use belljar::{Backend, ExecutionPolicy, Home, PolicyLayer, Preset, check_id};
use belljar_core::protocol::RpcError;
use belljar_core::protocol::daemon::{DaemonCounters, DaemonStatus, WorkerStatus};
use belljar_core::protocol::methods::CreateParams;
use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, TryAcquireError, watch};
use tokio::time::timeout;

use super::budget::Budget;
use super::client::{Client, Origin};
use super::directories::{self, Saved};
use super::errors::{busy, mistaken, not_here};
use super::images::Images;
use super::limits::{Limits, seconds};
use super::names::Names;
use super::worker::Worker;

pub(super) struct Hub {
    pub(super) limits: Limits,
    pub(super) counters: Counters,
    pub(super) slots: Vec<Slot>,
    /// What waits for clients or of them.
    pub(super) budget: Arc<Budget>,
    pub(super) confined: bool,
    pub(super) images: Images,
    /// Where it is served over HTTP, if it is.
    pub(super) http: OnceLock<String>,
    /// What confines workers, as the last that started told.
    pub(super) layers: Mutex<Vec<String>>,
    started: Instant,
    /// In which slot a session's directory is.
    names: Mutex<Names>,
    turns: Arc<Semaphore>,
    waiting: AtomicUsize,
    sandboxes: Arc<AtomicUsize>,
    clients: Mutex<Clients>,
    executions: AtomicU64,
    /// Requests that were answered.
    answers: AtomicU64,
    /// How long to wait for what runs, once the daemon is to end.
    stopping: watch::Sender<Option<f64>>,
    /// Nothing runs any more: workers may go.
    ended: watch::Sender<bool>,
}

#[derive(Default)]
struct Clients {
    last: u64,
    there: HashMap<u64, Arc<Client>>,
}

/// A place for workers, one after the other.
pub(super) struct Slot {
    pub(super) number: usize,
    /// Its directory outlives its workers.
    pub(super) directory: PathBuf,
    pub(super) restarts: AtomicU64,
    pub(super) current: watch::Sender<Option<Arc<Worker>>>,
}

/// A number that only grows.
#[derive(Default)]
pub(super) struct Counter(AtomicU64);

impl Counter {
    pub(super) fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

#[derive(Default)]
pub(super) struct Counters {
    pub(super) connections: Counter,
    pub(super) refused: Counter,
    pub(super) dropped: Counter,
    pub(super) sandboxes: Counter,
    pub(super) executions: Counter,
    pub(super) crashed: Counter,
    pub(super) busy: Counter,
    pub(super) revived: Counter,
    pub(super) restarts: Counter,
}

/// One more, until it is dropped.
pub(super) struct Guard(Box<dyn Fn() + Send + Sync>);

impl Guard {
    pub(super) fn count<T: Send + Sync + 'static>(
        owner: &Arc<T>,
        number: impl Fn(&T) -> &AtomicUsize + Send + Sync + 'static,
    ) -> Self {
        number(owner).fetch_add(1, Ordering::AcqRel);
        let owner = Arc::clone(owner);
        Self(Box::new(move || {
            number(&owner).fetch_sub(1, Ordering::AcqRel);
        }))
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// The right to run something now.
pub(super) struct Turn {
    _own: OwnedSemaphorePermit,
    _all: OwnedSemaphorePermit,
}

impl Hub {
    pub(super) fn new(
        limits: Limits,
        directories: Vec<PathBuf>,
        names: Names,
        confined: bool,
        home: Home,
    ) -> Self {
        let slots = directories.into_iter().enumerate().map(|(number, directory)| Slot {
            number,
            directory,
            restarts: AtomicU64::new(0),
            current: watch::Sender::new(None),
        });
        Self {
            counters: Counters::default(),
            slots: slots.collect(),
            budget: Budget::new(limits.buffered_bytes),
            confined,
            images: Images::new(home),
            http: OnceLock::new(),
            layers: Mutex::default(),
            started: Instant::now(),
            names: Mutex::new(names),
            answers: AtomicU64::new(0),
            turns: Arc::new(Semaphore::new(limits.running)),
            waiting: AtomicUsize::new(0),
            sandboxes: Arc::default(),
            clients: Mutex::default(),
            executions: AtomicU64::new(0),
            stopping: watch::Sender::new(None),
            ended: watch::Sender::new(false),
            limits,
        }
    }

    /// The refusal of something that could be had another time.
    pub(super) fn busy(&self, problem: &str) -> RpcError {
        self.counters.busy.add();
        busy(problem)
    }

    /// Whether new work is taken.
    pub(super) fn check_open(&self) -> Result<(), RpcError> {
        if self.is_stopping() { Err(self.busy("the daemon is about to end")) } else { Ok(()) }
    }

    pub(super) fn count_sandbox(&self) -> Result<Guard, RpcError> {
        let most = self.limits.sandboxes;
        let guard = Guard::count(&self.sandboxes, |count| count);
        if self.sandboxes.load(Ordering::Acquire) > most {
            return Err(self.busy(&format!("there are {most} sandboxes, and no more may be")));
        }
        Ok(guard)
    }

    /// Waits for the right to run something.
    pub(super) async fn turn(&self, client: &Client) -> Result<Turn, RpcError> {
        let own = self.one_of(&client.turns).await?;
        let all = self.one_of(&self.turns).await?;
        Ok(Turn { _own: own, _all: all })
    }

    async fn one_of(&self, turns: &Arc<Semaphore>) -> Result<OwnedSemaphorePermit, RpcError> {
        let closed = || busy("the daemon has ended");
        match Arc::clone(turns).try_acquire_owned() {
            Ok(turn) => Ok(turn),
            Err(TryAcquireError::Closed) => Err(closed()),
            Err(TryAcquireError::NoPermits) => {
                let _waiting = Waiting::new(&self.waiting);
                if self.waiting.load(Ordering::Acquire) > self.limits.waiting {
                    return Err(self.busy("too many executions wait for their turn"));
                }
                Arc::clone(turns).acquire_owned().await.map_err(|_| closed())
            }
        }
    }

    /// The worker with the fewest sandboxes.
    pub(super) async fn any_worker(&self) -> Result<Arc<Worker>, RpcError> {
        let ready = || {
            let there = self.slots.iter().filter_map(|slot| slot.current.borrow().clone());
            there
                .filter(|worker| !worker.is_lost())
                .min_by_key(|worker| worker.load.load(Ordering::Acquire))
        };
        if let Some(worker) = ready() {
            return Ok(worker);
        }
        // Whichever comes first is as good as any.
        let (sender, mut first) = tokio::sync::mpsc::channel(1);
        for slot in &self.slots {
            let (mut current, sender) = (slot.current.subscribe(), sender.clone());
            let patience = seconds(self.limits.worker_seconds);
            tokio::spawn(async move {
                let there = current.wait_for(Option::is_some);
                if let Ok(Ok(found)) = timeout(patience, there).await {
                    let found = found.clone();
                    let _ = sender.try_send(found);
                }
            });
        }
        drop(sender);
        first.recv().await.flatten().ok_or_else(|| self.busy("no worker is ready"))
    }

    /// Somebody is about to make a sandbox of a session, where it is or shall be.
    pub(super) async fn making(self: &Arc<Self>, session: &str) -> Result<Making, RpcError> {
        let known = self.names().slot_of(session)?;
        let number = match known {
            Some(number) => number,
            None => self.any_worker().await?.number,
        };
        let slot = self.names().begin(session, number)?;
        Ok(Making { hub: Arc::clone(self), session: session.to_owned(), slot, made: false })
    }

    /// Has a session that is not there yet made in that slot, if it is made while this lives.
    pub(super) fn making_at(
        self: &Arc<Self>,
        session: &str,
        slot: usize,
    ) -> Result<Making, RpcError> {
        let slot = self.names().begin(session, slot)?;
        Ok(Making { hub: Arc::clone(self), session: session.to_owned(), slot, made: false })
    }

    /// Forgets a session whose directory is gone.
    pub(super) fn forget_session(&self, session: &str) {
        self.names().forget(session);
    }

    /// The worker whose directory holds a session, or shall.
    pub(super) async fn worker_of(&self, making: &Making) -> Result<Arc<Worker>, RpcError> {
        let slot = self.slots.get(making.slot).ok_or_else(|| busy("its worker is not there"))?;
        let mut current = slot.current.subscribe();
        let there = current.wait_for(|worker| worker.as_ref().is_some_and(|it| !it.is_lost()));
        match timeout(seconds(self.limits.worker_seconds), there).await {
            Ok(Ok(found)) => found.clone(),
            Ok(Err(_)) | Err(_) => None,
        }
        .ok_or_else(|| self.busy("the worker that holds this session is not ready"))
    }

    /// Which state a session would come back with now.
    pub(super) fn saved(&self, session: &str) -> Option<Saved> {
        let number = self.names().slot_of(session).ok().flatten()?;
        directories::saved(&self.slots.get(number)?.directory, session)
    }

    pub(super) fn execution_id(&self) -> String {
        let number = self.executions.fetch_add(1, Ordering::Relaxed) + 1;
        format!("daemon-{}-{number}", std::process::id())
    }

    pub(super) fn enter(&self, client: &Arc<Client>) -> u64 {
        let mut clients = self.clients();
        clients.last += 1;
        let number = clients.last;
        clients.there.insert(number, Arc::clone(client));
        self.counters.connections.add();
        number
    }

    pub(super) fn leave(&self, number: u64) {
        self.clients().there.remove(&number);
    }

    pub(super) fn connections(&self) -> usize {
        self.clients().there.len()
    }

    pub(super) fn all_clients(&self) -> Vec<Arc<Client>> {
        self.clients().there.values().cloned().collect()
    }

    /// Takes no new work from now on.
    pub(super) fn stop(&self, patience: Option<f64>) {
        let patience = patience.filter(|seconds| *seconds >= 0.0 && seconds.is_finite());
        let patience = patience.unwrap_or(self.limits.drain_seconds);
        self.stopping.send_replace(Some(patience));
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.borrow().is_some()
    }

    /// Comes back when the daemon shall end.
    pub(super) async fn stopped(&self) {
        // The sender lives as long as `self`.
        let _ = self.stopping.subscribe().wait_for(Option::is_some).await;
    }

    /// How long to wait for what runs, whenever somebody says so.
    pub(super) fn patience(&self) -> watch::Receiver<Option<f64>> {
        self.stopping.subscribe()
    }

    pub(super) fn answered(&self) {
        self.answers.fetch_add(1, Ordering::AcqRel);
    }

    /// How much was answered so far.
    pub(super) fn answers(&self) -> u64 {
        self.answers.load(Ordering::Acquire)
    }

    /// Whether everything that was asked is answered.
    pub(super) fn is_idle(&self) -> bool {
        self.running() == 0 && self.all_clients().iter().all(|client| client.is_idle())
    }

    /// Lets the workers go.
    pub(super) fn end(&self) {
        self.ended.send_replace(true);
    }

    /// Comes back when workers may go.
    pub(super) async fn ended(&self) {
        // The sender lives as long as `self`.
        let _ = self.ended.subscribe().wait_for(|ended| *ended).await;
    }

    pub(super) fn running(&self) -> usize {
        self.limits.running.saturating_sub(self.turns.available_permits())
    }

    pub(super) fn status(&self) -> DaemonStatus {
        let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
        let counters = &self.counters;
        DaemonStatus {
            belljar: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            uptime_seconds: self.started.elapsed().as_secs_f64(),
            stopping: self.is_stopping(),
            confined: self.confined,
            layers: self.layers.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            http: self.http.get().cloned(),
            connections: count(self.connections()),
            sandboxes: count(self.sandboxes.load(Ordering::Relaxed)),
            running: count(self.running()),
            waiting: count(self.waiting.load(Ordering::Relaxed)),
            workers: self.slots.iter().map(Slot::status).collect(),
            counters: DaemonCounters {
                connections: counters.connections.get(),
                refused_connections: counters.refused.get(),
                dropped_connections: counters.dropped.get(),
                sandboxes: counters.sandboxes.get(),
                executions: counters.executions.get(),
                crashed: counters.crashed.get(),
                busy: counters.busy.get(),
                revived: counters.revived.get(),
                restarts: counters.restarts.get(),
            },
        }
    }

    fn names(&self) -> MutexGuard<'_, Names> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn clients(&self) -> MutexGuard<'_, Clients> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Slot {
    fn status(&self) -> WorkerStatus {
        let worker = self.current.borrow().clone();
        let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
        WorkerStatus {
            number: count(self.number),
            pid: worker.as_ref().and_then(|worker| worker.pid),
            uptime_seconds: worker.as_ref().map_or(0.0, |it| it.started.elapsed().as_secs_f64()),
            sandboxes: worker.as_ref().map_or(0, |worker| count(worker.sandboxes())),
            running: worker.as_ref().map_or(0, |it| count(it.running.load(Ordering::Relaxed))),
            restarts: self.restarts.load(Ordering::Relaxed),
        }
    }
}

/// Somebody who waits for a turn, until it is dropped.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn new(waiting: &'a AtomicUsize) -> Self {
        waiting.fetch_add(1, Ordering::AcqRel);
        Self(waiting)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// A sandbox of a session is being made, until this is dropped.
pub(super) struct Making {
    hub: Arc<Hub>,
    session: String,
    slot: usize,
    pub(super) made: bool,
}

impl Drop for Making {
    fn drop(&mut self) {
        let holds = |number: usize| {
            let slot = self.hub.slots.get(number);
            slot.is_some_and(|slot| directories::holds(&slot.directory, &self.session))
        };
        self.hub.names().end(&self.session, self.made, holds);
    }
}

/// What a jailed worker could not do is refused before it is tried.
pub(super) fn check_create(params: &CreateParams, origin: Origin) -> Result<(), RpcError> {
    if let Some(backend) = params.backend
        && backend != Backend::Wasm
    {
        return Err(not_here(&format!("the backend {backend}")));
    }
    let named = [
        (params.workspace.is_some() && origin == Origin::Outside, "a workspace of the machine"),
        (params.policy.contains_key("mount_host_dir"), "mount_host_dir"),
        (params.policy.contains_key("mount_data_dir"), "mount_data_dir"),
        (params.wasm_binary_path.is_some(), "an interpreter of the machine"),
        (params.python.is_some(), "a Python of the machine"),
        (!params.index_url.is_empty(), "Pyodide"),
    ];
    if let Some((_, what)) = named.into_iter().find(|(wanted, _)| *wanted) {
        return Err(not_here(what));
    }
    let name = params.session.as_deref().map_or(Ok(()), check_id);
    name.map_err(|error| mistaken(&error))
}

/// The memory that a sandbox may use. A policy that is none allows nothing: the worker refuses it.
pub(super) fn memory_of(params: &CreateParams) -> u64 {
    let preset = params.preset.unwrap_or(Preset::Agent);
    PolicyLayer::from_json(&Value::Object(params.policy.clone()))
        .and_then(|layer| ExecutionPolicy::build(preset, [layer]))
        .map_or(0, |policy| policy.memory_bytes)
}
