//! The first process of a jail. It starts the program, hands it SIGINT, and takes in orphans; when
//! the program is over it ends, and the kernel ends everything else in the jail with it.

use std::os::fd::RawFd;

use super::signals::{self, SIGCHLD, SIGINT, SignalSet};
use super::sys::{self, Outcome};

const PR_SET_DUMPABLE: i32 = 4;

/// Whom `fork` came back to.
pub(super) enum Side {
    /// The process that runs the program.
    Program,
    /// The first process, with what it needs for [`serve`].
    First(First),
}

pub(super) struct First {
    program: i32,
    signals: SignalSet,
}

/// Forks the program's process. Signals that come before [`serve`] are kept.
pub(super) fn split() -> Outcome<Side> {
    let all = signals::all_signals();
    let before = signals::block_signals(&all);
    match sys::fork_process()? {
        Some(program) => Ok(Side::First(First { program, signals: all })),
        None => {
            sys::new_session();
            signals::block_signals(&before);
            Ok(Side::Program)
        }
    }
}

impl First {
    /// Keeps only `kept` open, and out of the reach of the program, which runs as the same user.
    pub(super) fn withdraw(&self, kept: Option<RawFd>) -> Outcome<()> {
        const LAST: usize = u32::MAX as usize;
        sys::process_control("hide the first process", PR_SET_DUMPABLE, [0, 0])?;
        let Some(kept) = kept.and_then(|fd| usize::try_from(fd).ok()) else {
            return sys::close_all(0, LAST);
        };
        if kept > 0 {
            sys::close_all(0, kept - 1)?;
        }
        sys::close_all(kept + 1, LAST)
    }

    /// Waits for the program's end; its status as `waitpid` gives it.
    pub(super) fn serve(&self) -> i32 {
        loop {
            while let Some((pid, status)) = sys::wait_for(-1, false) {
                if pid == self.program {
                    return status;
                }
            }
            match signals::next_signal(&self.signals) {
                SIGINT => signals::send_signal(self.program, SIGINT),
                SIGCHLD => {}
                // Whatever else the jailed program sends here concerns nobody.
                _ => {}
            }
        }
    }
}

/// An exit code for a status: a shell's way, 128 and the signal.
pub(super) fn exit_code(status: i32) -> i32 {
    match status & 0x7f {
        0 => (status >> 8) & 0xff,
        signal => 128 + signal,
    }
}
