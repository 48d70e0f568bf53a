//! The jail's file system: a fresh root with what the plan names, and nothing of the old one.

use std::ffi::OsStr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::mounts::{
    NO_DEVICES, NO_PROGRAMS, NO_SETUID, READ_ONLY, attach, clone_tree, new_file_system, restrict,
    restrict_root,
};
use super::plan::Plan;
use super::sys::{self, ENOENT, Failure, Outcome};

/// Devices without state or danger. No terminal, no disk, no kernel log.
pub(super) const DEVICES: [&str; 5] = ["null", "zero", "full", "random", "urandom"];

/// Where a jail's own terminals are.
pub(super) const TERMINALS: &str = "/dev/pts";
/// Each costs kernel memory.
const MOST_TERMINALS: &str = "64";

/// Room for directories, links and the small files that Belljar writes.
const ROOT_BYTES: &str = "4194304";
/// Each file costs kernel memory that the size of a tmpfs does not count.
const MOST_FILES: &str = "65536";
/// The host's directories over which the new root may be put until it is the root.
const STAGES: [&str; 4] = ["/tmp", "/run", "/mnt", "/var"];

/// Where a program can write but nothing stays.
const SCRATCH: [&str; 2] = ["/tmp", "/dev/shm"];

const DEVICE_LINKS: [(&str, &str); 4] = [
    ("dev/fd", "/proc/self/fd"),
    ("dev/stdin", "/proc/self/fd/0"),
    ("dev/stdout", "/proc/self/fd/1"),
    ("dev/stderr", "/proc/self/fd/2"),
];

/// Builds the root and changes into it. True when `/proc` could be mounted.
pub(super) fn build(plan: &Plan) -> Outcome<bool> {
    let trees =
        plan.mounts.iter().map(|m| take(&m.source, m.writable)).collect::<Outcome<Vec<_>>>()?;
    let devices = DEVICES
        .iter()
        .map(|name| clone_tree(format!("/dev/{name}").as_bytes()))
        .collect::<Outcome<Vec<_>>>()?;
    enter_new_root()?;

    for (name, device) in DEVICES.iter().zip(&devices) {
        // Devices can be written to all the same, but not be given to somebody else.
        restrict(device, READ_ONLY | NO_SETUID | NO_PROGRAMS)?;
        put(device, format!("/dev/{name}").as_bytes(), Kind::File)?;
    }
    for (link, text) in DEVICE_LINKS {
        make_link(link.as_bytes(), text.as_bytes())?;
    }
    for (link, text) in &plan.links {
        make_link(link, text)?;
    }
    for (path, content) in &plan.files {
        write_file(path, content)?;
    }
    for path in SCRATCH {
        make_path(path.as_bytes(), Kind::Directory)?;
    }
    make_path(&plan.workspace_target, Kind::Directory)?;
    if !plan.zygote {
        mount_scratch(plan)?;
    }
    if plan.terminals {
        mount_terminals()?;
    }
    for (mount, tree) in plan.mounts.iter().zip(&trees) {
        put(tree, &mount.target, kind_of(tree)?)?;
    }
    let proc = if plan.zygote { mount_proc(0) } else { mount_proc(READ_ONLY) }?;
    sys::change_root_to_here()?;
    restrict_root(READ_ONLY | NO_SETUID | NO_DEVICES)?;
    Ok(proc)
}

/// What a zygote's child gets for itself alone: a workspace and scratch. What the zygote has mounted
/// below the same places is put on top of them again.
pub(super) fn renew(plan: &Plan, workspace: Option<&OwnedFd>) -> Outcome<()> {
    let places = SCRATCH.map(str::as_bytes).into_iter().chain([&*plan.workspace_target]);
    let covered: Vec<&[u8]> = places.collect();
    let below =
        |path: &[u8]| covered.iter().any(|place| path.starts_with(&[place, &b"/"[..]].concat()));
    let lifted = plan
        .mounts
        .iter()
        .filter(|mount| below(&mount.target))
        .map(|mount| Ok((mount, clone_tree(&mount.target)?)))
        .collect::<Outcome<Vec<_>>>()?;
    mount_scratch(plan)?;
    if let Some(tree) = workspace {
        put(tree, &plan.workspace_target, Kind::Directory)?;
    }
    for (mount, tree) in &lifted {
        put(tree, &mount.target, kind_of(tree)?)?;
    }
    Ok(())
}

fn mount_scratch(plan: &Plan) -> Outcome<()> {
    for (path, bytes) in SCRATCH.into_iter().zip([plan.tmp_bytes, plan.shm_bytes]) {
        let options = [("size", &*bytes.to_string()), ("nr_inodes", MOST_FILES), ("mode", "1777")];
        let tree = new_file_system("tmpfs", &options, NO_SETUID | NO_DEVICES)?;
        put(&tree, path.as_bytes(), Kind::Directory)?;
    }
    Ok(())
}

/// Terminals of the jail's own; none of the host's is among them.
fn mount_terminals() -> Outcome<()> {
    let options = [("ptmxmode", "0666"), ("mode", "0620"), ("max", MOST_TERMINALS)];
    let tree = new_file_system("devpts", &options, NO_SETUID | NO_PROGRAMS)?;
    put(&tree, TERMINALS.as_bytes(), Kind::Directory)?;
    make_link(b"dev/ptmx", b"pts/ptmx")
}

/// Mounts the `/proc` of this process's own namespace; false where the system does not let us
/// (in a container that hides parts of its own).
pub(super) fn mount_proc(flags: u64) -> Outcome<bool> {
    let place = make_path(b"/proc", Kind::Directory)?;
    match new_file_system("proc", &[], flags | NO_SETUID | NO_DEVICES | NO_PROGRAMS) {
        Ok(tree) => {
            attach(&tree, &place, b"/proc")?;
            if flags & READ_ONLY != 0 {
                mask_proc()?;
            }
            Ok(true)
        }
        Err(failure) if failure.errno == sys::EPERM => Ok(false),
        Err(failure) => Err(failure),
    }
}

/// Of other jails of the same user, and of the kernel's memory, which root's jails could read.
const MASKED: [&str; 11] = [
    "/proc/keys",
    "/proc/key-users",
    "/proc/kcore",
    "/proc/kpageflags",
    "/proc/kpagecount",
    "/proc/kpagecgroup",
    "/proc/slabinfo",
    "/proc/vmallocinfo",
    "/proc/timer_list",
    "/proc/pagetypeinfo",
    "/proc/sched_debug",
];

/// Covers what tells too much. Not in a zygote: the kernel lets nobody mount
/// another `/proc` who sees this one only in part.
fn mask_proc() -> Outcome<()> {
    for name in MASKED {
        let (path, flags) = (below_here(name.as_bytes()), sys::O_PATH | sys::O_NOFOLLOW);
        let path = path.as_os_str().as_bytes();
        // Missing where the kernel has no keys.
        if let Ok(place) = sys::open_at("find a file", sys::AT_FDCWD, path, flags) {
            let nothing = clone_tree(b"/dev/null")?;
            restrict(&nothing, READ_ONLY | NO_SETUID | NO_PROGRAMS)?;
            attach(&nothing, &place, name.as_bytes())?;
        }
    }
    Ok(())
}

/// A detached copy of the host's `source` with the flags that it shall have in the jail.
pub(super) fn take(source: &[u8], writable: bool) -> Outcome<OwnedFd> {
    let tree = clone_tree(source)?;
    let flags = NO_SETUID | NO_DEVICES | if writable { 0 } else { READ_ONLY };
    restrict(&tree, flags)?;
    Ok(tree)
}

/// Puts `tree` at a path in the jail, below the current directory.
fn put(tree: &OwnedFd, path: &[u8], kind: Kind) -> Outcome<()> {
    attach(tree, &make_path(path, kind)?, path)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    File,
    Directory,
}

/// An empty file system becomes the current directory, still over one of the host's directories.
fn enter_new_root() -> Outcome<()> {
    let options = [("size", ROOT_BYTES), ("nr_inodes", MOST_FILES), ("mode", "755")];
    let tree = new_file_system("tmpfs", &options, NO_SETUID | NO_DEVICES)?;
    let flags = sys::O_PATH | sys::O_DIRECTORY;
    let stage = STAGES
        .iter()
        .find_map(|path| sys::open_at("find a stage", sys::AT_FDCWD, path.as_bytes(), flags).ok())
        .ok_or_else(|| Failure::new("none of /tmp, /run, /mnt, /var is there", ENOENT))?;
    attach(&tree, &stage, b"the new root")?;
    sys::change_directory(&tree)
}

/// Makes what is missing of a path below the current directory and opens its end.
///
/// No link is followed on the way: parts of it may lie in the workspace, where earlier code can
/// have left links to anywhere.
fn make_path(path: &[u8], kind: Kind) -> Outcome<OwnedFd> {
    let step = || format!("make {} in the jail", String::from_utf8_lossy(path));
    let directory = sys::O_PATH | sys::O_DIRECTORY | sys::O_NOFOLLOW;
    let mut at = sys::open_at(&step(), sys::AT_FDCWD, b".", directory)?;
    let mut names = path.split(|b| *b == b'/').filter(|name| !name.is_empty()).peekable();
    while let Some(name) = names.next() {
        if name == b".." {
            return Err(Failure::new(step(), sys::EINVAL));
        }
        let end = names.peek().is_none();
        let flags =
            if end && kind == Kind::File { sys::O_PATH | sys::O_NOFOLLOW } else { directory };
        at = match sys::open_at(&step(), at.as_raw_fd(), name, flags) {
            Err(failure) if failure.errno == ENOENT => {
                if end && kind == Kind::File {
                    let new = sys::O_CREAT | sys::O_EXCL;
                    drop(sys::open_at(&step(), at.as_raw_fd(), name, new)?);
                } else {
                    sys::make_directory_at(at.as_raw_fd(), name)
                        .map_err(|f| Failure::new(step(), f.errno))?;
                }
                sys::open_at(&step(), at.as_raw_fd(), name, flags)?
            }
            other => other?,
        };
    }
    Ok(at)
}

fn make_link(link: &[u8], text: &[u8]) -> Outcome<()> {
    make_parent(link)?;
    let result = std::os::unix::fs::symlink(OsStr::from_bytes(text), below_here(link));
    result.map_err(|e| Failure::io(format!("link {}", String::from_utf8_lossy(link)), &e))
}

fn write_file(path: &[u8], content: &[u8]) -> Outcome<()> {
    make_parent(path)?;
    let result = std::fs::write(below_here(path), content);
    result.map_err(|e| Failure::io(format!("write {}", String::from_utf8_lossy(path)), &e))
}

fn make_parent(path: &[u8]) -> Outcome<()> {
    let cut = path.iter().rposition(|b| *b == b'/').unwrap_or(0);
    make_path(&path[..cut], Kind::Directory).map(drop)
}

fn below_here(path: &[u8]) -> &Path {
    let start = path.iter().position(|b| *b != b'/').unwrap_or(path.len());
    Path::new(OsStr::from_bytes(&path[start..]))
}

fn kind_of(tree: &OwnedFd) -> Outcome<Kind> {
    let looked = tree.try_clone().and_then(|copy| std::fs::File::from(copy).metadata());
    let found = looked.map_err(|e| Failure::io("look at a mount", &e))?;
    Ok(if found.is_dir() { Kind::Directory } else { Kind::File })
}
