//! `belljar mcp`: sandboxes as tools for agents.

use std::net::SocketAddr;
use std::process::ExitCode;

use anyhow::Context as _;
use belljar::{AgentTool, Defaults, Home};
use belljar_daemon::mcp::{self, HttpSettings, Token};
use belljar_daemon::serve::Offer;

use crate::args::McpArgs;

/// The token that clients over HTTP have to know.
const TOKEN: &str = "BELLJAR_HTTP_TOKEN";

pub(crate) fn run(args: McpArgs) -> anyhow::Result<ExitCode> {
    let home = Home::locate()?;
    let backend = match args.backend {
        Some(backend) => backend,
        None => Defaults::read(&home)?.backend.unwrap_or_default(),
    };
    let tool = AgentTool::from_env()?;
    let docker = tool.settings().docker.clone();
    let offer = Offer { backend, docker, ..Offer::new(home) };
    match args.http {
        None => mcp::serve_stdio(offer, tool)?,
        Some(address) => {
            let settings = HttpSettings {
                address,
                token: token()?,
                allowed_hosts: args.allow_host,
                allowed_origins: args.allow_origin,
            };
            mcp::serve_http(offer, tool, settings, tell)
                .with_context(|| format!("cannot serve on {address}"))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The owner's token, or a new one, which is shown this once.
fn token() -> anyhow::Result<Token> {
    if let Some(chosen) = std::env::var_os(TOKEN) {
        let chosen = chosen.to_str().with_context(|| format!("{TOKEN} is no text"))?;
        return Token::chosen(chosen).with_context(|| format!("{TOKEN} cannot be used"));
    }
    let token = Token::random()?;
    anstream::eprintln!("token: {}", token.reveal());
    Ok(token)
}

fn tell(address: SocketAddr) {
    anstream::eprintln!("listening on http://{address}/mcp");
    if !address.ip().is_loopback() {
        anstream::eprintln!(
            "warning: other machines can connect, and nothing is encrypted on the way; put a \
             proxy with TLS before it"
        );
    }
}
