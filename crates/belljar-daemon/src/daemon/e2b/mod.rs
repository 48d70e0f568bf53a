//! E2B's interfaces, so that its own clients work here: control, files and processes of a sandbox,
//! and the code interpreter, on one address. `docs/e2b.md` says what there is.
//!
//! A sandbox is a directory and a record. Its contexts are named sessions in the daemon's workers,
//! woken when they are used; its commands run in a jail that sees the same home.

mod body;
mod command_jail;
mod commands;
mod connect;
mod contexts;
mod control;
mod copies;
mod data;
mod entries;
mod errors;
mod execute;
mod files;
mod filesystem;
mod keys;
mod native;
mod place;
mod process;
mod query;
mod record;
mod registry;
mod room;
mod shares;
mod time;
mod watch;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use belljar::Home;
use tokio::sync::Semaphore;
use tower::ServiceExt;

pub use keys::{KeyRecord, key_path, list_keys, new_key, revoke_key};

use super::client::Origin;
use super::errors::DaemonError;
use super::http::{Rate, is_ours, own_client};
use super::hub::Hub;
use super::listen;
use crate::desk::{Desk, House};
use errors::Failure;
use keys::Keys;
use record::Size;
use registry::Registry;
use shares::{Share, Shares};

/// E2B's clients keep their connections, and not all of them notice in time that one was closed.
pub(super) const IDLE_CONNECTION: Duration = Duration::from_secs(90);

/// A context that nobody has used for so long is on disk only.
const CONTEXT_IDLE: Duration = Duration::from_secs(120);

/// Templates that every client of E2B may name.
const OWN_TEMPLATES: [&str; 3] = ["code-interpreter-v1", "base", DATA_TEMPLATE];

/// The template whose Python has numpy and pandas from the beginning.
const DATA_TEMPLATE: &str = "data";

/// How E2B's clients are served.
#[derive(Debug, Clone)]
pub struct E2bSettings {
    /// Keys that are known beside those of the file.
    pub keys: Vec<String>,
    /// Templates beside E2B's own, each with the Python of this machine that runs its code.
    pub templates: BTreeMap<String, PathBuf>,
    /// The program that the agents of command jails run, which is `belljar` itself.
    pub program: PathBuf,
}

/// Everything its clients share.
pub(super) struct E2b {
    hub: Arc<Hub>,
    house: Arc<House>,
    hosts: Vec<String>,
    keys: Mutex<Keys>,
    tenants: Mutex<HashMap<String, Arc<Tenant>>>,
    registry: Registry,
    /// Where records are.
    folder: PathBuf,
    slots_given: AtomicUsize,
    /// What requests made that may come again: whose, by what name, and the sandbox.
    made: Mutex<VecDeque<((String, String), String)>>,
    program: PathBuf,
    templates: BTreeMap<String, PathBuf>,
    interpreters: native::Interpreters,
    jails: Arc<Shares>,
    watched: Arc<Shares>,
    home: Home,
}

/// Whoever has a key.
struct Tenant {
    rate: Rate,
    desk: Mutex<Arc<Desk>>,
}

impl Tenant {
    /// Its desk; another one when the connection of the last is lost. Sessions are on disk.
    fn desk(&self, house: &Arc<House>) -> Arc<Desk> {
        let mut desk = self.desk.lock().unwrap_or_else(PoisonError::into_inner);
        if desk.is_lost() {
            *desk = Desk::new(Arc::clone(house));
        }
        Arc::clone(&desk)
    }
}

impl E2b {
    pub(super) fn new(
        hub: &Arc<Hub>,
        settings: &E2bSettings,
        home: &Home,
        hosts: Vec<String>,
    ) -> Result<Arc<Self>, DaemonError> {
        let folder = home.daemon().join("e2b");
        listen::private_directory(&folder)?;
        let connected = Arc::clone(hub);
        let connect = move || own_client(&connected, Origin::Inside);
        let mut house = House::elsewhere(Box::new(connect), Semaphore::new(Semaphore::MAX_PERMITS));
        house.session_idle = CONTEXT_IDLE;
        house.max_sessions = hub.limits.sandboxes_per_client;
        let e2b = Arc::new(Self {
            hub: Arc::clone(hub),
            house: Arc::new(house),
            hosts,
            keys: Mutex::new(Keys::new(&settings.keys, key_path(home))?),
            tenants: Mutex::default(),
            registry: Registry::default(),
            folder,
            slots_given: AtomicUsize::new(0),
            made: Mutex::default(),
            program: settings.program.clone(),
            templates: settings.templates.clone(),
            interpreters: native::Interpreters::default(),
            jails: Shares::new(commands::MAX_JAILS),
            watched: Shares::new(watch::MAX_ALL),
            home: home.clone(),
        });
        e2b.bring_back();
        Ok(e2b)
    }

    /// Answers what is E2B's, and passes on the rest.
    pub(super) fn router(self: Arc<Self>, rest: Router) -> Router {
        tokio::spawn(Arc::clone(&self).watch_the_clock());
        let control = control::router(Arc::clone(&self));
        let data = data::router(Arc::clone(&self));
        let hosts = Arc::new(self.hosts.clone());
        Router::new().fallback(move |request: Request| {
            let path = request.uri().path();
            let belongs = |prefix: &str| {
                path.strip_prefix(prefix).is_some_and(|it| it.is_empty() || it.starts_with('/'))
            };
            let router = if request.headers().contains_key(data::ID_HEADER) || path == "/files" {
                data.clone()
            } else if belongs("/v1") || belongs("/mcp") {
                return passed_on(rest.clone(), request);
            } else {
                control.clone()
            };
            match for_us(&request, &hosts) {
                Ok(()) => passed_on(router, request),
                Err(failure) => Box::pin(async { failure.into_response() }),
            }
        })
    }

    fn keys(&self) -> MutexGuard<'_, Keys> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One of those things, if its owner has not got its share of them.
    fn share(&self, of: &Arc<Shares>, owner: &str) -> Option<Share> {
        let keys = self.keys().count();
        of.take(owner, keys)
    }

    fn tenant(&self, owner: &str) -> Arc<Tenant> {
        let mut tenants = self.tenants.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || {
            Arc::new(Tenant {
                rate: Rate::new(self.hub.limits.http_requests_per_second),
                desk: Mutex::new(Desk::new(Arc::clone(&self.house))),
            })
        };
        Arc::clone(tenants.entry(owner.to_owned()).or_insert_with(new))
    }

    /// Workers take turns in having new sandboxes.
    fn next_slot(&self) -> usize {
        self.slots_given.fetch_add(1, Ordering::Relaxed) % self.hub.slots.len().max(1)
    }

    fn directory_of(&self, slot: usize) -> PathBuf {
        // Whatever names a slot was checked when it was made or read.
        self.hub.slots.get(slot).map_or_else(PathBuf::new, |slot| slot.directory.clone())
    }

    fn size(&self) -> Size {
        let limits = &self.hub.limits;
        Size {
            cores: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            memory_bytes: limits.e2b_command_memory_bytes,
            disk_bytes: limits.e2b_disk_bytes,
        }
    }

    /// Whether a template names a Python of the machine.
    fn is_native(&self, template: &str) -> bool {
        self.templates.contains_key(template)
    }

    fn check_template(&self, name: &str) -> Result<(), Failure> {
        if OWN_TEMPLATES.contains(&name) || self.templates.contains_key(name) {
            return Ok(());
        }
        Err(Failure::not_found(format!("template {} was not found", registry::shown(name))))
    }
}

type Answered = std::pin::Pin<Box<dyn Future<Output = Response> + Send>>;

fn passed_on(router: Router, request: Request) -> Answered {
    Box::pin(async move {
        match router.oneshot(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        }
    })
}

/// Requests for this machine by its own name, and from no page in a browser.
fn for_us(request: &Request, hosts: &[String]) -> Result<(), Failure> {
    let headers = request.headers();
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    let refused = |why: &str| Err(Failure::new(axum::http::StatusCode::FORBIDDEN, why));
    if !host.is_some_and(|host| is_ours(host, hosts)) {
        return refused("this is not the machine that Host names; see --http-host");
    }
    if headers.contains_key(header::ORIGIN) {
        return refused("pages in browsers are not served");
    }
    Ok(())
}
