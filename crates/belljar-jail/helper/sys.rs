//! The system calls the helper makes, and nothing else.
//!
//! Declared by hand: this code runs with privileges inside of namespaces, so it depends on the C
//! library alone. Every call gives back a [`Failure`] that names the step, for the report.

use std::ffi::{CString, c_char, c_int, c_long, c_ulong, c_void};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// What did not work, as it is told to the host.
#[derive(Debug)]
pub(super) struct Failure {
    /// What was being done, for people.
    pub(super) step: String,
    /// The system's number for why not.
    pub(super) errno: i32,
}

pub(super) type Outcome<T> = Result<T, Failure>;

impl Failure {
    pub(super) fn new(step: impl Into<String>, errno: i32) -> Self {
        Self { step: step.into(), errno }
    }

    /// From `errno` as the last call left it.
    pub(super) fn last(step: impl Into<String>) -> Self {
        Self::io(step, &std::io::Error::last_os_error())
    }

    pub(super) fn io(step: impl Into<String>, error: &std::io::Error) -> Self {
        Self::new(step, error.raw_os_error().unwrap_or(EINVAL))
    }
}

pub(super) const EPERM: i32 = 1;
pub(super) const ENOENT: i32 = 2;
pub(super) const EINTR: i32 = 4;
pub(super) const EEXIST: i32 = 17;
pub(super) const EINVAL: i32 = 22;

pub(super) const CLONE_NEWNS: c_int = 0x0002_0000;
pub(super) const CLONE_NEWCGROUP: c_int = 0x0200_0000;
pub(super) const CLONE_NEWUTS: c_int = 0x0400_0000;
pub(super) const CLONE_NEWIPC: c_int = 0x0800_0000;
pub(super) const CLONE_NEWUSER: c_int = 0x1000_0000;
pub(super) const CLONE_NEWPID: c_int = 0x2000_0000;
pub(super) const CLONE_NEWNET: c_int = 0x4000_0000;

pub(super) const O_CREAT: c_int = 0o100;
pub(super) const O_EXCL: c_int = 0o200;
pub(super) const O_PATH: c_int = 0o10_000_000;
pub(super) const O_CLOEXEC: c_int = 0o2_000_000;
#[cfg(target_arch = "x86_64")]
pub(super) const O_DIRECTORY: c_int = 0o200_000;
#[cfg(target_arch = "x86_64")]
pub(super) const O_NOFOLLOW: c_int = 0o400_000;
#[cfg(target_arch = "aarch64")]
pub(super) const O_DIRECTORY: c_int = 0o40_000;
#[cfg(target_arch = "aarch64")]
pub(super) const O_NOFOLLOW: c_int = 0o100_000;
pub(super) const AT_FDCWD: RawFd = -100;

pub(super) const POLLIN: i16 = 1;

/// Numbers that differ between processors; the newer calls have one number everywhere.
#[cfg(target_arch = "x86_64")]
pub(super) mod number {
    pub(in super::super) const PIVOT_ROOT: i64 = 155;
    pub(in super::super) const CAPSET: i64 = 126;
    pub(in super::super) const SECCOMP: i64 = 317;
    pub(in super::super) const RECVMSG: i64 = 47;
    pub(in super::super) const SENDMSG: i64 = 46;
    pub(in super::super) const KEYCTL: i64 = 250;
}
#[cfg(target_arch = "aarch64")]
pub(super) mod number {
    pub(in super::super) const PIVOT_ROOT: i64 = 41;
    pub(in super::super) const CAPSET: i64 = 91;
    pub(in super::super) const SECCOMP: i64 = 277;
    pub(in super::super) const RECVMSG: i64 = 212;
    pub(in super::super) const SENDMSG: i64 = 211;
    pub(in super::super) const KEYCTL: i64 = 219;
}
pub(super) const OPEN_TREE: i64 = 428;
pub(super) const MOVE_MOUNT: i64 = 429;
pub(super) const FSOPEN: i64 = 430;
pub(super) const FSCONFIG: i64 = 431;
pub(super) const FSMOUNT: i64 = 432;
const PIDFD_OPEN: i64 = 434;
const CLOSE_RANGE: i64 = 436;
pub(super) const MOUNT_SETATTR: i64 = 442;
pub(super) const LANDLOCK_CREATE_RULESET: i64 = 444;
pub(super) const LANDLOCK_ADD_RULE: i64 = 445;
pub(super) const LANDLOCK_RESTRICT_SELF: i64 = 446;

#[repr(C)]
pub(super) struct PollFd {
    pub(super) fd: RawFd,
    pub(super) events: i16,
    pub(super) revents: i16,
}

unsafe extern "C" {
    fn syscall(number: c_long, ...) -> c_long;
    fn fork() -> c_int;
    fn _exit(status: c_int) -> !;
    fn unshare(flags: c_int) -> c_int;
    fn setns(fd: c_int, kind: c_int) -> c_int;
    fn setsid() -> c_int;
    fn waitpid(pid: c_int, status: *mut c_int, options: c_int) -> c_int;
    fn prctl(option: c_int, ...) -> c_int;
    fn sethostname(name: *const c_char, length: usize) -> c_int;
    fn mount(
        source: *const c_char,
        target: *const c_char,
        kind: *const c_char,
        flags: c_ulong,
        data: *const c_void,
    ) -> c_int;
    fn umount2(target: *const c_char, flags: c_int) -> c_int;
    fn openat(directory: c_int, path: *const c_char, flags: c_int, ...) -> c_int;
    fn mkdirat(directory: c_int, path: *const c_char, mode: u32) -> c_int;
    fn write(fd: c_int, bytes: *const c_void, length: usize) -> isize;
    fn fchdir(fd: c_int) -> c_int;
    fn dup2(from: c_int, to: c_int) -> c_int;
    fn fcntl(fd: c_int, command: c_int, ...) -> c_int;
    fn setrlimit(resource: c_int, limit: *const [u64; 2]) -> c_int;
    fn poll(fds: *mut PollFd, count: c_ulong, timeout: c_int) -> c_int;
    fn geteuid() -> u32;
    fn getegid() -> u32;
    fn setgroups(count: usize, groups: *const u32) -> c_int;
    fn umask(mask: u32) -> u32;
    fn execve(
        path: *const c_char,
        arguments: *const *const c_char,
        environment: *const *const c_char,
    ) -> c_int;
}

/// A descriptor or another signed number as a system call's argument.
pub(super) fn word(value: RawFd) -> usize {
    (value as isize).cast_unsigned()
}

pub(super) fn c_string(bytes: &[u8]) -> Outcome<CString> {
    CString::new(bytes).map_err(|_| Failure::new("a text of the plan holds a NUL", EINVAL))
}

/// Any system call. Pointers among the arguments must be valid for what the call does with them.
pub(super) fn call(step: &str, number: i64, arguments: [usize; 5]) -> Outcome<usize> {
    let [a, b, c, d, e] = arguments;
    // SAFETY: five words are passed on; the callers in this directory pass pointers to live values
    // of the layout the named call expects.
    let result = unsafe { syscall(number as c_long, a, b, c, d, e, 0_usize) };
    usize::try_from(result).map_err(|_| Failure::last(step))
}

/// A system call that gives back a new descriptor.
pub(super) fn call_for_fd(step: &str, number: i64, arguments: [usize; 5]) -> Outcome<OwnedFd> {
    let raw = call(step, number, arguments)?;
    let raw = RawFd::try_from(raw).map_err(|_| Failure::new(step, EINVAL))?;
    // SAFETY: the kernel just made this descriptor and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(raw) })
}

fn check(step: &str, result: c_int) -> Outcome<c_int> {
    if result < 0 { Err(Failure::last(step)) } else { Ok(result) }
}

/// `Some(pid)` in the parent, `None` in the child.
pub(super) fn fork_process() -> Outcome<Option<c_int>> {
    // SAFETY: the helper has one thread, and so has a Python that has just forked itself.
    let pid = check("fork", unsafe { fork() })?;
    Ok((pid > 0).then_some(pid))
}

pub(super) fn leave(status: c_int) -> ! {
    // SAFETY: ends this process at once, without running anything that a parent copied into it.
    unsafe { _exit(status) }
}

pub(super) fn unshare_namespaces(step: &str, flags: c_int) -> Outcome<()> {
    // SAFETY: takes a number only.
    check(step, unsafe { unshare(flags) }).map(drop)
}

pub(super) fn join_namespace(step: &str, fd: &OwnedFd, kind: c_int) -> Outcome<()> {
    // SAFETY: takes numbers only.
    check(step, unsafe { setns(fd.as_raw_fd(), kind) }).map(drop)
}

/// A session and process group of its own, so that no terminal and no `kill(0, …)` reaches across.
pub(super) fn new_session() {
    // SAFETY: no arguments; fails only when this is a group leader already, which is as good.
    unsafe { setsid() };
}

/// Waits for `pid` (or any child, with -1); `None` when none is left or, without `block`, ready.
pub(super) fn wait_for(pid: c_int, block: bool) -> Option<(c_int, c_int)> {
    const WNOHANG: c_int = 1;
    loop {
        let mut status = 0;
        // SAFETY: `status` lives through the call.
        let found = unsafe { waitpid(pid, &raw mut status, if block { 0 } else { WNOHANG }) };
        if found > 0 {
            return Some((found, status));
        }
        let interrupted =
            found < 0 && std::io::Error::last_os_error().raw_os_error() == Some(EINTR);
        if !interrupted {
            return None;
        }
    }
}

pub(super) fn process_control(step: &str, option: c_int, arguments: [usize; 2]) -> Outcome<()> {
    // SAFETY: the options used here take numbers only.
    check(step, unsafe { prctl(option, arguments[0], arguments[1], 0_usize, 0_usize) }).map(drop)
}

pub(super) fn set_host_name(name: &[u8]) -> Outcome<()> {
    // SAFETY: pointer and length are those of one slice.
    check("set the host name", unsafe { sethostname(name.as_ptr().cast(), name.len()) }).map(drop)
}

/// Stops what happens to mounts here from being seen elsewhere.
pub(super) fn detach_propagation() -> Outcome<()> {
    const MS_REC: c_ulong = 0x4000;
    const MS_SLAVE: c_ulong = 1 << 19;
    let null = std::ptr::null();
    // SAFETY: the one path is a constant C string; the other pointers may be null here.
    let result = unsafe { mount(null, c"/".as_ptr(), null, MS_REC | MS_SLAVE, null.cast()) };
    check("detach from the host's mounts", result).map(drop)
}

/// Makes the current directory the root and forgets the old one.
pub(super) fn change_root_to_here() -> Outcome<()> {
    const MNT_DETACH: c_int = 2;
    let here = c".".as_ptr() as usize;
    call("pivot_root", number::PIVOT_ROOT, [here, here, 0, 0, 0])?;
    // SAFETY: a constant C string.
    check("unmount the old root", unsafe { umount2(c".".as_ptr(), MNT_DETACH) })?;
    std::env::set_current_dir("/").map_err(|e| Failure::io("enter the new root", &e))
}

pub(super) fn change_directory(to: &OwnedFd) -> Outcome<()> {
    // SAFETY: a number only.
    check("change the directory", unsafe { fchdir(to.as_raw_fd()) }).map(drop)
}

pub(super) fn open_at(step: &str, at: RawFd, path: &[u8], flags: c_int) -> Outcome<OwnedFd> {
    const MODE: u32 = 0o644;
    let path = c_string(path)?;
    // SAFETY: a C string that lives through the call.
    let raw = check(step, unsafe { openat(at, path.as_ptr(), flags | O_CLOEXEC, MODE) })?;
    // SAFETY: the kernel just made this descriptor and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(raw) })
}

pub(super) fn make_directory_at(at: RawFd, name: &[u8]) -> Outcome<()> {
    let path = c_string(name)?;
    // SAFETY: a C string that lives through the call.
    match check("make a directory", unsafe { mkdirat(at, path.as_ptr(), 0o755) }) {
        Err(failure) if failure.errno != EEXIST => Err(failure),
        _ => Ok(()),
    }
}

/// Writes a few bytes to a pipe, or not, when nobody reads it.
pub(super) fn write_once(fd: RawFd, bytes: &[u8]) {
    // SAFETY: pointer and length are those of one slice.
    unsafe { write(fd, bytes.as_ptr().cast(), bytes.len()) };
}

/// Puts a copy of `from` at the number `to`, where a program will find it.
pub(super) fn place(from: RawFd, to: RawFd) -> Outcome<()> {
    // SAFETY: numbers only; whatever was at `to` is meant to be replaced.
    check("place a descriptor", unsafe { dup2(from, to) }).map(drop)
}

/// A copy above all numbers that [`place`] uses, closed on exec.
pub(super) fn copy_high(fd: RawFd) -> Outcome<OwnedFd> {
    const F_DUPFD_CLOEXEC: c_int = 1030;
    const ABOVE_THE_PLACED: c_int = 16;
    // SAFETY: numbers only.
    let raw = unsafe { fcntl(fd, F_DUPFD_CLOEXEC, ABOVE_THE_PLACED) };
    let raw = check("copy a descriptor", raw)?;
    // SAFETY: the kernel just made this descriptor and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(raw) })
}

/// Closes every descriptor from `first` to `last`.
pub(super) fn close_all(first: usize, last: usize) -> Outcome<()> {
    if first > last {
        return Ok(());
    }
    call("close descriptors", CLOSE_RANGE, [first, last, 0, 0, 0]).map(drop)
}

/// Has every descriptor from `first` on closed when the program starts.
pub(super) fn close_on_exec(first: usize) -> Outcome<()> {
    const CLOSE_RANGE_CLOEXEC: usize = 4;
    let last = u32::MAX as usize;
    call("close descriptors", CLOSE_RANGE, [first, last, CLOSE_RANGE_CLOEXEC, 0, 0]).map(drop)
}

pub(super) fn limit(resource: c_int, most: u64) -> Outcome<()> {
    // SAFETY: the array has the layout of `struct rlimit` on 64-bit Linux.
    let result = unsafe { setrlimit(resource, &raw const *&[most, most]) };
    check(&format!("set resource limit {resource}"), result).map(drop)
}

pub(super) fn wait_readable(fds: &mut [PollFd]) -> bool {
    // SAFETY: pointer and length are those of one slice.
    unsafe { poll(fds.as_mut_ptr(), fds.len() as c_ulong, -1) > 0 }
}

/// Whether the other end of a pipe is closed already.
pub(super) fn hung_up(fd: &OwnedFd) -> bool {
    const POLLHUP: i16 = 16;
    let mut one = PollFd { fd: fd.as_raw_fd(), events: 0, revents: 0 };
    // SAFETY: one live element.
    unsafe { poll(&raw mut one, 1, 0) > 0 && one.revents & POLLHUP != 0 }
}

pub(super) fn effective_ids() -> (u32, u32) {
    // SAFETY: no arguments, never fail.
    unsafe { (geteuid(), getegid()) }
}

pub(super) fn usual_file_mode() {
    // SAFETY: a number only.
    unsafe { umask(0o022) };
}

/// Leaves groups and the session's keyring behind, as far as an ordinary user can.
pub(super) fn forget_memberships() {
    const JOIN_NEW_SESSION_KEYRING: usize = 1;
    // SAFETY: an empty list needs no pointer. Refused to all but root, who belongs to most.
    unsafe { setgroups(0, std::ptr::null()) };
    // Kernels without keyrings have nothing to leave.
    drop(call("leave the keyring", number::KEYCTL, [JOIN_NEW_SESSION_KEYRING, 0, 0, 0, 0]));
}

pub(super) fn watch_process(pid: c_int) -> Outcome<OwnedFd> {
    call_for_fd("watch the jail's first process", PIDFD_OPEN, [word(pid), 0, 0, 0, 0])
}

/// Becomes another program; comes back only when that failed.
pub(super) fn become_program(
    path: &[u8],
    arguments: &[Vec<u8>],
    environment: &[Vec<u8>],
) -> Failure {
    match try_become(path, arguments, environment) {
        Ok(never) => match never {},
        Err(failure) => failure,
    }
}

fn try_become(
    path: &[u8],
    arguments: &[Vec<u8>],
    environment: &[Vec<u8>],
) -> Outcome<std::convert::Infallible> {
    let program = c_string(path)?;
    let arguments = std::iter::once(path)
        .chain(arguments.iter().map(Vec::as_slice))
        .map(c_string)
        .collect::<Outcome<Vec<_>>>()?;
    let environment = environment.iter().map(|pair| c_string(pair)).collect::<Outcome<Vec<_>>>()?;
    let pointers = |texts: &[CString]| {
        texts.iter().map(|t| t.as_ptr()).chain([std::ptr::null()]).collect::<Vec<_>>()
    };
    let (arguments, environment) = (pointers(&arguments), pointers(&environment));
    // SAFETY: both lists end with a null pointer, and their texts live until the call is done.
    unsafe { execve(program.as_ptr(), arguments.as_ptr(), environment.as_ptr()) };
    Err(Failure::last(format!("start {}", String::from_utf8_lossy(path))))
}

/// `struct __user_cap_header_struct` and the two halves of the 64 capability bits.
pub(super) fn set_capabilities(bits: u32) -> Outcome<()> {
    const VERSION_3: u32 = 0x2008_0522;
    let header: [u32; 2] = [VERSION_3, 0];
    // Effective, permitted, inheritable; then the same for bits 32 and up, of which none is kept.
    let sets: [u32; 6] = [bits, bits, bits, 0, 0, 0];
    let arguments = [header.as_ptr() as usize, sets.as_ptr() as usize, 0, 0, 0];
    call("set capabilities", number::CAPSET, arguments).map(drop)
}

/// `program` is an array of `struct sock_filter`, as the plan carries it.
pub(super) fn install_filter(program: &[u8]) -> Outcome<()> {
    const SET_MODE_FILTER: usize = 1;
    const INSTRUCTION_BYTES: usize = 8;
    #[repr(C)]
    struct SockFprog {
        length: u16,
        instructions: *const u64,
    }
    // Copied into words, since the plan's bytes may start anywhere and the kernel wants alignment.
    let instructions: Vec<u64> = program
        .chunks_exact(INSTRUCTION_BYTES)
        .map(|chunk| chunk.iter().rev().fold(0, |word, byte| (word << 8) | u64::from(*byte)))
        .collect();
    let length = u16::try_from(instructions.len())
        .map_err(|_| Failure::new("the system call filter is too long", EINVAL))?;
    let fprog = SockFprog { length, instructions: instructions.as_ptr() };
    let arguments = [SET_MODE_FILTER, 0, &raw const fprog as usize, 0, 0];
    call("install the system call filter", number::SECCOMP, arguments).map(drop)
}
