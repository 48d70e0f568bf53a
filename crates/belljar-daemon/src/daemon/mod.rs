//! The daemon: a supervisor that clients connect to, and workers in jails in which their sandboxes
//! live.
//!
//! ```text
//! client ─┐                     ┌─ worker 0 (jail): serve() ─ sandboxes, each on its thread
//! client ─┼─ socket ─ supervisor┼─ worker 1 (jail): …
//! client ─┘                     └─ …
//! ```
//!
//! The supervisor runs no foreign code. It reads of a message who it is for, exchanges the numbers
//! of sandboxes, snapshots and requests, and passes on the rest unread. A task for each sandbox of a
//! client ([`seat`]) knows where it lives, and brings a named session back where it does not live any
//! more.

mod budget;
mod client;
mod control;
mod directories;
mod e2b;
mod errors;
mod fields;
mod http;
mod hub;
mod images;
mod launch;
mod limits;
mod lines;
mod listen;
mod log;
mod metrics;
mod names;
mod outbox;
mod process;
mod seat;
mod slot;
mod transfer;
mod worker;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use belljar::Home;
use belljar::remote::local::is_of_this_user;
use belljar_core::protocol::{self, RpcError};
use interprocess::local_socket::traits::tokio::Listener as _;
use interprocess::os::unix::uds_local_socket::tokio::Listener;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::net::UnixStream;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, sleep, timeout};

pub use control::Control;
pub use e2b::{E2bSettings, KeyRecord, key_path, list_keys, new_key, revoke_key};
pub use errors::DaemonError;
pub use http::{HttpSettings, openapi, token_path};
pub use limits::Limits;
pub use log::older;
pub use process::{WorkerSettings, prepare, work};

use hub::Hub;
use launch::Launch;
use listen::{Lock, Socket};

/// How often it is looked whether the socket is still in its place.
const LOOK_AT_SOCKET: Duration = Duration::from_millis(500);

/// How often it is looked whether everything has finished.
const LOOK: Duration = Duration::from_millis(5);

/// What runs has so long to stop after it was cancelled.
const AFTER_CANCEL: Duration = Duration::from_secs(3);

/// Clients have so long to read what they were told last.
const READ_WITHIN: Duration = Duration::from_secs(5);

/// Nobody asks for anything any more when so long nobody did.
const QUIET: Duration = Duration::from_millis(100);

/// What is left of the event loop's own work has so long to end.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Which worker's directory each session is in.
const SESSIONS: &str = "sessions";

/// Held by the daemon that works in a directory.
const LOCK: &str = "lock";

/// Where workers have their directories.
const WORKERS: &str = "workers";

/// How a daemon is to be.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Belljar's own directory.
    pub home: Home,
    /// Where clients find it.
    pub socket: PathBuf,
    /// How many processes.
    pub workers: usize,
    /// Whether workers do without jails.
    pub unconfined: bool,
    /// How much for how many.
    pub limits: Limits,
    /// Whether it is served over HTTP, too.
    pub http: Option<HttpSettings>,
    /// The program that workers run, which is `belljar` itself.
    pub program: PathBuf,
}

/// Where a daemon logs.
#[must_use]
pub fn log_path(home: &Home) -> PathBuf {
    home.daemon().join("log")
}

/// Whether no daemon works in that directory any more.
#[must_use]
pub fn has_ended(home: &Home) -> bool {
    !matches!(Lock::take(&home.daemon().join(LOCK)), Err(DaemonError::Running { .. }))
}

/// Belljar's directory of every worker there was: each keeps the sessions that clients have named.
///
/// # Errors
/// When the daemon's directory cannot be read. One that is not there holds none.
pub fn worker_homes(home: &Home) -> io::Result<Vec<Home>> {
    let entries = match std::fs::read_dir(home.daemon().join(WORKERS)) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
    paths.sort();
    let homes = paths.into_iter().map(Home::at);
    // A link where a worker's sessions should be leads where no worker may be followed to.
    let is_real = |home: &Home| home.sessions().symlink_metadata().is_ok_and(|it| it.is_dir());
    Ok(homes.filter(is_real).collect())
}

/// Serves until it is stopped: by `stop`, SIGTERM or SIGINT.
///
/// # Errors
/// When it cannot be started.
pub fn run(settings: Settings) -> Result<(), DaemonError> {
    // Whatever is made from now on is this user's alone.
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    let directory = settings.home.daemon();
    listen::private_directory(&directory)?;
    let _lock = Lock::take(&directory.join(LOCK))?;
    start_logging(&settings.home)?;
    if !settings.unconfined
        && let Some(reason) = launch::no_jail()
    {
        return Err(DaemonError::NoJail { reason });
    }
    more_descriptors();
    prepare(&settings.home)?;
    let list = directory.join(SESSIONS);
    let mut listed = names::read(&list);
    let found = directories::worker_directories(&directory, settings.workers.max(1), &mut listed)?;
    let names = names::Names::new(&list, &listed, &found.sessions);
    directories::clear_all(&directory);
    let http = settings.http.map(|http| http::Opened::new(http, &settings.home)).transpose()?;
    let (socket, listener) = Socket::open(&settings.socket)?;
    let threads = std::thread::available_parallelism().map_or(2, |cores| cores.get().clamp(2, 4));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads)
        .enable_all()
        .build()
        .map_err(DaemonError::system("start an event loop"))?;
    let launch = Launch {
        program: settings.program,
        cache: settings.home.cache(),
        packages: settings.home.packages(),
        confined: !settings.unconfined,
        workers: found.directories.len(),
        limits: settings.limits.clone(),
    };
    let hub = Arc::new(Hub::new(
        settings.limits,
        found.directories,
        names,
        launch.confined,
        settings.home,
    ));
    let outcome = runtime.block_on(supervise(hub, launch, Doors { socket, listener, http }));
    runtime.shutdown_timeout(LAST_WORDS);
    outcome
}

/// Where clients come in.
struct Doors {
    socket: Socket,
    listener: interprocess::os::unix::uds_local_socket::Listener,
    http: Option<http::Opened>,
}

async fn supervise(hub: Arc<Hub>, launch: Launch, doors: Doors) -> Result<(), DaemonError> {
    let Doors { mut socket, listener, http } = doors;
    let listener = Listener::try_from(listener).map_err(DaemonError::system("use the socket"))?;
    tracing::info!(
        pid = std::process::id(),
        workers = hub.slots.len(),
        confined = hub.confined,
        "the daemon is there"
    );
    if !hub.confined {
        tracing::warn!("workers are in no jail: --unconfined was given");
    }
    let launch = Arc::new(launch);
    let mut slots = JoinSet::new();
    for slot in &hub.slots {
        slots.spawn(slot::supervise(Arc::clone(&hub), Arc::clone(&launch), slot.number));
    }
    stop_on_signals(&hub)?;
    let end = http::End::default();
    let http = http.map(|opened| serve_http(&hub, opened, &end));
    tokio::select! {
        () = hub.stopped() => {}
        () = accept(&hub, &mut socket, listener) => {}
    }
    socket.remove();
    end.closing.cancel();
    tracing::info!(running = hub.running(), "the daemon ends");
    drain(&hub).await;
    end.ended.cancel();
    if let Some(http) = http {
        // Whoever does not take its answer by then gets none.
        let _ = timeout(LAST_WORDS, http).await;
    }
    hub.end();
    while slots.join_next().await.is_some() {}
    for client in hub.all_clients() {
        client.outbox.close();
    }
    tracing::info!("the daemon has ended");
    Ok(())
}

fn serve_http(hub: &Arc<Hub>, opened: http::Opened, end: &http::End) -> JoinHandle<()> {
    let address = opened.address;
    // Said once.
    let _ = hub.http.set(format!("http://{address}"));
    tracing::info!(%address, "it is served over HTTP, too");
    if !address.ip().is_loopback() {
        tracing::warn!("other machines can connect, and nothing is encrypted on the way");
    }
    let serving = http::serve(Arc::clone(hub), opened, end.clone());
    tokio::spawn(async move {
        if let Err(error) = serving.await {
            tracing::error!(%error, "it is not served over HTTP");
        }
    })
}

/// Lets clients in, for ever.
async fn accept(hub: &Arc<Hub>, socket: &mut Socket, mut listener: Listener) {
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = sleep(LOOK_AT_SOCKET) => {
                let renewed = socket.renewed().and_then(|it| Listener::try_from(it).ok());
                if let Some(renewed) = renewed {
                    tracing::warn!("the socket was removed and is made anew");
                    listener = renewed;
                }
                continue;
            }
        };
        match accepted {
            Ok(stream) => match is_of_this_user(&stream) {
                Ok(true) => let_in(hub, stream.into()),
                Ok(false) => {
                    hub.counters.refused.add();
                    tracing::warn!("another user is not let in");
                }
                Err(error) => tracing::warn!(%error, "nobody knows who connects"),
            },
            Err(error) => {
                // Descriptors are used up; some will be given back.
                tracing::warn!(%error, "a client cannot be let in");
                sleep(LOOK).await;
            }
        }
    }
}

fn let_in(hub: &Arc<Hub>, stream: UnixStream) {
    let most = hub.limits.connections;
    if hub.connections() >= most {
        hub.counters.refused.add();
        let error: RpcError = hub.busy(&format!("there are {most} clients, and no more may be"));
        if let Ok(line) = protocol::complaint(&error) {
            // Whoever does not take it at once learns it by the end of the connection.
            let _ = stream.try_write(&line);
        }
        return;
    }
    tokio::spawn(client::serve(Arc::clone(hub), stream, client::Origin::Outside));
}

fn stop_on_signals(hub: &Arc<Hub>) -> Result<(), DaemonError> {
    for kind in [SignalKind::terminate(), SignalKind::interrupt()] {
        let mut signals = signal(kind).map_err(DaemonError::system("listen for signals"))?;
        let hub = Arc::clone(hub);
        tokio::spawn(async move {
            let mut patience = None;
            while signals.recv().await.is_some() {
                hub.stop(patience);
                // Whoever says it twice is in a hurry.
                patience = Some(0.0);
            }
        });
    }
    Ok(())
}

/// Waits for what runs, then stops it; and sees to it that everybody hears what came of it.
async fn drain(hub: &Hub) {
    let mut patience = hub.patience();
    let finished = loop {
        let seconds = patience.borrow_and_update().unwrap_or_default();
        tokio::select! {
            finished = becomes_quiet(hub, limits::seconds(seconds)) => break finished,
            // Somebody is in more of a hurry, or in less.
            Ok(()) = patience.changed() => {}
        }
    };
    let idle = || hub.is_idle();
    if !finished && !idle() {
        tracing::warn!(running = hub.running(), "what still runs is cancelled");
        for client in hub.all_clients() {
            client.cancel_all();
        }
        becomes(AFTER_CANCEL, idle).await;
    }
    let read = || hub.all_clients().iter().all(|client| client.outbox.is_empty());
    becomes(READ_WITHIN, read).await;
}

/// Whether in time everything is answered and nobody asks for more: whoever was told a result may
/// want its files.
async fn becomes_quiet(hub: &Hub, patience: Duration) -> bool {
    let waiting = async {
        let (mut answers, mut since) = (hub.answers(), Instant::now());
        while since.elapsed() < QUIET {
            sleep(LOOK).await;
            if !hub.is_idle() || hub.answers() != answers {
                (answers, since) = (hub.answers(), Instant::now());
            }
        }
    };
    timeout(patience, waiting).await.is_ok()
}

/// Whether something comes true in time.
async fn becomes(patience: Duration, condition: impl Fn() -> bool) -> bool {
    let begun = Instant::now();
    let waiting = async {
        while !condition() {
            sleep(LOOK).await;
        }
    };
    condition() || (timeout(patience, waiting).await.is_ok() && begun.elapsed() <= patience)
}

fn start_logging(home: &Home) -> Result<(), DaemonError> {
    let log = log::Log::open(&log_path(home)).map_err(DaemonError::system("open the log"))?;
    let subscriber = tracing_subscriber::fmt()
        .json()
        .flatten_event(true)
        .with_max_level(tracing::Level::INFO)
        .with_writer(log)
        .finish();
    // A program that logs already goes on as it did.
    let _ = tracing::subscriber::set_global_default(subscriber);
    Ok(())
}

/// As many as the system lets us have: every client is one.
fn more_descriptors() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    // What we have already will have to do.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}
