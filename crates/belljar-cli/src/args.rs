//! What can be typed.

mod agent;
mod daemon;
mod sessions;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use belljar::core::units;
use belljar::{
    Backend, Defaults, DockerSettings, Field, ImageChoice, LogFormat, Origin, PolicyLayer,
    PolicyValidationError, Preset, RuntimeType, SandboxConfig, SandboxError,
};
use clap::{Args, Parser, Subcommand};

pub(crate) use agent::{
    AgentArgs, AgentCommand, ArtifactsArgs, ArtifactsCommand, PruneArtifactsArgs,
};
pub(crate) use daemon::{DaemonArgs, DaemonCommand, KeyCommand, StartArgs};
pub(crate) use sessions::{
    ModelArgs, PruneArgs, ReplArgs, ResumeArgs, SessionArgs, SessionCommand, ToolArgs,
};

/// Runs code a language model wrote, in a fresh sandbox, and tells exactly what happened.
#[derive(Debug, Parser)]
#[command(
    name = "belljar",
    version,
    arg_required_else_help = true,
    after_help = "Exit codes: the guest's own; 123 it waits for a tool; 124 a limit stopped it; 125 Belljar could not run it; 2 usage."
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run code in a fresh sandbox
    Run(RunArgs),
    /// Check the syntax of code without executing it
    Check(CheckArgs),
    /// Work in a sandbox interactively; its state lives on from cell to cell
    Repl(ReplArgs),
    /// List, copy, save, resume or remove sessions
    Session(SessionArgs),
    /// The tool of an agent: code in, text out, configured by variables
    Tool(AgentArgs),
    /// List, show, replay or remove executions that the tool has kept
    Artifacts(ArtifactsArgs),
    /// Serve sandboxes to another program, over JSON-RPC
    Serve(ServeArgs),
    /// Start, stop or look at the daemon, which keeps warm workers for many programs
    Daemon(DaemonArgs),
    /// Serve sandboxes to agents as tools, over the Model Context Protocol
    Mcp(McpArgs),
    /// Show, validate or describe policies
    Policy(PolicyArgs),
    /// Add, list or remove Python packages for guests
    Packages(PackagesArgs),
    /// Make the image of the docker backend, or remove what it has left behind
    #[cfg(target_os = "linux")]
    Docker(DockerArgs),
    /// Say what works here, and why not
    Doctor(DoctorArgs),
    /// Measure start times, throughput and speed on this machine
    Bench(BenchArgs),
    /// Print a completion script for a shell
    Completions(CompletionsArgs),
    /// Print the manual page, or write all of them into a directory
    Man(ManArgs),
}

/// How to serve.
#[derive(Debug, Args)]
#[command(
    after_help = "One JSON-RPC 2.0 message a line, in both directions; docs/protocol.md has the methods."
)]
pub(crate) struct ServeArgs {
    /// On standard input and output, until the input ends
    #[arg(long, required = true)]
    stdio: bool,
    /// The backend of clients that name none [default: the configuration file's, else wasm]
    #[arg(long, value_name = "NAME", env = "SANDBOX_TYPE", hide_env_values = true)]
    pub(crate) backend: Option<Backend>,
}

/// How to serve agents.
#[derive(Debug, Args)]
#[command(
    after_help = "Without --http on standard input and output, as agents start it; docs/mcp.md has the tools and the lines for their configuration files."
)]
pub(crate) struct McpArgs {
    /// Over HTTP, at this port of the loopback or this IP:PORT; port 0 takes a free one. Clients need
    /// the token in BELLJAR_HTTP_TOKEN, or the one that is made up and printed
    #[arg(long, value_name = "ADDR", value_parser = parse_address)]
    pub(crate) http: Option<SocketAddr>,
    /// A name by which clients may call this machine, beside localhost and the address; may be
    /// repeated
    #[arg(long, value_name = "HOST", requires = "http")]
    pub(crate) allow_host: Vec<String>,
    /// Origin of web pages that may connect, as in https://example.org:443; may be repeated
    #[arg(long, value_name = "ORIGIN", requires = "http")]
    pub(crate) allow_origin: Vec<String>,
    /// The backend that runs the code [default: the configuration file's, else wasm]
    #[arg(long, value_name = "NAME", env = "SANDBOX_TYPE", hide_env_values = true)]
    pub(crate) backend: Option<Backend>,
}

/// Where the code comes from.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct SourceArgs {
    /// The file to run, or - for standard input
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// The code itself
    #[arg(short = 'c', long = "code", value_name = "CODE", allow_hyphen_values = true)]
    pub(crate) code: Option<String>,
}

/// What runs the code.
#[derive(Debug, Args)]
pub(crate) struct EngineArgs {
    /// Language: python or javascript [default: by the file's name, else python]
    #[arg(long, value_name = "LANG")]
    pub(crate) lang: Option<RuntimeType>,
    /// Backend: wasm, native, pyodide, docker, e2b, daemon or auto [default: the configuration
    /// file's, else wasm]
    #[arg(long, value_name = "NAME", env = "SANDBOX_TYPE", hide_env_values = true)]
    backend: Option<Backend>,
    /// The Python of the native backend, a virtual environment's for example
    #[arg(long, value_name = "PATH", env = "BELLJAR_PYTHON", hide_env_values = true)]
    python: Option<PathBuf>,
    /// Where the pyodide backend loads Pyodide from, a folder or an address; again for the next
    /// place to try
    #[arg(long, value_name = "PLACE", env = "BELLJAR_PYODIDE", hide_env_values = true)]
    index_url: Vec<String>,
    /// Run Pyodide in its main thread, where it cannot be interrupted, only ended
    #[arg(long)]
    no_worker: bool,
    /// Python's image: plain, data (with numpy, pandas and matplotlib) or auto, the one that has what the code
    /// imports [default: auto]. With the docker backend, the image of containers [default:
    /// DOCKER_IMAGE]
    #[arg(long, value_name = "NAME")]
    image: Option<String>,
    /// A WASI interpreter to use instead of the embedded one
    #[arg(long, value_name = "FILE")]
    pub(crate) wasm: Option<PathBuf>,
}

impl EngineArgs {
    /// What they mean, with the configuration file where they say nothing.
    pub(crate) fn apply(&self, config: &mut SandboxConfig) -> Result<(), SandboxError> {
        let defaults = Defaults::read(&config.home()?)?;
        config.backend = self.backend.or(defaults.backend).unwrap_or_default();
        config.python = self.python.clone().or(defaults.python);
        config.index_url = if self.index_url.is_empty() {
            defaults.index_url.into()
        } else {
            self.index_url.clone()
        };
        config.use_worker = self.no_worker.then_some(false);
        if config.backend == Backend::Docker {
            config.docker = docker_settings(self.image.as_deref())?;
        } else if let Some(name) = &self.image {
            config.policy = config.policy.with(image_layer(image(name)?))?;
        }
        config.wasm_binary_path.clone_from(&self.wasm);
        Ok(())
    }
}

/// The image somebody named, where it is not a container's.
fn image(name: &str) -> Result<ImageChoice, PolicyValidationError> {
    name.parse().map_err(|error| {
        let message = format!("{error}; containers have others, with --backend docker");
        PolicyValidationError::single(Field::Image.name(), message, Some(image_origin()))
    })
}

/// The same as a layer of a policy.
pub(crate) fn image_layer(image: ImageChoice) -> PolicyLayer {
    PolicyLayer::new().from_source(image_origin()).image(image)
}

fn image_origin() -> Origin {
    Origin::Argument("--image".to_owned())
}

/// What the environment says about the docker backend, with the image that was named.
pub(crate) fn docker_settings(image: Option<&str>) -> Result<DockerSettings, SandboxError> {
    let found = DockerSettings::from_env()?;
    Ok(DockerSettings { image: image.map_or(found.image, str::to_owned), ..found })
}

/// What the code may do.
#[derive(Debug, Args)]
pub(crate) struct LimitArgs {
    /// Values to start from: strict or agent
    #[arg(
        long,
        value_name = "NAME",
        env = "SANDBOX_PRESET",
        hide_env_values = true,
        default_value = "agent"
    )]
    pub(crate) preset: Preset,
    /// Policy file (TOML)
    #[arg(long, value_name = "FILE")]
    pub(crate) policy: Option<PathBuf>,
    /// Fuel, for example 2000000000 or 2G
    #[arg(long, value_name = "N", value_parser = units::parse_count)]
    pub(crate) fuel: Option<u64>,
    /// Memory, for example 64MiB
    #[arg(long, value_name = "SIZE", value_parser = units::parse_bytes)]
    pub(crate) memory: Option<u64>,
    /// Wall-clock time, for example 5 or 500ms
    #[arg(long, value_name = "TIME", value_parser = units::parse_seconds)]
    pub(crate) timeout: Option<f64>,
    /// Directory the code sees as /app, read-write [default: a temporary one, removed afterwards]
    #[arg(long, value_name = "DIR")]
    pub(crate) workspace: Option<PathBuf>,
    /// Directory the code sees as /data, read-only
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// Variable of the guest's environment; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_variable)]
    pub(crate) env: Vec<(String, String)>,
    /// Calls of tools the code may make
    #[arg(long, value_name = "N", value_parser = units::parse_count)]
    pub(crate) max_tool_calls: Option<u64>,
    /// How deep rlm_query may be nested
    #[arg(long, value_name = "N", value_parser = units::parse_count)]
    pub(crate) max_rlm_depth: Option<u64>,
    /// Module whose import is refused; may be repeated
    #[arg(long, value_name = "MODULE")]
    pub(crate) block_import: Vec<String>,
    /// Fixed clock and seeded randomness
    #[arg(long)]
    pub(crate) deterministic: bool,
}

/// Where events go.
#[derive(Debug, Args)]
pub(crate) struct LogArgs {
    /// Log events to a file, or to standard error with -
    #[arg(long, value_name = "FILE")]
    pub(crate) log: Option<PathBuf>,
    /// How events are written: json or human
    #[arg(long, value_name = "FORMAT", default_value = "json", value_parser = parse_log_format)]
    pub(crate) log_format: LogFormat,
    /// Log the code and its output too
    #[arg(long)]
    pub(crate) log_code: bool,
}

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) source: SourceArgs,
    #[command(flatten)]
    pub(crate) engine: EngineArgs,
    #[command(flatten)]
    pub(crate) limits: LimitArgs,
    /// Run the code as a cell of this session, which is made if there is none: variables live on,
    /// and the value of the last expression is printed
    #[arg(long, value_name = "ID")]
    pub(crate) session: Option<String>,
    /// Tool whose answers come later: code that awaits it is suspended until `session resume`; may
    /// be repeated
    #[arg(long, value_name = "NAME", requires = "session")]
    pub(crate) defer: Vec<String>,
    #[command(flatten)]
    pub(crate) tools: ToolArgs,
    #[command(flatten)]
    pub(crate) log: LogArgs,
    /// Print the whole result as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Print the resolved policy and the launch plan, and run nothing
    #[arg(long, conflicts_with = "session")]
    pub(crate) explain: bool,
}

#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    pub(crate) source: SourceArgs,
    #[command(flatten)]
    pub(crate) engine: EngineArgs,
    /// Print the answer as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct PolicyArgs {
    #[command(subcommand)]
    pub(crate) command: PolicyCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PolicyCommand {
    /// Show the policy that `run` would use with these arguments, and where each value comes from
    Show(PolicyShowArgs),
    /// Check a policy file
    Validate {
        /// The policy file
        file: PathBuf,
    },
    /// Print the JSON Schema of policy files
    Schema,
}

#[derive(Debug, Args)]
pub(crate) struct PolicyShowArgs {
    #[command(flatten)]
    pub(crate) limits: LimitArgs,
    /// Python's image: plain, data or auto
    #[arg(long, value_name = "NAME")]
    pub(crate) image: Option<ImageChoice>,
    /// Print the policy as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct PackagesArgs {
    #[command(subcommand)]
    pub(crate) command: PackagesCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PackagesCommand {
    /// Add pure-Python packages and what they depend on
    Add {
        /// Names with optional versions, or paths of .whl files
        #[arg(required = true, value_name = "PACKAGE")]
        packages: Vec<String>,
    },
    /// List the packages that were added
    List {
        /// Print them as JSON, with their hashes
        #[arg(long)]
        json: bool,
    },
    /// Remove packages
    Rm {
        /// Their names
        #[arg(required = true, value_name = "PACKAGE")]
        packages: Vec<String>,
    },
}

#[cfg(target_os = "linux")]
#[derive(Debug, Args)]
pub(crate) struct DockerArgs {
    #[command(subcommand)]
    pub(crate) command: DockerCommand,
}

#[cfg(target_os = "linux")]
#[derive(Debug, Subcommand)]
pub(crate) enum DockerCommand {
    /// Make the image that containers are started from, and try it
    Image {
        /// The image to start from; one without Python needs the network
        #[arg(long, value_name = "IMAGE", conflicts_with = "rootfs")]
        base: Option<String>,
        /// A root file system to import, as a tar file
        #[arg(long, value_name = "TAR")]
        rootfs: Option<PathBuf>,
        /// What to call it
        #[arg(
            long,
            value_name = "NAME",
            env = "DOCKER_IMAGE",
            hide_env_values = true,
            default_value_t = DockerSettings::default().image
        )]
        name: String,
    },
    /// Remove containers that a Belljar which is gone has left behind
    Prune,
}

#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Print the findings as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    /// Print the measurements as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Fewer repetitions
    #[arg(long)]
    pub(crate) quick: bool,
    /// Resume this snapshot and print how many milliseconds it took: for the bench itself, which
    /// measures what a new process pays
    #[arg(long, hide = true, value_name = "FILE")]
    pub(crate) resume: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    pub(crate) shell: clap_complete::Shell,
}

#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// Directory to write one page per command into
    #[arg(value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}

fn parse_variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("write NAME=VALUE".to_owned()),
    }
}

/// A port alone is one of the loopback: nobody else's machine can reach it.
fn parse_address(text: &str) -> Result<SocketAddr, String> {
    match text.parse::<u16>() {
        Ok(port) => Ok(SocketAddr::from((Ipv4Addr::LOCALHOST, port))),
        Err(_) => text.parse().map_err(|_| "write a port, or IP:PORT".to_owned()),
    }
}

fn parse_log_format(text: &str) -> Result<LogFormat, String> {
    match text {
        "json" => Ok(LogFormat::Json),
        "human" => Ok(LogFormat::Human),
        _ => Err("the formats are json and human".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
