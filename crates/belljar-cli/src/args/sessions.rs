//! What can be typed about sessions, tools and the shell.

use std::path::PathBuf;

use belljar::core::units;
use clap::{Args, Subcommand};

use super::{EngineArgs, LimitArgs, LogArgs};

/// What the code can call.
#[derive(Debug, Args)]
pub(crate) struct ModelArgs {
    /// Shell command that answers llm_query and rlm_query: prompt on its standard input, answer on
    /// its standard output. With a model, --timeout is 600 unless given
    #[arg(long, value_name = "CMD", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub(crate) llm_command: Option<String>,
}

/// What the code of `run` and `session resume` can call.
#[derive(Debug, Args)]
pub(crate) struct ToolArgs {
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    /// Offer llm_query and rlm_query, answered by the model that BELLJAR_LLM_COMMAND or config.toml
    /// names
    #[arg(long)]
    pub(crate) llm: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ReplArgs {
    /// Keep the session under this name, or go on with the one that has it
    #[arg(long, value_name = "ID")]
    pub(crate) session: Option<String>,
    /// File the code sees as the variable `context`: text, or JSON if its name ends with .json
    #[arg(long, value_name = "FILE")]
    pub(crate) context: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    #[command(flatten)]
    pub(crate) engine: EngineArgs,
    #[command(flatten)]
    pub(crate) limits: LimitArgs,
    #[command(flatten)]
    pub(crate) log: LogArgs,
}

#[derive(Debug, Args)]
pub(crate) struct SessionArgs {
    #[command(subcommand)]
    pub(crate) command: SessionCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SessionCommand {
    /// List the sessions
    List {
        /// Print them as JSON
        #[arg(long)]
        json: bool,
        /// List those that clients of the daemon have named, instead
        #[arg(long)]
        daemon: bool,
    },
    /// Show what is known about a session, and what it waits for
    Show {
        /// The session
        id: String,
        /// Print it as JSON
        #[arg(long)]
        json: bool,
    },
    /// Make a session that begins as a copy of another
    Fork {
        /// The session to copy; it is left as it is
        id: String,
        /// The new session's name [default: a generated one]
        new_id: Option<String>,
        /// Print the new session as JSON
        #[arg(long)]
        json: bool,
    },
    /// Write a session with its files into a snapshot
    Snapshot {
        /// The session
        id: String,
        /// The file to write; replaced if it exists
        file: PathBuf,
    },
    /// Make a session of a snapshot
    Restore {
        /// The snapshot
        file: PathBuf,
        /// The session's name [default: a generated one]
        id: Option<String>,
        /// Print the new session as JSON
        #[arg(long)]
        json: bool,
    },
    /// Answer the calls a suspended session waits for, and let its code go on
    Resume(Box<ResumeArgs>),
    /// List the files of a session's workspace
    Files {
        /// The session
        id: String,
        /// Print them as JSON
        #[arg(long)]
        json: bool,
    },
    /// Remove sessions with their state and files
    Rm {
        /// Their names
        #[arg(required = true, value_name = "ID")]
        ids: Vec<String>,
        /// Remove those that clients of the daemon have named, instead
        #[arg(long)]
        daemon: bool,
    },
    /// Remove sessions nobody has used for long
    Prune(PruneArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ResumeArgs {
    /// The session
    pub(crate) id: String,
    /// The answer to a call, as JSON, or @FILE to read it from a file; may be repeated
    #[arg(long, value_name = "CALL=JSON", value_parser = parse_answer)]
    pub(crate) answer: Vec<(u64, String)>,
    /// Have a call fail with this message; may be repeated
    #[arg(long, value_name = "CALL=MESSAGE", value_parser = parse_answer)]
    pub(crate) fail: Vec<(u64, String)>,
    #[command(flatten)]
    pub(crate) tools: ToolArgs,
    #[command(flatten)]
    pub(crate) limits: LimitArgs,
    #[command(flatten)]
    pub(crate) log: LogArgs,
    /// Print the whole result as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct PruneArgs {
    /// How long nobody may have used them, for example 12h or 7d [default: each session's
    /// idle_timeout_seconds]
    #[arg(long, value_name = "TIME", value_parser = units::parse_seconds)]
    pub(crate) idle: Option<f64>,
    /// Remove suspended sessions, too
    #[arg(long)]
    pub(crate) suspended: bool,
    /// Remove those that clients of the daemon have named, instead
    #[arg(long)]
    pub(crate) daemon: bool,
    /// Print what was removed as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

fn parse_answer(text: &str) -> Result<(u64, String), String> {
    let (call, answer) = text
        .split_once('=')
        .ok_or_else(|| "write the call's number, = and the answer".to_owned())?;
    let call = call.trim().parse().map_err(|_| {
        format!("`{call}` is not the number of a call; `belljar session show` tells them")
    })?;
    Ok((call, answer.to_owned()))
}
