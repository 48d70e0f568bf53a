//! One request to a daemon and everything that happens until its answer comes: output is told,
//! tools are run, a cancel is passed on. All of it on the calling thread, but the tools.

use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

use belljar_core::json;
use belljar_core::limits::MAX_TOOL_MESSAGE_BYTES;
use belljar_core::protocol::methods::{
    CANCEL, HELLO, INPUT, InputParams, SandboxId, SandboxParams, TOOL_CALL, ToolParams,
};
use belljar_core::protocol::{self, FAILED, INVALID_PARAMS, Id, METHOD_NOT_FOUND, RpcError};
use belljar_core::{
    ResolvedPolicy, TRUNCATION_MARKER, ToolCall, ToolFailure, ToolLimits, ToolOutcome,
};
use belljar_host::{CancelHandle, Desk, LineSink, Size, StopCause, Wait, Watch};
use serde::Serialize;
use serde_json::value::RawValue;

use super::connection::Connection;
use super::mailbox::{Event, Mailbox, Next};
use crate::wasm::Links;

/// How often a cancel is repeated until the execution has ended: one that comes before the code has
/// begun does nothing.
const CANCEL_AGAIN: Duration = Duration::from_millis(50);

/// How long a daemon that did not answer in time may take to say that it is there.
const STILL_THERE: Duration = Duration::from_secs(5);

/// Bytes of a call's message beside what the guest sent, so that what the daemon counts as allowed
/// is never refused here.
const CALL_ENVELOPE_BYTES: u64 = 1024;

/// Why a request has no result.
#[derive(Debug)]
pub(super) enum Failure {
    /// It did not get to the daemon, or not whole: it was not served.
    Unsent(String),
    /// It may have been served, and nobody will tell.
    Lost(String),
    /// It may have been served, and too late. The daemon lives.
    Unanswered(String),
    /// The daemon says no.
    Refused(RpcError),
}

/// Nothing has come in time.
struct Silence;

/// Asks for something that runs no code.
pub(super) fn ask(
    connection: &Connection,
    method: &str,
    params: &impl Serialize,
    patience: Duration,
) -> Result<Box<RawValue>, Failure> {
    let call = Call { connection, sandbox: None, patience, cancel: &CancelHandle::default() };
    call.run(method, params, None)
}

/// What a daemon asks and tells while it runs code.
pub(super) struct Listener {
    desk: Desk,
    streams: [Printing; 2],
}

struct Printing {
    sink: Option<LineSink>,
    cap: usize,
    /// What may still be told: a listener gets no more than is kept.
    left: usize,
}

impl Listener {
    pub(super) fn new(links: &Links, policy: &ResolvedPolicy) -> Self {
        let ToolLimits { calls, bytes } = policy.tool_limits();
        let bytes = bytes.saturating_add(calls.saturating_mul(CALL_ENVELOPE_BYTES));
        let printing = |sink: &Option<LineSink>, cap: usize| {
            let cap = cap.saturating_add(TRUNCATION_MARKER.len());
            // Bytes that are no text were counted as one and come as three.
            Printing { sink: sink.clone(), cap: cap.saturating_mul(3), left: 0 }
        };
        Self {
            desk: Desk::new(links.call_host(policy, false), ToolLimits { calls, bytes }),
            streams: [
                printing(&links.on_stdout, policy.stdout_max_bytes()),
                printing(&links.on_stderr, policy.stderr_max_bytes()),
            ],
        }
    }

    fn begin(&mut self) {
        self.desk.begin_execution();
        for stream in &mut self.streams {
            stream.left = stream.cap;
        }
    }

    fn printed(&mut self, stderr: bool, text: &str) {
        let [stdout, error] = &mut self.streams;
        let stream = if stderr { error } else { stdout };
        if let Some(sink) = &stream.sink
            && text.len() <= stream.left
        {
            stream.left -= text.len();
            sink(text);
        }
    }

    /// Begins to serve a question; the error to answer with when it cannot be.
    fn asked(&mut self, id: &Id, method: &str, params: &RawValue) -> Result<(), RpcError> {
        let Id::Number(number) = *id else {
            return Err(RpcError::new(INVALID_PARAMS, "an id is a number here"));
        };
        let bytes = params.get().len();
        let weight = json::weight(params.get().as_bytes());
        let Some(weight) = weight.filter(|_| bytes <= MAX_TOOL_MESSAGE_BYTES) else {
            return Err(failed(&ToolFailure::limit("it is too large or nested too deeply")));
        };
        let nonsense = |error: serde_json::Error| RpcError::new(INVALID_PARAMS, error.to_string());
        match method {
            TOOL_CALL => {
                let ToolParams { name, args, kwargs, .. } =
                    serde_json::from_str(params.get()).map_err(nonsense)?;
                let call = ToolCall { id: number, name, args, kwargs };
                let begun = self.desk.start(call, Size { bytes, weight }, false);
                begun.map(drop).map_err(|failure| failed(&failure))
            }
            INPUT => {
                let InputParams { prompt, .. } =
                    serde_json::from_str(params.get()).map_err(nonsense)?;
                self.desk.start_input_as(number, prompt).map_err(|failure| failed(&failure))
            }
            _ => Err(RpcError::new(METHOD_NOT_FOUND, "the client has no such method")),
        }
    }

    /// What tools have answered since; `waker` is woken when the next one does.
    fn answers(&mut self, waker: &Waker) -> Vec<(u64, ToolOutcome)> {
        // Only an inbox that was found empty remembers the waker.
        while let Some(arrived) = self.desk.inbox().poll(waker) {
            self.desk.sort(arrived, None);
        }
        self.desk.take_ended()
    }
}

/// A request, and what it may take.
pub(super) struct Call<'a> {
    pub(super) connection: &'a Connection,
    /// Set when code runs: whose output and questions are served meanwhile.
    pub(super) sandbox: Option<SandboxId>,
    /// After this time nobody believes in an answer any more.
    pub(super) patience: Duration,
    pub(super) cancel: &'a CancelHandle,
}

impl Call<'_> {
    /// Sends it and waits for what comes of it.
    pub(super) fn run(
        &self,
        method: &str,
        params: &impl Serialize,
        mut listener: Option<&mut Listener>,
    ) -> Result<Box<RawValue>, Failure> {
        let mailbox = Arc::new(Mailbox::default());
        let waker = mailbox.waker();
        let control = self.cancel.control();
        let mut watch = Watch::woken_by(&control, self.patience, waker.clone());
        if let Some(listener) = &mut listener {
            listener.begin();
        }
        let awaited = self.connection.begin(self.sandbox, method, params, &mailbox)?;
        let outcome = self.converse(&mailbox, &waker, &mut watch, listener.as_deref_mut());
        drop(awaited);
        let outcome = outcome.unwrap_or_else(|Silence| Err(self.silent(method)));
        if let Some(listener) = listener {
            listener.desk.end_execution();
        }
        outcome
    }

    fn converse(
        &self,
        mailbox: &Mailbox,
        waker: &Waker,
        watch: &mut Watch<'_>,
        mut listener: Option<&mut Listener>,
    ) -> Result<Result<Box<RawValue>, Failure>, Silence> {
        let end = Instant::now() + self.patience;
        // When the next cancel is due, once there was one.
        let mut cancel: Option<Instant> = None;
        loop {
            let now = Instant::now();
            let until = match cancel {
                _ if now >= end => return Err(Silence),
                Some(due) if now < due => due,
                Some(_) => {
                    self.pass_on_cancel();
                    cancel = Some(now + CANCEL_AGAIN);
                    continue;
                }
                None => match watch.look(now) {
                    Wait::Until(until) => until.min(end),
                    Wait::Interrupt if watch.stop() == Some(StopCause::Cancelled) => {
                        cancel = Some(now);
                        continue;
                    }
                    Wait::Interrupt | Wait::Over => return Err(Silence),
                },
            };
            if let Some(listener) = &mut listener {
                for (id, outcome) in listener.answers(waker) {
                    let answer = outcome.map_err(|failure| failed(&failure));
                    self.answer(&Id::Number(id), answer.as_ref());
                }
            }
            match (self.connection.next(mailbox, until), &mut listener) {
                (Next::Event(Event::Answer(outcome)), _) => {
                    return Ok(outcome.map_err(Failure::Refused));
                }
                (Next::Event(Event::Asked { id, method, params }), Some(listener)) => {
                    if let Err(error) = listener.asked(&id, &method, &params) {
                        self.answer::<()>(&id, Err(&error));
                    }
                }
                (Next::Event(Event::Asked { id, .. }), None) => {
                    let why = "tools cannot be called while a value is only looked at";
                    self.answer::<()>(&id, Err(&failed(&ToolFailure::new(why))));
                }
                (Next::Event(Event::Dropped { id }), Some(listener)) => listener.desk.drop_call(id),
                (Next::Event(Event::Printed { stderr, text }), Some(listener)) => {
                    listener.printed(stderr, &text);
                }
                (Next::Event(Event::Dropped { .. } | Event::Printed { .. }), None) => {}
                (Next::Nothing, _) => {}
                (Next::Lost(why), _) => return Ok(Err(Failure::Lost(why))),
            }
        }
    }

    fn pass_on_cancel(&self) {
        if let Some(sandbox) = self.sandbox {
            self.connection.tell(CANCEL, &SandboxParams { sandbox });
        }
    }

    fn answer<T: Serialize>(&self, id: &Id, outcome: Result<&T, &RpcError>) {
        // What is JSON already can be written.
        let line = protocol::response(id, outcome).unwrap_or_default();
        // A connection that takes nothing any more is lost, and the mailbox says so.
        let _ = self.connection.send(&line);
    }

    /// Whoever does not answer for so long may be busy, or not there: then it does not say who it
    /// is, either. Others use the connection, and lose it only then.
    fn silent(&self, method: &str) -> Failure {
        let why = format!("no answer has come within {} s", self.patience.as_secs_f64());
        self.pass_on_cancel();
        if method != HELLO && ask(self.connection, HELLO, &(), STILL_THERE).is_ok() {
            return Failure::Unanswered(why);
        }
        self.connection.lose(&why);
        Failure::Lost(why)
    }
}

fn failed(failure: &ToolFailure) -> RpcError {
    let mut error = RpcError::new(FAILED, failure.message.clone());
    error.data = Some(serde_json::json!({ "name": failure.name }));
    error
}
