//! `belljar session`.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use belljar::core::units::{format_bytes, group_digits};
use belljar::sessions::{Listed, SessionFile};
use belljar::wasm::most_memory;
use belljar::{
    ExecutionPolicy, GuestImage, Home, PolicyLayer, Preset, SandboxConfig, SandboxError,
    SessionRecord, SessionStore, Snapshot,
};
use belljar_daemon::daemon::worker_homes;
use serde_json::json;

use crate::args::{PruneArgs, ResumeArgs, SessionArgs, SessionCommand};
use crate::progress::during;
use crate::render::{self, FAINT, STRONG};
use crate::report::Report;
use crate::sessions::Opened;
use crate::{calls, settings, tools};

pub(crate) fn run(args: SessionArgs) -> anyhow::Result<ExitCode> {
    let home = Home::locate()?;
    let store = SessionStore::open(&home);
    match args.command {
        SessionCommand::List { json, daemon } => list(&home, daemon, json)?,
        SessionCommand::Show { id, json } => show(&store, &id, json)?,
        SessionCommand::Fork { id, new_id, json } => {
            let fork = during("copying the session", || store.fork(&id, new_id.as_deref()))?;
            made(fork.record(), json)?;
        }
        SessionCommand::Snapshot { id, file } => snapshot(&store, &id, &file)?,
        SessionCommand::Restore { file, id, json } => {
            restore(&store, &home, &file, id.as_deref(), json)?;
        }
        SessionCommand::Resume(args) => return resume(&home, &args),
        SessionCommand::Files { id, json } => files(&store.files(&id)?, json)?,
        SessionCommand::Rm { ids, daemon } => remove(&stores(&home, daemon)?, &ids)?,
        SessionCommand::Prune(args) => prune(&stores(&home, args.daemon)?, &args)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// This user's sessions; or the daemon's, of which every worker has its own.
fn stores(home: &Home, daemon: bool) -> anyhow::Result<Vec<SessionStore>> {
    if !daemon {
        return Ok(vec![SessionStore::open(home)]);
    }
    let homes = worker_homes(home).context("cannot look at the daemon's directory")?;
    Ok(homes.iter().map(SessionStore::open).collect())
}

fn list(home: &Home, daemon: bool, as_json: bool) -> anyhow::Result<()> {
    let mut sessions = Vec::new();
    for store in stores(home, daemon)? {
        sessions.extend(store.list()?);
    }
    sessions.sort_by(|one, other| one.id.cmp(&other.id));
    if as_json {
        return render::json(&sessions.iter().map(as_value).collect::<Result<Vec<_>, _>>()?);
    }
    let mut out = anstream::stdout().lock();
    if sessions.is_empty() {
        let how = if daemon { "" } else { "; `belljar run --session ID` makes one" };
        writeln!(out, "no sessions{how}")?;
    }
    let width = sessions.iter().map(|session| session.id.len()).max().unwrap_or(0);
    for Listed { id, record, busy } in &sessions {
        write!(out, "{STRONG}{id:<width$}{STRONG:#}  ")?;
        match record {
            Ok(record) => {
                let status = if *busy { "in use" } else { record.status.as_str() };
                let used = render::ago(record.idle());
                write!(out, "{:<10}  {status:<9}  ", record.language.as_str())?;
                write!(out, "{:>12}", counted(record.cells_run, "cell"))?;
                writeln!(out, "  {FAINT}used {used}{FAINT:#}")?;
            }
            Err(_) => {
                writeln!(out, "damaged  {FAINT}`belljar session show {id}` says why{FAINT:#}")?;
            }
        }
    }
    Ok(())
}

fn as_value(session: &Listed) -> serde_json::Result<serde_json::Value> {
    Ok(match &session.record {
        Ok(record) => {
            let mut value = serde_json::to_value(record)?;
            value["in_use"] = session.busy.into();
            value
        }
        Err(problem) => json!({ "id": session.id, "in_use": session.busy, "damaged": problem }),
    })
}

fn show(store: &SessionStore, id: &str, as_json: bool) -> anyhow::Result<()> {
    let record = store.record(id)?;
    if as_json {
        return render::json(&record);
    }
    let files = store.files(id)?;
    let mut out = anstream::stdout().lock();
    let mut row = |name: &str, value: &str| writeln!(out, "{STRONG}{name:<12}{STRONG:#} {value}");
    row("session", &record.id)?;
    row("language", record.language.as_str())?;
    if !record.image.is_plain() {
        row("image", record.image.as_str())?;
    }
    row("status", record.status.as_str())?;
    row("cells run", &group_digits(record.cells_run))?;
    row("last used", &render::ago(record.idle()))?;
    let idle = Duration::try_from_secs_f64(record.idle_timeout_seconds).unwrap_or_default();
    row("idle limit", &render::span(idle))?;
    if let Some(workspace) = &record.external_workspace {
        row("workspace", &workspace.display().to_string())?;
    }
    let bytes = files.iter().map(|file| file.bytes).sum();
    let count = files.iter().filter(|file| !file.path.ends_with('/')).count();
    row("files", &format!("{}, {}", counted(count as u64, "file"), format_bytes(bytes)))?;
    if !record.deferred_tools.is_empty() {
        row("deferred", &record.deferred_tools.join(", "))?;
    }
    for call in &record.pending_calls {
        row("waits for", &format!("{}  {}", call.id, calls::shown(call)))?;
    }
    if !record.pending_calls.is_empty() {
        let hint = calls::how_to_answer(&record.id, &record.pending_calls);
        writeln!(out, "{FAINT}{hint}{FAINT:#}")?;
    }
    Ok(())
}

fn snapshot(store: &SessionStore, id: &str, file: &Path) -> anyhow::Result<()> {
    let session = store.session(id)?;
    let mut config = at_rest(session.record().image)?;
    // A session that waits is saved as it waits: its tools must be there.
    tools::offer(&mut config, None, &session.record().deferred_tools)?;
    during("writing the snapshot", || session.export(&config, file))?;
    writeln!(anstream::stdout(), "wrote {STRONG}{}{STRONG:#}", file.display())?;
    Ok(())
}

fn restore(
    store: &SessionStore,
    home: &Home,
    file: &Path,
    id: Option<&str>,
    as_json: bool,
) -> anyhow::Result<()> {
    let session = during("restoring the session", || {
        let snapshot = Snapshot::read(file, home)?;
        let mut config = at_rest(snapshot.image())?;
        let mut waiting: Vec<String> =
            snapshot.info().pending_calls.into_iter().map(|call| call.name).collect();
        waiting.sort();
        waiting.dedup();
        tools::offer(&mut config, None, &waiting)?;
        store.import(&snapshot, id, &config)
    })?;
    made(session.record(), as_json)
}

/// The configuration of a session in which nothing will run. However much memory it has, it may
/// have.
fn at_rest(image: GuestImage) -> Result<SandboxConfig, SandboxError> {
    let memory = PolicyLayer::new().memory_bytes(most_memory(image)?);
    let policy = ExecutionPolicy::build(Preset::Agent, [memory])?;
    Ok(SandboxConfig { policy, ..SandboxConfig::default() })
}

fn resume(home: &Home, args: &ResumeArgs) -> anyhow::Result<ExitCode> {
    let mut config = settings::live_config(&args.limits, &args.log)?;
    let model = tools::run_model(&args.tools, home)?;
    let opened = Opened::existing(home, &args.id, &config)?;
    let record = opened.session.record();
    let answers = calls::answers(&args.answer, &args.fail, &record.pending_calls)?;
    tools::offer(&mut config, model.as_ref(), &record.deferred_tools)?;
    let report = Report::new(args.json, true, &mut config);
    let result = opened.use_once(&config, 0, |sandbox| {
        report.watch(sandbox.cancel_handle())?;
        sandbox.resume(answers)
    })?;
    report.finish(&result)
}

fn files(files: &[SessionFile], as_json: bool) -> anyhow::Result<()> {
    if as_json {
        return render::json(&files);
    }
    let mut out = anstream::stdout().lock();
    if files.is_empty() {
        writeln!(out, "no files")?;
    }
    let width = files.iter().map(|file| group_digits(file.bytes).len()).max().unwrap_or(0);
    for SessionFile { path, bytes } in files {
        let size = if path.ends_with('/') { String::new() } else { group_digits(*bytes) };
        writeln!(out, "{size:>width$}  {}", render::visible(path))?;
    }
    Ok(())
}

fn remove(stores: &[SessionStore], ids: &[String]) -> anyhow::Result<()> {
    for id in ids {
        let there = stores.iter().find(|store| store.contains(id)).or_else(|| stores.first());
        let Some(store) = there else { bail!("the daemon has no sessions") };
        during("removing the session", || store.remove(id))?;
        writeln!(anstream::stdout(), "removed {STRONG}{id}{STRONG:#}")?;
    }
    Ok(())
}

fn prune(stores: &[SessionStore], args: &PruneArgs) -> anyhow::Result<()> {
    let idle = args.idle.map(|seconds| Duration::try_from_secs_f64(seconds).unwrap_or_default());
    let (mut removed, mut waiting) = (Vec::new(), Vec::new());
    for store in stores {
        let pruned = during("removing sessions", || store.prune(idle, args.suspended))?;
        removed.extend(pruned.removed);
        waiting.extend(pruned.waiting);
    }
    if args.json {
        return render::json(&json!({ "removed": removed, "waiting": waiting }));
    }
    let mut out = anstream::stdout().lock();
    for id in &removed {
        writeln!(out, "removed {STRONG}{id}{STRONG:#}")?;
    }
    for id in &waiting {
        writeln!(
            out,
            "kept {STRONG}{id}{STRONG:#}: it waits for an answer (--suspended removes it)"
        )?;
    }
    if removed.is_empty() && waiting.is_empty() {
        writeln!(out, "nothing to remove")?;
    }
    Ok(())
}

/// Says that there is a new session.
fn made(record: &SessionRecord, as_json: bool) -> anyhow::Result<()> {
    if as_json {
        return render::json(record);
    }
    writeln!(anstream::stdout(), "made {STRONG}{}{STRONG:#}", record.id)?;
    Ok(())
}

fn counted(count: u64, what: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{} {what}{plural}", group_digits(count))
}
