//! What a process gives up before untrusted code runs in it. The order matters: each step may need
//! a right that a later one takes away, and the system call filter comes last.

use std::os::fd::OwnedFd;

use super::landlock;
use super::plan::Plan;
use super::sys::{self, EINVAL, Failure, Outcome};

const PR_CAPBSET_DROP: i32 = 24;
const PR_SET_NO_NEW_PRIVS: i32 = 38;
const PR_CAP_AMBIENT: i32 = 47;
const AMBIENT_RAISE: usize = 2;
const AMBIENT_CLEAR_ALL: usize = 4;
const CAPABILITIES: usize = 64;

const CAP_SETPCAP: usize = 8;
const CAP_SYS_ADMIN: usize = 21;
/// What a zygote keeps, in its own user namespace only: to mount for its children, and to take
/// everything from them.
const ZYGOTE_CAPABILITIES: [usize; 2] = [CAP_SETPCAP, CAP_SYS_ADMIN];

/// Takes everything that can be taken. Gives back the version of Landlock that holds, 0 for none.
pub(super) fn apply(plan: &Plan) -> Outcome<u32> {
    for (resource, most) in &plan.limits {
        sys::limit(*resource, *most)?;
    }
    never_more_privileges()?;
    drop_capabilities(&[])?;
    let landlock = landlock::restrict(plan)?;
    plan.filters.iter().try_for_each(|filter| sys::install_filter(filter))?;
    Ok(landlock)
}

/// Keeps what a zygote needs, also across the start of its program.
pub(super) fn keep_for_zygote(plan: &Plan) -> Outcome<()> {
    never_more_privileges()?;
    drop_capabilities(&ZYGOTE_CAPABILITIES)?;
    for capability in ZYGOTE_CAPABILITIES {
        let arguments = [AMBIENT_RAISE, capability];
        sys::process_control("keep a capability", PR_CAP_AMBIENT, arguments)?;
    }
    plan.zygote_filters.iter().try_for_each(|filter| sys::install_filter(filter))
}

/// For a process that only waits for others.
pub(super) fn drop_all_capabilities() -> Outcome<()> {
    drop_capabilities(&[])
}

fn never_more_privileges() -> Outcome<()> {
    sys::process_control("set no_new_privs", PR_SET_NO_NEW_PRIVS, [1, 0])
}

fn drop_capabilities(kept: &[usize]) -> Outcome<()> {
    for capability in (0..CAPABILITIES).filter(|c| !kept.contains(c)) {
        match sys::process_control("drop a capability", PR_CAPBSET_DROP, [capability, 0]) {
            // Past the last one that this kernel knows.
            Err(failure) if failure.errno == EINVAL => break,
            other => other?,
        }
    }
    sys::process_control("drop capabilities", PR_CAP_AMBIENT, [AMBIENT_CLEAR_ALL, 0])?;
    sys::set_capabilities(kept.iter().fold(0, |bits, capability| bits | 1 << capability))
}

/// Moves this process into control groups whose `cgroup.procs` the host opened.
pub(super) fn enter_groups(groups: &[OwnedFd]) -> Outcome<()> {
    for group in groups {
        let copy = group.try_clone().map_err(|e| Failure::io("enter a control group", &e))?;
        std::io::Write::write_all(&mut std::fs::File::from(copy), b"0")
            .map_err(|e| Failure::io("enter a control group", &e))?;
    }
    Ok(())
}
