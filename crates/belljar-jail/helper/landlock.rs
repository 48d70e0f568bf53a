//! Landlock: the same file rules once more, by another part of the kernel, and for sockets and
//! signals what namespaces do not say. Missing in older kernels; then the namespaces hold alone.

use std::ffi::OsStr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use super::plan::Plan;
use super::root::{DEVICES, TERMINALS};
use super::sys::{self, Outcome, call, call_for_fd, word};

const EXECUTE: u64 = 1;
const WRITE_FILE: u64 = 1 << 1;
const READ_FILE: u64 = 1 << 2;
const READ_DIR: u64 = 1 << 3;
const MAKE_CHAR: u64 = 1 << 6;
const MAKE_BLOCK: u64 = 1 << 11;
/// Moving between directories, since version 2.
const REFER: u64 = 1 << 13;
/// Since version 3.
const TRUNCATE: u64 = 1 << 14;
/// Since version 5.
const IOCTL_DEVICE: u64 = 1 << 15;
const VERSION_1: u64 = (1 << 13) - 1;

/// What a rule on something that is no directory may say.
const FILE_RIGHTS: u64 = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEVICE;
const READ: u64 = EXECUTE | READ_FILE | READ_DIR;
const NO_DEVICE_NODES: u64 = !(MAKE_CHAR | MAKE_BLOCK | IOCTL_DEVICE);

/// Binding to and connecting to TCP ports, since version 4.
const TCP: u64 = 0b11;
/// Abstract sockets and signals of others, since version 6.
const SCOPES: u64 = 0b11;

/// Restricts this process and gives back the version of Landlock, 0 where there is none.
pub(super) fn restrict(plan: &Plan) -> Outcome<u32> {
    let version = version();
    if version == 0 {
        return Ok(0);
    }
    let handled = file_rights(version);
    let rules: [u64; 3] =
        [handled, if version >= 4 { TCP } else { 0 }, if version >= 6 { SCOPES } else { 0 }];
    // Older kernels refuse what they do not know only when it is not zero.
    let arguments = [rules.as_ptr() as usize, size_of_val(&rules), 0, 0, 0];
    let ruleset = call_for_fd("make the Landlock rules", sys::LANDLOCK_CREATE_RULESET, arguments)?;

    let write = handled & NO_DEVICE_NODES;
    // What is in the root is what was mounted; its directories may be listed.
    allow(&ruleset, b"/", READ_DIR)?;
    for mount in &plan.mounts {
        allow(&ruleset, &mount.target, if mount.writable { write } else { READ })?;
    }
    for path in [b"/tmp".as_slice(), b"/dev/shm", &plan.workspace_target] {
        allow(&ruleset, path, write)?;
    }
    for device in DEVICES {
        let rights = handled & (READ_FILE | WRITE_FILE | TRUNCATE);
        allow(&ruleset, format!("/dev/{device}").as_bytes(), rights)?;
    }
    if plan.terminals {
        let rights = handled & (READ_FILE | WRITE_FILE | READ_DIR | IOCTL_DEVICE);
        allow(&ruleset, TERMINALS.as_bytes(), rights)?;
    }
    for (path, _) in &plan.files {
        allow(&ruleset, path, READ_FILE)?;
    }
    allow(&ruleset, b"/proc", READ_FILE | READ_DIR)?;
    let arguments = [word(ruleset.as_raw_fd()), 0, 0, 0, 0];
    call("apply the Landlock rules", sys::LANDLOCK_RESTRICT_SELF, arguments)?;
    Ok(version)
}

/// What the kernel has, 0 for nothing.
pub(super) fn version() -> u32 {
    const ASK_VERSION: usize = 1;
    let asked = call("ask for Landlock", sys::LANDLOCK_CREATE_RULESET, [0, 0, ASK_VERSION, 0, 0]);
    asked.ok().and_then(|version| u32::try_from(version).ok()).unwrap_or(0)
}

fn file_rights(version: u32) -> u64 {
    let since = |first: u32, right: u64| if version >= first { right } else { 0 };
    VERSION_1 | since(2, REFER) | since(3, TRUNCATE) | since(5, IOCTL_DEVICE)
}

fn allow(ruleset: &OwnedFd, path: &[u8], rights: u64) -> Outcome<()> {
    const PATH_BENEATH: usize = 1;
    #[repr(C, packed)]
    struct Rule {
        rights: u64,
        parent: i32,
    }
    let step = format!("allow {}", String::from_utf8_lossy(path));
    let place = sys::open_at(&step, sys::AT_FDCWD, path, sys::O_PATH)?;
    let directory = std::fs::metadata(OsStr::from_bytes(path)).is_ok_and(|found| found.is_dir());
    let rights = if directory { rights } else { rights & FILE_RIGHTS };
    let rule = Rule { rights, parent: place.as_raw_fd() };
    let arguments = [word(ruleset.as_raw_fd()), PATH_BENEATH, &raw const rule as usize, 0, 0];
    call(&step, sys::LANDLOCK_ADD_RULE, arguments).map(drop)
}
