//! What can be typed about the daemon.

use std::net::SocketAddr;
use std::path::PathBuf;

use belljar::core::units;
use clap::{Args, Subcommand};

#[derive(Debug, Args)]
pub(crate) struct DaemonArgs {
    #[command(subcommand)]
    pub(crate) command: DaemonCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum DaemonCommand {
    /// Start the daemon in the background, and wait until it answers
    Start(StartArgs),
    /// End the daemon once what runs has finished
    Stop {
        /// Cancel what still runs after this time, for example 5 or 500ms [default: 30 s]
        #[arg(long, value_name = "TIME", value_parser = units::parse_seconds)]
        patience: Option<f64>,
    },
    /// Say how the daemon and its workers are
    Status {
        /// Print it as JSON
        #[arg(long)]
        json: bool,
        /// Print its numbers as Prometheus reads them
        #[arg(long, conflicts_with = "json")]
        metrics: bool,
    },
    /// Print the daemon's log
    Logs {
        /// Go on printing what is added
        #[arg(short, long)]
        follow: bool,
    },
    /// Print the description of the interface over HTTP, as OpenAPI
    Openapi,
    /// Be a worker: for the daemon itself, which starts its workers so
    #[command(hide = true)]
    Worker(WorkerArgs),
}

#[derive(Debug, Args)]
pub(crate) struct StartArgs {
    /// Worker processes [default: as many as there are processors]
    #[arg(long, value_name = "N")]
    pub(crate) workers: Option<usize>,
    /// Stay in the foreground
    #[arg(long)]
    pub(crate) foreground: bool,
    /// Do without jails around the workers, so that an escape from wasm would be this user
    #[arg(long)]
    pub(crate) unconfined: bool,
    /// Change a limit, for example running=16; may be repeated. docs/daemon.md lists them
    #[arg(long = "limit", value_name = "NAME=VALUE")]
    pub(crate) limits: Vec<String>,
    /// Serve over HTTP, too, at this port of the loopback or this IP:PORT; port 0 takes a free one.
    /// Clients need the token in the daemon's directory, or one of those in BELLJAR_HTTP_TOKEN
    #[arg(long, value_name = "ADDR", value_parser = super::parse_address)]
    pub(crate) http: Option<SocketAddr>,
    /// Let --http be an address that other machines reach; nothing is encrypted on the way
    #[arg(long, requires = "http")]
    pub(crate) http_anywhere: bool,
    /// A name by which clients over HTTP may call this machine, beside localhost and the address;
    /// may be repeated
    #[arg(long, value_name = "HOST", requires = "http")]
    pub(crate) http_host: Vec<String>,
    /// Where compiled guests are, if not in Belljar's directory
    #[arg(long, hide = true, value_name = "DIR")]
    pub(crate) cache: Option<PathBuf>,
    /// Leave the terminal: for the daemon itself
    #[arg(long, hide = true)]
    pub(crate) detach: bool,
}

#[derive(Debug, Args)]
pub(crate) struct WorkerArgs {
    #[arg(long)]
    pub(crate) home: PathBuf,
    #[arg(long)]
    pub(crate) cache: PathBuf,
    #[arg(long)]
    pub(crate) unconfined: bool,
}
