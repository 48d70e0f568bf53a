//! One client: what it asks for goes to the task of the sandbox it is about.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use belljar_core::limits::MAX_QUEUED_REQUESTS;
use belljar_core::protocol::daemon::{METRICS, STATUS, STOP, StopParams};
use belljar_core::protocol::methods::{self, DropParams, SandboxId, Snapshotted};
use belljar_core::protocol::{
    self, FAILED, INVALID_REQUEST, Id, METHOD_NOT_FOUND, Message, RpcError,
};
use serde::Serialize;
use serde_json::value::RawValue;
use tokio::net::UnixStream;
use tokio::sync::{Semaphore, mpsc, watch};

use super::budget::Held;
use super::errors::{busy, unknown};
use super::fields::{self, json, read};
use super::hub::{Guard, Hub};
use super::limits::seconds;
use super::lines::{Heard, Lines, Patience, Reading};
use super::outbox::{Outbox, Unsent};
use super::seat::{self, Ask, Seat};
use super::worker::{Answer, Worker};

const TOO_MANY_SNAPSHOTS: &str = "too many snapshots are kept; drop one first";

/// Methods that are about one sandbox and wait for their turn there.
const OF_A_SANDBOX: [&str; 15] = [
    methods::INITIALIZE,
    methods::EXECUTE,
    methods::VALIDATE,
    methods::GET_VARIABLE,
    methods::COMPLETE,
    methods::PENDING_CALLS,
    methods::RESUME,
    methods::FORK,
    methods::SNAPSHOT,
    methods::RESTORE,
    methods::FILES_LIST,
    methods::FILES_READ,
    methods::FILES_WRITE,
    methods::FILES_REMOVE,
    methods::DESTROY,
];

/// Who is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// A program, by the socket, or in whose name something is asked over HTTP.
    Outside,
    /// The daemon itself, which may say where in a worker's directory a sandbox works.
    Inside,
}

pub(super) struct Client {
    pub(super) hub: Arc<Hub>,
    pub(super) origin: Origin,
    pub(super) outbox: Outbox,
    /// Turns to run something.
    pub(super) turns: Arc<Semaphore>,
    gone: watch::Sender<bool>,
    inbound: Arc<AtomicUsize>,
    /// Requests that were not answered.
    unanswered: AtomicUsize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    gone: bool,
    last_seat: SandboxId,
    seats: BTreeMap<SandboxId, Reach>,
    last_call: u64,
    /// What it was asked for and has not answered: by whom, and the number there.
    calls: BTreeMap<u64, (Arc<Worker>, u64)>,
    last_snapshot: u64,
    snapshots: BTreeMap<u64, Kept>,
}

/// How a sandbox is reached.
struct Reach {
    seat: Arc<Seat>,
    asks: mpsc::Sender<Ask>,
    /// What its policy allows it.
    memory: u64,
}

/// Where a snapshot is.
#[derive(Clone)]
pub(super) struct Kept {
    pub(super) worker: Arc<Worker>,
    pub(super) snapshot: u64,
    pub(super) bytes: u64,
}

/// Bytes of a request, counted until it is answered.
pub(super) struct Charge {
    bytes: usize,
    inbound: Arc<AtomicUsize>,
    held: Held,
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.inbound.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Serves a client until it is gone. It counts from now on, not from when it is first looked at.
pub(super) fn serve(hub: Arc<Hub>, stream: UnixStream, origin: Origin) -> impl Future<Output = ()> {
    let stream = Arc::new(stream);
    let limits = &hub.limits;
    let client = Arc::new(Client {
        outbox: Outbox::new(Arc::clone(&stream), limits.outbound_bytes, &hub.budget),
        turns: Arc::new(Semaphore::new(limits.running_per_client)),
        gone: watch::Sender::new(false),
        inbound: Arc::default(),
        unanswered: AtomicUsize::new(0),
        state: Mutex::default(),
        hub: Arc::clone(&hub),
        origin,
    });
    let number = hub.enter(&client);
    async move {
        tokio::select! {
            () = client.outbox.run() => {}
            () = client.listen(&stream) => {}
        }
        client.leave();
        hub.leave(number);
    }
}

impl Client {
    async fn listen(self: &Arc<Self>, stream: &UnixStream) {
        let mut lines = Lines::new(Reading(stream), Arc::clone(&self.hub.budget));
        let limits = &self.hub.limits;
        let mut patience = Patience {
            first: Some(seconds(limits.handshake_seconds)),
            rest: Some(seconds(limits.line_seconds)),
        };
        loop {
            match lines.next(patience).await {
                Ok(Heard::Line(line)) => self.hear(&line).await,
                Ok(Heard::NoRoom { beginning }) => {
                    let error = self.hub.busy("too many bytes wait for all clients");
                    match fields::id_of(&beginning) {
                        Some(id) => self.answer(&id, Err(error)),
                        None => self.complain(&error),
                    }
                }
                Ok(Heard::TooLong) => self.complain(&RpcError::new(
                    INVALID_REQUEST,
                    "the message is longer than any may be, and was passed over",
                )),
                Ok(Heard::Silence) => {
                    self.hub.counters.dropped.add();
                    tracing::info!("a client was silent for too long and is disconnected");
                    self.complain(&RpcError::new(
                        INVALID_REQUEST,
                        "a whole line was expected by now; the connection is closed",
                    ));
                    return;
                }
                Ok(Heard::End) | Err(_) => return,
            }
            patience.first = None;
        }
    }

    async fn hear(self: &Arc<Self>, line: &[u8]) {
        match Message::parse(line) {
            Ok(Message::Request { id, method, params }) => {
                if let Err(error) = self.serve(&id, &method, params, line.len()).await {
                    self.answer(&id, Err(error));
                }
            }
            Ok(Message::Response { id: Id::Number(id), outcome }) => {
                let call = self.state().calls.remove(&id);
                if let Some((worker, theirs)) = call {
                    worker.answered(theirs, outcome.as_deref());
                }
            }
            // An answer nobody waits for; and there is nothing a client tells.
            Ok(Message::Response { .. } | Message::Notification { .. } | Message::Complaint(_)) => {
            }
            Err(error) => match Message::asker(line) {
                Some(id) => self.answer(&id, Err(error)),
                None => self.complain(&error),
            },
        }
    }

    /// Answers at once, or sees to it that somebody does.
    async fn serve(
        self: &Arc<Self>,
        id: &Id,
        method: &str,
        params: Box<RawValue>,
        bytes: usize,
    ) -> Result<(), RpcError> {
        if let Some(method) = OF_A_SANDBOX.into_iter().find(|known| *known == method) {
            let number = fields::number(&params, "sandbox")?;
            let ask = Ask {
                id: id.clone(),
                method,
                params,
                _charge: self.charge(bytes)?,
                _counted: Guard::count(self, |client| &client.unanswered),
            };
            return self.ask(number, ask);
        }
        let answer = match method {
            methods::HELLO => json(&crate::serve::hello())?,
            methods::CREATE => {
                let charge = self.charge(bytes)?;
                return seat::create(self, id.clone(), params, charge);
            }
            methods::CANCEL => {
                let wanted: methods::SandboxParams = read(&params)?;
                let state = self.state();
                let reach = state.seats.get(&wanted.sandbox);
                reach.ok_or_else(|| unknown("sandbox", wanted.sandbox))?.seat.cancel();
                json(&())?
            }
            methods::SNAPSHOT_READ => {
                let kept = self.kept(fields::number(&params, "snapshot")?)?;
                let params = fields::exchanged(&params, &[("snapshot", kept.snapshot)])?;
                asked(&kept.worker, method, &params).await?
            }
            methods::SNAPSHOT_WRITE => {
                let charge = self.charge(bytes)?;
                let client = Arc::clone(self);
                // In a task of its own, so that what a worker has written is known or forgotten even
                // if the client leaves meanwhile.
                let written = tokio::spawn(async move {
                    let _charge = charge;
                    client.write_snapshot(&params).await
                });
                let failed = |_| RpcError::new(FAILED, "the snapshot could not be written");
                written.await.map_err(failed)??
            }
            methods::SNAPSHOT_DROP => {
                let wanted: methods::SnapshotDropParams = read(&params)?;
                let kept = self.kept(wanted.snapshot)?;
                self.state().snapshots.remove(&wanted.snapshot);
                forget(&kept);
                json(&())?
            }
            STATUS => json(&self.hub.status())?,
            METRICS => json(&super::metrics::text(&self.hub.status()))?,
            STOP => {
                let wanted: StopParams =
                    if params.get() == "null" { StopParams::default() } else { read(&params)? };
                self.hub.stop(wanted.patience_seconds);
                json(&())?
            }
            _ => {
                let problem = format!("there is no method {method:?}");
                return Err(RpcError::new(METHOD_NOT_FOUND, problem));
            }
        };
        self.answer(id, Ok(answer));
        Ok(())
    }

    fn ask(&self, number: SandboxId, ask: Ask) -> Result<(), RpcError> {
        let state = self.state();
        let reach = state.seats.get(&number).ok_or_else(|| unknown("sandbox", number))?;
        reach.seat.outstanding.fetch_add(1, Ordering::AcqRel);
        reach.asks.try_send(ask).map_err(|error| {
            reach.seat.outstanding.fetch_sub(1, Ordering::AcqRel);
            match error {
                mpsc::error::TrySendError::Full(_) => {
                    self.hub.busy("too many requests wait for this sandbox")
                }
                mpsc::error::TrySendError::Closed(_) => unknown("sandbox", number),
            }
        })
    }

    /// A seat for a new sandbox that may use so much memory, and what is asked of it.
    pub(super) fn add_seat(
        self: &Arc<Self>,
        memory: u64,
    ) -> Result<(Arc<Seat>, mpsc::Receiver<Ask>), RpcError> {
        let mut state = self.state();
        if state.gone {
            return Err(busy("the client is gone"));
        }
        let most = self.hub.limits.sandboxes_per_client;
        if state.seats.len() >= most {
            return Err(self.hub.busy(&format!("a client has {most} sandboxes at most")));
        }
        let most = self.hub.limits.memory_bytes_per_client;
        let allowed =
            state.seats.values().fold(memory, |sum, reach| sum.saturating_add(reach.memory));
        if allowed > most {
            let problem =
                format!("the sandboxes of a client may use {most} bytes of memory at most");
            return Err(self.hub.busy(&problem));
        }
        state.last_seat += 1;
        let seat = Arc::new(Seat::new(state.last_seat, Arc::clone(self)));
        let (asks, inbox) = mpsc::channel(MAX_QUEUED_REQUESTS);
        state.seats.insert(seat.number, Reach { seat: Arc::clone(&seat), asks, memory });
        Ok((seat, inbox))
    }

    pub(super) fn remove_seat(&self, number: SandboxId) {
        self.state().seats.remove(&number);
    }

    /// A snapshot that a worker keeps for this client.
    pub(super) fn keep(&self, kept: Kept) -> Result<u64, RpcError> {
        let mut state = self.state();
        let full = state.snapshots.len() >= self.hub.limits.snapshots_per_client;
        if state.gone || full || !self.has_room(&state, kept.bytes) {
            forget(&kept);
            return Err(self.hub.busy(TOO_MANY_SNAPSHOTS));
        }
        state.last_snapshot += 1;
        let number = state.last_snapshot;
        state.snapshots.insert(number, kept);
        Ok(number)
    }

    pub(super) fn kept(&self, snapshot: u64) -> Result<Kept, RpcError> {
        let kept = self.state().snapshots.get(&snapshot).cloned();
        kept.ok_or_else(|| unknown("snapshot", snapshot))
    }

    /// Whether so many bytes of snapshots may be kept as well.
    fn has_room(&self, state: &State, bytes: u64) -> bool {
        let kept: u64 = state.snapshots.values().map(|kept| kept.bytes).sum();
        kept.saturating_add(bytes) <= self.hub.limits.snapshot_bytes_per_client
    }

    /// A snapshot has moved, unless it was dropped meanwhile.
    pub(super) fn keep_at(&self, snapshot: u64, kept: Kept) -> Result<(), RpcError> {
        let before = match self.state().snapshots.get_mut(&snapshot) {
            Some(entry) => Ok(std::mem::replace(entry, kept)),
            None => Err(kept),
        };
        forget(before.as_ref().unwrap_or_else(|unwanted| unwanted));
        before.map(drop).map_err(|_| unknown("snapshot", snapshot))
    }

    async fn write_snapshot(&self, params: &RawValue) -> Answer {
        let answer = match fields::optional(params, "snapshot")? {
            Some(number) => {
                let kept = self.kept(number)?;
                // In base64 they are no fewer.
                let more = u64::try_from(params.get().len()).unwrap_or(u64::MAX);
                if !self.has_room(&self.state(), more) {
                    return Err(self.hub.busy(TOO_MANY_SNAPSHOTS));
                }
                let params = fields::exchanged(params, &[("snapshot", kept.snapshot)])?;
                let written: Snapshotted =
                    read(&asked(&kept.worker, methods::SNAPSHOT_WRITE, &params).await?)?;
                if let Some(kept) = self.state().snapshots.get_mut(&number) {
                    kept.bytes = written.bytes;
                }
                Snapshotted { snapshot: number, ..written }
            }
            None => {
                let worker = self.hub.any_worker().await?;
                let written: Snapshotted =
                    read(&asked(&worker, methods::SNAPSHOT_WRITE, &params).await?)?;
                let Snapshotted { snapshot, bytes } = written;
                let snapshot = self.keep(Kept { worker, snapshot, bytes })?;
                Snapshotted { snapshot, bytes }
            }
        };
        json(&answer)
    }

    /// Room for a call that a worker makes: the number it has here, unless there is none.
    pub(super) fn expect_answer(&self, worker: &Arc<Worker>, theirs: u64) -> Option<u64> {
        let mut state = self.state();
        if state.gone || state.calls.len() >= self.hub.limits.calls_per_client {
            return None;
        }
        state.last_call += 1;
        let number = state.last_call;
        state.calls.insert(number, (Arc::clone(worker), theirs));
        Some(number)
    }

    /// Nobody waits for that answer any more.
    pub(super) fn drop_call(&self, id: u64) {
        let dropped = self.state().calls.remove(&id);
        if dropped.is_some() {
            self.tell(methods::CALL_DROPPED, &DropParams { id });
        }
    }

    pub(super) fn request(&self, id: u64, method: &str, params: &RawValue) {
        self.push(protocol::request(&Id::Number(id), method, &params));
    }

    pub(super) fn tell(&self, method: &str, params: &impl Serialize) {
        self.push(protocol::notification(method, params));
    }

    pub(super) fn answer(&self, id: &Id, answer: Answer) {
        self.push(protocol::response(id, answer.as_ref()));
        self.hub.answered();
    }

    fn complain(&self, error: &RpcError) {
        self.push(protocol::complaint(error));
    }

    fn push(&self, line: serde_json::Result<Vec<u8>>) {
        // What we make ourselves can always be written.
        let Ok(line) = line else { return };
        if self.outbox.push(line) == Err(Unsent::Full) {
            self.hub.counters.dropped.add();
            tracing::warn!("a client does not read what it is told and is disconnected");
        }
    }

    fn charge(&self, bytes: usize) -> Result<Charge, RpcError> {
        let before = self.inbound.fetch_add(bytes, Ordering::Relaxed);
        let held = self.hub.budget.hold();
        let mut charge = Charge { bytes, inbound: Arc::clone(&self.inbound), held };
        if before + bytes > self.hub.limits.inbound_bytes || !charge.held.more(bytes) {
            return Err(self.hub.busy("too many bytes of requests wait"));
        }
        Ok(charge)
    }

    /// Comes back when the client is gone.
    pub(super) async fn gone(&self) {
        // The sender lives as long as `self`.
        let _ = self.gone.subscribe().wait_for(|gone| *gone).await;
    }

    /// Whether nothing that it asked waits for an answer.
    pub(super) fn is_idle(&self) -> bool {
        self.unanswered.load(Ordering::Acquire) == 0
    }

    pub(super) fn is_gone(&self) -> bool {
        *self.gone.borrow()
    }

    /// Stops what runs in all of its sandboxes.
    pub(super) fn cancel_all(&self) {
        for reach in self.state().seats.values() {
            reach.seat.cancel();
        }
    }

    /// Everything it had ends.
    fn leave(&self) {
        let state = {
            let mut state = self.state();
            let left = std::mem::take(&mut *state);
            state.gone = true;
            left
        };
        self.gone.send_replace(true);
        self.outbox.close();
        for (worker, theirs) in state.calls.into_values() {
            worker.answered(theirs, Err(&RpcError::new(FAILED, "the client is gone")));
        }
        state.snapshots.values().for_each(forget);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn asked(worker: &Worker, method: &str, params: &impl Serialize) -> Answer {
    match worker.call(method, params).await {
        Ok(answer) => answer,
        Err(super::worker::Lost) => {
            Err(RpcError::new(FAILED, "the snapshot was lost with the worker that kept it"))
        }
    }
}

pub(super) fn forget(kept: &Kept) {
    let params = methods::SnapshotDropParams { snapshot: kept.snapshot };
    // A worker that is gone keeps nothing.
    drop(kept.worker.send(methods::SNAPSHOT_DROP, &params));
}
