//! `cargo bench --workspace --bench wasm`: the same table as `belljar bench`.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command-line program")]

use belljar::Home;
use belljar_bench::{BenchError, Settings, release_program, run};

fn main() -> Result<(), BenchError> {
    let program = release_program();
    if program.is_none() {
        eprintln!("skipped: whole process (build it with `cargo build --release` first)");
    }
    let settings = Settings { quick: false, program, home: Home::locate()? };
    println!("{}", run(&settings, &|what| eprintln!("measuring: {what}"))?);
    Ok(())
}
