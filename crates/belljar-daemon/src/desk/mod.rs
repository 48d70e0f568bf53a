//! One client's desk: its connection to sandboxes that are nobody else's, its sessions by their
//! names, and what it runs at the moment. Whoever serves clients in words of their own, MCP or HTTP,
//! does it here.

mod connection;
mod execution;
mod house;
pub(crate) mod limits;
pub(crate) mod problem;
mod sessions;

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use belljar::SandboxResult;
use belljar::core::protocol::methods::{
    CREATE, CreateParams, Created, DESTROY, FORK, INITIALIZE, InitializeParams, SandboxId,
    SandboxParams,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::{OnceCell, Semaphore, SemaphorePermit};
use tokio_util::sync::CancellationToken;

pub(crate) use connection::{Connection, Listener, Printed};
pub(crate) use house::House;
pub(crate) use problem::Problem;
pub(crate) use sessions::{Session, SessionInfo, SessionList};

use execution::Execution;
use limits::SWEEP;
use sessions::Sessions;

pub(crate) struct Desk {
    pub(crate) house: Arc<House>,
    /// Made when it is first needed: a client that only looks around costs nothing.
    connection: OnceCell<Connection>,
    pub(crate) sessions: Sessions,
    calls: Semaphore,
    running: Mutex<Running>,
}

#[derive(Default)]
struct Running {
    last: u64,
    executions: BTreeMap<u64, (Option<String>, CancellationToken)>,
}

/// Code, and who waits for what comes of it.
pub(crate) struct Wanted<'a> {
    pub(crate) code: String,
    /// Cancelled when nobody waits any more.
    pub(crate) gone: &'a CancellationToken,
    /// Told what is printed meanwhile.
    pub(crate) listener: Option<Listener>,
}

impl Desk {
    pub(crate) fn new(house: Arc<House>) -> Arc<Self> {
        Arc::new(Self {
            connection: OnceCell::new(),
            sessions: Sessions::new(house.max_sessions),
            calls: Semaphore::new(house.max_calls),
            running: Mutex::default(),
            house,
        })
    }

    /// Room for one more call.
    pub(crate) fn admit(&self) -> Result<SemaphorePermit<'_>, Problem> {
        self.calls.try_acquire().map_err(|_| {
            let most = self.house.max_calls;
            Problem::busy(&format!("{most} calls are under way"))
                .hint("wait for one of them, or cancel them")
        })
    }

    pub(crate) async fn connection(self: &Arc<Self>) -> Result<&Connection, Problem> {
        self.connection
            .get_or_try_init(|| async {
                let connection = self.house.connect()?;
                tokio::spawn(sweep(Arc::downgrade(self), self.house.session_idle));
                Ok(connection)
            })
            .await
    }

    /// Whether its sandboxes are gone, and no more can be had here.
    pub(crate) fn is_lost(&self) -> bool {
        self.connection.get().is_some_and(|connection| connection.client.is_closed())
    }

    /// A sandbox that keeps no state.
    pub(crate) async fn create(
        self: &Arc<Self>,
        params: &CreateParams,
    ) -> Result<SandboxId, Problem> {
        let created: Created = self.connection().await?.client.request(CREATE, params).await?;
        Ok(created.sandbox)
    }

    /// One that does, under a name. Its output is told to whoever listens.
    pub(crate) async fn create_session(
        self: &Arc<Self>,
        params: &CreateParams,
        context: Value,
        wanted: Option<String>,
    ) -> Result<Arc<Session>, Problem> {
        let place = self.sessions.reserve(wanted)?;
        let sandbox = self.create(&CreateParams { stream: true, ..params.clone() }).await?;
        let begin = InitializeParams { sandbox, context };
        let begun = self.connection().await?.client.request::<()>(INITIALIZE, &begin).await;
        if let Err(error) = begun {
            self.destroy(sandbox).await?;
            return Err(error.into());
        }
        Ok(place.fill(params.language, sandbox))
    }

    /// A session that is kept under its name, as it was left or new.
    #[cfg(unix)]
    pub(crate) async fn wake_session(
        self: &Arc<Self>,
        params: &CreateParams,
        name: &str,
    ) -> Result<Arc<Session>, Problem> {
        let place = self.sessions.reserve(Some(name.to_owned()))?;
        let sandbox = self.create(params).await?;
        Ok(place.fill(params.language, sandbox))
    }

    /// Ends the session that was unused for longest, which is kept under its name.
    #[cfg(unix)]
    pub(crate) async fn put_away_oldest(&self) -> Result<(), Problem> {
        match self.sessions.take_oldest() {
            Some(session) => self.destroy(session.sandbox).await,
            None => Err(Problem::busy("all sessions are used")),
        }
    }

    /// A second session that goes on from where this one is.
    pub(crate) async fn fork_session(
        self: &Arc<Self>,
        parent: &Session,
        wanted: Option<String>,
        gone: &CancellationToken,
    ) -> Result<Arc<Session>, Problem> {
        let place = self.sessions.reserve(wanted)?;
        let params = SandboxParams { sandbox: parent.sandbox };
        let created: Created = self.ask(parent, gone, FORK, &params).await?;
        Ok(place.fill(parent.language, created.sandbox))
    }

    /// Ends a session, and what runs in it.
    pub(crate) async fn destroy_session(&self, id: &str) -> Result<(), Problem> {
        let session = self.sessions.take(id)?;
        self.cancel(Some(&session.id));
        let _turn = session.turn.lock().await;
        self.destroy(session.sandbox).await
    }

    pub(crate) async fn destroy(&self, sandbox: SandboxId) -> Result<(), Problem> {
        // Without a connection there is no sandbox.
        let Some(connection) = self.connection.get() else { return Ok(()) };
        Ok(connection.client.request(DESTROY, &SandboxParams { sandbox }).await?)
    }

    /// Runs code in a sandbox of its own, whose policy sees to its time.
    pub(crate) async fn run_fresh(
        self: &Arc<Self>,
        params: &CreateParams,
        wanted: Wanted<'_>,
    ) -> Result<SandboxResult, Problem> {
        let begun = self.begin(None, wanted.gone);
        let _slot = unless(&begun.stop, self.house.executions.acquire()).await?;
        let sandbox = self.create(params).await?;
        let execution = Execution {
            connection: self.connection().await?,
            sandbox,
            code: wanted.code,
            timeout: None,
            stop: &begun.stop,
            listener: wanted.listener,
        };
        let ran = execution.run().await;
        if let Err(problem) = self.destroy(sandbox).await {
            tracing::warn!(target: "belljar", %problem, "a sandbox was not ended in order");
        }
        ran
    }

    /// Runs code in a session, for no longer than `timeout` and its policy allow.
    pub(crate) async fn run_in(
        self: &Arc<Self>,
        session: &Session,
        timeout: Option<Duration>,
        wanted: Wanted<'_>,
    ) -> Result<SandboxResult, Problem> {
        let begun = self.begin(Some(session), wanted.gone);
        let _turn = unless(&begun.stop, session.turn.lock()).await?;
        let _slot = unless(&begun.stop, self.house.executions.acquire()).await?;
        let execution = Execution {
            connection: self.connection().await?,
            sandbox: session.sandbox,
            code: wanted.code,
            timeout,
            stop: &begun.stop,
            listener: wanted.listener,
        };
        let ran = execution.run().await;
        session.touch();
        session.executions.fetch_add(1, Ordering::Relaxed);
        let mut result = ran?;
        result.meta.session_id = Some(session.id.clone());
        Ok(result)
    }

    /// Something of a session that is quickly done, when it is this call's turn.
    pub(crate) async fn ask<T: DeserializeOwned>(
        self: &Arc<Self>,
        session: &Session,
        gone: &CancellationToken,
        method: &str,
        params: &impl Serialize,
    ) -> Result<T, Problem> {
        let _turn = unless(gone, session.turn.lock()).await?;
        session.touch();
        Ok(self.connection().await?.client.request(method, params).await?)
    }

    /// Something begins to run that `cancel` can stop until what this gives is dropped.
    fn begin(&self, session: Option<&Session>, wanted: &CancellationToken) -> Begun<'_> {
        let stop = wanted.child_token();
        let mut running = self.running();
        running.last += 1;
        let number = running.last;
        let session = session.map(|session| session.id.clone());
        running.executions.insert(number, (session, stop.clone()));
        Begun { desk: self, number, stop }
    }

    /// Stops what runs in a session, or everything; how many it were.
    pub(crate) fn cancel(&self, session: Option<&str>) -> usize {
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
struct Begun<'a> {
    desk: &'a Desk,
    number: u64,
    stop: CancellationToken,
}

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        self.desk.running().executions.remove(&self.number);
    }
}

async fn unless<T>(stop: &CancellationToken, work: impl Future<Output = T>) -> Result<T, Problem> {
    tokio::select! {
        biased;
        () = stop.cancelled() => {
            let told = "cancelled before it began; nothing was run";
            Err(Problem::new(problem::CANCELLED, told))
        }
        done = work => Ok(done),
    }
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
