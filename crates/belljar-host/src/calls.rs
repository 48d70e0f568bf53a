//! Calls from a guest to its host: tools and `input`.
//!
//! A guest may wait inside its call, or begin calls and wait for all of them outside of any guest
//! code. In the second case the whole guest is at rest, and can be saved while it waits.
//!
//! Guest data: every number, name and length here may be a lie.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use belljar_core::json;
use belljar_core::limits::{
    MAX_BEGUN_CALLS, MAX_ERROR_MESSAGE_BYTES, MAX_KEPT_CALL_BYTES, MAX_TOOL_MESSAGE_BYTES,
    MAX_WAITING_BYTES,
};
use belljar_core::{ToolCall, ToolFailure, ToolLimits, ToolOutcome, ToolUsage};
use serde::{Deserialize, Serialize};

/// What the host does for a guest.
pub trait CallHost: Send + Sync {
    /// Starts to serve a wish, on a thread of its own; the outcome goes to `reply`.
    fn begin(&self, wish: Wish, reply: Reply);

    /// Whether there is such a tool, and when it answers.
    fn offer(&self, tool: &str) -> Offer;
}

/// What a guest asks for.
#[derive(Clone, Debug)]
pub enum Wish {
    /// To have a tool run.
    Tool(ToolCall),
    /// A line from whoever is there.
    Input {
        /// What to show them.
        prompt: String,
    },
}

/// Whether a tool is offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offer {
    /// There is none of that name.
    None,
    /// It runs here and now.
    Now,
    /// Its answer comes later, perhaps when this process has ended.
    Later,
}

/// Where the outcome of a wish goes. Dropping it counts as a failure.
pub struct Reply {
    ticket: u64,
    inbox: Arc<Inbox>,
    unwanted: Arc<AtomicBool>,
    sent: bool,
}

impl Reply {
    /// Hands over the outcome.
    pub fn send(mut self, outcome: ToolOutcome) {
        self.sent = true;
        self.inbox.put(self.ticket, outcome);
    }

    /// Turns true when nobody waits for the outcome any more.
    #[must_use]
    pub fn unwanted(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.unwanted)
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        if !self.sent {
            self.inbox.put(self.ticket, Err(ToolFailure::new("the tool broke off")));
        }
    }
}

/// Outcomes on their way to the guest.
#[derive(Default)]
pub struct Inbox(Mutex<InboxState>);

#[derive(Default)]
struct InboxState {
    arrived: VecDeque<(u64, ToolOutcome)>,
    /// What they take, roughly.
    bytes: usize,
    waiting: Option<Waker>,
}

impl InboxState {
    fn take(&mut self) -> VecDeque<(u64, ToolOutcome)> {
        self.bytes = 0;
        std::mem::take(&mut self.arrived)
    }
}

impl Inbox {
    /// Nothing panics while holding the lock; if it did, the value would still be whole.
    fn lock(&self) -> MutexGuard<'_, InboxState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, ticket: u64, outcome: ToolOutcome) {
        let weigh = |value: &serde_json::Value| json::weight(&serde_json::to_vec(value).ok()?);
        let (outcome, bytes) = match outcome.as_ref().map_or(Some(0), weigh) {
            Some(bytes) => (outcome, bytes),
            None => (Err(ToolFailure::limit("the tool's result nests too deeply")), 0),
        };
        let waker = {
            let mut state = self.lock();
            // A guest need not fetch what it has asked for.
            let fits = state.bytes.checked_add(bytes).filter(|all| *all <= MAX_WAITING_BYTES);
            let outcome = match fits {
                Some(all) => {
                    state.bytes = all;
                    outcome
                }
                None => Err(ToolFailure::limit("results that wait are too large together")),
            };
            state.arrived.push_back((ticket, outcome));
            state.waiting.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// What has arrived; `None`, with the waker remembered, when nothing has.
    pub fn poll(&self, waker: &Waker) -> Option<VecDeque<(u64, ToolOutcome)>> {
        let mut state = self.lock();
        if state.arrived.is_empty() {
            state.waiting = Some(waker.clone());
            return None;
        }
        Some(state.take())
    }

    fn take(&self) -> VecDeque<(u64, ToolOutcome)> {
        self.lock().take()
    }
}

/// What a guest says.
#[derive(Deserialize)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
pub enum Message {
    /// Run a tool; the guest waits.
    Call {
        /// Which.
        name: String,
        /// Arguments by position.
        #[serde(default)]
        args: Vec<serde_json::Value>,
        /// Arguments by name.
        #[serde(default)]
        kwargs: serde_json::Map<String, serde_json::Value>,
    },
    /// Start a tool; the guest goes on.
    Begin(ToolCall),
    /// Wait until something that was begun has ended.
    Wait {
        /// At most so long.
        seconds: Option<f64>,
    },
    /// Forget a call that was begun.
    Drop {
        /// Which.
        id: u64,
    },
    /// Ask whoever is there for a line.
    Input {
        /// What to show them.
        prompt: String,
    },
}

impl Message {
    /// With what it takes in memory.
    pub fn parse(bytes: &[u8]) -> Result<(Message, usize), Unreadable> {
        let weight = json::weight(bytes).filter(|weight| *weight <= MAX_KEPT_CALL_BYTES);
        let weight = weight.ok_or(Unreadable::TooLarge)?;
        let message = serde_json::from_slice(bytes).map_err(|_| Unreadable::Nonsense)?;
        Ok((message, weight))
    }
}

/// Why a message is not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// It makes no sense.
    Nonsense,
    /// Unpacked it would take too much memory.
    TooLarge,
}

/// An answer as the guest reads it.
#[derive(Serialize)]
pub struct GuestAnswer<'a> {
    /// The guest's number for the call.
    pub id: u64,
    /// What came of it.
    #[serde(flatten)]
    pub outcome: GuestOutcome<'a>,
}

/// The outcome of a call as the guest reads it.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
pub enum GuestOutcome<'a> {
    /// What the tool gave.
    Value(&'a serde_json::Value),
    /// Why it gave nothing.
    Error(&'a ToolFailure),
}

impl<'a> From<&'a ToolOutcome> for GuestOutcome<'a> {
    fn from(outcome: &'a ToolOutcome) -> GuestOutcome<'a> {
        match outcome {
            Ok(value) => GuestOutcome::Value(value),
            Err(failure) => GuestOutcome::Error(failure),
        }
    }
}

/// How large a message is: as text, and at most in memory.
#[derive(Clone, Copy)]
pub struct Size {
    /// As text.
    pub bytes: usize,
    /// At most in memory.
    pub weight: usize,
}

/// Answers on their way to the guest: number and outcome.
pub type Answers = Vec<(u64, ToolOutcome)>;

/// The calls of one guest.
pub struct Desk {
    host: Option<Arc<dyn CallHost>>,
    limits: ToolLimits,
    usage: ToolUsage,
    inbox: Arc<Inbox>,
    next_ticket: u64,
    running: BTreeMap<u64, Running>,
    deferred: BTreeMap<u64, Deferred>,
    /// Ended, and not yet told to the guest.
    ended: Answers,
    /// What `host_take` will fetch.
    reply: Vec<u8>,
    /// While nobody would count them, calls are refused.
    closed: bool,
}

struct Running {
    /// The guest's number for it; `None` when the guest waits inside the call.
    id: Option<u64>,
    unwanted: Arc<AtomicBool>,
    weight: usize,
}

/// Whatever becomes of a call, the tool learns that nobody waits any more.
impl Drop for Running {
    fn drop(&mut self) {
        self.unwanted.store(true, Ordering::Relaxed);
    }
}

/// A call whose answer comes later, and what it takes in memory.
struct Deferred {
    call: ToolCall,
    weight: usize,
}

/// The calls of a session at rest, saved with it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SavedCalls {
    /// Begun, and to be answered later.
    pub deferred: Vec<ToolCall>,
    /// Numbers of calls that ended without the guest having been told.
    ended: Vec<u64>,
    /// What the execution that waits has used so far.
    usage: ToolUsage,
}

impl Desk {
    /// Without a host every call is refused.
    pub fn new(host: Option<Arc<dyn CallHost>>, limits: ToolLimits) -> Desk {
        Desk {
            host,
            limits,
            usage: ToolUsage::default(),
            inbox: Arc::default(),
            next_ticket: 1,
            running: BTreeMap::new(),
            deferred: BTreeMap::new(),
            ended: Vec::new(),
            reply: Vec::new(),
            closed: false,
        }
    }

    /// Refuses calls, or does not: outside an execution there is no result to count them in.
    pub fn set_closed(&mut self, closed: bool) {
        self.closed = closed;
    }

    /// Whether calls are refused now.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// For guests that have nobody to call.
    pub fn closed() -> Desk {
        Desk::new(None, ToolLimits { calls: 0, bytes: 0 })
    }

    /// What this execution has used.
    pub fn usage(&self) -> ToolUsage {
        self.usage
    }

    /// Where outcomes arrive.
    pub fn inbox(&self) -> Arc<Inbox> {
        Arc::clone(&self.inbox)
    }

    /// Calls whose answers come later.
    pub fn deferred(&self) -> impl Iterator<Item = &ToolCall> {
        self.deferred.values().map(|deferred| &deferred.call)
    }

    /// Whether a call is under way here and now.
    pub fn has_running(&self) -> bool {
        !self.running.is_empty()
    }

    /// Counts from nothing.
    pub fn begin_execution(&mut self) {
        self.usage = ToolUsage::default();
    }

    /// Nothing outlives the execution that asked for it.
    pub fn end_execution(&mut self) {
        let over = || Err(ToolFailure::new("the execution that asked for it has ended"));
        for (_, running) in std::mem::take(&mut self.running) {
            self.ended.extend(running.id.map(|id| (id, over())));
        }
        self.ended.extend(std::mem::take(&mut self.deferred).into_keys().map(|id| (id, over())));
        // The guest may never ask; then the oldest are forgotten.
        let surplus = self.ended.len().saturating_sub(MAX_BEGUN_CALLS);
        self.ended.drain(..surplus);
        // Whatever arrives from now on has a ticket that nobody knows.
        self.inbox = Arc::default();
    }

    /// The calls of a guest at rest.
    pub fn save(&self) -> SavedCalls {
        SavedCalls {
            deferred: self.deferred().cloned().collect(),
            ended: self.ended.iter().map(|(id, _)| *id).collect(),
            usage: self.usage,
        }
    }

    /// Makes the calls those of a guest that was saved.
    pub fn restore(&mut self, saved: &SavedCalls) {
        self.running.clear();
        self.inbox = Arc::default();
        let deferred = saved.deferred.iter().take(MAX_BEGUN_CALLS);
        // Their weight was bounded when they were begun, or when the file was read.
        self.deferred =
            deferred.map(|call| (call.id, Deferred { call: call.clone(), weight: 0 })).collect();
        let lost = || Err(ToolFailure::new("the execution that asked for it has ended"));
        self.ended = saved.ended.iter().take(MAX_BEGUN_CALLS).map(|id| (*id, lost())).collect();
        self.usage = saved.usage;
    }

    /// The answer to a call that was deferred. `false` when there is no such call.
    pub fn answer(&mut self, id: u64, outcome: ToolOutcome) -> bool {
        let known = self.deferred.remove(&id).is_some();
        if known {
            let outcome = self.weigh_outcome(outcome);
            self.ended.push((id, outcome));
        }
        known
    }

    /// Starts a tool; gives the ticket under which its outcome will arrive, or none when it comes
    /// later.
    pub fn start(
        &mut self,
        call: ToolCall,
        size: Size,
        waits: bool,
    ) -> Result<Option<u64>, ToolFailure> {
        self.charge(size.bytes)?;
        let kept = self.running.values().map(|running| running.weight);
        let kept: usize = kept.chain(self.deferred.values().map(|call| call.weight)).sum();
        if kept + size.weight > MAX_KEPT_CALL_BYTES {
            return Err(ToolFailure::limit("the calls that are under way are too large together"));
        }
        let offer = self.host.as_ref().map_or(Offer::None, |host| host.offer(&call.name));
        let id = (!waits).then_some(call.id);
        match offer {
            Offer::None => {
                Err(ToolFailure::new(format!("there is no tool {:?} here", shown(&call.name))))
            }
            Offer::Later if waits => Err(ToolFailure::new(format!(
                "{} is answered later, so its call has to be awaited",
                shown(&call.name)
            ))),
            Offer::Later => {
                self.deferred.insert(call.id, Deferred { call, weight: size.weight });
                Ok(None)
            }
            Offer::Now => Ok(Some(self.launch(Wish::Tool(call), id, size.weight)?)),
        }
    }

    /// Asks for a line, for a guest that waits inside its call.
    pub fn start_input(&mut self, prompt: String) -> Result<u64, ToolFailure> {
        let weight = prompt.len();
        self.charge(weight)?;
        self.launch(Wish::Input { prompt }, None, weight)
    }

    /// Asks for a line, to be told to the guest as the answer to a call with this number.
    pub fn start_input_as(&mut self, id: u64, prompt: String) -> Result<(), ToolFailure> {
        let weight = prompt.len();
        self.charge(weight)?;
        self.launch(Wish::Input { prompt }, Some(id), weight).map(drop)
    }

    fn launch(&mut self, wish: Wish, id: Option<u64>, weight: usize) -> Result<u64, ToolFailure> {
        let Some(host) = &self.host else {
            return Err(ToolFailure::no_input());
        };
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        let unwanted = Arc::new(AtomicBool::new(false));
        let running = Running { id, unwanted: Arc::clone(&unwanted), weight };
        self.running.insert(ticket, running);
        host.begin(wish, Reply { ticket, inbox: self.inbox(), unwanted, sent: false });
        Ok(ticket)
    }

    fn charge(&mut self, bytes: usize) -> Result<(), ToolFailure> {
        self.refuse_if_closed()?;
        if self.usage.calls >= self.limits.calls {
            return Err(ToolFailure::limit(format!(
                "at most {} calls are allowed; raise max_tool_calls to allow more",
                self.limits.calls
            )));
        }
        if self.running.len() + self.deferred.len() >= MAX_BEGUN_CALLS {
            return Err(ToolFailure::limit(format!(
                "at most {MAX_BEGUN_CALLS} calls may be waiting at the same time"
            )));
        }
        self.usage.calls += 1;
        self.charge_bytes(bytes)
    }

    fn refuse_if_closed(&self) -> Result<(), ToolFailure> {
        let why = "tools cannot be called while a value is only looked at";
        if self.closed { Err(ToolFailure::new(why)) } else { Ok(()) }
    }

    fn charge_bytes(&mut self, bytes: usize) -> Result<(), ToolFailure> {
        let total = self.usage.bytes.saturating_add(bytes as u64);
        if total > self.limits.bytes {
            return Err(ToolFailure::limit(format!(
                "arguments and results may have {} bytes together; raise max_tool_bytes to allow \
                 more",
                self.limits.bytes
            )));
        }
        self.usage.bytes = total;
        Ok(())
    }

    /// An outcome that is too large is a failure.
    fn weigh_outcome(&mut self, outcome: ToolOutcome) -> ToolOutcome {
        let value = match outcome {
            Ok(value) => value,
            Err(mut failure) => {
                let cut = failure.message.floor_char_boundary(MAX_ERROR_MESSAGE_BYTES);
                failure.message.truncate(cut);
                self.charge_bytes(cut)?;
                return Err(failure);
            }
        };
        let bytes = serde_json::to_vec(&value).map_or(usize::MAX, |json| json.len());
        if bytes > MAX_TOOL_MESSAGE_BYTES {
            return Err(ToolFailure::limit("the tool's result is too large to be passed on"));
        }
        self.charge_bytes(bytes)?;
        Ok(value)
    }

    /// Sorts what has arrived; gives back the outcome of `awaited`, if it is among it.
    pub fn sort(
        &mut self,
        arrived: VecDeque<(u64, ToolOutcome)>,
        awaited: Option<u64>,
    ) -> Option<ToolOutcome> {
        let mut found = None;
        for (ticket, outcome) in arrived {
            // The guest may have dropped it.
            let Some(running) = self.running.remove(&ticket) else { continue };
            let outcome = self.weigh_outcome(outcome);
            if awaited == Some(ticket) {
                found = Some(outcome);
            } else if let Some(id) = running.id {
                self.ended.push((id, outcome));
            }
        }
        found
    }

    /// What the guest has not been told yet.
    pub fn take_ended(&mut self) -> Answers {
        let arrived = self.inbox.take();
        self.sort(arrived, None);
        std::mem::take(&mut self.ended)
    }

    /// A guest that waits inside a call cannot be suspended: what is answered later will not be
    /// answered at all.
    pub fn fail_deferred(&mut self) {
        for (id, Deferred { call, .. }) in std::mem::take(&mut self.deferred) {
            let why = format!(
                "{} is answered later, so a cell has to await it itself, not in a loop of its own",
                shown(&call.name)
            );
            self.ended.push((id, Err(ToolFailure::new(why))));
        }
    }

    /// The guest does not wait inside this call any more.
    pub fn abandon(&mut self, ticket: u64) {
        self.running.remove(&ticket);
    }

    /// The guest has no use for the answer.
    pub fn drop_call(&mut self, id: u64) {
        self.deferred.remove(&id);
        self.ended.retain(|(ended, _)| *ended != id);
        let ticket = self.running.iter().find(|(_, running)| running.id == Some(id));
        if let Some(ticket) = ticket.map(|(ticket, _)| *ticket) {
            self.abandon(ticket);
        }
    }

    /// Keeps a reply for the guest to fetch; gives its size.
    pub fn put_reply(&mut self, reply: &impl Serialize) -> i32 {
        self.reply = serde_json::to_vec(reply).unwrap_or_default();
        match i32::try_from(self.reply.len()) {
            Ok(size) if size > 0 => size,
            _ => -1,
        }
    }

    /// The reply that was kept.
    pub fn take_reply(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.reply)
    }
}

/// A name as a guest gave it, short enough to be repeated.
fn shown(name: &str) -> &str {
    &name[..name.floor_char_boundary(64)]
}

#[cfg(test)]
#[path = "calls_tests.rs"]
mod tests;
