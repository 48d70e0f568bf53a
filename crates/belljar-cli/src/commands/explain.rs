//! `belljar run --explain`: the resolved policy and the launch plan.

use std::io::Write;

use belljar::core::units::{format_bytes, group_digits};
use belljar::plan::Guest;
use belljar::{Field, GuestImage, LaunchPlan};
use serde::Serialize;

use crate::render::{self, FAINT, STRONG};
use crate::settings::Settings;

/// A plan, and what the code itself decides.
#[derive(Serialize)]
struct Explained<'a> {
    #[serde(flatten)]
    plan: &'a LaunchPlan,
    /// The image that the code would run in, where there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    image: Option<GuestImage>,
}

pub(super) fn print(
    plan: &LaunchPlan,
    code: &str,
    settings: &Settings,
    as_json: bool,
) -> anyhow::Result<()> {
    let image = plan.image_for(code);
    if as_json {
        return render::json(&Explained { plan, image });
    }
    let mut out = anstream::stdout().lock();
    for (name, value) in rows(plan, image, settings) {
        writeln!(out, "{STRONG}{name:<20}{STRONG:#} {value}")?;
    }
    writeln!(out, "{FAINT}Nothing was run.{FAINT:#}")?;
    Ok(())
}

fn rows(
    plan: &LaunchPlan,
    image: Option<GuestImage>,
    settings: &Settings,
) -> Vec<(String, String)> {
    let mut rows = vec![
        row("backend", plan.backend),
        row("language", plan.language),
        row(
            "guest",
            match &plan.guest {
                Guest::Embedded => "embedded".to_owned(),
                Guest::File(path) | Guest::Program(path) => path.display().to_string(),
                Guest::Image(name) => format!("image {name}"),
                Guest::Service => "the service's".to_owned(),
                Guest::Daemon(socket) => format!("the daemon's, at {}", socket.display()),
            },
        ),
    ];
    for mount in &plan.mounts {
        let temporary = settings.temporary.is_some() && mount.host == plan.workspace;
        let host = if temporary {
            "a fresh temporary directory, removed afterwards".to_owned()
        } else {
            mount.host.display().to_string()
        };
        let access = if mount.writable { "read-write" } else { "read-only" };
        rows.push(row("mount", format!("{} ({access}) is {host}", mount.guest)));
    }
    rows.extend(jail(plan));
    rows.extend(container(plan));
    let limits = plan.policy.resource_limits();
    let origin = |field: Field| match settings.config.policy.origin(field) {
        Some(origin) => format!("  [{origin}]"),
        None => format!("  [preset {}]", settings.config.policy.base()),
    };
    let mut limit = |field: Field, value: Option<String>| {
        let value = value.unwrap_or_else(|| format!("not enforced by {}", plan.backend));
        rows.push(row(field.name(), value + &origin(field)));
    };
    limit(Field::FuelBudget, limits.fuel_budget.map(group_digits));
    limit(Field::MemoryBytes, limits.memory_bytes.map(format_bytes));
    limit(Field::TimeoutSeconds, Some(limits.timeout_seconds.to_string()));
    limit(Field::StdoutMaxBytes, Some(format_bytes(limits.stdout_max_bytes)));
    limit(Field::StderrMaxBytes, Some(format_bytes(limits.stderr_max_bytes)));
    limit(Field::WorkspaceMaxBytes, limits.workspace_max_bytes.map(format_bytes));
    limit(Field::WorkspaceMaxFiles, limits.workspace_max_files.map(group_digits));
    limit(Field::MaxProcesses, limits.max_processes.map(group_digits));
    limit(Field::MaxToolCalls, limits.max_tool_calls.map(group_digits));
    limit(Field::MaxToolBytes, limits.max_tool_bytes.map(format_bytes));
    limit(Field::MaxRlmDepth, limits.max_rlm_depth.map(group_digits));
    limit(Field::Network, limits.network.map(|network| network.as_str().to_owned()));
    limit(Field::Deterministic, Some(plan.policy.deterministic().to_string()));
    if !plan.policy.block_imports().is_empty() {
        limit(Field::BlockImports, Some(plan.policy.block_imports().join(", ")));
    }
    if let Some(image) = image {
        let wanted = plan.policy.image();
        let found = if wanted.fixed().is_none() { " (by what the code imports)" } else { "" };
        limit(Field::Image, Some(format!("{image}{found}")));
    }
    for (name, value) in plan.policy.env() {
        rows.push(row("env", format!("{name}={value:?}")));
    }
    rows
}

/// What a process will be able to see and use.
#[cfg(target_os = "linux")]
fn jail(plan: &LaunchPlan) -> Vec<(String, String)> {
    let Some(jail) = &plan.jail else { return Vec::new() };
    let (_, layers, _) = belljar::jail_report();
    let mut rows = vec![row("jail", layers)];
    for mount in jail.mounts.iter().filter(|mount| !mount.optional || mount.host.exists()) {
        let (inside, host) = (mount.inside.display(), mount.host.display());
        let from = if mount.inside == mount.host { String::new() } else { format!(" is {host}") };
        rows.push(row("jail sees", format!("{inside} (read-only){from}")));
    }
    rows.push(row("jail /tmp", format_bytes(jail.limits.tmp_bytes)));
    let command = jail.args.iter().map(|argument| format!(" {argument}")).collect::<String>();
    rows.push(row("jail runs", format!("{}{command}", jail.program.display())));
    rows
}

#[cfg(not(target_os = "linux"))]
fn jail(_: &LaunchPlan) -> Vec<(String, String)> {
    Vec::new()
}

/// What a container will be able to see and use.
#[cfg(target_os = "linux")]
fn container(plan: &LaunchPlan) -> Vec<(String, String)> {
    let Some(container) = &plan.container else { return Vec::new() };
    let user = container.user.as_deref();
    let network = if container.network { "bridge" } else { "none" };
    let mut rows = vec![
        row("container user", user.unwrap_or("none: the workspace belongs to root")),
        row("container network", network),
        row("container CPUs", container.cpus),
        row("container root", "read-only, no capabilities, no new privileges"),
        row("container /tmp", format_bytes(container.tmp_bytes)),
    ];
    for mount in container.mounts.iter().filter(|mount| !mount.writable) {
        let text = format!("{} (read-only) is {}", mount.guest, mount.host.display());
        rows.push(row("container sees", text));
    }
    rows.push(row("container runs", container.command.join(" ")));
    rows
}

#[cfg(not(target_os = "linux"))]
fn container(_: &LaunchPlan) -> Vec<(String, String)> {
    Vec::new()
}

fn row(name: &str, value: impl ToString) -> (String, String) {
    (name.to_owned(), value.to_string())
}
