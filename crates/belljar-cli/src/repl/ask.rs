//! `input()` in a cell: the person is asked.

use std::io::{self, BufRead};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::interrupt::Interrupt;
use crate::render;

/// Answers `input()` by asking the person, unless the cell is interrupted first: then what is typed
/// next belongs to the shell.
pub(super) fn ask(prompt: &str, interrupt: &Interrupt) -> Option<String> {
    let moment = interrupt.moment();
    render::guest_text(io::stdout().lock(), prompt).ok()?;
    let stdin = io::stdin();
    let tick = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
    loop {
        let mut keyboard = [PollFd::new(&stdin, PollFlags::IN)];
        let ready = match poll(&mut keyboard, Some(&tick)) {
            Ok(count) => count > 0,
            Err(Errno::INTR) => false,
            Err(_) => return None,
        };
        if interrupt.moment() != moment {
            return None;
        }
        if ready {
            break;
        }
    }
    let mut line = String::new();
    match stdin.lock().read_line(&mut line) {
        Ok(0) | Err(_) => None,
        Ok(_) => Some(line.trim_end_matches(['\n', '\r']).to_owned()),
    }
}
