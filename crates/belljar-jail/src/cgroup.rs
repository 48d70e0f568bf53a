//! Control groups: the only limit on the memory and the number of processes of a whole jail. Had
//! where the system lets us make groups below our own, in version 2 or in version 1.

use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::sleep;
use std::time::Duration;

use crate::plan::Limits;

/// The jail's first process is one more.
const OWN_PROCESSES: u32 = 1;
const PREFIX: &str = "belljar-";
const PEAK_ONE: &str = "memory.max_usage_in_bytes";
const PEAK_TWO: &str = "memory.peak";

/// A group made for one jail; removed when dropped, after everything in it has ended.
#[derive(Debug)]
pub struct Cgroup {
    directories: Vec<PathBuf>,
    memory: PathBuf,
    version: Version,
    /// In version 2 a peak is reset for one open file only; before Linux 6.12 it cannot be.
    peak: Option<File>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

/// Below which directories groups are made.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Parents {
    version: Version,
    memory: PathBuf,
    /// The same as `memory` in version 2.
    pids: PathBuf,
}

impl Cgroup {
    /// Makes a group with the memory and process limits of `limits`.
    ///
    /// # Errors
    ///
    /// For people: why no group can be had.
    pub fn create(limits: &Limits) -> Result<Self, String> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        static TIDIED: Once = Once::new();
        let parents = find_parents()?;
        TIDIED.call_once(|| remove_left_over(&parents));
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("{PREFIX}{}-{number}", std::process::id());
        let (memory, pids) = (parents.memory.join(&name), parents.pids.join(&name));
        let mut group = Self {
            directories: Vec::new(),
            memory: memory.clone(),
            version: parents.version,
            peak: None,
        };
        let made = group.fill(memory, pids, limits);
        made.map(|()| group).map_err(|e| format!("no control group can be made: {e}"))
    }

    fn fill(&mut self, memory: PathBuf, pids: PathBuf, limits: &Limits) -> io::Result<()> {
        let bytes = limits.memory_bytes.to_string();
        fs::create_dir(&memory)?;
        self.directories.push(memory.clone());
        match self.version {
            Version::Two => {
                fs::write(memory.join("memory.max"), &bytes)?;
                // Missing where the kernel does not swap.
                drop(fs::write(memory.join("memory.swap.max"), "0"));
                drop(fs::write(memory.join("memory.oom.group"), "0"));
                let peak = File::options().read(true).write(true).open(memory.join(PEAK_TWO));
                self.peak = peak.ok();
            }
            Version::One => {
                fs::write(memory.join("memory.limit_in_bytes"), &bytes)?;
                drop(fs::write(memory.join("memory.memsw.limit_in_bytes"), &bytes));
                fs::create_dir(&pids)?;
                self.directories.push(pids.clone());
            }
        }
        let processes = limits.max_processes.saturating_add(OWN_PROCESSES);
        fs::write(pids.join("pids.max"), processes.to_string())
    }

    /// What a process writes `0` to in order to enter.
    ///
    /// # Errors
    ///
    /// When the files cannot be opened.
    pub fn entrances(&self) -> io::Result<Vec<OwnedFd>> {
        let open = |directory: &PathBuf| {
            let file = File::options().write(true).open(directory.join("cgroup.procs"))?;
            Ok(OwnedFd::from(file))
        };
        self.directories.iter().map(open).collect()
    }

    /// How many processes in it the kernel has killed for want of memory.
    pub fn memory_kills(&self) -> u64 {
        let name = match self.version {
            Version::One => "memory.oom_control",
            Version::Two => "memory.events",
        };
        let text = fs::read_to_string(self.memory.join(name)).unwrap_or_default();
        let kills = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
        kills.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
    }

    /// The most memory that was in use at once, where the kernel tells.
    pub fn peak_memory_bytes(&self) -> Option<u64> {
        let text = match (self.version, &self.peak) {
            (Version::One, _) => fs::read_to_string(self.memory.join(PEAK_ONE)).ok()?,
            (Version::Two, None) => fs::read_to_string(self.memory.join(PEAK_TWO)).ok()?,
            (Version::Two, Some(file)) => {
                let mut bytes = [0; 32];
                let len = file.read_at(&mut bytes, 0).ok()?;
                String::from_utf8_lossy(&bytes[..len]).into_owned()
            }
        };
        text.trim().parse().ok()
    }

    /// Forgets the most memory that was in use until now; false where the kernel cannot.
    pub fn reset_peak_memory(&self) -> bool {
        match self.version {
            Version::One => fs::write(self.memory.join(PEAK_ONE), "0").is_ok(),
            Version::Two => self.peak.as_ref().is_some_and(|file| file.write_at(b"0", 0).is_ok()),
        }
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        /// A group is busy for a moment after its last process was waited for.
        const TRIES: u32 = 50;
        const PAUSE: Duration = Duration::from_millis(2);
        for directory in &self.directories {
            for _ in 0..TRIES {
                match fs::remove_dir(directory) {
                    Err(e) if e.kind() == io::ErrorKind::ResourceBusy => sleep(PAUSE),
                    _ => break,
                }
            }
        }
    }
}

/// Removes the empty groups of hosts that were killed.
fn remove_left_over(parents: &Parents) {
    for parent in [&parents.memory, &parents.pids] {
        let Ok(entries) = fs::read_dir(parent) else { continue };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let owner = name
                .to_str()
                .and_then(|name| name.strip_prefix(PREFIX)?.split_once('-'))
                .and_then(|(pid, _)| pid.parse::<u32>().ok());
            if owner.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
                // Fails, as it should, when something is still in it.
                drop(fs::remove_dir(entry.path()));
            }
        }
    }
}

fn find_parents() -> Result<Parents, String> {
    let read = |path: &str| fs::read_to_string(path).map_err(|e| format!("{path}: {e}"));
    let groups = read("/proc/self/cgroup")?;
    let mounts = read("/proc/self/mountinfo")?;
    let one = |controller: &str| own_directory(&groups, &mounts, Some(controller));
    if let (Some(memory), Some(pids)) = (one("memory"), one("pids")) {
        return Ok(Parents { version: Version::One, memory, pids });
    }
    let own = own_directory(&groups, &mounts, None).ok_or("no control groups are mounted")?;
    // A group with processes in it cannot have limited groups below it, unless it is the topmost;
    // then ours go beside our own, where the limits of the group above hold for both.
    let candidates = [Some(own.as_path()), own.parent()];
    let limited = |directory: &&Path| {
        let enabled = fs::read_to_string(directory.join("cgroup.subtree_control"));
        enabled.is_ok_and(|list| {
            ["memory", "pids"].iter().all(|name| list.split_whitespace().any(|c| c == *name))
        })
    };
    let parent = candidates.into_iter().flatten().find(limited).ok_or_else(|| {
        format!("{} gives no memory and pids controllers to groups below it", own.display())
    })?;
    Ok(Parents { version: Version::Two, memory: parent.into(), pids: parent.into() })
}

/// The directory of our own group: in version 1 for a controller, in version 2 for `None`.
fn own_directory(groups: &str, mounts: &str, controller: Option<&str>) -> Option<PathBuf> {
    let wanted = |list: &str| match controller {
        Some(name) => list.split(',').any(|c| c == name),
        None => list.is_empty(),
    };
    let group = groups.lines().find_map(|line| {
        let (_, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        wanted(controllers).then_some(path)
    })?;
    mounts.lines().find_map(|line| {
        let (mount, system) = line.split_once(" - ")?;
        let mut system = system.split(' ');
        let (kind, options) = (system.next()?, system.nth(1)?);
        let right = match controller {
            Some(name) => kind == "cgroup" && options.split(',').any(|o| o == name),
            None => kind == "cgroup2",
        };
        let mut fields = mount.split(' ').skip(3);
        let (root, point) = (fields.next()?, fields.next()?);
        let below = Path::new(group).strip_prefix(root).ok()?;
        right.then(|| Path::new(point).join(below))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
39 31 0:36 /box /sys/fs/cgroup/pids rw,relatime - cgroup cgroup rw,pids
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
";

    fn check(groups: &str, controller: Option<&str>, expected: Option<&str>) {
        assert_eq!(own_directory(groups, MOUNTS, controller), expected.map(PathBuf::from));
    }

    #[test]
    fn own_groups_are_found() {
        let groups = "4:memory:/a/b\n8:pids:/box/c\n0::/u";
        check(groups, Some("memory"), Some("/sys/fs/cgroup/memory/a/b"));
        check(groups, Some("pids"), Some("/sys/fs/cgroup/pids/c"));
        check(groups, None, Some("/sys/fs/cgroup/unified/u"));
        check(groups, Some("cpu"), None);
    }

    #[test]
    fn a_group_outside_of_what_is_mounted_is_none() {
        check("8:pids:/elsewhere", Some("pids"), None);
    }
}
