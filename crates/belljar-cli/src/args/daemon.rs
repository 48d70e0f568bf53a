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
    /// Make, list and revoke keys for E2B's clients
    Key {
        #[command(subcommand)]
        command: KeyCommand,
    },
    /// Start commands in a jail: for the daemon itself
    #[command(hide = true)]
    Agent,
    /// Become a program in the terminal this was started with: for an agent
    #[command(hide = true)]
    Terminal {
        #[arg(last = true)]
        command: Vec<String>,
    },
    /// Be a worker: for the daemon itself, which starts its workers so
    #[command(hide = true)]
    Worker(WorkerArgs),
}

#[derive(Debug, Subcommand)]
pub(crate) enum KeyCommand {
    /// Make a key and print it, which is the only time that it is shown
    New {
        /// What to call it
        #[arg(value_name = "NAME", default_value = "")]
        name: String,
    },
    /// List the keys by their names and ids
    List,
    /// Revoke a key, at once: its sandboxes end
    Revoke {
        /// Its id, as `list` shows it
        #[arg(value_name = "ID")]
        id: String,
    },
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
    /// Serve E2B's clients there, too. They need a key of `belljar daemon key`, or one of those in
    /// E2B_API_KEY
    #[arg(long, requires = "http")]
    pub(crate) e2b: bool,
    /// A template for E2B's clients whose Python code runs in this Python of the machine, a virtual
    /// environment's for example, in a jail; may be repeated
    #[arg(long, value_name = "NAME=PYTHON", requires = "e2b")]
    pub(crate) e2b_template: Vec<String>,
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
