//! A conversation with the driver in a process: one request at a time, and meanwhile whatever the
//! guest prints, asks and breaks. All of it on the calling thread, which never waits for one thing
//! only.

use std::sync::Arc;
use std::time::{Duration, Instant};

use belljar_core::json;
use belljar_core::limits::MAX_TOOL_MESSAGE_BYTES;
use belljar_core::protocol::{
    self, FAILED, INVALID_PARAMS, Id, METHOD_NOT_FOUND, Message, RpcError,
};
use belljar_core::{CappedBytes, ToolCall, ToolFailure, ToolOutcome};
use belljar_host::{Desk, LineSink, Output, Size, StopCause, Wait, Watch};
use rustix::event::{PollFd, PollFlags, Timespec};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::changes::Quota;
use super::launch::{Ended, Launched, Process};
use super::pipes::{Bell, Broken, Got, Lines, Stream};
use super::wire::Wire;

/// How long a process whose channel is closed may take to end by itself. Only one that closed it and
/// lives on costs this; for all others the true end is worth more than a moment on a busy machine.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// Messages that are read before the clock is looked at again.
const MESSAGES_AT_ONCE: usize = 64;

/// A driver in a process, and everything the host has for it.
pub(crate) struct Interpreter {
    process: Box<dyn Process>,
    lines: Lines<Wire>,
    streams: [(Stream, Output); 2],
    bell: Arc<Bell>,
    desk: Desk,
    last_id: u64,
}

/// Where output goes, and how much of it is kept.
pub(crate) struct Printing {
    pub max_bytes: u64,
    pub sink: Option<LineSink>,
}

/// What came of a request.
pub(crate) struct Called {
    pub end: CallEnd,
    /// Why it was told to stop, if it was.
    pub stop: Option<StopCause>,
}

/// How a request ended. After all but the first two the process is gone.
#[derive(Debug)]
pub(crate) enum CallEnd {
    Answered(Box<RawValue>),
    /// The driver says that it cannot.
    Refused(RpcError),
    /// The process ended.
    Died(Ended),
    /// It was ended because it ignored the interrupt.
    Stopped,
    /// It was ended because it wrote far more output than is kept.
    OutputFlood,
    /// It was ended because it wrote more files than it may.
    Quota,
    /// It was ended because its driver talks nonsense.
    Nonsense(&'static str),
}

#[derive(Deserialize)]
struct CallParams {
    name: String,
    #[serde(default)]
    args: Vec<serde_json::Value>,
    #[serde(default)]
    kwargs: serde_json::Map<String, serde_json::Value>,
}

#[derive(Deserialize)]
struct InputParams {
    #[serde(default)]
    prompt: String,
}

#[derive(Deserialize)]
struct DropParams {
    id: u64,
}

impl Interpreter {
    pub(crate) fn new(
        launched: Launched,
        [stdout, stderr]: [Printing; 2],
        desk: Desk,
    ) -> std::io::Result<Self> {
        launched.protocol.set_nonblocking()?;
        let stream = |fd, printing: Printing| -> std::io::Result<_> {
            Ok((Stream::new(fd)?, Output::new(printing.max_bytes, printing.sink)))
        };
        Ok(Self {
            process: launched.process,
            lines: Lines::new(launched.protocol),
            streams: [stream(launched.stdout, stdout)?, stream(launched.stderr, stderr)?],
            bell: Bell::new()?,
            desk,
            last_id: 0,
        })
    }

    pub(crate) fn desk_mut(&mut self) -> &mut Desk {
        &mut self.desk
    }

    pub(crate) fn process_mut(&mut self) -> &mut dyn Process {
        &mut *self.process
    }

    /// Under which a [`Watch`] for a call of this interpreter has to run.
    pub(crate) fn waker(&self) -> std::task::Waker {
        self.bell.waker()
    }

    /// What was printed since the last time: stdout and stderr.
    pub(crate) fn take_output(&mut self) -> [CappedBytes; 2] {
        let [stdout, stderr] = &mut self.streams;
        [stdout.1.take(), stderr.1.take()]
    }

    /// Sends a request and waits for what comes of it.
    pub(crate) fn call(
        &mut self,
        method: &str,
        params: &impl Serialize,
        watch: &mut Watch<'_>,
        quota: &mut Quota<'_>,
    ) -> serde_json::Result<Called> {
        self.last_id += 1;
        let id = Id::Number(self.last_id);
        let request = protocol::request(&id, method, params)?;
        let mut end = match self.lines.send(request) {
            Ok(()) => self.converse(&id, watch, quota),
            Err(broken) => self.broken(broken),
        };
        let whole = self.print_all();
        // The driver printed everything before it answered.
        if !whole && matches!(end, CallEnd::Answered(_) | CallEnd::Refused(_)) {
            end = self.flooded();
        }
        if watch.stop().is_none() {
            // What never waits still has to hear that it should have stopped.
            watch.look(Instant::now());
        }
        Ok(Called { end, stop: watch.stop() })
    }

    fn converse(&mut self, id: &Id, watch: &mut Watch<'_>, quota: &mut Quota<'_>) -> CallEnd {
        loop {
            let now = Instant::now();
            let until = match watch.look(now) {
                Wait::Until(until) => until,
                Wait::Interrupt => {
                    self.process.interrupt();
                    continue;
                }
                Wait::Over => {
                    self.process.end();
                    return CallEnd::Stopped;
                }
            };
            if quota.is_due(now) && quota.is_exceeded(self.process.ancestor()) {
                self.process.end();
                return CallEnd::Quota;
            }
            if let Err(broken) = self.answer_calls() {
                return self.broken(broken);
            }
            let until = if self.lines.has_more() { now } else { until.min(quota.due()) };
            self.wait(until.saturating_duration_since(now));
            if !self.print() {
                return self.flooded();
            }
            match self.listen(id) {
                Ok(Some(end)) => return end,
                Ok(None) => {}
                Err(broken) => return self.broken(broken),
            }
        }
    }

    /// Waits until something can be read or written, somebody rings, or the time is over.
    fn wait(&self, time: Duration) {
        let mut fds = Vec::with_capacity(5);
        let wire = self.lines.socket();
        fds.push(PollFd::from_borrowed_fd(wire.reading(), PollFlags::IN));
        if self.lines.wants_to_write() {
            fds.push(PollFd::from_borrowed_fd(wire.writing(), PollFlags::OUT));
        }
        fds.push(PollFd::from_borrowed_fd(self.bell.fd(), PollFlags::IN));
        for (stream, _) in &self.streams {
            fds.extend(stream.fd().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        }
        let time = Timespec::try_from(time).ok();
        // Whatever it says, everything is looked at next.
        let _ = rustix::event::poll(&mut fds, time.as_ref());
        self.bell.silence();
    }

    /// Takes one piece of each stream; `false` when it was far too much.
    fn print(&mut self) -> bool {
        self.streams.iter_mut().all(|(stream, output)| match stream.read() {
            Got::Bytes(bytes) => output.write(bytes),
            Got::Nothing | Got::End => true,
        })
    }

    /// Takes everything that is there.
    fn print_all(&mut self) -> bool {
        self.streams.iter_mut().all(|(stream, output)| {
            loop {
                match stream.read() {
                    Got::Bytes(bytes) if output.write(bytes) => {}
                    Got::Bytes(_) => return false,
                    Got::Nothing | Got::End => return true,
                }
            }
        })
    }

    fn flooded(&mut self) -> CallEnd {
        self.process.end();
        CallEnd::OutputFlood
    }

    fn broken(&mut self, broken: Broken) -> CallEnd {
        match broken {
            Broken::Closed => {
                if let Some(ended) = self.process.wait(LAST_WORDS) {
                    return CallEnd::Died(ended);
                }
                self.nonsense("it has closed its connection to the host")
            }
            Broken::TooLong => self.nonsense("its message has no end"),
            Broken::NotRead => self.nonsense("it does not read what it has asked for"),
        }
    }

    fn nonsense(&mut self, why: &'static str) -> CallEnd {
        self.process.end();
        CallEnd::Nonsense(why)
    }

    /// Reads what has come; `Some` when the request is over.
    fn listen(&mut self, awaited: &Id) -> Result<Option<CallEnd>, Broken> {
        self.lines.write()?;
        for _ in 0..MESSAGES_AT_ONCE {
            let Some(line) = self.lines.next()? else { break };
            // What is unpacked of it is weighed before.
            match Message::parse_unweighed(&line) {
                Ok(Message::Response { id, outcome }) if id == *awaited => {
                    return Ok(Some(outcome.map_or_else(CallEnd::Refused, CallEnd::Answered)));
                }
                // An answer to what nobody asks any more.
                Ok(Message::Response { .. }) => {}
                Ok(Message::Request { id, method, params }) => {
                    self.serve(id, &method, &params, line.len())?;
                }
                Ok(Message::Notification { method, params }) => self.hear(&method, &params),
                Ok(Message::Complaint(_)) => {}
                Err(error) => self.send_error(&Id::Number(0), &error)?,
            }
        }
        Ok(None)
    }

    fn serve(
        &mut self,
        id: Id,
        method: &str,
        params: &RawValue,
        bytes: usize,
    ) -> Result<(), Broken> {
        let Id::Number(number) = id else {
            return self.send_error(&id, &RpcError::new(INVALID_PARAMS, "an id is a number here"));
        };
        let Some(weight) =
            json::weight(params.get().as_bytes()).filter(|_| bytes <= MAX_TOOL_MESSAGE_BYTES)
        else {
            let failure = ToolFailure::limit("it is too large or nested too deeply");
            return self.send_outcome(number, &Err(failure));
        };
        let begun = match method {
            "tool.call" => match serde_json::from_str::<CallParams>(params.get()) {
                Ok(CallParams { name, args, kwargs }) => {
                    let call = ToolCall { id: number, name, args, kwargs };
                    self.desk.start(call, Size { bytes, weight }, false).map(drop)
                }
                Err(error) => {
                    return self.send_error(&id, &RpcError::new(INVALID_PARAMS, error.to_string()));
                }
            },
            "input" => match serde_json::from_str::<InputParams>(params.get()) {
                Ok(InputParams { prompt }) => self.desk.start_input_as(number, prompt),
                Err(error) => {
                    return self.send_error(&id, &RpcError::new(INVALID_PARAMS, error.to_string()));
                }
            },
            _ => {
                let error = RpcError::new(METHOD_NOT_FOUND, "the host has no such method");
                return self.send_error(&id, &error);
            }
        };
        match begun {
            Ok(()) => Ok(()),
            Err(failure) => self.send_outcome(number, &Err(failure)),
        }
    }

    fn hear(&mut self, method: &str, params: &RawValue) {
        if method == "tool.drop"
            && let Ok(DropParams { id }) = serde_json::from_str(params.get())
        {
            self.desk.drop_call(id);
        }
    }

    /// Sends what tools have answered, and has the bell rung when the next one does.
    fn answer_calls(&mut self) -> Result<(), Broken> {
        // The bell is remembered only when nothing was there.
        while let Some(arrived) = self.desk.inbox().poll(&self.bell.waker()) {
            self.desk.sort(arrived, None);
        }
        for (id, outcome) in self.desk.take_ended() {
            self.send_outcome(id, &outcome)?;
        }
        Ok(())
    }

    fn send_outcome(&mut self, id: u64, outcome: &ToolOutcome) -> Result<(), Broken> {
        match outcome {
            Ok(value) => {
                let line = protocol::response(&Id::Number(id), Ok(value));
                self.lines.send(line.unwrap_or_default())
            }
            Err(ToolFailure { name, message }) => {
                let mut error = RpcError::new(FAILED, message.clone());
                error.data = Some(serde_json::json!({ "name": name }));
                self.send_error(&Id::Number(id), &error)
            }
        }
    }

    fn send_error(&mut self, id: &Id, error: &RpcError) -> Result<(), Broken> {
        let line = protocol::response::<()>(id, Err(error));
        self.lines.send(line.unwrap_or_default())
    }
}
