//! Files that were removed while processes still hold them. They take room like any other and have
//! no name by which a listing could find them, so the processes are asked what they hold.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Read;
use std::os::unix::fs::MetadataExt;

/// Processes that are asked, far more than a jail allows.
const MAX_PROCESSES: usize = 4096;

/// Descriptors that are looked at, of all processes together.
const MAX_DESCRIPTORS: usize = 64 * 1024;

/// Of the list of one process's mappings.
const MAX_MAPS_BYTES: u64 = 4 * 1024 * 1024;

/// Nameless files on one file system, by their numbers, with the bytes they take.
#[derive(Default)]
pub(super) struct Nameless(BTreeMap<u64, u64>);

impl Nameless {
    /// What a process and its descendants hold on the file system with this number.
    pub(super) fn held_below(root: u32, device: u64) -> Self {
        let mut held = Self::default();
        let mut descriptors = 0;
        for process in with_descendants(root) {
            held.add_open(process, device, &mut descriptors);
            held.add_mapped(process, device);
        }
        held
    }

    pub(super) fn count(&self) -> u64 {
        self.0.len() as u64
    }

    pub(super) fn bytes(&self) -> u64 {
        self.0.values().fold(0, |sum, bytes| sum.saturating_add(*bytes))
    }

    fn add_open(&mut self, process: u32, device: u64, looked_at: &mut usize) {
        let Ok(entries) = fs::read_dir(format!("/proc/{process}/fd")) else { return };
        for entry in entries.flatten() {
            *looked_at += 1;
            if *looked_at > MAX_DESCRIPTORS {
                return;
            }
            let Ok(found) = fs::metadata(entry.path()) else { continue };
            if found.is_file() && found.nlink() == 0 && found.dev() == device {
                self.0.insert(found.ino(), found.blocks().saturating_mul(512));
            }
        }
    }

    /// A mapping holds a file after its descriptor was closed. Its length stands for the file's.
    fn add_mapped(&mut self, process: u32, device: u64) {
        let Ok(file) = fs::File::open(format!("/proc/{process}/maps")) else { return };
        let mut maps = Vec::new();
        // What was read until it failed is as good.
        let _ = file.take(MAX_MAPS_BYTES).read_to_end(&mut maps);
        for line in String::from_utf8_lossy(&maps).lines() {
            if let Some((inode, bytes)) = removed_mapping(line, device) {
                let known = self.0.entry(inode).or_default();
                *known = bytes.max(*known);
            }
        }
    }
}

/// The file and the length of a line of `maps`, if it is of a removed file on this device.
fn removed_mapping(line: &str, device: u64) -> Option<(u64, u64)> {
    if !line.ends_with(" (deleted)") {
        return None;
    }
    let mut fields = line.split_ascii_whitespace();
    let (start, end) = fields.next()?.split_once('-')?;
    let (major, minor) = fields.nth(2)?.split_once(':')?;
    let inode = fields.next()?.parse().ok()?;
    let number = |hex| u64::from_str_radix(hex, 16).ok();
    let (major, minor) = (u32::try_from(number(major)?).ok()?, u32::try_from(number(minor)?).ok()?);
    let same = rustix::fs::makedev(major, minor) == device;
    same.then_some((inode, number(end)?.checked_sub(number(start)?)?))
}

fn with_descendants(root: u32) -> BTreeSet<u32> {
    let mut found = BTreeSet::from([root]);
    let mut unasked = vec![root];
    while let Some(process) = unasked.pop() {
        let Ok(threads) = fs::read_dir(format!("/proc/{process}/task")) else { continue };
        for thread in threads.flatten() {
            let children = fs::read_to_string(thread.path().join("children")).unwrap_or_default();
            for child in children.split_ascii_whitespace().filter_map(|child| child.parse().ok()) {
                if found.len() < MAX_PROCESSES && found.insert(child) {
                    unasked.push(child);
                }
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    fn held_by(code: &str) -> (u64, u64) {
        let dir = tempfile::tempdir().unwrap();
        let wait = "import sys; print(1, flush=True); sys.stdin.read()";
        let mut child = Command::new("sh")
            .args(["-c", &format!("python3 -c '{code}\n{wait}'; true")])
            .current_dir(dir.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let ready = child.stdout.as_mut().unwrap().read_exact(&mut [0; 2]);
        let device = fs::metadata(dir.path()).unwrap().dev();
        let held = Nameless::held_below(child.id(), device);
        drop(child.stdin.take());
        child.wait().unwrap();
        ready.unwrap();
        (held.count(), held.bytes())
    }

    #[test]
    fn open_and_mapped_files_that_were_removed_are_counted_and_others_are_not() {
        let write =
            "import os, mmap\nf = open(\"f\", \"wb+\"); f.write(b\"x\" * 100_000); f.flush()\n";
        let (count, bytes) = held_by(write);
        assert_eq!((count, bytes), (0, 0), "it has a name");
        let (count, bytes) = held_by(&format!("{write}os.remove(\"f\")"));
        assert!(count == 1 && (100_000..200_000).contains(&bytes), "{count} files, {bytes} bytes");
        let mapped =
            "m = mmap.mmap(f.fileno(), 0); os.remove(\"f\"); f.close(); os.closerange(3, 99)";
        let (count, bytes) = held_by(&format!("{write}{mapped}"));
        assert!(count == 1 && (100_000..200_000).contains(&bytes), "{count} files, {bytes} bytes");
    }

    #[test]
    fn only_removed_files_of_the_device_are_taken_from_a_list_of_mappings() {
        let device = rustix::fs::makedev(0xfe, 1);
        let line = |rest: &str| format!("7f00000-7f02000 rw-s 00000000 {rest}");
        let found = |rest: &str| removed_mapping(&line(rest), device);
        assert_eq!(found("fe:01 77 /app/f (deleted)"), Some((77, 0x2000)));
        assert_eq!(found("fe:01 77 /app/f"), None);
        assert_eq!(found("00:01 77 /memfd:x (deleted)"), None);
        assert_eq!(removed_mapping("nonsense (deleted)", device), None);
    }
}
