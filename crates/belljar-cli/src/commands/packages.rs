//! `belljar packages`.

use std::io::Write;
use std::process::ExitCode;

use belljar::Home;
use belljar::packages::{Package, Packages};

use crate::args::{PackagesArgs, PackagesCommand};
use crate::render::{self, FAINT, STRONG};

pub(crate) fn run(args: PackagesArgs) -> anyhow::Result<ExitCode> {
    let store = Packages::open(&Home::locate()?);
    match args.command {
        PackagesCommand::Add { packages } => print("added", &store.add(&packages)?)?,
        PackagesCommand::Rm { packages } => print("removed", &store.remove(&packages)?)?,
        PackagesCommand::List { json: true } => render::json(&store.list()?)?,
        PackagesCommand::List { json: false } => list(&store.list()?)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn print(what: &str, packages: &[Package]) -> anyhow::Result<()> {
    let mut out = anstream::stdout().lock();
    for package in packages {
        writeln!(out, "{what} {STRONG}{}{STRONG:#} {}", package.name, package.version)?;
    }
    Ok(())
}

fn list(packages: &[Package]) -> anyhow::Result<()> {
    let mut out = anstream::stdout().lock();
    if packages.is_empty() {
        writeln!(out, "no packages; add one with `belljar packages add NAME`")?;
    }
    let width = packages.iter().map(|package| package.name.len()).max().unwrap_or(0);
    for Package { name, version, requested, .. } in packages {
        let remark = if *requested { "" } else { "  needed by another" };
        writeln!(out, "{STRONG}{name:<width$}{STRONG:#}  {version}{FAINT}{remark}{FAINT:#}")?;
    }
    Ok(())
}
