//! The helper after the jail has begun: it stands between the host and the jail's first process.
//!
//! It ends the jail when the host asks for it or is gone. The host's end of the socket tells which,
//! and not PR_SET_PDEATHSIG, since that looks at the thread of the host that started the helper,
//! and threads end earlier than programs.

use std::os::fd::{AsRawFd, RawFd};

use super::signals::{SIGINT, SIGKILL, send_signal};
use super::sys::{self, Outcome, POLLIN, PollFd};
use super::{report, root, socket};

const INTERRUPT: u8 = b'I';
const KILL: u8 = b'K';
/// Followed by `w` or `r` and a path of the host: take it as a mount, writable or not.
const TAKE: u8 = b'T';

/// Serves the host until the jail's first process has ended, and everything in the jail with it.
///
/// `alive` stays open as long as the monitor lives; the first process looks at its other end.
pub(super) fn watch(control: RawFd, first: i32, alive: RawFd) -> Outcome<()> {
    const ALIVE: RawFd = 1;
    const AFTER: usize = 2;
    sys::place(alive, ALIVE)?;
    // Nothing of what the jail was given stays open here, or its pipes would never end.
    sys::close_all(AFTER, u32::MAX as usize)?;
    let first_ended = sys::watch_process(first)?;
    let mut listening = true;
    loop {
        let mut fds = [
            PollFd { fd: first_ended.as_raw_fd(), events: POLLIN, revents: 0 },
            // A negative number is passed over.
            PollFd { fd: if listening { control } else { -1 }, events: POLLIN, revents: 0 },
        ];
        if !sys::wait_readable(&mut fds) {
            continue;
        }
        if fds[0].revents != 0 {
            sys::wait_for(first, true);
            return Ok(());
        }
        if fds[1].revents != 0 {
            listening = obey(control, first);
        }
    }
}

/// Does one thing that the host asks for; false when it will ask for nothing more.
fn obey(control: RawFd, first: i32) -> bool {
    let mut buffer = [0; report::MOST_BYTES];
    let length = socket::receive(control, &mut buffer).map_or(0, |(length, _)| length);
    match buffer[..length].split_first() {
        Some((&INTERRUPT, _)) => send_signal(first, SIGINT),
        Some((&TAKE, [how, path @ ..])) => hand_over(control, path, *how == b'w'),
        Some((&KILL, _)) | None => {
            send_signal(first, SIGKILL);
            return false;
        }
        Some(_) => {}
    }
    true
}

fn hand_over(control: RawFd, path: &[u8], writable: bool) {
    match root::take(path, writable) {
        Ok(tree) => drop(socket::send(control, &[report::MOUNT], Some(&tree))),
        Err(failure) => report::failed(control, &failure),
    }
}
