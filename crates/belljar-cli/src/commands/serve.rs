//! `belljar serve --stdio`: sandboxes for the program that has started this one.

use std::io::{stdin, stdout};
use std::process::ExitCode;

use belljar::{Defaults, Home};
use belljar_daemon::serve::{Offer, serve};

use crate::args::ServeArgs;

pub(crate) fn run(args: &ServeArgs) -> anyhow::Result<ExitCode> {
    let home = Home::locate()?;
    let backend = match args.backend {
        Some(backend) => backend,
        None => Defaults::read(&home)?.backend.unwrap_or_default(),
    };
    serve(stdin().lock(), stdout(), Offer { backend, ..Offer::new(home) })?;
    Ok(ExitCode::SUCCESS)
}
