//! Ctrl-C: for the cell that runs, and not for the shell.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use belljar::CancelHandle;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};

use crate::signals::{self, Signal};

/// The exit codes of a program that Ctrl-C, or somebody else, has ended.
const INTERRUPTED: i32 = 130;
const ENDED: i32 = 143;

/// What Ctrl-C interrupts just now.
#[derive(Clone, Default)]
pub(super) struct Interrupt {
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    running: Mutex<Option<CancelHandle>>,
    /// Counts beginnings and ends of cells.
    changes: AtomicU64,
    ending: AtomicBool,
}

/// What has to be put in order when the program is ended from outside.
pub(super) struct Cleanup {
    /// The terminal as it was before anybody edited lines.
    terminal: Option<Termios>,
    temporary: Option<PathBuf>,
}

impl Cleanup {
    pub(super) fn new(temporary: Option<PathBuf>) -> Self {
        Self { terminal: tcgetattr(io::stdin()).ok(), temporary }
    }

    /// There is nobody left to hear that something of it failed.
    fn exit(&self, code: i32) -> ! {
        if let Some(terminal) = &self.terminal {
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, terminal);
        }
        if let Some(directory) = &self.temporary {
            let _ = fs::remove_dir_all(directory);
        }
        std::process::exit(code);
    }
}

impl Interrupt {
    /// Begins to listen. While a person types, Ctrl-C is a key like others, and comes here only when
    /// it was pressed a moment too late.
    pub(super) fn listen(&self, interactive: bool, cleanup: Cleanup) -> io::Result<()> {
        let state = Arc::clone(&self.state);
        signals::listen(move |signal| {
            let running = state.running.lock().unwrap_or_else(PoisonError::into_inner);
            match (running.as_ref(), signal) {
                (Some(cell), Signal::Interrupt) => cell.cancel(),
                (Some(cell), Signal::End) => {
                    state.ending.store(true, Ordering::Release);
                    cell.cancel();
                }
                (None, Signal::Interrupt) if interactive => {}
                (None, Signal::Interrupt) => cleanup.exit(INTERRUPTED),
                (None, Signal::End) => cleanup.exit(ENDED),
            }
        })
    }

    /// Whether the shell has been told to end while a cell ran.
    pub(super) fn is_ending(&self) -> bool {
        self.state.ending.load(Ordering::Acquire)
    }

    /// Does something that Ctrl-C interrupts.
    pub(super) fn during<T>(&self, cell: CancelHandle, work: impl FnOnce() -> T) -> T {
        self.set(Some(cell));
        let result = work();
        self.set(None);
        result
    }

    /// A number that is another one when the cell that runs now is over.
    pub(super) fn moment(&self) -> u64 {
        self.state.changes.load(Ordering::Acquire)
    }

    fn set(&self, cell: Option<CancelHandle>) {
        *self.state.running.lock().unwrap_or_else(PoisonError::into_inner) = cell;
        self.state.changes.fetch_add(1, Ordering::Release);
    }
}
