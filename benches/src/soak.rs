//! Much of everything through the daemon for a long time: what it holds must not grow.

use std::fmt;
use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use belljar::{
    ExecutionPolicy, Files, PolicyLayer, Preset, RuntimeType, Sandbox, SandboxConfig, Status,
    create_sandbox,
};
use serde_json::json;

use crate::daemon::Daemon;
use crate::{BenchError, Settings};

/// Programs that use it at the same time.
const CLIENTS: usize = 8;

/// Looks at the daemon's memory during the run.
const SAMPLES: u32 = 60;

/// Rounds after which a client begins a new session.
const ROUNDS_PER_SESSION: u64 = 20;

/// What may be more at the end than at the beginning: caches fill, and the allocator keeps some.
const TOLERATED_SHARE: f64 = 1.10;
const TOLERATED_BYTES: f64 = 16.0 * 1024.0 * 1024.0;
const TOLERATED_DESCRIPTORS: f64 = 8.0;

/// What the daemon and its workers had of the machine at some time.
#[derive(Debug, Clone, Copy)]
struct Held {
    bytes: f64,
    descriptors: f64,
}

/// How it went.
#[derive(Debug)]
pub struct Soak {
    executions: u64,
    elapsed: Duration,
    /// Medians of the second tenth of the run, when everything is warm, and of its last tenth.
    early: Held,
    late: Held,
}

impl Soak {
    /// Whether it held no more at the end than at the beginning.
    #[must_use]
    pub fn is_flat(&self) -> bool {
        self.late.bytes <= self.early.bytes * TOLERATED_SHARE + TOLERATED_BYTES
            && self.late.descriptors <= self.early.descriptors + TOLERATED_DESCRIPTORS
    }
}

impl fmt::Display for Soak {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MIB: f64 = 1024.0 * 1024.0;
        let Self { executions, elapsed, early, late } = self;
        writeln!(f, "{executions} executions by {CLIENTS} clients in {} s", elapsed.as_secs())?;
        writeln!(f, "| | early | at the end |\n|---|---:|---:|")?;
        let (before, after) = (early.bytes / MIB, late.bytes / MIB);
        writeln!(f, "| memory of daemon and workers | {before:.1} MiB | {after:.1} MiB |")?;
        writeln!(f, "| descriptors | {:.0} | {:.0} |", early.descriptors, late.descriptors)?;
        write!(f, "{}", if self.is_flat() { "flat" } else { "NOT flat: it grew" })
    }
}

/// Uses a daemon of its own for so long.
///
/// # Errors
/// When there is no daemon, or any execution gives another result than it should.
pub fn soak(
    settings: &Settings,
    time: Duration,
    progress: &dyn Fn(&str),
) -> Result<Soak, BenchError> {
    let missing = || BenchError::Program("there is no program to start a daemon with".to_owned());
    let program = settings.program.as_ref().ok_or_else(missing)?;
    let place = tempfile::tempdir()?;
    let daemon = Daemon::start(program, place.path(), settings).map_err(BenchError::Program)?;
    let policy = ExecutionPolicy::build(Preset::Agent, [PolicyLayer::new().timeout_seconds(20.0)])
        .map_err(belljar::SandboxError::from)?;
    let config = daemon.config(&SandboxConfig { policy, ..SandboxConfig::default() });
    let (start, executions) = (Instant::now(), AtomicU64::new(0));
    let until = start + time;
    let mut held = Vec::new();
    std::thread::scope(|scope| -> Result<(), BenchError> {
        let clients: Vec<_> = (0..CLIENTS as u64)
            .map(|client| {
                let (config, executions) = (&config, &executions);
                scope.spawn(move || use_until(until, client, config, executions))
            })
            .collect();
        for sample in 1..=SAMPLES {
            let due = start + time * sample / SAMPLES;
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            let now = held_by(daemon.pid())?;
            progress(&format!(
                "{:>4} s: {} executions, {:.1} MB, {} descriptors",
                start.elapsed().as_secs(),
                executions.load(Ordering::Relaxed),
                now.bytes / 1e6,
                now.descriptors,
            ));
            held.push(now);
        }
        let died = |_| BenchError::Program("a client's thread died".to_owned());
        clients.into_iter().try_for_each(|client| client.join().map_err(died)?)
    })?;
    let tenth = held.len() / 10;
    Ok(Soak {
        executions: executions.into_inner(),
        elapsed: start.elapsed(),
        early: median(held.get(tenth..tenth * 2).unwrap_or_default()),
        late: median(held.get(held.len() - tenth..).unwrap_or_default()),
    })
}

/// One client: sessions one after another, and meanwhile a bit of everything.
fn use_until(
    until: Instant,
    client: u64,
    config: &SandboxConfig,
    executions: &AtomicU64,
) -> Result<(), BenchError> {
    let mut round = client;
    while Instant::now() < until {
        let mut session = create_sandbox(config)?;
        session.initialize(json!({ "client": client }))?;
        let first = round;
        expect(&mut *session, &format!("total = {first}"), Status::Ok, "")?;
        for _ in 0..ROUNDS_PER_SESSION {
            round += 1;
            one_round(&mut *session, config, client, round)?;
            executions.fetch_add(5, Ordering::Relaxed);
        }
        let code = "print(total)";
        expect(&mut *session, code, Status::Ok, &format!("{}\n", first + ROUNDS_PER_SESSION))?;
        session.destroy()?;
    }
    Ok(())
}

/// Five executions.
fn one_round(
    session: &mut dyn Sandbox,
    config: &SandboxConfig,
    client: u64,
    round: u64,
) -> Result<(), BenchError> {
    let code = "total += 1\nprint(context['client'])";
    expect(session, code, Status::Ok, &format!("{client}\n"))?;
    expect(session, "raise ValueError(total)", Status::Error, "")?;
    let mut fork = session.fork()?;
    expect(&mut *fork, "total = -1\nopen('f', 'w').write('x' * 10_000)", Status::Ok, "")?;
    if round.is_multiple_of(10) {
        let snapshot = session.snapshot(Files::With)?;
        fork.restore(&snapshot)?;
    }
    fork.destroy()?;
    expect(&mut *create_sandbox(config)?, "print(6 * 7)", Status::Ok, "42\n")?;
    let javascript = SandboxConfig { runtime: RuntimeType::Javascript, ..config.clone() };
    let mut javascript = create_sandbox(&javascript)?;
    expect(&mut *javascript, "console.log('x'.repeat(100_000))", Status::Ok, "")?;
    Ok(())
}

/// Runs code that must end so, and print this if it is known.
fn expect(
    sandbox: &mut dyn Sandbox,
    code: &str,
    status: Status,
    stdout: &str,
) -> Result<(), BenchError> {
    let result = sandbox.execute(code)?;
    if result.status() != status || (!stdout.is_empty() && result.stdout != stdout) {
        let (is, printed) = (result.status(), result.stdout);
        let problem = format!("{code:?}: {is}, printed {printed:?}: {}", result.stderr);
        return Err(BenchError::Program(problem));
    }
    Ok(())
}

/// Of a process and all it has started. What it shares counts in parts.
fn held_by(ancestor: u32) -> Result<Held, BenchError> {
    let mut held = Held { bytes: 0.0, descriptors: 0.0 };
    for pid in family(ancestor)? {
        // Whoever has just ended holds nothing.
        let Ok(text) = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")) else { continue };
        let line = text.lines().find_map(|line| line.strip_prefix("Pss:"));
        let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
        held.bytes += kib.unwrap_or_default() * 1024.0;
        held.descriptors +=
            fs::read_dir(format!("/proc/{pid}/fd")).map_or(0.0, |entries| entries.count() as f64);
    }
    Ok(held)
}

fn family(ancestor: u32) -> Result<Vec<u32>, BenchError> {
    let mut processes = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let Ok(pid) = entry?.file_name().to_string_lossy().parse::<u32>() else { continue };
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // The name before it may hold anything.
        let parent = stat.rsplit(") ").next().and_then(|rest| rest.split(' ').nth(1));
        processes.extend(parent.and_then(|parent| Some((pid, parent.parse::<u32>().ok()?))));
    }
    let mut family = vec![ancestor];
    let mut next = 0;
    while let Some(&parent) = family.get(next) {
        family.extend(processes.iter().filter(|(_, of)| *of == parent).map(|(pid, _)| pid));
        next += 1;
    }
    Ok(family)
}

fn median(held: &[Held]) -> Held {
    let middle = |of: fn(&Held) -> f64| {
        let mut all: Vec<f64> = held.iter().map(of).collect();
        all.sort_by(f64::total_cmp);
        all.get(all.len() / 2).copied().unwrap_or(f64::NAN)
    };
    Held { bytes: middle(|held| held.bytes), descriptors: middle(|held| held.descriptors) }
}
