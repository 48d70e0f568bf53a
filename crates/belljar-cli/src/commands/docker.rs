//! `belljar docker`: the image of the docker backend, and what was left behind.

use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use anyhow::Context;
use belljar::docker::{ImageSource, make_image, prune};
use belljar::{Backend, DockerSettings, ExecutionPolicy, Preset, SandboxConfig, create_sandbox};

use crate::args::{DockerArgs, DockerCommand, docker_settings};
use crate::render::{FAINT, STRONG};
use crate::settings;

/// What is built upon when nobody names anything: small, and with Python in it.
const BASE: &str = "python:3-slim";

/// Says which Python an image has.
const WHICH: &str = "import sys; print(sys.version.split()[0])";

pub(crate) fn run(args: DockerArgs) -> anyhow::Result<ExitCode> {
    match args.command {
        DockerCommand::Image { base, rootfs, name } => {
            let base = base.unwrap_or_else(|| BASE.to_owned());
            let source = rootfs.map_or(ImageSource::Base(base), ImageSource::RootFs);
            image(docker_settings(Some(&name))?, &source)?;
        }
        DockerCommand::Prune => {
            let removed = prune(&docker_settings(None)?)?;
            let plural = if removed == 1 { "" } else { "s" };
            writeln!(anstream::stdout(), "removed {removed} container{plural}")?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn image(docker: DockerSettings, source: &ImageSource) -> anyhow::Result<()> {
    let shown = std::io::stderr().is_terminal();
    make_image(&docker, source, &mut |line| {
        if shown {
            // Nobody reads it where it cannot be written.
            let _ = writeln!(anstream::stderr(), "{FAINT}{line}{FAINT:#}");
        }
    })?;
    let name = docker.image.clone();
    let version = try_image(docker)
        .with_context(|| format!("the image `{name}` was made, and does not work"))?;
    writeln!(anstream::stdout(), "made {STRONG}{name}{STRONG:#} with Python {version}")?;
    Ok(())
}

/// Runs a real, tiny program in it.
fn try_image(docker: DockerSettings) -> anyhow::Result<String> {
    let workspace = settings::temporary_workspace(Backend::Docker, &docker)?;
    let config = SandboxConfig {
        backend: Backend::Docker,
        policy: ExecutionPolicy::preset(Preset::Agent),
        workspace: Some(workspace.path().to_owned()),
        docker,
        ..SandboxConfig::default()
    };
    let result = create_sandbox(&config)?.execute(WHICH)?;
    anyhow::ensure!(result.success(), "a test program ended with status {}", result.status());
    Ok(result.stdout.trim().to_owned())
}
