//! The task of one sandbox of a client: it passes on what the client asks for, one thing after the
//! other, to wherever the sandbox lives; and brings it back where it lived is gone.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use belljar_core::protocol::methods::{
    self, CreateParams, Created, SandboxId, SandboxParams, Snapshotted,
};
use belljar_core::protocol::{Id, RpcError};
use belljar_core::{GuestError, Meta, Outcome, RuntimeType, SandboxResult, StateAfter, Stop};
use serde_json::value::RawValue;
use tokio::sync::{Notify, mpsc};
use tokio::time::sleep;

use super::client::{Charge, Client, Kept};
use super::directories::Saved;
use super::errors::{self, request_lost, sandbox_lost};
use super::fields::{self, json, read};
use super::hub::{Guard, Hub, Turn};
use super::images;
use super::limits::seconds;
use super::transfer;
use super::worker::{Answer, Lost, Worker};

/// After this a worker is asked again to stop something: what was about to begin did not hear it.
const CANCEL_AGAIN: Duration = Duration::from_millis(100);

/// How often a worker that was lost meanwhile is exchanged for another.
const PLACES_TRIED: usize = 4;

/// A client's sandbox, as others see it.
pub(super) struct Seat {
    pub(super) number: SandboxId,
    pub(super) client: Arc<Client>,
    /// Requests that were not answered.
    pub(super) outstanding: AtomicUsize,
    cancelled: AtomicBool,
    cancel: Notify,
}

/// A request that is about one sandbox.
pub(super) struct Ask {
    pub(super) id: Id,
    pub(super) method: &'static str,
    pub(super) params: Box<RawValue>,
    pub(super) _charge: Charge,
    /// Counts as unanswered.
    pub(super) _counted: Guard,
}

impl Seat {
    pub(super) fn new(number: SandboxId, client: Arc<Client>) -> Self {
        Self {
            number,
            client,
            outstanding: AtomicUsize::new(0),
            cancelled: AtomicBool::new(false),
            cancel: Notify::new(),
        }
    }

    /// Stops what runs or is about to. Does nothing when nothing does.
    pub(super) fn cancel(&self) {
        if self.outstanding.load(Ordering::Acquire) > 0 {
            self.cancelled.store(true, Ordering::Release);
            self.cancel.notify_one();
        }
    }

    /// Comes back when somebody wants that it stops.
    async fn cancelled(&self) {
        while !self.cancelled.swap(false, Ordering::AcqRel) {
            self.cancel.notified().await;
        }
    }
}

/// Where a sandbox lives. Counts there as long as this lives.
struct Place {
    worker: Arc<Worker>,
    sandbox: SandboxId,
    _load: Guard,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.worker.unseat(self.sandbox);
    }
}

struct Life {
    hub: Arc<Hub>,
    seat: Arc<Seat>,
    /// How it was made, and would be again.
    params: Box<RawValue>,
    session: Option<String>,
    language: RuntimeType,
    /// What its policy allows it.
    memory: u64,
    place: Option<Place>,
    _counted: Guard,
}

/// Has a sandbox made; its task answers.
pub(super) fn create(
    client: &Arc<Client>,
    id: Id,
    params: Box<RawValue>,
    charge: Charge,
) -> Result<(), RpcError> {
    let hub = Arc::clone(&client.hub);
    hub.check_open()?;
    // Without parameters everything is as usual.
    let params = if params.get() == "null" { json(&CreateParams::default())? } else { params };
    let wanted: CreateParams = read(&params)?;
    super::hub::check_create(&wanted, client.origin)?;
    let counted = hub.count_sandbox()?;
    let memory = super::hub::memory_of(&wanted);
    let (seat, inbox) = client.add_seat(memory)?;
    let life = Life {
        hub,
        seat,
        params,
        session: wanted.session,
        language: wanted.language,
        memory,
        place: None,
        _counted: counted,
    };
    tokio::spawn(async move {
        let _charge = charge;
        life.begin(id, inbox).await;
    });
    Ok(())
}

impl Life {
    async fn begin(mut self, id: Id, inbox: mpsc::Receiver<Ask>) {
        let client = Arc::clone(&self.seat.client);
        // Also for a client that is gone: what is made has to be ended.
        match self.settle().await {
            Ok(created) => {
                self.hub.counters.sandboxes.add();
                client.answer(&id, json(&Created { sandbox: self.seat.number, ..created }));
                self.live(inbox).await;
            }
            Err(error) => {
                client.remove_seat(self.seat.number);
                client.answer(&id, Err(error));
            }
        }
    }

    async fn live(mut self, mut inbox: mpsc::Receiver<Ask>) {
        let client = Arc::clone(&self.seat.client);
        let idle = seconds(self.hub.limits.idle_seconds);
        loop {
            let can_sleep = self.session.is_some() && self.place.is_some();
            let ask = tokio::select! {
                biased;
                () = client.gone() => break,
                ask = inbox.recv() => ask,
                () = sleep(idle), if can_sleep => {
                    self.leave_place().await;
                    continue;
                }
            };
            let Some(ask) = ask else { break };
            let last = ask.method == methods::DESTROY;
            // Given back when the answer is on its way: until then the daemon does not end.
            let (answer, _turn) = self.serve(&ask).await;
            if last {
                client.remove_seat(self.seat.number);
            }
            if self.seat.outstanding.fetch_sub(1, Ordering::AcqRel) == 1 {
                // It was meant for what is over.
                self.seat.cancelled.store(false, Ordering::Release);
            }
            client.answer(&ask.id, answer);
            if last {
                break;
            }
        }
        inbox.close();
        while let Ok(ask) = inbox.try_recv() {
            client.answer(&ask.id, Err(super::errors::unknown("sandbox", self.seat.number)));
        }
        self.leave_place().await;
    }

    async fn serve(&mut self, ask: &Ask) -> (Answer, Option<Turn>) {
        if ask.method == methods::DESTROY {
            self.leave_place().await;
            return (json(&()), None);
        }
        // Whoever was told a result may fetch its files, even if the daemon is about to end.
        let fetches = [methods::FILES_READ, methods::FILES_LIST].contains(&ask.method);
        if !fetches && let Err(error) = self.hub.check_open() {
            return (Err(error), None);
        }
        if ![methods::EXECUTE, methods::RESUME].contains(&ask.method) {
            let answer = self.pass_on(ask, None).await.unwrap_or_else(|Lost| {
                self.place = None;
                Err(request_lost())
            });
            return (answer, None);
        }
        let seat = Arc::clone(&self.seat);
        let turn = tokio::select! {
            turn = self.hub.turn(&seat.client) => turn,
            () = seat.cancelled() => return (self.cancelled(), None),
            () = seat.client.gone() => return (self.cancelled(), None),
        };
        match turn {
            Ok(turn) => (self.run(ask, &turn).await, Some(turn)),
            Err(error) => (Err(error), None),
        }
    }

    async fn run(&mut self, ask: &Ask, turn: &Turn) -> Answer {
        let saved = self.session.as_deref().and_then(|session| self.hub.saved(session));
        let passed = self.pass_on(ask, Some(turn)).await;
        self.hub.counters.executions.add();
        match passed {
            Ok(answer) => answer,
            Err(Lost) => {
                self.place = None;
                self.hub.counters.crashed.add();
                let state = match self.session.clone() {
                    Some(session) => self.state_after_loss(&session, saved).await,
                    None => Some(StateAfter::Lost),
                };
                self.crashed(state)
            }
        }
    }

    /// What became of a session whose worker was lost while it ran something: it may have been saved
    /// just before. Nobody knows until it is there again.
    async fn state_after_loss(
        &mut self,
        session: &str,
        before: Option<Saved>,
    ) -> Option<StateAfter> {
        if self.hub.is_stopping() {
            return None;
        }
        // From then on nobody else writes there: the worker that did has ended.
        self.find_place().await.ok()?;
        let same = self.hub.saved(session) == before;
        Some(if same { StateAfter::RolledBack } else { StateAfter::Kept })
    }

    async fn pass_on(&mut self, ask: &Ask, turn: Option<&Turn>) -> Result<Answer, Lost> {
        if let Err(error) = self.find_place().await {
            return Ok(Err(error));
        }
        let Some(place) = &self.place else { return Ok(Err(sandbox_lost())) };
        let mut numbers = vec![("sandbox", place.sandbox)];
        if ask.method == methods::RESTORE {
            let moved = async {
                let snapshot = fields::number(&ask.params, "snapshot")?;
                transfer::bring(&self.seat.client, snapshot, &place.worker).await
            };
            match moved.await {
                Ok(snapshot) => numbers.push(("snapshot", snapshot)),
                Err(error) => return Ok(Err(error)),
            }
        }
        let params = match fields::exchanged(&ask.params, &numbers) {
            Ok(params) => params,
            Err(error) => return Ok(Err(error)),
        };
        let _running = turn.map(|_| Guard::count(&place.worker, |worker| &worker.running));
        let mut answer = self.converse(place, ask.method, &params).await?;
        if matches!(&answer, Err(error) if images::is_missing(error)) {
            if let Err(error) = self.hub.images.prepare().await {
                return Ok(Err(error));
            }
            answer = self.converse(place, ask.method, &params).await?;
        }
        if matches!(&answer, Err(error) if is_internal(error)) {
            // Over there it has ended.
            self.place = None;
            return Ok(answer);
        }
        Ok(match (ask.method, answer) {
            (methods::FORK, Ok(answer)) => self.adopt(&answer),
            (methods::SNAPSHOT, Ok(answer)) => self.adopt_snapshot(&answer),
            (_, answer) => answer,
        })
    }

    /// Waits for an answer, and for anybody who does not want to wait any longer.
    async fn converse(
        &self,
        place: &Place,
        method: &str,
        params: &RawValue,
    ) -> Result<Answer, Lost> {
        let mut answer = place.worker.send(method, &params)?;
        let (mut stopping, mut gone) = (false, false);
        loop {
            tokio::select! {
                biased;
                answer = &mut answer => return answer.map_err(|_| Lost),
                () = self.seat.cancelled() => stopping = true,
                () = self.seat.client.gone(), if !gone => (stopping, gone) = (true, true),
                () = sleep(CANCEL_AGAIN), if stopping => {}
            }
            place.worker.cancel(place.sandbox);
        }
    }

    /// Sees to it that the sandbox lives somewhere.
    async fn find_place(&mut self) -> Result<(), RpcError> {
        if self.place.as_ref().is_some_and(|place| !place.worker.is_lost()) {
            return Ok(());
        }
        self.place = None;
        if self.session.is_none() {
            return Err(sandbox_lost());
        }
        self.settle().await?;
        self.hub.counters.revived.add();
        Ok(())
    }

    async fn settle(&mut self) -> Result<Created, RpcError> {
        let mut making = match &self.session {
            Some(session) => Some(self.hub.making(session).await?),
            None => None,
        };
        let mut prepared = false;
        for _ in 0..PLACES_TRIED {
            let worker = match &making {
                Some(making) => self.hub.worker_of(making).await?,
                None => self.hub.any_worker().await?,
            };
            let load = Guard::count(&worker, |worker| &worker.load);
            let answer = match worker.call(methods::CREATE, &self.params).await {
                Err(Lost) => continue,
                Ok(Err(error)) if images::is_missing(&error) && !prepared => {
                    self.hub.images.prepare().await?;
                    prepared = true;
                    continue;
                }
                Ok(answer) => answer?,
            };
            let created: Created = read(&answer)?;
            if let Some(making) = &mut making {
                making.made = true;
            }
            worker.seat(created.sandbox, Arc::clone(&self.seat));
            self.place = Some(Place { worker, sandbox: created.sandbox, _load: load });
            return Ok(created);
        }
        Err(self.hub.busy("workers end before they have made the sandbox"))
    }

    /// Ends the sandbox where it lives. A session's state is on disk.
    async fn leave_place(&mut self) {
        if let Some(place) = self.place.take() {
            // A worker that is lost has ended it.
            let params = SandboxParams { sandbox: place.sandbox };
            let _ = place.worker.call(methods::DESTROY, &params).await;
        }
    }

    /// A fork lives where its parent does, and has a task of its own.
    fn adopt(&self, answer: &RawValue) -> Answer {
        let created: Created = read(answer)?;
        let Some(place) = &self.place else { return Err(sandbox_lost()) };
        let worker = Arc::clone(&place.worker);
        let made = self.hub.count_sandbox().and_then(|counted| {
            let (seat, inbox) = self.seat.client.add_seat(self.memory)?;
            Ok((counted, seat, inbox))
        });
        let (counted, seat, inbox) = made.inspect_err(|_| {
            drop(worker.send(methods::DESTROY, &SandboxParams { sandbox: created.sandbox }));
        })?;
        self.hub.counters.sandboxes.add();
        worker.seat(created.sandbox, Arc::clone(&seat));
        let answer = json(&Created { sandbox: seat.number, ..created.clone() });
        let load = Guard::count(&worker, |worker| &worker.load);
        let life = Self {
            hub: Arc::clone(&self.hub),
            seat,
            params: self.params.clone(),
            session: None,
            language: self.language,
            memory: self.memory,
            place: Some(Place { worker, sandbox: created.sandbox, _load: load }),
            _counted: counted,
        };
        tokio::spawn(life.live(inbox));
        answer
    }

    fn adopt_snapshot(&self, answer: &RawValue) -> Answer {
        let kept: Snapshotted = read(answer)?;
        let Some(place) = &self.place else { return Err(sandbox_lost()) };
        let worker = Arc::clone(&place.worker);
        let Snapshotted { snapshot, bytes } = kept;
        let snapshot = self.seat.client.keep(Kept { worker, snapshot, bytes })?;
        json(&Snapshotted { snapshot, ..kept })
    }

    /// The result of an execution that was not begun.
    fn cancelled(&self) -> Answer {
        let message = "it was cancelled before its turn came; nothing was run";
        self.stopped(Stop::Cancelled, Some(StateAfter::Kept), "Cancelled", message)
    }

    /// The result of an execution whose end nobody saw.
    fn crashed(&self, state: Option<StateAfter>) -> Answer {
        let message = match state {
            Some(StateAfter::Lost) => "the worker that ran it is gone, and the sandbox with it",
            Some(StateAfter::RolledBack) => {
                "the worker that ran it is gone; the session goes on from where it was before"
            }
            Some(StateAfter::Kept) => {
                "the worker that ran it is gone, and its result with it; the session was saved \
                 after it and goes on from there"
            }
            None => {
                "the worker that ran it is gone; the session goes on from where it was saved last, \
                 before or after this"
            }
        };
        self.stopped(Stop::Crashed, state, "WorkerLost", message)
    }

    fn stopped(&self, stop: Stop, state: Option<StateAfter>, name: &str, message: &str) -> Answer {
        let meta = Meta {
            runtime: "wasm".to_owned(),
            language: self.language,
            session_id: self.session.clone(),
            execution_id: self.hub.execution_id(),
            state,
            ..Meta::default()
        };
        let error = GuestError {
            name: name.to_owned(),
            message: message.to_owned(),
            traceback: String::new(),
        };
        json(&SandboxResult::new(Outcome::Stopped(stop, Some(error)), meta))
    }
}

/// After a mistake of ours a worker ends the sandbox.
fn is_internal(error: &RpcError) -> bool {
    errors::kind(error) == Some("internal")
}
