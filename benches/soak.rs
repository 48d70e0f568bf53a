//! `cargo bench --workspace --bench soak`: ten minutes of everything through the daemon, or as many as are
//! given: the same with `-- 30`. Fails when it holds more at the end than early on.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command-line program")]

use std::process::ExitCode;
use std::time::Duration;

use belljar::Home;
use belljar_bench::{BenchError, Settings, release_program, soak};

const MINUTES: u64 = 10;

fn main() -> Result<ExitCode, BenchError> {
    let minutes = std::env::args().skip(1).find_map(|argument| argument.parse().ok());
    let time = Duration::from_secs(minutes.unwrap_or(MINUTES) * 60);
    let settings = Settings { quick: false, program: release_program(), home: Home::locate()? };
    let outcome = soak(&settings, time, &|line| eprintln!("{line}"))?;
    println!("{outcome}");
    Ok(if outcome.is_flat() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
