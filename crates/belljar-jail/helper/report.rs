//! What the helper tells the host: one short message each. The library's `messages.rs` reads them.

use std::os::fd::RawFd;

use super::socket;
use super::sys::Failure;

pub(super) const READY: u8 = b'R';
pub(super) const FAILED: u8 = b'F';
pub(super) const ENDED: u8 = b'X';
pub(super) const MOUNT: u8 = b'M';

/// The longest message in either direction.
pub(super) const MOST_BYTES: usize = 8 * 1024;

/// The program runs, with this version of Landlock and with or without `/proc`.
pub(super) fn ready(socket: RawFd, landlock: u32, proc: bool) {
    let mut message = vec![READY, u8::from(proc)];
    message.extend(landlock.to_le_bytes());
    tell(socket, &message);
}

pub(super) fn failed(socket: RawFd, failure: &Failure) {
    let mut message = vec![FAILED];
    message.extend(failure.errno.to_le_bytes());
    message.extend(failure.step.bytes().take(MOST_BYTES / 2));
    tell(socket, &message);
}

/// The program is over, with this status as `waitpid` gives it.
pub(super) fn ended(socket: RawFd, status: i32) {
    let mut message = vec![ENDED];
    message.extend(status.to_le_bytes());
    tell(socket, &message);
}

fn tell(socket: RawFd, message: &[u8]) {
    // A host that has gone needs no report; the monitor notices by itself.
    drop(socket::send(socket, message, None));
}
