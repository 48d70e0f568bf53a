//! `belljar run`.

use std::process::ExitCode;

use belljar::core::units::{format_bytes, group_digits};
use belljar::{LaunchPlan, SandboxResult, Status, create_sandbox};

use super::explain;
use crate::args::RunArgs;
use crate::settings::Settings;
use crate::{exit, render, source};

pub(crate) fn run(args: RunArgs) -> anyhow::Result<ExitCode> {
    let settings = Settings::of_run(&args)?;
    if args.explain {
        let plan = LaunchPlan::new(&settings.config)?;
        explain::print(&plan, &settings, args.json)?;
        return Ok(ExitCode::SUCCESS);
    }
    let code = source::read(&args.source)?;
    let mut sandbox = create_sandbox(&settings.config)?;
    stop_on_ctrl_c(sandbox.cancel_handle())?;
    let result = sandbox.execute(&code)?;
    if args.json {
        render::json(&result)?;
    } else {
        render::guest_output(&result)?;
        if let Some((message, hint)) = explanation(&result) {
            render::problem(&message, Some(&hint));
        }
    }
    Ok(exit::code_of(&result))
}

/// Ctrl-C cancels the code instead of killing us, so that a temporary workspace is removed.
fn stop_on_ctrl_c(cancel: belljar::CancelHandle) -> anyhow::Result<()> {
    Ok(ctrlc::set_handler(move || cancel.cancel())?)
}

/// What to say about code that did not end by itself.
fn explanation(result: &SandboxResult) -> Option<(String, String)> {
    let limits = &result.meta.resource_limits;
    let seconds = result.duration();
    let count = |limit: Option<u64>| limit.map_or_else(|| "the limit".to_owned(), group_digits);
    let size = |limit: Option<u64>| limit.map_or_else(|| "the limit".to_owned(), format_bytes);
    let (message, hint) = match result.status() {
        Status::Ok | Status::Error => return None,
        Status::Timeout => (
            format!("the code was stopped after {} seconds", limits.timeout_seconds),
            "give it more time with --timeout",
        ),
        Status::OutOfFuel => (
            format!(
                "the code was stopped: it used its {} fuel in {seconds:.2} seconds",
                count(limits.fuel_budget)
            ),
            "give it more with --fuel",
        ),
        Status::OutOfMemory => (
            format!("the code needed more memory than {}", size(limits.memory_bytes)),
            "give it more with --memory",
        ),
        Status::OutputLimit => (
            format!(
                "the code was stopped for flooding its output; the limits are {} and {}",
                format_bytes(limits.stdout_max_bytes),
                format_bytes(limits.stderr_max_bytes)
            ),
            "write to a file in /app, or raise stdout_max_bytes in a policy file",
        ),
        Status::Quota => (
            format!(
                "the code's workspace is full; the limits are {} and {} files",
                size(limits.workspace_max_bytes),
                count(limits.workspace_max_files)
            ),
            "raise workspace_max_bytes or workspace_max_files in a policy file",
        ),
        Status::Blocked => (
            format!("the code was not run: it imports {}", result.meta.blocked_imports.join(", ")),
            "take the module off block_imports if it is wanted",
        ),
        Status::Cancelled => ("the code was cancelled".to_owned(), "run it again if it was wanted"),
        Status::Suspended => {
            ("the code waits for a tool".to_owned(), "resume the session with the tool's answer")
        }
        Status::Crashed => (
            "the interpreter broke and was thrown away; the host and other sandboxes are unaffected"
                .to_owned(),
            "the code did something the interpreter does not survive",
        ),
    };
    Some((message, hint.to_owned()))
}

#[cfg(test)]
mod tests {
    use belljar::core::ResourceLimits;
    use belljar::{Meta, Outcome, Stop};

    use super::*;

    #[test]
    fn every_stop_is_explained_with_a_way_out() {
        let shown: Vec<String> = [
            Stop::Timeout,
            Stop::OutOfFuel,
            Stop::OutOfMemory,
            Stop::OutputLimit,
            Stop::Quota,
            Stop::Blocked,
            Stop::Cancelled,
            Stop::Suspended,
            Stop::Crashed,
        ]
        .into_iter()
        .map(|stop| {
            let meta = Meta {
                blocked_imports: vec!["subprocess".into()],
                resource_limits: ResourceLimits {
                    fuel_budget: Some(2_000_000_000),
                    memory_bytes: Some(64 << 20),
                    timeout_seconds: 30.0,
                    stdout_max_bytes: 2_000_000,
                    stderr_max_bytes: 1_000_000,
                    workspace_max_bytes: Some(256 << 20),
                    workspace_max_files: Some(10_000),
                    ..ResourceLimits::default()
                },
                ..Meta::default()
            };
            let mut result = SandboxResult::new(Outcome::Stopped(stop, None), meta);
            result.duration_ms = 333.0;
            let (message, hint) = explanation(&result).unwrap();
            format!("{message}\n    hint: {hint}")
        })
        .collect();
        insta::assert_snapshot!(shown.join("\n"));
    }
}
