//! `belljar artifacts`.

use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use belljar::AgentSettings;
use belljar::artifacts::{self, ArtifactStore, Difference, Listed, Retention};
use belljar::core::units::{format_bytes, group_digits};
use serde_json::{Value, json};

use super::agent::stop_on_interrupt;
use crate::args::{ArtifactsArgs, ArtifactsCommand, PruneArtifactsArgs};
use crate::render::{FAINT, STRONG};
use crate::{exit, render};

/// Lines of a text that are shown of what is different.
const SHOWN_LINES: usize = 20;

pub(crate) fn run(args: ArtifactsArgs) -> anyhow::Result<ExitCode> {
    let mut settings = AgentSettings::from_env()?;
    if let Some(dir) = args.dir {
        settings.artifacts = ArtifactStore::at(dir);
    }
    let store = &settings.artifacts;
    match args.command {
        ArtifactsCommand::List { json } => list(store, json)?,
        ArtifactsCommand::Show { id, json } => show(store, &id, json)?,
        ArtifactsCommand::Replay { id, json } => return replay(settings, &id, json),
        ArtifactsCommand::Prune(args) => prune(store, &args, settings.retention)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn list(store: &ArtifactStore, as_json: bool) -> anyhow::Result<()> {
    let files = store.list()?;
    if as_json {
        return render::json(&files.iter().map(as_value).collect::<Result<Vec<_>, _>>()?);
    }
    let mut out = anstream::stdout().lock();
    if files.is_empty() {
        writeln!(out, "no artifacts in {}", store.path().display())?;
    }
    for Listed { id, bytes, summary } in &files {
        write!(out, "{STRONG}{}{STRONG:#}  ", render::visible(id))?;
        match summary {
            Ok(kept) => {
                let (status, language) = (kept.status.as_str(), kept.language.as_str());
                let size = group_digits(*bytes);
                write!(out, "{status:<13}  {language:<10}  {:<7}", kept.backend.as_str())?;
                writeln!(out, "  {FAINT}{size} bytes{FAINT:#}")?;
            }
            Err(problem) => {
                writeln!(out, "unreadable  {FAINT}{}{FAINT:#}", render::visible(problem))?;
            }
        }
    }
    Ok(())
}

fn as_value(file: &Listed) -> serde_json::Result<Value> {
    let mut value = match &file.summary {
        Ok(summary) => serde_json::to_value(summary)?,
        Err(problem) => json!({ "unreadable": problem }),
    };
    value["id"] = file.id.as_str().into();
    value["bytes"] = file.bytes.into();
    Ok(value)
}

fn show(store: &ArtifactStore, id: &str, as_json: bool) -> anyhow::Result<()> {
    let (id, kept) = store.read(id)?;
    if as_json {
        return render::json(&kept);
    }
    let result = &kept.result;
    let mut out = anstream::stdout().lock();
    let mut row = |name: &str, value: &str| {
        writeln!(out, "{STRONG}{name:<10}{STRONG:#} {}", render::visible(value))
    };
    row("artifact", &id)?;
    row("time", &kept.timestamp)?;
    row("language", kept.language.as_str())?;
    row("backend", kept.backend.as_str())?;
    row("status", &format!("{}, exit code {}", result.status(), result.exit_code()))?;
    row("duration", &format!("{:.1} ms", result.duration_ms))?;
    if !kept.metadata.cut.is_empty() {
        row("cut", &kept.metadata.cut.join(", "))?;
    }
    let value = result.result.as_ref().map(|value| value.text.as_str()).unwrap_or_default();
    let parts = [
        ("code", &*kept.code),
        ("stdout", &result.stdout),
        ("stderr", &result.stderr),
        ("result", value),
    ];
    for (name, text) in parts {
        if !text.is_empty() {
            writeln!(out, "{STRONG}--- {name}{STRONG:#}")?;
            writeln!(
                out,
                "{}",
                render::visible(&text.replace('\t', "    ")).trim_end_matches('\n')
            )?;
        }
    }
    Ok(())
}

fn replay(mut settings: AgentSettings, id: &str, as_json: bool) -> anyhow::Result<ExitCode> {
    let (id, kept) = settings.artifacts.read(id)?;
    settings.on_start = Some(stop_on_interrupt());
    let again = artifacts::replay(&id, &kept, &settings)?;
    let code = if again.is_same() { ExitCode::SUCCESS } else { ExitCode::from(exit::NEGATIVE) };
    if as_json {
        let mut value = serde_json::to_value(&again)?;
        value["id"] = id.into();
        value["same"] = again.is_same().into();
        render::json(&value)?;
        return Ok(code);
    }
    for note in &again.notes {
        render::note(&format!("note: {note}"));
    }
    let mut out = anstream::stdout().lock();
    if again.is_same() {
        let result = &again.result;
        writeln!(out, "the same: {}, exit code {}", result.status(), result.exit_code())?;
    }
    for Difference { what, before, after } in &again.differences {
        writeln!(out, "{STRONG}{what}{STRONG:#} is different")?;
        let (before, after) = (as_text(before), as_text(after));
        let (gone, new) = different_lines(&before, &after);
        for (sign, lines) in [('-', gone), ('+', new)] {
            for line in lines.iter().take(SHOWN_LINES) {
                writeln!(out, "  {sign} {}", render::visible(line))?;
            }
            if lines.len() > SHOWN_LINES {
                writeln!(out, "  {sign} {FAINT}and {} more{FAINT:#}", lines.len() - SHOWN_LINES)?;
            }
        }
    }
    Ok(code)
}

fn as_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => value.to_string(),
    }
}

/// The lines between the first and the last that are different.
fn different_lines<'a>(before: &'a str, after: &'a str) -> (Vec<&'a str>, Vec<&'a str>) {
    let (mut before, mut after) =
        (before.lines().collect::<Vec<_>>(), after.lines().collect::<Vec<_>>());
    let same = before.iter().zip(&after).take_while(|(a, b)| a == b).count();
    before.drain(..same);
    after.drain(..same);
    while before.last().is_some() && before.last() == after.last() {
        before.pop();
        after.pop();
    }
    (before, after)
}

fn prune(
    store: &ArtifactStore,
    args: &PruneArtifactsArgs,
    configured: Retention,
) -> anyhow::Result<()> {
    let age =
        args.older_than.map(|seconds| Duration::try_from_secs_f64(seconds).unwrap_or_default());
    let keep = match (args.all, age, args.max_size) {
        (true, _, _) => Retention { max_age: Duration::ZERO, max_bytes: 0 },
        (false, None, None) => configured,
        (false, age, size) => {
            Retention { max_age: age.unwrap_or(Duration::MAX), max_bytes: size.unwrap_or(u64::MAX) }
        }
    };
    let pruned = store.prune(keep)?;
    if args.json {
        return render::json(&json!({ "removed": pruned.removed, "bytes": pruned.bytes }));
    }
    let mut out = anstream::stdout().lock();
    for id in &pruned.removed {
        writeln!(out, "removed {STRONG}{id}{STRONG:#}")?;
    }
    match pruned.removed.len() {
        0 => writeln!(out, "nothing to remove")?,
        _ => writeln!(out, "{FAINT}{} are free again{FAINT:#}", format_bytes(pruned.bytes))?,
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_different_is_shown() {
        let lines = different_lines("a\nb\nc\nd", "a\nx\ny\nd");
        assert_eq!(lines, (vec!["b", "c"], vec!["x", "y"]));
        assert_eq!(different_lines("a\na", "a"), (vec!["a"], vec![]));
        assert_eq!(different_lines("", "a"), (vec![], vec!["a"]));
    }
}
