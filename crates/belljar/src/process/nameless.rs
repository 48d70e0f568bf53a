//! Files that were removed while processes still hold them. They take room like any other and have
//! no name by which a listing could find them, so the threads are asked what they hold. Where they
//! cannot be asked, nothing is known, and [`Nameless::is_whole`] says so.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, Metadata};
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{AtFlags, StatxFlags};
use rustix::io::Errno;

use super::launch::Ancestor;

/// Threads that are asked, of all processes together: far more than a jail allows.
const MAX_THREADS: usize = 4096;

/// Descriptors that are looked at, of all threads together. Those of one process are mostly the
/// same, and counted each time.
const MAX_DESCRIPTORS: usize = 256 * 1024;

/// Of the list of one process's mappings: some forty thousand of them.
const MAX_MAPS_BYTES: u64 = 4 * 1024 * 1024;

/// How often a mapping that has moved is looked for before it counts as one that hides.
const LOOKS: usize = 2;

/// A file system, by the numbers that the kernel uses for it.
#[derive(Debug, Clone, Copy)]
pub(super) struct FileSystem {
    /// In what it says of a file.
    device: u64,
    /// In its lists of mounts and mappings: another one where a file system has volumes.
    mounted: u64,
}

/// Nameless files on one file system.
#[derive(Debug, Default)]
pub(super) struct Nameless {
    /// By their numbers, with the bytes they take.
    known: BTreeMap<u64, u64>,
    /// Mapped ones that only the privileged may measure.
    unmeasured: BTreeSet<u64>,
    /// Something could not be looked at.
    hidden: bool,
}

/// What the processes of a jail hold in files that were removed, on the file system that a directory
/// is on. One that cannot be measured counts as `most`; `None` when something cannot be looked at.
pub fn removed_bytes(jail: &belljar_jail::Jailed, directory: impl AsFd, most: u64) -> Option<u64> {
    // One that has ended holds nothing.
    let Some(pid) = jail.ancestor() else { return Some(0) };
    let on = FileSystem::of_open(directory.as_fd()).ok()?;
    let held = Nameless::held_below(Ancestor { pid, owns_first: true }, on);
    held.is_whole().then(|| held.bytes(most))
}

impl FileSystem {
    /// The one that a directory is on.
    pub(super) fn of(directory: &Path) -> io::Result<Self> {
        Self::of_open(fs::File::open(directory)?.as_fd())
    }

    fn of_open(directory: BorrowedFd<'_>) -> io::Result<Self> {
        let device = rustix::fs::fstat(directory)?.st_dev;
        Ok(Self { device, mounted: mounted_device(directory).unwrap_or(device) })
    }
}

impl Nameless {
    /// What a process and its descendants hold on a file system.
    pub(super) fn held_below(ancestor: Ancestor, on: FileSystem) -> Self {
        let mut held = Self::default();
        // Of each thread: one may have descriptors of its own, and live on when the first has ended.
        let mut threads = held.threads_below(ancestor.pid);
        if ancestor.owns_first {
            threads.retain(|thread| !is_first(*thread));
        }
        let mut descriptors = 0;
        // First, because these can always be measured.
        for thread in &threads {
            let open = held.add_open(*thread, on, &mut descriptors);
            held.note(*thread, open);
        }
        for thread in &threads {
            let mapped = held.add_mapped(*thread, on);
            held.note(*thread, mapped);
        }
        held
    }

    pub(super) fn count(&self) -> u64 {
        (self.known.len() + self.unmeasured.len()) as u64
    }

    /// What they take together, if one that cannot be measured takes `most`.
    pub(super) fn bytes(&self, most: u64) -> u64 {
        let unmeasured = most.saturating_mul(self.unmeasured.len() as u64);
        self.known.values().fold(unmeasured, |sum, bytes| sum.saturating_add(*bytes))
    }

    /// Whether everything could be looked at.
    pub(super) const fn is_whole(&self) -> bool {
        !self.hidden
    }

    /// A thread that has ended holds nothing. One that cannot be asked may hold anything.
    fn note(&mut self, thread: u32, looked: io::Result<()>) {
        self.hidden |= looked.is_err_and(|error| !is_gone(&error) && !is_ending(thread));
    }

    fn add_open(&mut self, thread: u32, on: FileSystem, looked_at: &mut usize) -> io::Result<()> {
        for entry in fs::read_dir(format!("/proc/{thread}/fd"))? {
            *looked_at += 1;
            if *looked_at > MAX_DESCRIPTORS {
                return Err(io::Error::other("too many descriptors"));
            }
            match fs::metadata(entry?.path()) {
                Ok(found) => self.add(&found, on),
                Err(error) if is_gone(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// A mapping holds a file after its descriptor was closed, and may be far shorter than it.
    fn add_mapped(&mut self, thread: u32, on: FileSystem) -> io::Result<()> {
        let mut moved = BTreeSet::new();
        for _ in 0..LOOKS {
            moved.clear();
            for mapping in maps(thread)?.lines().filter_map(|line| removed_mapping(line, on)) {
                let Mapping { start, end, inode } = mapping;
                if self.known.contains_key(&inode) || self.unmeasured.contains(&inode) {
                    continue;
                }
                match fs::metadata(format!("/proc/{thread}/map_files/{start:x}-{end:x}")) {
                    Ok(found) => self.add(&found, on),
                    Err(error) if is_gone(&error) => drop(moved.insert(inode)),
                    Err(_) => drop(self.unmeasured.insert(inode)),
                }
            }
            if moved.is_empty() {
                break;
            }
        }
        self.unmeasured.extend(moved);
        Ok(())
    }

    fn add(&mut self, found: &Metadata, on: FileSystem) {
        if found.is_file() && found.nlink() == 0 && found.dev() == on.device {
            self.known.insert(found.ino(), found.blocks().saturating_mul(512));
        }
    }

    /// The threads of a process and of its descendants.
    fn threads_below(&mut self, root: u32) -> BTreeSet<u32> {
        let (mut threads, mut unasked) = (BTreeSet::new(), vec![root]);
        while let Some(process) = unasked.pop() {
            let found = threads_of(process);
            for thread in found.as_deref().unwrap_or_default() {
                if threads.len() >= MAX_THREADS {
                    self.hidden = true;
                    return threads;
                }
                // One that was seen before has the number of one that has ended meanwhile.
                if threads.insert(*thread) {
                    let children = children_of(process, *thread);
                    unasked.extend(children.as_deref().unwrap_or_default());
                    self.note(*thread, children.map(drop));
                }
            }
            self.note(process, found.map(drop));
        }
        threads
    }
}

/// Whether something fails because a process, or a descriptor of it, is no longer there.
fn is_gone(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::NOENT | Errno::SRCH))
}

/// Whether a thread is past running any code: what it holds is given back, or somebody else's too.
fn is_ending(thread: u32) -> bool {
    const EXITING: u64 = 4;
    let stat = fs::read_to_string(format!("/proc/{thread}/stat")).unwrap_or_default();
    // The name in parentheses may hold anything; the flags are the seventh field after it.
    let mut fields = stat.rsplit(") ").next().unwrap_or_default().split(' ');
    let flags = fields.nth(6).and_then(|flags| flags.parse::<u64>().ok());
    flags.is_none_or(|flags| flags & EXITING != 0)
}

/// Whether it has the number one in the namespace it was born in, where no jailed code can put it.
fn is_first(thread: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{thread}/status")).unwrap_or_default();
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    let numbers: Vec<&str> = numbers.unwrap_or_default().split_ascii_whitespace().collect();
    matches!(numbers[..], [_, .., "1"])
}

fn threads_of(process: u32) -> io::Result<Vec<u32>> {
    let mut threads = Vec::new();
    for entry in fs::read_dir(format!("/proc/{process}/task"))? {
        threads.extend(entry?.file_name().to_str().and_then(|name| name.parse::<u32>().ok()));
    }
    Ok(threads)
}

fn children_of(process: u32, thread: u32) -> io::Result<Vec<u32>> {
    let text = fs::read_to_string(format!("/proc/{process}/task/{thread}/children"))?;
    Ok(text.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).collect())
}

fn maps(thread: u32) -> io::Result<String> {
    let mut text = Vec::new();
    let file = fs::File::open(format!("/proc/{thread}/maps"))?;
    if file.take(MAX_MAPS_BYTES).read_to_end(&mut text)? as u64 == MAX_MAPS_BYTES {
        return Err(io::Error::other("too many mappings"));
    }
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// A part of a process's memory that shows a file.
#[derive(Debug, PartialEq, Eq)]
struct Mapping {
    start: u64,
    end: u64,
    inode: u64,
}

/// What a line of `maps` says, if it is of a removed file on this file system.
fn removed_mapping(line: &str, on: FileSystem) -> Option<Mapping> {
    if !line.ends_with(" (deleted)") {
        return None;
    }
    let number = |hex| u64::from_str_radix(hex, 16).ok();
    let mut fields = line.split_ascii_whitespace();
    let (start, end) = fields.next()?.split_once('-')?;
    let device = device_number(fields.nth(2)?, 16)?;
    let inode = fields.next()?.parse().ok()?;
    let same = device == on.device || device == on.mounted;
    same.then_some(Mapping { start: number(start)?, end: number(end)?, inode })
}

/// The number of the file system that is mounted where a directory is.
fn mounted_device(directory: BorrowedFd<'_>) -> Option<u64> {
    let found = rustix::fs::statx(directory, "", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID).ok()?;
    let id = found.stx_mnt_id.to_string();
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let mut fields = mounts.lines().map(str::split_ascii_whitespace);
    let mut mount = fields.find(|fields| fields.clone().next() == Some(&*id))?;
    device_number(mount.nth(2)?, 10)
}

/// From its two parts, with a colon between them.
fn device_number(text: &str, radix: u32) -> Option<u64> {
    let (major, minor) = text.split_once(':')?;
    let part = |text| u32::from_str_radix(text, radix).ok();
    Some(rustix::fs::makedev(part(major)?, part(minor)?))
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command, Stdio};

    use proptest::prelude::*;

    use super::*;

    const MOST: u64 = 1_000_000;

    fn plain(process: &Child) -> Ancestor {
        Ancestor { pid: process.id(), owns_first: false }
    }

    /// Number and bytes of what a program holds that Python code in a child of it has opened.
    fn held_by(code: &str) -> (u64, u64) {
        let dir = tempfile::tempdir().unwrap();
        let write =
            "import os, mmap\nf = open(\"f\", \"wb+\"); f.write(b\"x\" * 100_000); f.flush()";
        let wait = "import sys; print(1, flush=True); sys.stdin.read()";
        let mut child = Command::new("sh")
            .args(["-c", &format!("python3 -c '{write}\n{code}\n{wait}'; true")])
            .current_dir(dir.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let ready = child.stdout.as_mut().unwrap().read_exact(&mut [0; 2]);
        let held = Nameless::held_below(plain(&child), FileSystem::of(dir.path()).unwrap());
        drop(child.stdin.take());
        child.wait().unwrap();
        ready.unwrap();
        assert!(held.is_whole());
        (held.count(), held.bytes(MOST))
    }

    /// Its size, or, for those who may not ask for that, the most there can be.
    fn is_one_file((count, bytes): (u64, u64)) -> bool {
        count == 1 && ((100_000..200_000).contains(&bytes) || bytes == MOST)
    }

    #[test]
    fn open_and_mapped_files_that_were_removed_are_counted_and_others_are_not() {
        assert_eq!(held_by(""), (0, 0), "it has a name");
        let open = held_by("os.remove(\"f\")");
        assert!(is_one_file(open) && open.1 < MOST, "{open:?}");
        let page_of = |then: &str| {
            held_by(&format!(
                "m = mmap.mmap(f.fileno(), 4096); {then}; f.close(); os.closerange(3, 99)"
            ))
        };
        assert_eq!(page_of("1"), (0, 0), "it has a name");
        let mapped = page_of("os.remove(\"f\")");
        assert!(is_one_file(mapped), "{mapped:?}");
    }

    #[test]
    fn what_can_be_measured_only_once_counts_once() {
        let both = held_by("m = mmap.mmap(f.fileno(), 4096); os.remove(\"f\")");
        assert!(is_one_file(both) && both.1 < MOST, "{both:?}");
    }

    #[test]
    fn a_process_that_has_ended_holds_nothing() {
        let mut child = Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        let on = FileSystem::of(Path::new("/")).unwrap();
        let held = Nameless::held_below(plain(&child), on);
        assert!(held.is_whole() && held.count() == 0);
    }

    #[test]
    fn what_cannot_be_looked_at_is_noted() {
        let noted = |error: io::Error| {
            let mut held = Nameless::default();
            held.note(std::process::id(), Err(error));
            !held.is_whole()
        };
        assert!(noted(io::Error::other("too many descriptors")));
        assert!(noted(Errno::ACCESS.into()) && noted(Errno::PERM.into()));
        assert!(!noted(Errno::NOENT.into()) && !noted(Errno::SRCH.into()));
    }

    #[test]
    fn a_process_that_nobody_has_waited_for_is_ending() {
        let mut child = Command::new("true").stdout(Stdio::piped()).spawn().unwrap();
        assert!(!is_ending(std::process::id()));
        // Its end of the pipe is closed when it ends.
        child.stdout.take().unwrap().read_to_end(&mut Vec::new()).unwrap();
        while !is_ending(child.id()) {
            std::thread::yield_now();
        }
        child.wait().unwrap();
        assert!(is_ending(child.id()), "and gone");
    }

    #[test]
    fn only_removed_files_of_the_file_system_are_taken_from_a_list_of_mappings() {
        let device = rustix::fs::makedev;
        let on = FileSystem { device: device(0, 0x29), mounted: device(0xfe, 1) };
        let line = |rest: &str| format!("07f00000-07f02000 rw-s 00000000 {rest}");
        let found = |rest: &str| removed_mapping(&line(rest), on);
        let mapping = Mapping { start: 0x7f0_0000, end: 0x7f0_2000, inode: 77 };
        assert_eq!(found("fe:01 77 /app/f (deleted)"), Some(mapping));
        assert!(found("00:29 77 /app/f (deleted)").is_some());
        assert_eq!(found("fe:01 77 /app/f"), None);
        assert_eq!(found("00:01 77 /memfd:x (deleted)"), None);
        assert_eq!(removed_mapping("nonsense (deleted)", on), None);
    }

    proptest! {
        #[test]
        fn no_line_of_mappings_is_too_strange(line in ".*", end in "( [0-9a-f:-]{0,20}){0,6}") {
            let on = FileSystem { device: 1, mounted: 2 };
            removed_mapping(&line, on);
            removed_mapping(&format!("{line}{end} (deleted)"), on);
        }
    }
}
