//! `belljar bench`.

use std::process::ExitCode;

use crate::args::BenchArgs;

pub(crate) fn run(args: &BenchArgs) -> anyhow::Result<ExitCode> {
    let BenchArgs { json: _, quick: _ } = args;
    anyhow::bail!("this build of Belljar has no measurements")
}
