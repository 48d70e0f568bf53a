//! `belljar tool`.

use std::io::{self, Write};
use std::process::ExitCode;

use belljar::agent::{AgentTool, Answer, OnStart};
use belljar::core::variables;

use crate::args::{AgentArgs, AgentCommand, SourceArgs};
use crate::render::{FAINT, STRONG};
use crate::{exit, render, signals, source};

pub(crate) fn run(args: &AgentArgs) -> anyhow::Result<ExitCode> {
    match &args.command {
        AgentCommand::RunPython { source, time } => answer(source, "python", time.timeout),
        AgentCommand::RunCode { language, source, time } => answer(source, language, time.timeout),
        AgentCommand::Variables { json } => list(*json),
    }
}

/// Whatever goes wrong is text on standard output: that is what an agent reads.
fn answer(args: &SourceArgs, language: &str, timeout: Option<f64>) -> anyhow::Result<ExitCode> {
    let answer = match (source::read(args), AgentTool::from_env()) {
        (Ok(code), Ok(tool)) => interruptible(tool).answer(&code, language, timeout),
        (Err(error), _) | (_, Err(error)) => Answer::refused(&error),
    };
    let mut text = answer.text;
    if !text.ends_with('\n') {
        text.push('\n');
    }
    render::guest_text(io::stdout().lock(), &text)?;
    Ok(if answer.success { ExitCode::SUCCESS } else { ExitCode::from(exit::NEGATIVE) })
}

/// Ctrl-C stops the code instead of us, so that its directory is removed.
pub(crate) fn stop_on_interrupt() -> OnStart {
    OnStart::new(|code| {
        // Without it, Ctrl-C still ends everything, only less tidily.
        let _ = signals::listen(move |_| code.cancel());
    })
}

fn interruptible(tool: AgentTool) -> AgentTool {
    let mut settings = tool.settings().clone();
    settings.on_start = Some(stop_on_interrupt());
    AgentTool::new(settings)
}

fn list(as_json: bool) -> anyhow::Result<ExitCode> {
    if as_json {
        render::json(&variables::ALL)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut out = anstream::stdout().lock();
    for declared in variables::ALL {
        writeln!(out, "{STRONG}{}{STRONG:#}={}", declared.name, declared.default)?;
        writeln!(out, "    {}", declared.about)?;
        writeln!(out, "    {FAINT}{}{FAINT:#}", declared.accepts)?;
    }
    writeln!(
        out,
        "\nThe values shown are the defaults. The policy has variables, too: `belljar policy show`."
    )?;
    Ok(ExitCode::SUCCESS)
}
