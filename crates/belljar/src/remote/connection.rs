//! A connection to a daemon: messages of any thread go out, and whoever waits reads what comes in.
//!
//! Forks share a connection and are used from different threads. The first that waits reads for all
//! of them and brings the others what is theirs; when it has what it waited for, the next one reads.
//! So an answer wakes the thread that wants it, and no other. When nobody waits nobody reads: then
//! nothing was asked, and nothing comes but the end, which is looked for before the next request.

use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use belljar_core::limits::MAX_MESSAGE_BYTES;
use belljar_core::protocol::methods::{HELLO, Hello, PROTOCOL_VERSION, SandboxId};
use belljar_core::protocol::{self, Id, RpcError};
use belljar_core::{Backend, SandboxError};
use serde::Serialize;

use super::errors::{self, Request};
use super::input::Input;
use super::local::{self, Stream};
use super::mailbox::{Mailbox, Next};
use super::routes::Routes;
use super::socket;
use super::talk::{self, Failure};
use super::wait::{Bell, Woken};

/// How long a daemon may take to say who it is.
const HELLO_PATIENCE: Duration = Duration::from_secs(2);

/// How long to listen to a daemon that takes nothing any more.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// How often what has come unasked is read before the next request is sent.
const MAX_UNASKED_READS: usize = 16;

pub(super) struct Connection {
    stream: Arc<Stream>,
    /// Held while a line is written.
    writing: Mutex<()>,
    /// Held by whoever reads.
    input: Mutex<Input>,
    /// Wakes whoever reads.
    bell: Arc<Bell>,
    routes: Routes,
    last_id: AtomicU64,
}

/// How a time of reading was over.
enum Read {
    /// There is something to look at, or no more time.
    Done,
    /// Too much waits for somebody else, who has to look at it first.
    Blocked,
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
        // It may have been this one's turn to read.
        self.routes.let_another_read(Some(self.mailbox));
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
    pub(super) fn over(stream: Stream) -> std::io::Result<Self> {
        let stream = Arc::new(stream);
        Ok(Self {
            writing: Mutex::new(()),
            input: Mutex::new(Input::new(&stream)),
            bell: Arc::new(Bell::new()?),
            routes: Routes::default(),
            last_id: AtomicU64::new(0),
            stream,
        })
    }

    /// Why nothing can come any more, if so. Looks whether the daemon has closed it meanwhile.
    pub(super) fn lost(&self) -> Option<String> {
        // Whoever reads it now will see its end.
        if let Some(mut input) = self.try_input() {
            let read = self.read_unasked(&mut input);
            drop(input);
            match read {
                // Somebody may have found it in use meanwhile.
                Ok(()) => self.routes.let_another_read(None),
                Err(why) => self.lose(&why),
            }
        }
        self.routes.lock().lost.clone()
    }

    fn read_unasked(&self, input: &mut Input) -> Result<(), String> {
        for _ in 0..MAX_UNASKED_READS {
            match self.bell.wait_for(&self.stream, Instant::now()) {
                Ok(Woken::Readable) if input.bring_held() => self.read_all(input)?,
                Ok(Woken::Readable | Woken::Otherwise) | Err(_) => break,
            }
        }
        Ok(())
    }

    fn read_all(&self, input: &mut Input) -> Result<(), String> {
        input.fill(&self.routes)?;
        while input.bring_line(&self.routes)? {}
        Ok(())
    }

    /// What the daemon said last, if it closes a connection that it does not want.
    fn last_complaint(&self) -> Option<RpcError> {
        let until = Instant::now() + LAST_WORDS;
        let mut input = self.input.lock().unwrap_or_else(PoisonError::into_inner);
        while self.routes.lock().complaint.is_none() && Instant::now() < until {
            let woken = self.bell.wait_for(&self.stream, until);
            if !matches!(woken, Ok(Woken::Readable)) || self.read_all(&mut input).is_err() {
                break;
            }
        }
        self.routes.lock().complaint.clone()
    }

    /// The next thing for a mailbox, read from the daemon if nobody else reads.
    pub(super) fn next(&self, mailbox: &Mailbox, until: Instant) -> Next {
        loop {
            if let Some(next) = mailbox.take() {
                return next;
            }
            if Instant::now() >= until {
                return Next::Nothing;
            }
            let Some(mut input) = self.try_input() else {
                mailbox.wait(until);
                continue;
            };
            mailbox.reads(Some(&self.bell));
            let read = self.read(&mut input, mailbox, until);
            mailbox.reads(None);
            drop(input);
            match read {
                Ok(Read::Done) => self.routes.let_another_read(Some(mailbox)),
                Ok(Read::Blocked) => mailbox.wait(until),
                Err(why) => self.lose(&why),
            }
        }
    }

    /// Reads for everybody until there is something in this mailbox.
    fn read(&self, input: &mut Input, mailbox: &Mailbox, until: Instant) -> Result<Read, String> {
        loop {
            if !mailbox.is_idle() {
                return Ok(Read::Done);
            }
            if !input.bring_held() {
                return Ok(Read::Blocked);
            }
            if !mailbox.is_idle() || input.bring_line(&self.routes)? {
                continue;
            }
            if Instant::now() >= until {
                return Ok(Read::Done);
            }
            match self.bell.wait_for(&self.stream, until) {
                Ok(Woken::Readable) => input.fill(&self.routes)?,
                Ok(Woken::Otherwise) => {}
                Err(error) => return Err(format!("it cannot be read from ({error})")),
            }
        }
    }

    /// None while somebody reads.
    fn try_input(&self) -> Option<MutexGuard<'_, Input>> {
        match self.input.try_lock() {
            Ok(input) => Some(input),
            Err(TryLockError::Poisoned(input)) => Some(input.into_inner()),
            Err(TryLockError::WouldBlock) => None,
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
        let writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        (&*self.stream).write_all(line).map_err(|error| {
            let why = match error.kind() {
                std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut => {
                    "it does not read what is sent to it".to_owned()
                }
                _ => format!("it has closed it ({error})"),
            };
            self.lose(&why);
            why
        })?;
        drop(writing);
        Ok(())
    }

    /// Ends it for everybody.
    pub(super) fn lose(&self, why: &str) {
        self.routes.lose(why);
        local::hang_up(&self.stream);
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // For the other side, too, whoever else has the stream.
        self.lose("nobody uses it any more");
    }
}
