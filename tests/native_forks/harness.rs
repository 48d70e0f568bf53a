//! A native sandbox that is warm: what it runs next is a fork of its zygote.

use std::fs;
use std::path::PathBuf;

use belljar::{
    Backend, PolicyLayer, Sandbox, SandboxConfig, SandboxError, SandboxResult, create_sandbox,
};
use support::{Expect, Jar};

/// Tells forks of one zygote, which share it, from other interpreters.
pub const SEED: &str = "print(hash('seed'))";

/// A workspace and the native sandbox in it.
pub struct Warm {
    pub jar: Jar,
    pub sandbox: Box<dyn Sandbox>,
}

/// A sandbox that has run twice, after which it has a zygote and a spare. `None`, and said so, where
/// there is no jail.
pub fn warm() -> Option<Warm> {
    warm_with(|layer| layer)
}

pub fn warm_with(change: impl FnOnce(PolicyLayer) -> PolicyLayer) -> Option<Warm> {
    let mut warm = cold_with(change)?;
    warm.run("print(1)").printed("1\n");
    Some(warm)
}

/// A sandbox that has run once, without a zygote.
pub fn cold_with(change: impl FnOnce(PolicyLayer) -> PolicyLayer) -> Option<Warm> {
    let jar = Jar::new().with(change);
    let mut sandbox = create_sandbox(&config(&jar)).expect("a sandbox");
    match sandbox.execute("print(1)") {
        Ok(result) => drop(result.printed("1\n")),
        Err(SandboxError::BackendUnavailable { reason, .. }) => {
            println!("skipped: no native backend here: {reason}");
            return None;
        }
        Err(error) => panic!("{error}"),
    }
    Some(Warm { jar, sandbox })
}

pub fn config(jar: &Jar) -> SandboxConfig {
    SandboxConfig { backend: Backend::Native, ..jar.config() }
}

impl Warm {
    #[track_caller]
    pub fn run(&mut self, code: &str) -> SandboxResult {
        self.sandbox.execute(code).expect("the host is fine")
    }

    /// Whether the last execution came from this zygote too.
    #[track_caller]
    pub fn seed(&mut self) -> String {
        self.run(SEED).stdout
    }
}

/// A process below this one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Below {
    pub pid: i32,
    pub command: String,
    pub state: char,
}

/// All processes that this one has started, however indirectly.
pub fn descendants() -> Vec<Below> {
    let me = i32::try_from(std::process::id()).expect("a small number");
    let mut all = Vec::new();
    for entry in fs::read_dir("/proc").expect("/proc").flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else {
            continue;
        };
        let Ok(stat) = fs::read_to_string(entry.path().join("stat")) else { continue };
        let Some((_, rest)) = stat.rsplit_once(") ") else { continue };
        let mut fields = rest.split(' ');
        let state = fields.next().and_then(|state| state.chars().next()).unwrap_or('?');
        let parent = fields.next().and_then(|parent| parent.parse::<i32>().ok()).unwrap_or(0);
        let command = fs::read_to_string(entry.path().join("cmdline")).unwrap_or_default();
        all.push((parent, Below { pid, command, state }));
    }
    let (mut found, mut parents) = (Vec::new(), vec![me]);
    while let Some(parent) = parents.pop() {
        for (_, process) in all.iter().filter(|(above, _)| *above == parent) {
            parents.push(process.pid);
            found.push(process.clone());
        }
    }
    found
}

/// The zygote of the only sandbox in this process: what its forks are below.
pub fn zygote() -> i32 {
    let all = descendants();
    let zygotes = all.iter().filter(|process| process.command.contains("--zygote"));
    zygotes.map(|process| process.pid).min().expect("a zygote")
}

pub fn signal(pid: i32, signal: i32) {
    // SAFETY: takes numbers only.
    let sent = unsafe { libc::kill(pid, signal) };
    assert_eq!(sent, 0, "signal {signal} to {pid}");
}

/// Where this process's descriptors lead.
pub fn descriptors() -> Vec<PathBuf> {
    let entries = fs::read_dir("/proc/self/fd").expect("/proc").flatten();
    let mut all: Vec<PathBuf> =
        entries.filter_map(|entry| fs::read_link(entry.path()).ok()).collect();
    all.sort();
    all
}
