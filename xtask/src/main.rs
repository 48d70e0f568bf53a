//! Belljar's own chores. `cargo xtask --help` lists them.
#![expect(clippy::print_stdout, reason = "a command-line tool")]

mod guest;
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
}

fn main() -> anyhow::Result<()> {
    match Arguments::parse().chore {
        Chore::Guest(chore) => guest::run(&chore),
    }
}

/// The root of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map_or_else(PathBuf::new, Path::to_path_buf)
}
