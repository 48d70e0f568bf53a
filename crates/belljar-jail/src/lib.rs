//! Linux confinement for programs that run untrusted code: first a plan, which is plain data, then
//! a jail made after it.
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use belljar_jail::{Descriptors, JailPlan, Jailed};
//!
//! let mut plan = JailPlan::new("/usr/bin/python3");
//! plan.with_system();
//! plan.workspace = Some("workspace".into());
//! plan.args = vec!["-c".into(), "print('hello')".into()];
//! # let descriptors: Descriptors = unimplemented!();
//! let jail = Jailed::spawn(&plan, descriptors)?;
//! println!("{:?} {:?}", jail.layers(), jail.wait()?);
//! # Ok(()) }
//! ```
//!
//! # How a jail is made
//!
//! The library writes the plan down for a helper, a small program without dependencies that is
//! embedded in this crate and run from memory. The helper, in this order: makes user, mount,
//! process, network, ipc, uts and cgroup namespaces; builds a root of what the plan names; sets
//! resource limits, `no_new_privs` and Landlock rules, gives up all capabilities, installs the
//! system call filter; and becomes the program. Three processes come of it: a monitor outside of
//! the jail, which ends it when the host asks or is gone; the jail's first process, as confined as
//! the program, which takes in orphans and forwards SIGINT; and the program.
//!
//! If a step fails nothing is started. Landlock, a control group and `/proc` are used where they
//! can be had and [`Jailed::layers`] tells; without the others there is no jail. ([`probe()`] says
//! beforehand.)
//!
//! # Zygotes
//!
//! With [`JailPlan::zygote`] the program is an interpreter that has loaded all it needs, runs no
//! foreign code itself, and forks for each execution. It gets the namespaces and the root, no
//! workspace, a filter that also allows what it needs to confine its children, and keeps
//! `CAP_SYS_ADMIN` in its own user namespace. Beside descriptors 0
//! to 4 it has, at 5, a library to load and, at 6, the plan. In Python, from the only thread:
//!
//! ```python
//! library = ctypes.PyDLL("/proc/self/fd/5")       # PyDLL: the interpreter's lock stays held
//! check(library.belljar_open(6))                  # once; then 5 and 6 may be closed
//!
//! # for each execution, with descriptors that the host sent (SCM_RIGHTS):
//! check(library.belljar_before_fork())
//! pid = os.fork()
//! if pid == 0:
//!     numbers = (ctypes.c_int * 8)(protocol_in, protocol_out, stdout, stderr,
//!                                  workspace, status, group_1, group_2)   # the last four or -1
//!     check(library.belljar_enter(numbers))
//!     ...  # confined: run the code, end with os._exit
//! check(library.belljar_after_fork())             # also when fork failed
//! ```
//!
//! Every function gives 0, or an errno below zero; `belljar_failure()` (a C string) then says at
//! which step. A child in which `belljar_enter` failed must `os._exit` at once.
//!
//! `belljar_enter` forks once more: it comes back in process 2 of a new process namespace, with
//! descriptors 0 to 4 placed as in any jail and all others closed (Python objects that hold other
//! numbers should be detached before). Process 1 stays in the call. `pid` is process 1 as the zygote
//! sees it: SIGINT to it reaches the program, SIGKILL ends the whole child, and it must be waited
//! for; its exit code is the program's, or 128 and the signal. The descriptors:
//!
//! - `workspace`: from [`Jailed::take_directory`], mounted writable at [`WORKSPACE`].
//! - `status`: a pipe on which process 1 writes the program's status as `waitpid` gives it, four
//!   bytes in the machine's order, little-endian on all that are supported. It closes without them
//!   when the child was killed.
//! - `group_1`, `group_2`: [`Cgroup::entrances`], of a group that the host makes for this child.
//!   Without, it stays in the zygote's, whose limits are those of the plan for one child at a time
//!   (and some room for the zygote). Entering a group can take the kernel ten milliseconds, so
//!   several zygotes with one child each are faster than one zygote with several.
//!
//! Children share nothing but the zygote's memory as it was: each has namespaces, `/tmp`, `/dev/shm`
//! and `/proc` of its own. When the zygote ends, for whatever reason, so do they.
//!
//! # Programs of ours
//!
//! With [`JailPlan::seals`] the program is one that knows this crate: it takes its descriptors with
//! [`inside::protocol`] and gives up starting anything with [`inside::seal`], first of all.
//!
//! # Where
//!
//! On Linux 5.12 or newer, on x86-64 and 64-bit ARM. Elsewhere this crate is empty.

#![cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]

mod cgroup;
mod embedded;
mod error;
pub mod inside;
mod messages;
mod plan;
mod probe;
mod seccomp;
mod spawn;
mod wire;

// Compiled by build.rs, and here once more so that tests and lints see it.
#[cfg(test)]
#[path = "../helper/tests.rs"]
mod helper;

pub use cgroup::Cgroup;
pub use error::JailError;
pub use plan::{HOST_NAME, JailPlan, Limits, Link, MemoryRule, Mount, TextFile, WORKSPACE};
pub use probe::{Layer, Missing, Probe, probe};
pub use spawn::{Descriptors, Ended, Jailed};
