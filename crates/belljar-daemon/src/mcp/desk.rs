//! One client's desk: its connection, its sessions, and what it runs at the moment.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use belljar::RuntimeType;
use belljar::core::protocol::methods::{
    CREATE, CreateParams, Created, DESTROY, INITIALIZE, InitializeParams, SandboxId, SandboxParams,
};
use serde_json::{Map, Value, json};
use tokio::sync::{OnceCell, Semaphore, SemaphorePermit};
use tokio_util::sync::CancellationToken;

use super::connection::Connection;
use super::house::House;
use super::limits::{
    MAX_CALLS, MAX_SESSIONS, MAX_STDERR_BYTES, MAX_STDOUT_BYTES, MAX_TIMEOUT_SECONDS, SWEEP,
};
use super::problem::Problem;
use super::sessions::{Session, Sessions};

pub(super) struct Desk {
    pub(super) house: Arc<House>,
    /// Made when it is first needed: a client that only looks at the tools costs nothing.
    connection: OnceCell<Connection>,
    pub(super) sessions: Sessions,
    calls: Semaphore,
    running: Mutex<Running>,
}

#[derive(Default)]
struct Running {
    last: u64,
    executions: BTreeMap<u64, (Option<String>, CancellationToken)>,
}

impl Desk {
    pub(super) fn new(house: Arc<House>) -> Arc<Self> {
        Arc::new(Self {
            house,
            connection: OnceCell::new(),
            sessions: Sessions::new(MAX_SESSIONS),
            calls: Semaphore::new(MAX_CALLS),
            running: Mutex::default(),
        })
    }

    /// Room for one more call.
    pub(super) fn admit(&self) -> Result<SemaphorePermit<'_>, Problem> {
        self.calls.try_acquire().map_err(|_| {
            Problem::new(format!("busy: {MAX_CALLS} calls are under way; nothing was run"))
                .hint("wait for one of them, or stop them with cancel_execution")
        })
    }

    pub(super) async fn connection(self: &Arc<Self>) -> Result<&Connection, Problem> {
        self.connection
            .get_or_try_init(|| async {
                let connection = self.house.connect()?;
                tokio::spawn(sweep(Arc::downgrade(self), self.house.session_idle));
                Ok(connection)
            })
            .await
    }

    /// A sandbox that keeps no state.
    pub(super) async fn create(
        self: &Arc<Self>,
        language: RuntimeType,
        timeout: Duration,
        stream: bool,
    ) -> Result<SandboxId, Problem> {
        let params =
            CreateParams { language, policy: policy(timeout), stream, ..CreateParams::default() };
        let created: Created = self.connection().await?.client.request(CREATE, &params).await?;
        Ok(created.sandbox)
    }

    /// One that does. Its policy gives as much time as any call may have; each call has its own.
    pub(super) async fn create_session(
        self: &Arc<Self>,
        language: RuntimeType,
        wanted: Option<String>,
    ) -> Result<Arc<Session>, Problem> {
        let place = self.sessions.reserve(wanted)?;
        let longest = Duration::from_secs_f64(MAX_TIMEOUT_SECONDS);
        let sandbox = self.create(language, longest, true).await?;
        let params = InitializeParams { sandbox, context: Value::Null };
        let begun = self.connection().await?.client.request::<()>(INITIALIZE, &params).await;
        if let Err(error) = begun {
            self.destroy(sandbox).await?;
            return Err(error.into());
        }
        Ok(place.fill(language, sandbox))
    }

    pub(super) async fn destroy(&self, sandbox: SandboxId) -> Result<(), Problem> {
        // Without a connection there is no sandbox.
        let Some(connection) = self.connection.get() else { return Ok(()) };
        Ok(connection.client.request(DESTROY, &SandboxParams { sandbox }).await?)
    }

    /// Something begins to run that `cancel` can stop until what this gives is dropped.
    pub(super) fn begin(&self, session: Option<&Session>, wanted: &CancellationToken) -> Begun<'_> {
        let stop = wanted.child_token();
        let mut running = self.running();
        running.last += 1;
        let number = running.last;
        let session = session.map(|session| session.id.clone());
        running.executions.insert(number, (session, stop.clone()));
        Begun { desk: self, number, stop }
    }

    /// Stops what runs in a session, or everything; how many it were.
    pub(super) fn cancel(&self, session: Option<&str>) -> usize {
        let running = self.running();
        let concerned = |of: &Option<String>| session.is_none() || of.as_deref() == session;
        let executions = running.executions.values().filter(|(of, _)| concerned(of));
        executions.map(|(_, stop)| stop.cancel()).count()
    }

    fn running(&self) -> MutexGuard<'_, Running> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Something that runs.
pub(super) struct Begun<'a> {
    desk: &'a Desk,
    number: u64,
    pub(super) stop: CancellationToken,
}

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        self.desk.running().executions.remove(&self.number);
    }
}

fn policy(timeout: Duration) -> Map<String, Value> {
    let fields = [
        ("timeout_seconds", json!(timeout.as_secs_f64())),
        ("stdout_max_bytes", json!(MAX_STDOUT_BYTES)),
        ("stderr_max_bytes", json!(MAX_STDERR_BYTES)),
    ];
    fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Ends sessions nobody uses, as long as the desk is there.
async fn sweep(desk: Weak<Desk>, longest: Duration) {
    loop {
        tokio::time::sleep(SWEEP.min(longest)).await;
        let Some(desk) = desk.upgrade() else { return };
        for session in desk.sessions.take_idle(longest) {
            if let Err(problem) = desk.destroy(session.sandbox).await {
                tracing::warn!(target: "belljar", session = session.id, %problem, "not ended");
            }
        }
    }
}
