//! Ctrl-C: for the cell that runs, and not for the shell.

use std::sync::{Arc, Mutex, PoisonError};

use belljar::CancelHandle;

/// The exit code of a program that Ctrl-C has ended.
const INTERRUPTED: i32 = 130;

/// What Ctrl-C interrupts just now.
#[derive(Clone, Default)]
pub(super) struct Interrupt {
    running: Arc<Mutex<Option<CancelHandle>>>,
}

impl Interrupt {
    /// Begins to listen. While no cell runs the editor sees Ctrl-C as a key; without an editor it
    /// ends the program.
    pub(super) fn listen(&self) -> Result<(), ctrlc::Error> {
        let running = Arc::clone(&self.running);
        ctrlc::set_handler(move || {
            match running.lock().unwrap_or_else(PoisonError::into_inner).as_ref() {
                Some(cell) => cell.cancel(),
                None => std::process::exit(INTERRUPTED),
            }
        })
    }

    /// Does something that Ctrl-C interrupts.
    pub(super) fn during<T>(&self, cell: CancelHandle, work: impl FnOnce() -> T) -> T {
        self.set(Some(cell));
        let result = work();
        self.set(None);
        result
    }

    fn set(&self, cell: Option<CancelHandle>) {
        *self.running.lock().unwrap_or_else(PoisonError::into_inner) = cell;
    }
}
