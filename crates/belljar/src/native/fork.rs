//! A fork of a zygote, as a process like any other.

use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::jail;
use super::zygote::{Exit, Fork, Zygote};
use crate::process::launch::{Ancestor, Ended, Launched, Process};

const SIGKILL: i32 = 9;

pub(super) struct ForkedProcess {
    zygote: Arc<Mutex<Zygote>>,
    pid: i32,
    status: OwnedFd,
    /// How many processes had been killed for want of memory before this one began.
    memory_kills: u64,
    /// Whether the peak is this one's own.
    knows_peak: bool,
    ended: Option<Ended>,
}

pub(super) fn locked(zygote: &Mutex<Zygote>) -> MutexGuard<'_, Zygote> {
    zygote.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ForkedProcess {
    pub(super) fn launched(zygote: Arc<Mutex<Zygote>>, fork: Fork) -> Launched {
        let Fork { pid, protocol, stdout, stderr, status } = fork;
        let (memory_kills, knows_peak) = {
            let zygote = locked(&zygote);
            (zygote.jail().memory_kills(), zygote.jail().reset_peak_memory())
        };
        let process = Self { zygote, pid, status, memory_kills, knows_peak, ended: None };
        Launched { protocol: protocol.into(), stdout, stderr, process: Box::new(process) }
    }

    /// Ends it, if it has not ended.
    fn finish(&mut self) -> Ended {
        if let Some(ended) = self.ended {
            return ended;
        }
        let exit = locked(&self.zygote).kill(self.pid);
        self.note(exit)
    }

    fn note(&mut self, exit: Option<Exit>) -> Ended {
        let mut zygote = locked(&self.zygote);
        zygote.release();
        let out_of_memory = zygote.jail().memory_kills() > self.memory_kills;
        let ended = how_it_ended(read_status(&self.status), exit, out_of_memory);
        self.ended = Some(ended);
        ended
    }
}

impl Process for ForkedProcess {
    fn interrupt(&mut self) {
        locked(&self.zygote).interrupt(self.pid);
    }

    fn end(&mut self) -> Ended {
        let running = self.ended.is_none().then_some(self.pid);
        let exit = locked(&self.zygote).replace(running);
        self.ended.unwrap_or_else(|| self.note(exit))
    }

    fn wait(&mut self, patience: Duration) -> Option<Ended> {
        if self.ended.is_some() {
            return self.ended;
        }
        let waited = locked(&self.zygote).wait(self.pid, patience);
        match waited {
            Ok(exit) => exit.map(|exit| self.note(Some(exit))),
            // With the zygote everything in its jail ends.
            Err(_) => Some(self.finish()),
        }
    }

    /// One fork of a zygote runs at a time; the next one, which waits, holds nothing.
    fn ancestor(&self) -> Option<Ancestor> {
        jail::ancestor(locked(&self.zygote).jail())
    }

    fn layers(&self) -> Vec<String> {
        locked(&self.zygote).jail().layers().iter().map(|layer| layer.name().to_owned()).collect()
    }

    fn peak_memory_bytes(&mut self) -> Option<u64> {
        self.knows_peak.then(|| locked(&self.zygote).jail().peak_memory_bytes()).flatten()
    }
}

impl Drop for ForkedProcess {
    fn drop(&mut self) {
        self.finish();
    }
}

/// What the first process says of the program; nothing when it was killed itself.
fn read_status(pipe: &OwnedFd) -> Option<ExitStatus> {
    let mut status = [0; 4];
    let len = rustix::io::read(pipe, &mut status).ok()?;
    (len == status.len()).then(|| ExitStatus::from_raw(i32::from_le_bytes(status)))
}

fn how_it_ended(program: Option<ExitStatus>, first: Option<Exit>, out_of_memory: bool) -> Ended {
    match program.map(|status| (status.signal(), status.code())) {
        Some((Some(SIGKILL), _)) | None if out_of_memory => Ended::OutOfMemory,
        Some((Some(signal), _)) => Ended::Signalled(signal),
        Some((None, code)) => code.map_or(Ended::Unknown, Ended::Exited),
        None => first.and_then(|exit| exit.code).map_or(Ended::Unknown, Ended::Exited),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(program: Option<i32>, first: Option<i32>, out_of_memory: bool, expected: Ended) {
        let program = program.map(ExitStatus::from_raw);
        let first = first.map(|code| Exit { pid: 5, code: Some(code) });
        assert_eq!(how_it_ended(program, first, out_of_memory), expected);
    }

    #[test]
    fn how_a_fork_ended_is_what_its_program_did() {
        check(Some(3 << 8), Some(3), false, Ended::Exited(3));
        check(Some(137 << 8), Some(137), false, Ended::Exited(137));
        check(Some(9), Some(137), false, Ended::Signalled(9));
        check(Some(9), Some(137), true, Ended::OutOfMemory);
        // It had killed something else than the program.
        check(Some(3 << 8), Some(3), true, Ended::Exited(3));
        // The first process was killed, with all others.
        check(None, None, false, Ended::Unknown);
        check(None, None, true, Ended::OutOfMemory);
        // It could not be confined.
        check(None, Some(125), false, Ended::Exited(125));
    }
}
