//! The functions that a zygote calls, and the way of a fork of it into a jail of its own.

use std::ffi::{CString, OsStr, c_char, c_int};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::OnceLock;

use super::confine;
use super::init::{self, Side};
use super::mounts::READ_ONLY;
use super::namespaces::{map_ids, own_view};
use super::plan::Plan;
use super::root;
use super::sys::{self, EINVAL, Failure, Outcome};

struct Zygote {
    plan: Plan,
    /// Its own process namespace, to which it comes back after each fork.
    processes: OwnedFd,
}

static ZYGOTE: OnceLock<Zygote> = OnceLock::new();
static FAILURE: OnceLock<CString> = OnceLock::new();

/// How many numbers [`belljar_enter`] takes.
const NUMBERS: usize = 8;
/// Where a program finds its descriptors: nothing at 0, output, errors, protocol in and out.
const PLACED: usize = 5;

/// What the host gave for one child, in the order of the array. -1 stands for "none".
struct Given {
    protocol_in: OwnedFd,
    protocol_out: OwnedFd,
    output: OwnedFd,
    errors: OwnedFd,
    workspace: Option<OwnedFd>,
    status: Option<OwnedFd>,
    groups: Vec<OwnedFd>,
}

/// Reads the plan. Once, before anything else.
#[unsafe(no_mangle)]
pub extern "C" fn belljar_open(plan: c_int) -> c_int {
    answer(open(plan))
}

/// Makes the next fork the first process of a new process namespace.
#[unsafe(no_mangle)]
pub extern "C" fn belljar_before_fork() -> c_int {
    answer(sys::unshare_namespaces("make a process namespace", sys::CLONE_NEWPID))
}

/// Back to normal, in the zygote, whether or not the fork succeeded.
#[unsafe(no_mangle)]
pub extern "C" fn belljar_after_fork() -> c_int {
    let back = || sys::join_namespace("leave", &zygote()?.processes, sys::CLONE_NEWPID);
    answer(back())
}

/// Turns a fork into a jail: comes back in its second process, confined, with the descriptors 0 to
/// 4 placed and all others closed. The first process never comes back.
///
/// # Safety
///
/// `numbers` points to eight numbers: protocol in, protocol out, output, errors, and then, or -1,
/// a workspace (a mount from the host), a pipe for the end status, and two control groups.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn belljar_enter(numbers: *const c_int) -> c_int {
    // SAFETY: the caller's promise.
    let numbers = unsafe { numbers.cast::<[RawFd; NUMBERS]>().read() };
    answer(enter(numbers))
}

/// What the first failed call was doing, for people; empty when none has failed.
#[unsafe(no_mangle)]
pub extern "C" fn belljar_failure() -> *const c_char {
    FAILURE.get().map_or(c"".as_ptr(), |text| text.as_ptr())
}

fn answer(outcome: Outcome<()>) -> c_int {
    match outcome {
        Ok(()) => 0,
        Err(failure) => {
            // The first one is what matters; it stays.
            drop(CString::new(failure.step).map(|step| FAILURE.set(step)));
            -failure.errno.max(1)
        }
    }
}

fn zygote() -> Outcome<&'static Zygote> {
    ZYGOTE.get().ok_or_else(|| Failure::new("belljar_open was not called", EINVAL))
}

fn open(plan: RawFd) -> Outcome<()> {
    let plan = Plan::read(&sys::copy_high(plan)?)?;
    let path = b"/proc/self/ns/pid";
    let processes = sys::open_at("open its own namespace", sys::AT_FDCWD, path, 0)?;
    let processes = sys::copy_high(processes.as_raw_fd())?;
    ZYGOTE
        .set(Zygote { plan, processes })
        .map_err(|_| Failure::new("belljar_open was called twice", EINVAL))
}

fn enter(numbers: [RawFd; NUMBERS]) -> Outcome<()> {
    let plan = &zygote()?.plan;
    let given = Given::copy(numbers)?;
    confine::enter_groups(&given.groups)?;
    let own = sys::CLONE_NEWNS
        | sys::CLONE_NEWIPC
        | sys::CLONE_NEWUTS
        | sys::CLONE_NEWNET
        | sys::CLONE_NEWCGROUP;
    sys::unshare_namespaces("make namespaces", own)?;
    build(plan, &given)?;
    confine::apply(plan)?;
    std::env::set_current_dir(OsStr::from_bytes(&plan.directory))
        .map_err(|e| Failure::io("enter the directory", &e))?;
    match init::split()? {
        Side::Program => given.place(),
        Side::First(first) => {
            let status_pipe = given.status.as_ref().map(AsRawFd::as_raw_fd);
            let status = first.withdraw(status_pipe).map(|()| first.serve());
            let status = status.unwrap_or(1 << 8);
            if let Some(pipe) = status_pipe {
                sys::write_once(pipe, &status.to_le_bytes());
            }
            sys::leave(init::exit_code(status))
        }
    }
}

/// The files of this child alone, and a user namespace in which it is the only user, so that its
/// processes are counted apart from those of other children.
fn build(plan: &Plan, given: &Given) -> Outcome<()> {
    std::env::set_current_dir("/").map_err(|e| Failure::io("enter the root", &e))?;
    root::renew(plan, given.workspace.as_ref())?;
    // The zygote's view of this process: the new /proc is read-only.
    let view = own_view()?;
    offer_first(&view)?;
    if !root::mount_proc(READ_ONLY)? {
        return Err(Failure::new("mount /proc", sys::EPERM));
    }
    let ids = sys::effective_ids();
    sys::unshare_namespaces("make a user namespace", sys::CLONE_NEWUSER)?;
    map_ids(&view, plan, ids)
}

/// When the group runs out of memory the kernel shall kill this child and not the zygote.
fn offer_first(view: &OwnedFd) -> Outcome<()> {
    const O_WRONLY: c_int = 1;
    let step = "set oom_score_adj";
    let file = sys::open_at(step, view.as_raw_fd(), b"oom_score_adj", O_WRONLY)?;
    std::io::Write::write_all(&mut std::fs::File::from(file), b"1000")
        .map_err(|e| Failure::io(step, &e))
}

impl Given {
    fn copy(numbers: [RawFd; NUMBERS]) -> Outcome<Self> {
        let maybe = |fd: RawFd| (fd >= 0).then(|| sys::copy_high(fd)).transpose();
        let [protocol_in, protocol_out, output, errors, workspace, status, groups @ ..] = numbers;
        let groups = groups.into_iter().map(maybe).collect::<Outcome<Vec<_>>>()?;
        Ok(Self {
            protocol_in: sys::copy_high(protocol_in)?,
            protocol_out: sys::copy_high(protocol_out)?,
            output: sys::copy_high(output)?,
            errors: sys::copy_high(errors)?,
            workspace: maybe(workspace)?,
            status: maybe(status)?,
            groups: groups.into_iter().flatten().collect(),
        })
    }

    /// Puts the descriptors where a program looks for them, and closes everything else.
    fn place(self) -> Outcome<()> {
        let nothing = sys::open_at("open /dev/null", sys::AT_FDCWD, b"/dev/null", 0)?;
        let nothing = sys::copy_high(nothing.as_raw_fd())?;
        let wanted: [&OwnedFd; PLACED] =
            [&nothing, &self.output, &self.errors, &self.protocol_in, &self.protocol_out];
        for (number, from) in (0..).zip(wanted) {
            sys::place(from.as_raw_fd(), number)?;
        }
        // Only now: they must not close what will have their numbers.
        drop((nothing, self));
        sys::close_all(PLACED, u32::MAX as usize)
    }
}
