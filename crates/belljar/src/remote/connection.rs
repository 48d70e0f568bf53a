//! A connection to a daemon: messages of any thread go out, and a thread sorts what comes in.
//!
//! A plain `UnixStream` and blocking reads: forks share a connection and are used from different
//! threads, so somebody has to read for all of them, and the last one to leave has to be able to
//! end that read, which takes a `shutdown`.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use belljar_core::limits::{MAX_LINE_BYTES, MAX_MESSAGE_BYTES};
use belljar_core::protocol::methods::{
    CALL_DROPPED, DropParams, HELLO, Hello, Line, PROTOCOL_VERSION, STDERR, STDOUT, SandboxId,
};
use belljar_core::protocol::{self, Id, Message, RpcError};
use belljar_core::{Backend, SandboxError};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::errors::{self, Request};
use super::mailbox::{Event, Mailbox};
use super::socket;
use super::talk::{self, Failure};

/// How long a daemon may take to say who it is.
const HELLO_PATIENCE: Duration = Duration::from_secs(2);

/// How long to listen to a daemon that takes nothing any more.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// A line that was printed, as text: the server cuts bytes, and each that is no text becomes three.
const MAX_PRINTED_BYTES: usize = 4 * MAX_LINE_BYTES;

pub(super) struct Connection {
    output: Mutex<UnixStream>,
    routes: Arc<Routes>,
    last_id: AtomicU64,
}

/// Who waits for what.
#[derive(Default)]
struct Routes(Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
    /// By the request that waits for its answer.
    answers: HashMap<u64, Arc<Mailbox>>,
    /// By the sandbox that runs something.
    sandboxes: HashMap<SandboxId, Arc<Mailbox>>,
    /// What the daemon refused without saying which request it meant.
    complaint: Option<RpcError>,
    /// Set once nothing can come any more.
    lost: Option<String>,
    /// Set once nobody listens any more.
    ended: bool,
}

/// A request that was sent; as long as this lives, what comes for it goes to its mailbox.
pub(super) struct Awaited<'a> {
    routes: &'a Routes,
    mailbox: &'a Mailbox,
    id: u64,
    sandbox: Option<SandboxId>,
}

impl Drop for Awaited<'_> {
    fn drop(&mut self) {
        let mut waiting = self.routes.lock();
        waiting.answers.remove(&self.id);
        if let Some(sandbox) = self.sandbox {
            waiting.sandboxes.remove(&sandbox);
        }
        drop(waiting);
        self.mailbox.close();
    }
}

impl Connection {
    /// Connects, and makes sure that a daemon of our version answers.
    pub(super) fn open(path: &Path) -> Result<(Arc<Self>, Hello), SandboxError> {
        let unusable = |reason: String, hint: Option<&str>| SandboxError::BackendUnavailable {
            backend: Backend::Daemon,
            reason,
            hint: hint.map(str::to_owned),
        };
        let shown = path.display();
        let connection = Self::over(socket::connect(path)?)
            .map_err(|error| unusable(format!("{shown}: {error}"), None))?;
        let stop = Some("something else listens there; set BELLJAR_SOCKET to the daemon's socket");
        let answer = talk::ask(&connection, HELLO, &(), HELLO_PATIENCE).map_err(|failure| {
            let failure = match (failure, connection.last_complaint()) {
                // Whoever is not let in is told why before anything is asked.
                (Failure::Unsent(_) | Failure::Lost(_), Some(error)) => Failure::Refused(error),
                (failure, _) => failure,
            };
            match failure {
                Failure::Unsent(why) | Failure::Lost(why) | Failure::Unanswered(why) => {
                    unusable(format!("whoever listens at {shown} is no daemon: {why}"), stop)
                }
                // One that is busy, for example, says so itself.
                refused @ Failure::Refused(_) => errors::error(refused, Request::Looks),
            }
        })?;
        let hello: Hello = serde_json::from_str(answer.get()).map_err(|_| {
            unusable(format!("whoever listens at {shown} does not say who it is"), stop)
        })?;
        if hello.protocol != PROTOCOL_VERSION {
            let reason = format!(
                "the daemon speaks version {} of the protocol, and this Belljar speaks version \
                 {PROTOCOL_VERSION}",
                hello.protocol
            );
            return Err(unusable(reason, Some("restart the daemon with this version of Belljar")));
        }
        Ok((Arc::new(connection), hello))
    }

    /// Over a stream that is connected.
    pub(super) fn over(stream: UnixStream) -> std::io::Result<Self> {
        let routes = Arc::new(Routes::default());
        let (input, sorted) = (stream.try_clone()?, Arc::clone(&routes));
        std::thread::Builder::new().name("belljar-daemon".to_owned()).spawn(move || {
            let why = listen(&input, &sorted);
            let _ = input.shutdown(Shutdown::Both);
            sorted.lose(&why);
            sorted.lock().ended = true;
        })?;
        Ok(Self { output: Mutex::new(stream), routes, last_id: AtomicU64::new(0) })
    }

    /// Why nothing can come any more, if so.
    pub(super) fn lost(&self) -> Option<String> {
        self.routes.lock().lost.clone()
    }

    /// What the daemon said last, if it closes a connection that it does not want.
    fn last_complaint(&self) -> Option<RpcError> {
        let until = Instant::now() + LAST_WORDS;
        loop {
            let waiting = self.routes.lock();
            if waiting.complaint.is_some() || waiting.ended || Instant::now() >= until {
                return waiting.complaint.clone();
            }
            drop(waiting);
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Sends a request. What comes for it goes to the mailbox; what `sandbox` prints and asks, too.
    pub(super) fn begin<'a>(
        &'a self,
        sandbox: Option<SandboxId>,
        method: &str,
        params: &impl Serialize,
        mailbox: &'a Arc<Mailbox>,
    ) -> Result<Awaited<'a>, Failure> {
        let id = self.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        let line = protocol::request(&Id::Number(id), method, params)
            .map_err(|error| Failure::Unsent(format!("the request cannot be JSON: {error}")))?;
        if line.len() > MAX_MESSAGE_BYTES {
            return Err(Failure::Unsent("the request is longer than any may be".to_owned()));
        }
        {
            let mut waiting = self.routes.lock();
            if let Some(why) = &waiting.lost {
                return Err(Failure::Unsent(why.clone()));
            }
            waiting.answers.insert(id, Arc::clone(mailbox));
            if let Some(sandbox) = sandbox {
                waiting.sandboxes.insert(sandbox, Arc::clone(mailbox));
            }
        }
        let awaited = Awaited { routes: &self.routes, mailbox, id, sandbox };
        self.send(&line).map_err(Failure::Unsent)?;
        Ok(awaited)
    }

    /// Sends a request whose answer nobody waits for.
    pub(super) fn tell(&self, method: &str, params: &impl Serialize) {
        let id = self.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        if let Ok(line) = protocol::request(&Id::Number(id), method, params) {
            // When it cannot be sent, there is nobody who should have heard it.
            let _ = self.send(&line);
        }
    }

    /// Sends a line, whole or not at all as far as the other side is concerned: after a part of one
    /// nothing can be sent any more.
    pub(super) fn send(&self, line: &[u8]) -> Result<(), String> {
        let mut output = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        output.write_all(line).map_err(|error| {
            let why = match error.kind() {
                std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut => {
                    "it does not read what is sent to it".to_owned()
                }
                _ => format!("it has closed it ({error})"),
            };
            drop(output);
            self.lose(&why);
            why
        })
    }

    /// Ends it for everybody.
    pub(super) fn lose(&self, why: &str) {
        self.routes.lose(why);
        let output = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = output.shutdown(Shutdown::Both);
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // Ends the thread that reads, too.
        self.lose("nobody uses it any more");
    }
}

impl Routes {
    /// Nothing panics while holding the lock; if it did, the value would still be whole.
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The first reason counts.
    fn lose(&self, why: &str) {
        let mut waiting = self.lock();
        let why = waiting.lost.get_or_insert_with(|| why.to_owned()).clone();
        for mailbox in waiting.answers.values() {
            mailbox.lose(&why);
        }
    }

    fn answered(&self, id: u64, outcome: Result<Box<RawValue>, RpcError>, bytes: usize) {
        // An answer to what nobody asks is nobody's.
        let waiting = self.lock().answers.remove(&id);
        if let Some(mailbox) = waiting {
            mailbox.put(Event::Answer(outcome), bytes);
        }
    }

    /// Something was refused, and it is not said what. Where one request waits it is that one.
    fn complained(&self, error: RpcError, bytes: usize) {
        let mut waiting = self.lock();
        waiting.complaint = Some(error.clone());
        let mut ids = waiting.answers.keys().copied();
        let only = ids.next().filter(|_| ids.next().is_none());
        drop(waiting);
        if let Some(id) = only {
            self.answered(id, Err(error), bytes);
        }
    }

    fn sandbox(&self, sandbox: SandboxId) -> Option<Arc<Mailbox>> {
        self.lock().sandboxes.get(&sandbox).cloned()
    }
}

/// The one thing every question of the daemon says.
#[derive(Deserialize)]
struct About {
    sandbox: SandboxId,
}

/// Sorts what comes in until nothing comes any more, and says why.
fn listen(input: impl Read, routes: &Routes) -> String {
    let mut input = BufReader::with_capacity(64 * 1024, input);
    loop {
        let mut line = Vec::new();
        let read = (&mut input).take(MAX_MESSAGE_BYTES as u64 + 1).read_until(b'\n', &mut line);
        match read {
            Err(error) => return format!("it cannot be read from ({error})"),
            Ok(0) => {
                return match &routes.lock().complaint {
                    Some(error) => format!("the daemon has closed it: {error}"),
                    None => "the daemon has closed it".to_owned(),
                };
            }
            Ok(_) if line.ends_with(b"\n") => {}
            Ok(_) if line.len() > MAX_MESSAGE_BYTES => return "its message has no end".to_owned(),
            Ok(_) => return "it ended in the middle of a message".to_owned(),
        }
        let bytes = line.len();
        let understood = match Message::parse(&line) {
            Ok(Message::Response { id: Id::Number(id), outcome }) => {
                routes.answered(id, outcome, bytes);
                true
            }
            Ok(Message::Response { .. }) => true,
            Ok(Message::Request { id, method, params }) => {
                let about = serde_json::from_str::<About>(params.get()).ok();
                // Whoever runs nothing has nothing to be asked.
                if let Some(mailbox) = about.and_then(|about| routes.sandbox(about.sandbox)) {
                    mailbox.put(Event::Asked { id, method, params }, bytes);
                }
                true
            }
            Ok(Message::Notification { method, params }) => told(routes, &method, &params, bytes),
            Ok(Message::Complaint(error)) => {
                routes.complained(error, bytes);
                true
            }
            Err(error) => match Message::addressee(&line) {
                Some(Id::Number(id)) => {
                    routes.answered(id, Err(error), bytes);
                    true
                }
                _ => false,
            },
        };
        if !understood {
            return "it says what is no message of the protocol".to_owned();
        }
    }
}

/// `false` when it makes no sense.
fn told(routes: &Routes, method: &str, params: &RawValue, bytes: usize) -> bool {
    match method {
        STDOUT | STDERR => match serde_json::from_str::<Line>(params.get()) {
            Ok(line) if line.text.len() <= MAX_PRINTED_BYTES => {
                if let Some(mailbox) = routes.sandbox(line.sandbox) {
                    let printed = Event::Printed { stderr: method == STDERR, text: line.text };
                    mailbox.put(printed, bytes);
                }
                true
            }
            _ => false,
        },
        CALL_DROPPED => match serde_json::from_str::<DropParams>(params.get()) {
            Ok(DropParams { id }) => {
                // It does not say whose; the others do not know the number.
                let all: Vec<_> = routes.lock().sandboxes.values().cloned().collect();
                for mailbox in all {
                    mailbox.put(Event::Dropped { id }, bytes);
                }
                true
            }
            Err(_) => false,
        },
        // What a later version tells is not for us.
        _ => true,
    }
}
