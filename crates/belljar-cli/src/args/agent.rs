//! What can be typed about the agent's tool and about what it keeps.

use std::path::PathBuf;

use belljar::core::units;
use clap::{Args, Subcommand};

use super::SourceArgs;

#[derive(Debug, Args)]
pub(crate) struct AgentArgs {
    #[command(subcommand)]
    pub(crate) command: AgentCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum AgentCommand {
    /// Run Python in a fresh sandbox and a temporary directory; print what it printed, or what went
    /// wrong and what to do about it
    #[command(after_help = EXIT_CODES)]
    RunPython {
        #[command(flatten)]
        source: SourceArgs,
        #[command(flatten)]
        time: TimeArgs,
    },
    /// The same for code in another language
    #[command(after_help = EXIT_CODES)]
    RunCode {
        /// Language: python or javascript
        #[arg(long, value_name = "LANG")]
        language: String,
        #[command(flatten)]
        source: SourceArgs,
        #[command(flatten)]
        time: TimeArgs,
    },
    /// List the environment variables that configure the tool
    Variables {
        /// Print them as JSON
        #[arg(long)]
        json: bool,
    },
}

const EXIT_CODES: &str = "Exit codes: 0 the code ran to its end; 1 it did not. The text is on standard output either way.";

#[derive(Debug, Args)]
pub(crate) struct TimeArgs {
    /// Wall-clock time, for example 5 or 500ms [default: SANDBOX_TIMEOUT_SEC]
    #[arg(long, value_name = "TIME", value_parser = units::parse_seconds)]
    pub(crate) timeout: Option<f64>,
}

#[derive(Debug, Args)]
pub(crate) struct ArtifactsArgs {
    /// Where the artifacts are [default: SANDBOX_ARTIFACTS_DIR]
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
    #[command(subcommand)]
    pub(crate) command: ArtifactsCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ArtifactsCommand {
    /// List what was kept
    List {
        /// Print it as JSON
        #[arg(long)]
        json: bool,
    },
    /// Show an execution: its code and what it gave
    Show {
        /// Its name, or the beginning of it
        id: String,
        /// Print the whole artifact as JSON
        #[arg(long)]
        json: bool,
    },
    /// Run the same code under the same policy again and show what is different
    #[command(after_help = "Exit codes: 0 the same; 1 different; 125 it could not be run.")]
    Replay {
        /// Its name, or the beginning of it
        id: String,
        /// Print the differences and the new result as JSON
        #[arg(long)]
        json: bool,
    },
    /// Remove old artifacts [default: what SANDBOX_ARTIFACTS_MAX_AGE_DAYS and
    /// SANDBOX_ARTIFACTS_MAX_MB say]
    Prune(PruneArtifactsArgs),
}

#[derive(Debug, Args)]
pub(crate) struct PruneArtifactsArgs {
    /// Those older than this, for example 12h or 7d
    #[arg(long, value_name = "TIME", value_parser = units::parse_seconds)]
    pub(crate) older_than: Option<f64>,
    /// The oldest, until all together are no larger than this, for example 10MiB
    #[arg(long, value_name = "SIZE", value_parser = units::parse_bytes)]
    pub(crate) max_size: Option<u64>,
    /// All of them
    #[arg(long, conflicts_with_all = ["older_than", "max_size"])]
    pub(crate) all: bool,
    /// Print what was removed as JSON
    #[arg(long)]
    pub(crate) json: bool,
}
