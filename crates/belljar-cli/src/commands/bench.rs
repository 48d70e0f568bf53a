//! `belljar bench`.

use std::io::Write;
use std::process::ExitCode;

use belljar::Home;
use belljar_bench::Settings;

use crate::args::BenchArgs;
use crate::render;

pub(crate) fn run(args: &BenchArgs) -> anyhow::Result<ExitCode> {
    let settings = Settings {
        quick: args.quick,
        program: std::env::current_exe().ok(),
        home: Home::locate()?,
    };
    if let Some(file) = &args.resume {
        let milliseconds = belljar_bench::resume_once(&settings, file)?;
        writeln!(std::io::stdout(), "{milliseconds}")?;
        return Ok(ExitCode::SUCCESS);
    }
    if cfg!(debug_assertions) {
        render::note("this is a debug build: its numbers say little");
    }
    let report =
        belljar_bench::run(&settings, &|what| render::note(&format!("measuring: {what}")))?;
    if args.json {
        render::json(&report)?;
    } else {
        write!(std::io::stdout(), "{report}")?;
    }
    Ok(ExitCode::SUCCESS)
}
