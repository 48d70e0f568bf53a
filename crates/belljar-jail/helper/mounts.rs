//! Mounts by descriptor: made detached, given their flags, and only then put into the tree.
//!
//! So nothing is ever visible with more rights than it should have, and no path is looked up twice.

use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use super::sys::{self, Outcome, c_string, call, call_for_fd, word};

pub(super) const READ_ONLY: u64 = 1;
pub(super) const NO_SETUID: u64 = 2;
pub(super) const NO_DEVICES: u64 = 4;
pub(super) const NO_PROGRAMS: u64 = 8;

const AT_EMPTY_PATH: usize = 0x1000;
const AT_RECURSIVE: usize = 0x8000;
const CLOSE_ON_EXEC: usize = 1;

/// A detached copy of the tree of mounts at `source`.
pub(super) fn clone_tree(source: &[u8]) -> Outcome<OwnedFd> {
    const OPEN_TREE_CLONE: usize = 1;
    let step = format!("take {}", String::from_utf8_lossy(source));
    let path = c_string(source)?;
    let flags = OPEN_TREE_CLONE | AT_RECURSIVE | word(sys::O_CLOEXEC);
    let arguments = [word(sys::AT_FDCWD), path.as_ptr() as usize, flags, 0, 0];
    call_for_fd(&step, sys::OPEN_TREE, arguments)
}

/// Adds `flags` to a tree of mounts, everywhere in it.
pub(super) fn restrict(tree: &OwnedFd, flags: u64) -> Outcome<()> {
    set_flags(tree.as_raw_fd(), c"", AT_EMPTY_PATH | AT_RECURSIVE, flags)
}

/// Adds `flags` to the root's own mount, not to those in it.
pub(super) fn restrict_root(flags: u64) -> Outcome<()> {
    set_flags(sys::AT_FDCWD, c"/", 0, flags)
}

fn set_flags(at: RawFd, path: &std::ffi::CStr, how: usize, flags: u64) -> Outcome<()> {
    /// What the host mounts later does not appear in the jail.
    const PRIVATE: u64 = 1 << 18;
    // `struct mount_attr`: set, clear, propagation, user namespace.
    let attributes: [u64; 4] = [flags, 0, PRIVATE, 0];
    let arguments = [
        word(at),
        path.as_ptr() as usize,
        how,
        attributes.as_ptr() as usize,
        size_of_val(&attributes),
    ];
    call("restrict a mount", sys::MOUNT_SETATTR, arguments).map(drop)
}

/// A new, detached file system with `options`.
pub(super) fn new_file_system(
    kind: &str,
    options: &[(&str, &str)],
    flags: u64,
) -> Outcome<OwnedFd> {
    const SET_STRING: usize = 1;
    const CREATE: usize = 6;
    let step = format!("make a {kind}");
    let name = c_string(kind.as_bytes())?;
    let arguments = [name.as_ptr() as usize, CLOSE_ON_EXEC, 0, 0, 0];
    let context = call_for_fd(&step, sys::FSOPEN, arguments)?;
    let at = word(context.as_raw_fd());
    for (key, value) in options {
        let (key, value) = (c_string(key.as_bytes())?, c_string(value.as_bytes())?);
        let arguments = [at, SET_STRING, key.as_ptr() as usize, value.as_ptr() as usize, 0];
        call(&step, sys::FSCONFIG, arguments)?;
    }
    call(&step, sys::FSCONFIG, [at, CREATE, 0, 0, 0])?;
    let flags = usize::try_from(flags).unwrap_or(usize::MAX);
    call_for_fd(&step, sys::FSMOUNT, [at, CLOSE_ON_EXEC, flags, 0, 0])
}

/// Puts a detached tree at the place that `target` stands for.
pub(super) fn attach(tree: &OwnedFd, target: &OwnedFd, name: &[u8]) -> Outcome<()> {
    const BOTH_BY_DESCRIPTOR: usize = 0x4 | 0x40;
    let step = format!("mount {}", String::from_utf8_lossy(name));
    let empty = c"".as_ptr() as usize;
    let arguments =
        [word(tree.as_raw_fd()), empty, word(target.as_raw_fd()), empty, BOTH_BY_DESCRIPTOR];
    call(&step, sys::MOVE_MOUNT, arguments).map(drop)
}
