//! The plan in the form that the helper reads: lengths and bytes in a fixed order. Its counterpart
//! is `helper/plan.rs`.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::process::{Resource, getrlimit};

use crate::error::JailError;
use crate::plan::{HOST_NAME, JailPlan, Limits, MemoryRule};
use crate::seccomp;

const MAGIC: u32 = u32::from_le_bytes(*b"BJP2");
/// The monitor and the jail's first process count as processes of the jail's user.
const OWN_PROCESSES: u32 = 2;

/// What the helper itself needs while it confines itself.
const FEWEST_OPEN_FILES: u64 = 64;

/// Looks the plan's paths up on the host and writes everything down for the helper. `grouped` says
/// whether a control group limits the jail as a whole.
pub(crate) fn encode(plan: &JailPlan, grouped: bool) -> Result<Vec<u8>, JailError> {
    check(plan)?;
    let mut out = Writer(Vec::new());
    out.number(MAGIC);
    out.number(u32::from(plan.zygote));
    out.path(&plan.program);
    out.list(&plan.args, |out, arg| out.bytes(arg.as_bytes()));
    let pairs: Vec<_> = plan.env.iter().map(|(name, value)| format!("{name}={value}")).collect();
    out.list(&pairs, |out, pair| out.bytes(pair.as_bytes()));
    out.path(&plan.directory);
    out.bytes(HOST_NAME.as_bytes());
    out.number(plan.uid);
    out.number(plan.gid);
    out.wide(plan.limits.tmp_bytes);
    out.wide(plan.limits.tmp_bytes);
    out.path(&plan.workspace_inside);
    out.number(u32::from(plan.terminals));
    out.list(&mounts(plan)?, |out, mount| {
        out.path(&mount.source);
        out.path(&mount.target);
        out.number(u32::from(mount.writable));
    });
    out.list(&plan.links, |out, link| {
        out.path(&link.inside);
        out.path(&link.to);
    });
    out.list(&plan.files, |out, file| {
        out.path(&file.inside);
        out.bytes(file.text.as_bytes());
    });
    out.list(&resources(&plan.limits, grouped), |out, (number, most)| {
        out.number(*number);
        out.wide(*most);
    });
    let filters = seccomp::filters()?;
    let (first, then) = match (plan.zygote, plan.seals) {
        (false, false) if plan.terminals => (&[][..], &filters.terminals),
        (true, _) => (filters.zygote.as_slice(), &filters.child),
        (false, true) => (&[][..], &filters.sealing),
        (false, false) => (&[][..], &filters.program),
    };
    out.list(first, |out, filter| out.bytes(filter));
    out.list(then, |out, filter| out.bytes(filter));
    Ok(out.0)
}

struct FoundMount {
    source: PathBuf,
    target: PathBuf,
    writable: bool,
}

/// The workspace comes first, since other mounts may lie in it.
fn mounts(plan: &JailPlan) -> Result<Vec<FoundMount>, JailError> {
    let place = plan.workspace_inside.as_path();
    let workspace = plan.workspace.iter().map(|host| (host, place, false, true));
    let others = plan.mounts.iter().map(|m| (&m.host, m.inside.as_path(), m.optional, m.writable));
    let mut found = Vec::new();
    for (host, inside, optional, writable) in workspace.chain(others) {
        match host.canonicalize() {
            Ok(source) => found.push(FoundMount { source, target: inside.into(), writable }),
            Err(_) if optional => {}
            Err(_) => {
                return Err(JailError::MountMissing { host: host.clone(), inside: inside.into() });
            }
        }
    }
    Ok(found)
}

fn check(plan: &JailPlan) -> Result<(), JailError> {
    let invalid = |reason: String| Err(JailError::InvalidPlan { reason });
    let places = [&plan.program, &plan.directory, &plan.workspace_inside];
    let inside = plan.mounts.iter().map(|m| &m.inside).chain(places);
    let made = plan.links.iter().map(|l| &l.inside).chain(plan.files.iter().map(|f| &f.inside));
    for path in inside.chain(made) {
        let strange = |part| matches!(part, std::path::Component::ParentDir);
        if !path.is_absolute() || path.components().any(strange) {
            return invalid(format!("{} is no absolute path without `..`", path.display()));
        }
    }
    for name in plan.env.keys() {
        if name.is_empty() || name.contains('=') {
            return invalid(format!("{name:?} is no name of an environment variable"));
        }
    }
    if plan.zygote && plan.seals {
        return invalid("a zygote is confined otherwise, it does not seal itself".into());
    }
    if plan.terminals && (plan.zygote || plan.seals) {
        return invalid("only a plain program has terminals".into());
    }
    if plan.zygote && plan.workspace.is_some() {
        return invalid("a zygote has no workspace, its children have".into());
    }
    if plan.limits.max_open_files < FEWEST_OPEN_FILES {
        return invalid(format!("max_open_files must be at least {FEWEST_OPEN_FILES}"));
    }
    let texts = plan.args.iter().chain(plan.env.keys()).chain(plan.env.values());
    if texts.into_iter().any(|text| text.contains('\0')) {
        return invalid("an argument or environment variable holds a NUL".into());
    }
    Ok(())
}

/// The kernel's numbers for what is limited. Never more than the host itself has, since that would
/// be refused.
fn resources(limits: &Limits, grouped: bool) -> Vec<(u32, u64)> {
    const FILE_BYTES: u32 = 1;
    const DATA: u32 = 2;
    const CORE: u32 = 4;
    const PROCESSES: u32 = 6;
    const OPEN_FILES: u32 = 7;
    const LOCKED_MEMORY: u32 = 8;
    const ADDRESS_SPACE: u32 = 9;
    const QUEUED_MESSAGES: u32 = 12;
    const NICENESS: u32 = 13;
    const REAL_TIME: u32 = 14;
    let within =
        |resource, wanted: u64| getrlimit(resource).maximum.map_or(wanted, |most| most.min(wanted));
    let processes = u64::from(limits.max_processes.saturating_add(OWN_PROCESSES));
    let mut all = vec![
        (CORE, 0),
        // Nothing of these is needed, and a host that was given much of them does not pass it on.
        (LOCKED_MEMORY, 0),
        (QUEUED_MESSAGES, 0),
        (NICENESS, 0),
        (REAL_TIME, 0),
        (FILE_BYTES, within(Resource::Fsize, limits.max_file_bytes)),
        (OPEN_FILES, within(Resource::Nofile, limits.max_open_files)),
        (PROCESSES, within(Resource::Nproc, processes)),
    ];
    if !(grouped && limits.memory_rule == MemoryRule::Group) {
        let most = limits.memory_bytes.saturating_add(limits.code_bytes);
        all.push((DATA, within(Resource::Data, most)));
    }
    if !grouped && limits.memory_rule == MemoryRule::AddressSpace {
        all.push((ADDRESS_SPACE, within(Resource::As, limits.memory_bytes)));
    }
    all
}

struct Writer(Vec<u8>);

impl Writer {
    fn number(&mut self, value: u32) {
        self.0.extend(value.to_le_bytes());
    }

    fn wide(&mut self, value: u64) {
        self.0.extend(value.to_le_bytes());
    }

    /// Longer than 4 GiB cannot be: the kernel would refuse a tenth of a thousandth of it.
    fn bytes(&mut self, bytes: &[u8]) {
        self.number(u32::try_from(bytes.len()).unwrap_or(u32::MAX));
        self.0.extend(bytes);
    }

    fn path(&mut self, path: &Path) {
        self.bytes(path.as_os_str().as_bytes());
    }

    fn list<T>(&mut self, items: &[T], mut one: impl FnMut(&mut Self, &T)) {
        self.number(u32::try_from(items.len()).unwrap_or(u32::MAX));
        for item in items {
            one(self, item);
        }
    }
}
