//! `belljar policy`.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use belljar::{ExecutionPolicy, Field, Preset, SandboxError, policy_file};

use crate::args::{PolicyArgs, PolicyCommand, PolicyShowArgs, image_layer};
use crate::render::{FAINT, STRONG};
use crate::{exit, render, settings};

pub(crate) fn run(args: PolicyArgs) -> anyhow::Result<ExitCode> {
    match args.command {
        PolicyCommand::Show(args) => show(&args),
        PolicyCommand::Validate { file } => validate(&file),
        PolicyCommand::Schema => schema(),
    }
}

/// Prints the policy as a policy file, each value with its origin.
fn show(args: &PolicyShowArgs) -> anyhow::Result<ExitCode> {
    let mut policy = settings::policy(&args.limits)?;
    if let Some(image) = args.image {
        policy = policy.with(image_layer(image))?;
    }
    if args.json {
        render::json(&policy)?;
        return Ok(ExitCode::SUCCESS);
    }
    let values = serde_json::to_value(&policy)?;
    let mut out = anstream::stdout().lock();
    for field in Field::ALL {
        if field == Field::Env || values[field.name()].is_null() {
            continue;
        }
        let origin = match policy.origin(field) {
            Some(origin) => origin.to_string(),
            None => format!("preset {}", policy.base()),
        };
        let value = values[field.name()].to_string();
        if field == Field::MountHostDir && !policy.is_explicit(field) {
            writeln!(
                out,
                "{FAINT}# {field} is not set: `belljar run` makes a temporary one{FAINT:#}"
            )?;
            continue;
        }
        writeln!(out, "{STRONG}{field}{STRONG:#} = {value}  {FAINT}# {origin}{FAINT:#}")?;
    }
    writeln!(out, "\n[{STRONG}env{STRONG:#}]")?;
    for (name, value) in &policy.env {
        // JSON strings are TOML strings, and quoting the name is always allowed.
        let (name, value) = (serde_json::to_string(name)?, serde_json::to_string(value)?);
        writeln!(out, "{name} = {value}")?;
    }
    Ok(ExitCode::SUCCESS)
}

fn validate(file: &Path) -> anyhow::Result<ExitCode> {
    let checked = policy_file::read_layer(file).and_then(|layer| match layer {
        Some(layer) => Ok(ExecutionPolicy::build(Preset::Strict, [layer])?),
        None => Err(SandboxError::Input {
            what: "policy file".to_owned(),
            path: file.to_owned(),
            problem: "it does not exist".to_owned(),
            hint: Some("`belljar policy show` prints one to start from".to_owned()),
        }),
    });
    match checked {
        Ok(_) => {
            writeln!(anstream::stdout(), "{} is a valid policy", file.display())?;
            Ok(ExitCode::SUCCESS)
        }
        Err(SandboxError::PolicyValidation(error)) => {
            let lines: Vec<String> =
                error.issues.iter().map(|issue| format!("\n  {issue}")).collect();
            let message = format!("{} is not a valid policy{}", file.display(), lines.concat());
            render::problem(&message, SandboxError::from(error).hint().as_deref());
            Ok(ExitCode::from(exit::NEGATIVE))
        }
        Err(error) => Err(error.into()),
    }
}

fn schema() -> anyhow::Result<ExitCode> {
    let schema = schemars::schema_for!(ExecutionPolicy);
    writeln!(std::io::stdout(), "{}", serde_json::to_string_pretty(&schema)?)?;
    Ok(ExitCode::SUCCESS)
}
