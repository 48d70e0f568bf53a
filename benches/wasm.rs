//! `cargo bench`: the same table as `belljar bench`.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command-line program")]

use std::path::{Path, PathBuf};

use belljar::Home;
use belljar_bench::{BenchError, Settings, run};

fn main() -> Result<(), BenchError> {
    let program = program();
    if program.is_none() {
        eprintln!("skipped: whole process (build it with `cargo build --release` first)");
    }
    let settings = Settings { quick: false, program, home: Home::locate()? };
    println!("{}", run(&settings, &|what| eprintln!("measuring: {what}"))?);
    Ok(())
}

/// The release build of the command-line program, if there is one.
fn program() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent()?;
    Some(root.join("target/release/belljar")).filter(|path| path.is_file())
}
