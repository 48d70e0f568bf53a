//! The daemon over HTTP: what the socket's clients can do, for whoever has a token.
//!
//! Each token is one client, with a connection of its own to the same router that serves the socket:
//! limits, turns and workers are the same for both, and no name of one leads to anything of another.

mod body;
mod door;
mod errors;
mod events;
mod executions;
mod files;
mod forms;
mod openapi;
mod rate;
mod routes;
mod tokens;

use std::net::{SocketAddr, TcpListener as StdListener};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use belljar::{AgentSettings, AgentTool, Home};
use tokio::net::{TcpListener, UnixStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

pub(super) use door::is_ours;
pub(super) use errors::status as status_of;
pub use openapi::openapi;
pub(super) use rate::Rate;
pub use tokens::token_path;

use super::client::Origin;
use super::e2b::{self, E2b, E2bSettings};
use super::errors::DaemonError;
use super::hub::Hub;
use super::limits::seconds;
use crate::desk::{Desk, House, Problem};
use crate::mcp::server::Agents;
use crate::web::connections::{self, Bounds};
use crate::web::token::Token;

/// Calls of one client that are not answered; more are refused as busy.
const MAX_CALLS: usize = 256;

/// How to serve over HTTP.
#[derive(Debug, Clone)]
pub struct HttpSettings {
    /// Where to listen.
    pub address: SocketAddr,
    /// Whether that may be an address other machines reach.
    pub anywhere: bool,
    /// Names under which this machine may be addressed, beside those of the loopback and the
    /// address itself.
    pub hosts: Vec<String>,
    /// What requests have to carry, each for a client of its own; none for the one in the daemon's
    /// directory.
    pub tokens: Vec<Token>,
    /// Whether E2B's clients are served there, too.
    pub e2b: Option<E2bSettings>,
}

/// An address that is taken, before anybody is served there.
pub(super) struct Opened {
    listener: StdListener,
    pub(super) address: SocketAddr,
    hosts: Vec<String>,
    tokens: Vec<Token>,
    tool: AgentTool,
    e2b: Option<(E2bSettings, Home)>,
}

impl Opened {
    /// Takes the address, and finds or makes the token.
    pub(super) fn new(settings: HttpSettings, home: &Home) -> Result<Self, DaemonError> {
        let wanted = settings.address;
        if !wanted.ip().is_loopback() && !settings.anywhere {
            return Err(DaemonError::Reachable { address: wanted });
        }
        let tokens = match settings.tokens {
            tokens if tokens.is_empty() => vec![tokens::kept(&token_path(home))?],
            tokens => tokens,
        };
        let failed = |problem: std::io::Error| DaemonError::Address { address: wanted, problem };
        let listener = StdListener::bind(wanted).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let loopback = ["localhost", "127.0.0.1", "::1"].map(str::to_owned);
        let hosts = loopback.into_iter().chain([address.ip().to_string()]).chain(settings.hosts);
        let tool = agent_tool(home)?;
        let e2b = settings.e2b.map(|e2b| (e2b, home.clone()));
        Ok(Self { listener, address, hosts: hosts.collect(), tokens, tool, e2b })
    }
}

/// What agents are given as `run_python_code`: as the environment says, in the daemon's workers.
fn agent_tool(home: &Home) -> Result<AgentTool, DaemonError> {
    let mut settings = AgentSettings::from_env()?;
    (settings.python, settings.index_url) = (None, Vec::new());
    // A daemon has no directory of its user's to be in.
    settings.artifacts = settings.artifacts.below(&home.daemon());
    Ok(AgentTool::new(settings))
}

/// Ends a server in two steps.
#[derive(Clone, Default)]
pub(super) struct End {
    /// Nothing new is taken; what was asked for is answered.
    pub(super) closing: CancellationToken,
    /// Nothing is answered any more.
    pub(super) ended: CancellationToken,
}

/// What all requests share.
struct Api {
    hub: Arc<Hub>,
    house: Arc<House>,
    agents: Agents,
    hosts: Vec<String>,
    clients: Vec<Client>,
}

/// One client: whoever has this token.
struct Client {
    token: Token,
    rate: Rate,
    desk: Mutex<Arc<Desk>>,
}

/// Serves until the end.
pub(super) async fn serve(hub: Arc<Hub>, opened: Opened, end: End) -> Result<(), DaemonError> {
    let listener =
        TcpListener::from_std(opened.listener).map_err(DaemonError::system("serve over HTTP"))?;
    let limits = &hub.limits;
    let bounds = Bounds {
        connections: u32::try_from(limits.http_connections).unwrap_or(u32::MAX >> 4),
        headers: seconds(limits.http_header_seconds),
        idle: match &opened.e2b {
            Some(_) => e2b::IDLE_CONNECTION,
            None => Duration::ZERO,
        },
        stall: seconds(limits.http_stall_seconds),
        // The supervisor does not wait for longer either.
        ending: Duration::MAX,
    };
    let agents = Agents { house: Arc::new(house(&hub)), tool: Arc::new(opened.tool) };
    let mut house = house(&hub);
    house.max_sessions = limits.sandboxes_per_client;
    house.max_calls = MAX_CALLS;
    let house = Arc::new(house);
    let client = |token| Client {
        token,
        rate: Rate::new(limits.http_requests_per_second),
        desk: Mutex::new(Desk::new(Arc::clone(&house))),
    };
    let clients = opened.tokens.into_iter().map(client).collect();
    let e2b = match &opened.e2b {
        Some((settings, home)) => Some(E2b::new(&hub, settings, home, opened.hosts.clone())?),
        None => None,
    };
    let (hub, hosts) = (Arc::clone(&hub), opened.hosts);
    let router = routes::router(Arc::new(Api { hub, house, agents, hosts, clients }), end.ended);
    let router = match e2b {
        Some(e2b) => e2b.router(router),
        None => router,
    };
    connections::serve(listener, router, bounds, end.closing).await;
    Ok(())
}

/// Sandboxes in the daemon's workers. Who runs when is decided there.
fn house(hub: &Arc<Hub>) -> House {
    let connected = Arc::clone(hub);
    let connect = move || own_client(&connected, Origin::Outside);
    let turns = Semaphore::new(Semaphore::MAX_PERMITS);
    House::elsewhere(Box::new(connect), turns)
}

/// A connection to ourselves, as any client has one.
pub(super) fn own_client(hub: &Arc<Hub>, origin: Origin) -> Result<UnixStream, Problem> {
    let most = hub.limits.connections;
    if hub.connections() >= most {
        return Err(Problem::busy(&format!("there are {most} clients, and no more may be")));
    }
    let (ours, theirs) = UnixStream::pair()
        .map_err(|error| Problem::failed(format!("no sandboxes can be had: {error}")))?;
    tokio::spawn(super::client::serve(Arc::clone(hub), theirs, origin));
    Ok(ours)
}

impl Client {
    /// Its desk; another one when the sandboxes of the last are gone.
    fn desk(&self, house: &Arc<House>) -> Arc<Desk> {
        let mut desk = self.desk.lock().unwrap_or_else(PoisonError::into_inner);
        if desk.is_lost() {
            tracing::warn!("the sandboxes of a client over HTTP are gone; it gets others");
            *desk = Desk::new(Arc::clone(house));
        }
        Arc::clone(&desk)
    }
}
