//! Namespaces of one's own, and who one is in them.

use std::os::fd::{AsRawFd, OwnedFd};

use super::plan::Plan;
use super::sys::{self, Failure, Outcome};

const O_WRONLY: i32 = 1;

/// All namespaces of a jail. The process namespace is the next child's.
pub(super) fn make(plan: &Plan) -> Outcome<()> {
    let outside = sys::effective_ids();
    let all = sys::CLONE_NEWUSER
        | sys::CLONE_NEWNS
        | sys::CLONE_NEWPID
        | sys::CLONE_NEWNET
        | sys::CLONE_NEWIPC
        | sys::CLONE_NEWUTS;
    sys::unshare_namespaces("make namespaces", all)?;
    map_ids(&own_view()?, plan, outside)?;
    sys::set_host_name(&plan.host_name)?;
    sys::detach_propagation()
}

/// This process in `/proc`, as it is mounted now.
pub(super) fn own_view() -> Outcome<OwnedFd> {
    let flags = sys::O_PATH | sys::O_DIRECTORY;
    sys::open_at("open /proc/self", sys::AT_FDCWD, b"/proc/self", flags)
}

/// Maps one user and one group; nobody else exists in the namespace.
pub(super) fn map_ids(view: &OwnedFd, plan: &Plan, outside: (u32, u32)) -> Outcome<()> {
    let write = |name: &str, text: String| {
        let step = format!("write {name}");
        let file = sys::open_at(&step, view.as_raw_fd(), name.as_bytes(), O_WRONLY)?;
        std::io::Write::write_all(&mut std::fs::File::from(file), text.as_bytes())
            .map_err(|e| Failure::io(step, &e))
    };
    write("setgroups", "deny".into())?;
    write("uid_map", format!("{} {} 1", plan.uid, outside.0))?;
    write("gid_map", format!("{} {} 1", plan.gid, outside.1))
}
