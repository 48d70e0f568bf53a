//! MCP over HTTP: one address, a token, and no word to anybody else.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{Method, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use rmcp::model::ProtocolVersion;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::limits::MAX_BODY_BYTES;
use super::server::{Agents, Server};
use crate::desk::House;
use crate::desk::limits::MAX_CLIENTS;
use crate::web::connections::{self, Bounds};
use crate::web::token::Token;

/// Where clients connect to.
pub(crate) const PATH: &str = "/mcp";

/// The header with which a client names its session.
const SESSION_HEADER: &str = "mcp-session-id";

/// How to serve over HTTP.
#[derive(Debug, Clone)]
pub struct HttpSettings {
    /// Where to listen.
    pub address: SocketAddr,
    /// What every request has to carry.
    pub token: Token,
    /// Names under which this machine may be addressed, beside those of the loopback and the
    /// address itself. A page in a browser that has its own name lead here uses another.
    pub allowed_hosts: Vec<String>,
    /// Origins of pages that may connect: none, unless they are named.
    pub allowed_origins: Vec<String>,
}

pub(super) async fn serve(
    agents: Agents,
    settings: HttpSettings,
    end: CancellationToken,
    ready: impl FnOnce(SocketAddr),
) -> io::Result<()> {
    let listener = TcpListener::bind(settings.address).await?;
    let address = listener.local_addr()?;
    let door = Arc::new(Door { token: settings.token.clone(), house: Arc::clone(&agents.house) });
    let loopback = ["localhost", "127.0.0.1", "::1"].map(str::to_owned);
    let own = settings.address.ip().to_string();
    let hosts = loopback.into_iter().chain([own]).chain(settings.allowed_hosts).collect();
    let pages = Pages { hosts, origins: settings.allowed_origins };
    let router = Router::new()
        .route_service(PATH, service(agents, pages, end.clone()))
        .layer(middleware::from_fn_with_state(door, admit));
    ready(address);
    connections::serve(listener, router, Bounds::default(), end).await;
    Ok(())
}

/// Which names and pages may lead here.
pub(crate) struct Pages {
    pub(crate) hosts: Vec<String>,
    pub(crate) origins: Vec<String>,
}

/// What answers at one path. Whoever comes this far has the token.
pub(crate) fn service(
    agents: Agents,
    pages: Pages,
    end: CancellationToken,
) -> StreamableHttpService<Server, LocalSessionManager> {
    let config = StreamableHttpServerConfig::default()
        .with_allowed_hosts(pages.hosts)
        .with_allowed_origins(pages.origins)
        .enforce_origin_validation()
        .with_max_request_body_bytes(MAX_BODY_BYTES)
        .with_cancellation_token(end);
    let mut sessions = LocalSessionManager::default();
    sessions.session_config.keep_alive = Some(agents.house.session_idle);
    // From the next version on nothing connects two requests over HTTP, so a client would not find
    // its own sandboxes again. Clients of that version speak this one as well.
    let newest = ProtocolVersion::V_2025_11_25;
    let make = move || Ok(Server::new(agents.clone(), newest.clone()));
    StreamableHttpService::new(make, Arc::new(sessions), config)
}

/// Who decides whether a request is let in.
struct Door {
    token: Token,
    house: Arc<House>,
}

async fn admit(State(door): State<Arc<Door>>, request: Request, next: Next) -> Response {
    let headers = request.headers();
    let secret = headers.get(header::AUTHORIZATION).map(|value| value.as_bytes());
    if !door.token.admits(secret) {
        let challenge = [(header::WWW_AUTHENTICATE, "Bearer")];
        let why = "a token is needed: Authorization: Bearer …\n";
        return (StatusCode::UNAUTHORIZED, challenge, why).into_response();
    }
    pass(&door.house, request, next).await
}

/// Lets a request through, unless it is that of one client too many.
pub(crate) async fn pass(house: &Arc<House>, request: Request, next: Next) -> Response {
    // Every client's desk holds the house.
    let newcomer = !request.headers().contains_key(SESSION_HEADER);
    if newcomer && Arc::strong_count(house) > MAX_CLIENTS {
        let why = "there are as many clients as may be; try again later\n";
        return (StatusCode::SERVICE_UNAVAILABLE, why).into_response();
    }
    let ends = request.method() == Method::DELETE;
    let mut response = next.run(request).await;
    // Done, and not only taken note of: there are clients that see a failure in the latter.
    if ends && response.status() == StatusCode::ACCEPTED {
        *response.status_mut() = StatusCode::NO_CONTENT;
    }
    response
}
