//! Completion scripts and manual pages, generated from the arguments themselves.

use std::fs;
use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Context;
use clap::CommandFactory;

use crate::args::{Cli, CompletionsArgs, ManArgs};

pub(crate) fn completions(args: &CompletionsArgs) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "belljar", &mut script);
    io::stdout().write_all(&script)?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn man(args: &ManArgs) -> anyhow::Result<ExitCode> {
    match &args.dir {
        None => {
            let mut page = Vec::new();
            clap_mangen::Man::new(Cli::command()).render(&mut page)?;
            io::stdout().write_all(&page)?;
        }
        Some(dir) => {
            let failed = || format!("cannot write manual pages into {}", dir.display());
            fs::create_dir_all(dir).with_context(failed)?;
            clap_mangen::generate_to(Cli::command(), dir).with_context(failed)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
