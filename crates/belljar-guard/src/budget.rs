//! How much work looking at one piece of code may be.

use std::cell::Cell;

use belljar_core::limits::{GUARD_STEPS, GUARD_STEPS_A_BYTE, MAX_GUARD_TEXT_BYTES};

use crate::Unexamined;

/// Bytes that are copied in one step.
pub(crate) const BYTES_A_STEP: usize = 16;

/// Counts steps and built text, for the code and all code in its strings together.
pub(crate) struct Budget {
    steps: Cell<u64>,
    over: Cell<Option<Unexamined>>,
}

impl Budget {
    pub(crate) fn for_code(code: &str) -> Self {
        let steps =
            GUARD_STEPS.saturating_add(GUARD_STEPS_A_BYTE.saturating_mul(code.len() as u64));
        Self { steps: Cell::new(steps), over: Cell::new(None) }
    }

    /// Takes some steps. `None` when there are none left.
    pub(crate) fn take(&self, steps: usize) -> Option<()> {
        match self.steps.get().checked_sub(steps as u64) {
            Some(left) => {
                self.steps.set(left);
                self.over.get().is_none().then_some(())
            }
            None => self.end(Unexamined::TooMuch),
        }
    }

    /// Whether text may become this long. `None` ends the examination.
    pub(crate) fn fits(&self, bytes: usize) -> Option<()> {
        if bytes > MAX_GUARD_TEXT_BYTES { self.end(Unexamined::TooMuch) } else { Some(()) }
    }

    /// Takes what text of this length costs. `None` when it is too long.
    pub(crate) fn text(&self, bytes: usize) -> Option<()> {
        self.fits(bytes)?;
        self.take(1 + bytes / BYTES_A_STEP)
    }

    /// Ends the examination.
    pub(crate) fn end<T>(&self, why: Unexamined) -> Option<T> {
        if self.over.get().is_none() {
            self.over.set(Some(why));
        }
        None
    }

    pub(crate) fn over(&self) -> Option<Unexamined> {
        self.over.get()
    }
}
