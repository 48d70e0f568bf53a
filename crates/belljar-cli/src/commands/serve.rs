//! `belljar serve --stdio`: sandboxes for the program that has started this one.

use std::io::{IsTerminal, stdin, stdout};
use std::process::ExitCode;

use belljar::{Defaults, Home};
use belljar_daemon::serve::{Offer, serve};

use crate::args::{ServeArgs, docker_settings};

pub(crate) fn run(args: &ServeArgs) -> anyhow::Result<ExitCode> {
    let home = Home::locate()?;
    let backend = match args.backend {
        Some(backend) => backend,
        None => Defaults::read(&home)?.backend.unwrap_or_default(),
    };
    let docker = docker_settings(None)?;
    leave_group();
    serve(stdin().lock(), stdout(), Offer { backend, docker, ..Offer::new(home) })?;
    Ok(ExitCode::SUCCESS)
}

/// An interrupt typed at the terminal is for the program that asks, which decides what ends; this one
/// ends with its input. A session of its own would do the same, and be scheduled apart from that
/// program, too: on a busy machine every call would wait for milliseconds.
fn leave_group() {
    if !stdin().is_terminal() {
        // Whoever leads a group or a session already has left the other one.
        let _ = rustix::process::setpgid(None, None);
    }
}
