//! Whether a thread has taken page faults. A page of a private mapping that is written for the
//! first time costs its writer one, so without any the set of written pages is still the same, and
//! the kernel need not be asked for it.

use std::thread::ThreadId;

/// A moment in the life of a thread.
pub struct FaultMark {
    /// A forked child has its parent's marks, but counts from nothing.
    process: u32,
    thread: ThreadId,
    faults: Option<(i64, i64)>,
}

impl FaultMark {
    pub fn now() -> FaultMark {
        FaultMark {
            process: std::process::id(),
            thread: std::thread::current().id(),
            faults: faults_of_this_thread(),
        }
    }

    /// Whether this thread certainly took no fault since. Others cannot tell.
    pub fn no_fault_since(&self) -> bool {
        self.faults.is_some()
            && self.process == std::process::id()
            && self.thread == std::thread::current().id()
            && self.faults == faults_of_this_thread()
    }
}

/// Those that were served from memory, and those that were not.
#[cfg(target_os = "linux")]
fn faults_of_this_thread() -> Option<(i64, i64)> {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::uninit();
    // SAFETY: the kernel fills the structure it is given, which lives until it has.
    let answer = unsafe { libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr()) };
    if answer != 0 {
        return None;
    }
    // SAFETY: the call succeeded, so all of it is filled in.
    let usage = unsafe { usage.assume_init() };
    Some((usage.ru_minflt, usage.ru_majflt))
}

#[cfg(not(target_os = "linux"))]
fn faults_of_this_thread() -> Option<(i64, i64)> {
    None
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::super::mapping::{Mapping, PAGE};
    use super::*;

    #[test]
    fn the_first_write_to_a_page_is_noticed_and_the_second_is_none() {
        let mapping = Mapping::reserve(16 * PAGE).unwrap();
        mapping.open(0..16 * PAGE).unwrap();
        for page in 0..16 {
            // SAFETY: the page is accessible and nobody else knows of it.
            let write = || unsafe { mapping.base().add(page * PAGE).write_volatile(1) };
            let before = FaultMark::now();
            write();
            assert!(!before.no_fault_since(), "page {page}");
            let before = FaultMark::now();
            write();
            assert!(before.no_fault_since(), "page {page}");
        }
    }

    #[test]
    fn another_thread_cannot_tell() {
        let before = FaultMark::now();
        assert!(!std::thread::spawn(move || before.no_fault_since()).join().unwrap());
    }
}
