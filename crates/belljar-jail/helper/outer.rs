//! The helper's main path: namespaces, a new root, confinement, the program.

use std::io::Read;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;

use super::init::{self, Side};
use super::plan::Plan;
use super::sys::{self, EINVAL, Failure, Outcome};
use super::{confine, landlock, monitor, namespaces, report, root, signals, socket};

/// The socket to the host.
pub(super) const CONTROL: RawFd = 0;
/// Where the program finds its descriptors, from 0: nothing to read, output, errors, protocol in
/// and out, and for a zygote the code it loads and the plan.
const PROGRAM_DESCRIPTORS: usize = 7;
const PLAIN_DESCRIPTORS: usize = 5;

const PR_SET_PDEATHSIG: i32 = 1;

/// What came with the host's first message, in its order.
pub(super) struct Received {
    plan_file: OwnedFd,
    protocol_in: OwnedFd,
    protocol_out: OwnedFd,
    output: OwnedFd,
    errors: OwnedFd,
    confine_library: OwnedFd,
    groups: Vec<OwnedFd>,
}

pub(super) fn run() -> Outcome<()> {
    sys::new_session();
    sys::usual_file_mode();
    sys::forget_memberships();
    let received = receive()?;
    let plan = Plan::read(&received.plan_file)?;
    namespaces::make(&plan)?;

    // Open while the monitor lives: the first process looks whether it still does.
    let (alive, monitor_holds) = std::io::pipe().map_err(|e| Failure::io("make a pipe", &e))?;
    match sys::fork_process()? {
        Some(first) => {
            let watched = monitor::watch(CONTROL, first, monitor_holds.as_raw_fd());
            sys::leave(i32::from(watched.is_err()))
        }
        None => {
            drop(monitor_holds);
            let alive = OwnedFd::from(alive);
            let status = match be_first(&plan, &received, &alive) {
                Ok(status) => init::exit_code(status),
                Err(failure) => {
                    report::failed(CONTROL, &failure);
                    1
                }
            };
            sys::leave(status)
        }
    }
}

fn receive() -> Outcome<Received> {
    let mut message = [0; 1];
    let (_, descriptors) = socket::receive(CONTROL, &mut message)?;
    let mut next = descriptors.into_iter();
    let mut one = || next.next().ok_or_else(|| Failure::new("too few descriptors came", EINVAL));
    Ok(Received {
        plan_file: one()?,
        protocol_in: one()?,
        protocol_out: one()?,
        output: one()?,
        errors: one()?,
        confine_library: one()?,
        groups: next.collect(),
    })
}

/// The first process of the jail, until the program is over.
fn be_first(plan: &Plan, received: &Received, alive: &OwnedFd) -> Outcome<i32> {
    sys::process_control(
        "die with the monitor",
        PR_SET_PDEATHSIG,
        [sys::word(signals::SIGKILL), 0],
    )?;
    if sys::hung_up(alive) {
        return Err(Failure::new("the monitor is gone", EINVAL));
    }
    confine::enter_groups(&received.groups)?;
    sys::unshare_namespaces("make a cgroup namespace", sys::CLONE_NEWCGROUP)?;
    if plan.zygote {
        // The monitor keeps the host's tree, from which it takes workspaces for the zygote.
        sys::unshare_namespaces("make a mount namespace", sys::CLONE_NEWNS)?;
    }
    let proc = root::build(plan)?;
    let landlock = if plan.zygote { landlock::version() } else { confine::apply(plan)? };

    // Closed when the program has been started; until then it can bring a failure.
    let (mut started, start_failed) =
        std::io::pipe().map_err(|e| Failure::io("make a pipe", &e))?;
    // Out of the way of the numbers at which the program's descriptors go.
    let control = sys::copy_high(CONTROL)?;
    let start_failed = {
        let copy = sys::copy_high(start_failed.as_raw_fd());
        drop(start_failed);
        copy?
    };
    match init::split()? {
        Side::Program => {
            let failure = start(plan, received);
            report::failed(control.as_raw_fd(), &failure);
            drop(std::io::Write::write_all(&mut std::fs::File::from(start_failed), b"!"));
            sys::leave(1)
        }
        Side::First(first) => {
            drop(start_failed);
            if plan.zygote {
                confine::drop_all_capabilities()?;
            }
            let failed = started.read(&mut [0]).unwrap_or(0) > 0;
            first.withdraw(Some(CONTROL))?;
            if !failed {
                report::ready(CONTROL, landlock, proc);
            }
            let status = first.serve();
            if !failed {
                report::ended(CONTROL, status);
            }
            Ok(status)
        }
    }
}

/// Becomes the program; comes back only with what went wrong.
fn start(plan: &Plan, received: &Received) -> Failure {
    let prepare = || -> Outcome<()> {
        std::env::set_current_dir(std::ffi::OsStr::from_bytes(&plan.directory)).map_err(|e| {
            Failure::io(format!("enter {}", String::from_utf8_lossy(&plan.directory)), &e)
        })?;
        place_descriptors(plan, received)?;
        signals::default_signals();
        if plan.zygote {
            confine::keep_for_zygote(plan)?;
        }
        Ok(())
    };
    match prepare() {
        Ok(()) => sys::become_program(&plan.program, &plan.arguments, &plan.environment),
        Err(failure) => failure,
    }
}

/// Puts the program's descriptors at their numbers. All others are closed as it starts.
fn place_descriptors(plan: &Plan, received: &Received) -> Outcome<()> {
    let nothing = sys::open_at("open /dev/null", sys::AT_FDCWD, b"/dev/null", 0)?;
    let wanted: [&OwnedFd; PROGRAM_DESCRIPTORS] = [
        &nothing,
        &received.output,
        &received.errors,
        &received.protocol_in,
        &received.protocol_out,
        &received.confine_library,
        &received.plan_file,
    ];
    let count = if plan.zygote { PROGRAM_DESCRIPTORS } else { PLAIN_DESCRIPTORS };
    let copies = wanted[..count]
        .iter()
        .map(|fd| sys::copy_high(fd.as_raw_fd()))
        .collect::<Outcome<Vec<_>>>()?;
    for (number, copy) in (0..).zip(&copies) {
        sys::place(copy.as_raw_fd(), number)?;
    }
    sys::close_on_exec(count)
}
