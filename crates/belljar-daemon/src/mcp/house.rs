//! What all clients share: how many there may be, and how much they may run at the same time.

use std::num::NonZero;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::Semaphore;

use super::connection::Connection;
use super::limits::{EXECUTIONS_PER_CORE, MAX_HTTP_CLIENTS, SESSION_IDLE};
use super::problem::Problem;
use crate::serve::Offer;

pub(super) struct House {
    offer: Offer,
    /// How long a session may be unused.
    pub(super) session_idle: Duration,
    /// Executions at the same time.
    pub(super) executions: Semaphore,
    clients: Arc<Semaphore>,
    servers: Mutex<Vec<JoinHandle<()>>>,
}

impl House {
    pub(super) fn new(offer: Offer) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
        Self {
            offer,
            session_idle: SESSION_IDLE,
            executions: Semaphore::new(cores * EXECUTIONS_PER_CORE),
            clients: Arc::new(Semaphore::new(MAX_HTTP_CLIENTS)),
            servers: Mutex::default(),
        }
    }

    /// Sandboxes for one more client.
    pub(super) fn connect(&self) -> Result<Connection, Problem> {
        let place = Arc::clone(&self.clients).try_acquire_owned().map_err(|_| {
            let problem = "busy: there are as many clients as may be; nothing was run";
            Problem::new(problem).hint("try again later")
        })?;
        let (connection, server) =
            Connection::open(self.offer.clone(), place).map_err(|error| {
                Problem::new(format!("no sandboxes can be had: {error}; nothing was run"))
            })?;
        let mut servers = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
        servers.retain(|server| !server.is_finished());
        servers.push(server);
        Ok(connection)
    }

    /// Waits until everything that belonged to clients is gone, which they are.
    pub(super) fn close(&self) {
        let servers =
            std::mem::take(&mut *self.servers.lock().unwrap_or_else(PoisonError::into_inner));
        for server in servers {
            // One that panicked has ended as well.
            let _ = server.join();
        }
    }
}
