//! The `belljar` command: what was typed → what it means → do it → exit code.

#![forbid(unsafe_code)]

mod args;
mod calls;
mod commands;
mod context;
mod exit;
mod progress;
mod render;
mod repl;
mod report;
mod sessions;
mod settings;
mod signals;
mod source;
mod stream;
mod tools;

use std::process::ExitCode;

use clap::Parser;

use args::{Cli, Command};

fn main() -> ExitCode {
    let cli = Cli::parse();
    progress::show_compilation();
    match dispatch(cli) {
        Ok(code) => code,
        Err(error) => render::failure(&error),
    }
}

fn dispatch(cli: Cli) -> anyhow::Result<ExitCode> {
    match cli.command {
        Command::Run(args) => commands::run::run(args),
        Command::Check(args) => commands::check::run(args),
        Command::Repl(args) => commands::repl::run(args),
        Command::Session(args) => commands::session::run(args),
        Command::Tool(args) => commands::agent::run(&args),
        Command::Artifacts(args) => commands::artifacts::run(args),
        Command::Serve(args) => commands::serve::run(&args),
        Command::Daemon(args) => commands::daemon::run(args),
        Command::Mcp(args) => commands::mcp::run(args),
        Command::Policy(args) => commands::policy::run(args),
        Command::Packages(args) => commands::packages::run(args),
        #[cfg(target_os = "linux")]
        Command::Docker(args) => commands::docker::run(args),
        Command::Doctor(args) => commands::doctor::run(&args),
        Command::Bench(args) => commands::bench::run(&args),
        Command::Completions(args) => commands::generate::completions(&args),
        Command::Man(args) => commands::generate::man(&args),
    }
}
