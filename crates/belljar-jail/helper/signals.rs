//! Signals: kept, waited for, sent, and set back for a program that starts.

use std::ffi::{c_int, c_ulong, c_void};

pub(super) const SIGINT: c_int = 2;
pub(super) const SIGKILL: c_int = 9;
pub(super) const SIGCHLD: c_int = 17;
const LAST_CLASSIC_SIGNAL: c_int = 31;

/// The C library's set of signals: 1024 bits.
pub(super) type SignalSet = [c_ulong; 16];

unsafe extern "C" {
    fn sigfillset(set: *mut SignalSet) -> c_int;
    fn sigprocmask(how: c_int, set: *const SignalSet, old: *mut SignalSet) -> c_int;
    fn sigwaitinfo(set: *const SignalSet, info: *mut c_void) -> c_int;
    fn signal(number: c_int, handler: usize) -> usize;
    fn kill(pid: c_int, signal: c_int) -> c_int;
}

pub(super) fn send_signal(pid: c_int, number: c_int) {
    // SAFETY: takes numbers only; a process that is gone needs no signal.
    unsafe { kill(pid, number) };
}

pub(super) fn all_signals() -> SignalSet {
    let mut set = [0; 16];
    // SAFETY: the array is as large as the C library's type.
    unsafe { sigfillset(&raw mut set) };
    set
}

/// Sets the blocked signals and gives back the earlier ones.
pub(super) fn block_signals(set: &SignalSet) -> SignalSet {
    const SIG_SETMASK: c_int = 2;
    let mut old = [0; 16];
    // SAFETY: both arrays are as large as the C library's type.
    unsafe { sigprocmask(SIG_SETMASK, &raw const *set, &raw mut old) };
    old
}

pub(super) fn next_signal(set: &SignalSet) -> c_int {
    // SAFETY: the array is as large as the C library's type; no details are asked for.
    unsafe { sigwaitinfo(&raw const *set, std::ptr::null_mut()) }
}

/// Undoes what a runtime did to signals, so that a program starts as from a shell.
pub(super) fn default_signals() {
    const SIG_DFL: usize = 0;
    for number in 1..=LAST_CLASSIC_SIGNAL {
        // SAFETY: numbers only; the two signals that cannot be changed are left as they are.
        unsafe { signal(number, SIG_DFL) };
    }
    block_signals(&[0; 16]);
}
