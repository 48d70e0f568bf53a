//! Sandboxes as tools of the Model Context Protocol, for any agent that speaks it.
//!
//! Each client has sandboxes of its own, behind a connection of its own: nothing of one can be named
//! by another.

mod answers;
mod arguments;
mod calls;
mod files;
pub(crate) mod http;
mod limits;
mod progress;
pub(crate) mod server;
mod text;
mod tools;

use std::io;
use std::sync::Arc;

use belljar::AgentTool;
use rmcp::model::ProtocolVersion;
use rmcp::service::{ServerInitializeError, serve_server_with_ct};
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::io::stdio_pipes;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::desk::House;
use crate::serve::Offer;
use server::{Agents, Server};

pub use crate::web::token::{Token, TokenError};
pub use http::HttpSettings;

/// Serves the program that has started this one, on standard input and output, until the input
/// ends or this process is asked to end. Nothing else may be written to standard output.
///
/// # Errors
/// When the streams cannot be used, or the other side does not speak the protocol.
pub fn serve_stdio(offer: Offer, tool: AgentTool) -> io::Result<()> {
    run(offer, tool, |agents, end| async move {
        let (input, output) = stdio_pipes();
        serve_client(agents, input, output, end).await
    })
}

/// Serves any number of clients over HTTP until this process is asked to end. `ready` is told the
/// address, once it is open.
///
/// # Errors
/// When the address cannot be had.
pub fn serve_http(
    offer: Offer,
    tool: AgentTool,
    settings: HttpSettings,
    ready: impl FnOnce(std::net::SocketAddr),
) -> io::Result<()> {
    run(offer, tool, |agents, end| http::serve(agents, settings, end, ready))
}

/// Runs to the end, and removes what clients have left behind.
fn run<F: Future<Output = io::Result<()>>>(
    offer: Offer,
    tool: AgentTool,
    work: impl FnOnce(Agents, CancellationToken) -> F,
) -> io::Result<()> {
    let house = Arc::new(House::new(offer));
    let agents = Agents { house: Arc::clone(&house), tool: Arc::new(tool) };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let outcome = runtime.block_on(async {
        let end = CancellationToken::new();
        end_when_asked(end.clone())?;
        work(agents, end).await
    });
    // With the tasks go the connections, and with those the sandboxes.
    runtime.shutdown_timeout(limits::ENDING);
    house.close();
    outcome
}

fn end_when_asked(end: CancellationToken) -> io::Result<()> {
    let (mut interrupt, mut terminate) =
        (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    tokio::spawn(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        end.cancel();
    });
    Ok(())
}

/// One client on one pair of streams.
async fn serve_client(
    agents: Agents,
    input: impl AsyncRead + Send + Unpin + 'static,
    output: impl AsyncWrite + Send + Unpin + 'static,
    end: CancellationToken,
) -> io::Result<()> {
    let transport =
        AsyncRwTransport::new_server(input, output).with_max_line_length(limits::MAX_LINE_BYTES);
    let server = Server::new(agents, ProtocolVersion::LATEST);
    match serve_server_with_ct(server, transport, end).await {
        Ok(running) => running.waiting().await.map(drop).map_err(io::Error::other),
        // It came and went, or was sent away before it could say anything.
        Err(ServerInitializeError::ConnectionClosed(_) | ServerInitializeError::Cancelled) => {
            Ok(())
        }
        Err(error) => Err(io::Error::other(error)),
    }
}

#[cfg(test)]
mod tests;
