//! `belljar check`: syntax only; never executes.

use std::io::Write;
use std::process::ExitCode;

use belljar::create_sandbox;

use crate::args::CheckArgs;
use crate::settings::Settings;
use crate::{exit, render, source};

pub(crate) fn run(args: CheckArgs) -> anyhow::Result<ExitCode> {
    let code = source::read(&args.source)?;
    let settings = Settings::of_check(&args.engine, &args.source)?;
    let mut sandbox = create_sandbox(&settings.config)?;
    let complaint = sandbox.check_code(&code)?;
    if args.json {
        render::json(&serde_json::json!({ "valid": complaint.is_none(), "error": complaint }))?;
    } else if let Some(error) = &complaint {
        let traceback = error.traceback.trim_end();
        let shown = if traceback.is_empty() {
            format!("{}: {}", error.name, error.message)
        } else {
            traceback.to_owned()
        };
        writeln!(anstream::stderr(), "{shown}")?;
    }
    Ok(match complaint {
        Some(_) => ExitCode::from(exit::NEGATIVE),
        None => ExitCode::SUCCESS,
    })
}
