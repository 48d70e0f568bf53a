//! What all clients share: where their sandboxes are, how many of them there may be, and how much
//! they may run at the same time.

use std::io;
use std::num::NonZero;
use std::os::unix::net::UnixStream as StdStream;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::net::UnixStream;
use tokio::sync::Semaphore;

use super::connection::Connection;
use super::limits::{EXECUTIONS_PER_CORE, MAX_CALLS, MAX_CLIENTS, MAX_SESSIONS, SESSION_IDLE};
use super::problem::Problem;
use crate::serve::{Offer, serve};

/// Makes a connection to somebody who speaks the protocol.
type Connect = Box<dyn Fn() -> Result<UnixStream, Problem> + Send + Sync>;

pub(crate) struct House {
    connect: Connect,
    /// How long a session may be unused.
    pub(crate) session_idle: Duration,
    /// Sessions of one client.
    pub(crate) max_sessions: usize,
    /// Calls of one client that are not answered.
    pub(crate) max_calls: usize,
    /// Executions at the same time.
    pub(crate) executions: Semaphore,
    clients: Arc<Semaphore>,
    servers: Arc<Servers>,
}

/// Threads that serve in this process.
#[derive(Default)]
struct Servers(Mutex<Vec<JoinHandle<()>>>);

impl House {
    /// Each client has a server of its own in this process.
    pub(crate) fn new(offer: Offer) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
        let servers = Arc::new(Servers::default());
        let made = Arc::clone(&servers);
        let connect = move || {
            made.start(offer.clone()).map_err(|error| {
                Problem::failed(format!("no sandboxes can be had: {error}; nothing was run"))
            })
        };
        let executions = Semaphore::new(cores * EXECUTIONS_PER_CORE);
        Self { servers, ..Self::elsewhere(Box::new(connect), executions) }
    }

    /// Sandboxes are where `connect` leads.
    pub(crate) fn elsewhere(connect: Connect, executions: Semaphore) -> Self {
        Self {
            connect,
            session_idle: SESSION_IDLE,
            max_sessions: MAX_SESSIONS,
            max_calls: MAX_CALLS,
            executions,
            clients: Arc::new(Semaphore::new(MAX_CLIENTS)),
            servers: Arc::default(),
        }
    }

    /// Sandboxes for one more client.
    pub(super) fn connect(&self) -> Result<Connection, Problem> {
        let place = Arc::clone(&self.clients)
            .try_acquire_owned()
            .map_err(|_| Problem::busy("there are as many clients as may be"))?;
        Ok(Connection::new((self.connect)()?, place))
    }

    /// Waits until everything that belonged to clients is gone, which they are.
    pub(crate) fn close(&self) {
        for server in self.servers.take() {
            // One that panicked has ended as well.
            let _ = server.join();
        }
    }
}

impl Servers {
    /// Starts a server on a thread, which ends after its connection has ended.
    fn start(&self, offer: Offer) -> io::Result<UnixStream> {
        let (ours, theirs) = StdStream::pair()?;
        let input = theirs.try_clone()?;
        let server = std::thread::Builder::new().name("sandboxes".to_owned()).spawn(move || {
            if let Err(error) = serve(input, theirs, offer) {
                tracing::warn!(target: "belljar", %error, "the sandboxes of a client have ended");
            }
        })?;
        let mut servers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        servers.retain(|server| !server.is_finished());
        servers.push(server);
        ours.set_nonblocking(true)?;
        UnixStream::from_std(ours)
    }

    fn take(&self) -> Vec<JoinHandle<()>> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
