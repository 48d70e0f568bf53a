//! Belljar's own chores. `cargo xtask --help` lists them.
#![expect(clippy::print_stdout, reason = "a command-line tool")]

#[cfg(feature = "bake")]
mod bake;
mod binary;
mod codegen;
mod docker;
mod guest;
mod python_package;
mod test;
mod typescript;
mod typescript_package;
#[cfg(any(test, feature = "bake"))]
mod wasm;

use std::path::{Path, PathBuf};

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(about = "Belljar's own chores")]
struct Arguments {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// The interpreters that run inside.
    #[command(subcommand)]
    Guest(guest::Chore),
    /// Write the files that are made from the Rust types.
    Codegen {
        /// Write nothing; fail when a file is out of date.
        #[arg(long)]
        check: bool,
    },
    /// Run every check and every test there is.
    Test,
    /// Build, check and test the Python package.
    Python,
    /// Pack, install and test the TypeScript package; `belljar` has to be built.
    Typescript,
    /// Run a command with a Docker engine for tests, as `test` has it.
    WithDocker {
        /// The command and its arguments.
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
        command: Vec<String>,
    },
}

fn main() -> anyhow::Result<()> {
    match Arguments::parse().chore {
        Chore::Guest(chore) => guest::run(&chore),
        Chore::Codegen { check: false } => codegen::run(codegen::Mode::Write),
        Chore::Codegen { check: true } => codegen::run(codegen::Mode::Check),
        Chore::Test => test::run(),
        Chore::Python => python_package::check(),
        Chore::Typescript => typescript_package::check(),
        Chore::WithDocker { command } => docker::run_with(&command),
    }
}

/// The root of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map_or_else(PathBuf::new, Path::to_path_buf)
}
