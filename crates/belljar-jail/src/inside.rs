//! For a program that knows that it is in a jail.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::{FdFlags, fcntl_getfd, fcntl_setfd};

use crate::error::JailError;
use crate::seccomp;

const PROTOCOL_IN: RawFd = 3;
const PROTOCOL_OUT: RawFd = 4;

/// The descriptors over which the host is spoken to: what it says, and what it hears. They can be
/// taken once.
///
/// # Errors
///
/// When they are not there, or were taken.
pub fn protocol() -> io::Result<(OwnedFd, OwnedFd)> {
    static TAKEN: AtomicBool = AtomicBool::new(false);
    if TAKEN.swap(true, Ordering::Relaxed) {
        return Err(io::Error::other("the jail's descriptors were taken before"));
    }
    Ok((take(PROTOCOL_IN)?, take(PROTOCOL_OUT)?))
}

fn take(number: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: there is no safe way from a number that another process chose to a descriptor. The
    // jail has opened these two for this program, nobody else here knows them, and `protocol` takes
    // each once; the next line looks whether it is open at all, and nothing is closed if not.
    let fd = std::mem::ManuallyDrop::new(unsafe { OwnedFd::from_raw_fd(number) });
    fcntl_setfd(&*fd, fcntl_getfd(&*fd)? | FdFlags::CLOEXEC)?;
    Ok(std::mem::ManuallyDrop::into_inner(fd))
}

/// Gives up starting programs and processes, for all threads and for good. Threads can still be
/// started.
///
/// # Errors
///
/// When the system refuses, which it does outside of a jail whose plan [`seals`](crate::JailPlan::seals).
pub fn seal() -> Result<(), JailError> {
    let refused = |reason: String| JailError::Unavailable { reason };
    let filter = seccomp::seal().map_err(refused)?;
    seccompiler::apply_filter_all_threads(&filter)
        .map_err(|error| refused(format!("the process cannot be sealed: {error}")))
}
