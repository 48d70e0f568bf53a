//! What the host keeps for one guest while it runs.

use std::sync::Arc;

use belljar_core::limits::DRIVER_MEMORY_RESERVE;
use wasmtime::{Memory, ResourceLimiter};

use crate::abi::Phase;
use crate::drive::Control;
use crate::wasi::Wasi;

/// Elements of a guest's function tables. Guests are static programs: theirs never grow.
const MAX_TABLE_ELEMENTS: usize = 100_000;

/// The data of a guest's store.
pub struct State {
    pub wasi: Wasi,
    pub control: Arc<Control>,
    /// Known once the guest is instantiated.
    pub memory: Option<Memory>,
    pub memory_limit: MemoryLimit,
    pub meter: Meter,
}

impl State {
    pub fn new(wasi: Wasi, memory_bytes: u64) -> State {
        State {
            wasi,
            control: Arc::default(),
            memory: None,
            memory_limit: MemoryLimit::new(memory_bytes),
            meter: Meter::default(),
        }
    }
}

/// The cap on a guest's memory: the policy's for the user's code, a little more for our driver.
pub struct MemoryLimit {
    bytes: usize,
    driver: bool,
    peak: usize,
    refused: bool,
}

impl MemoryLimit {
    fn new(bytes: u64) -> MemoryLimit {
        MemoryLimit {
            bytes: usize::try_from(bytes).unwrap_or(usize::MAX),
            driver: true,
            peak: 0,
            refused: false,
        }
    }

    pub fn enter(&mut self, phase: Phase) {
        self.driver = phase == Phase::Driver;
    }

    /// The most memory the guest has had, in bytes.
    pub fn peak(&self) -> usize {
        self.peak
    }

    /// Whether the guest was refused memory since the last time this was asked.
    pub fn take_refused(&mut self) -> bool {
        std::mem::take(&mut self.refused)
    }

    fn cap(&self) -> usize {
        let reserve =
            if self.driver { usize::try_from(DRIVER_MEMORY_RESERVE).unwrap_or(0) } else { 0 };
        self.bytes.saturating_add(reserve)
    }
}

impl ResourceLimiter for MemoryLimit {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        _: Option<usize>,
    ) -> wasmtime::Result<bool> {
        // `current` is 0 when the memory is made: the image itself is not the guest's growth.
        let granted = current == 0 || desired <= self.cap();
        if granted {
            self.peak = self.peak.max(desired);
        } else {
            self.refused = true;
        }
        Ok(granted)
    }

    fn table_growing(
        &mut self,
        _: usize,
        desired: usize,
        _: Option<usize>,
    ) -> wasmtime::Result<bool> {
        Ok(desired <= MAX_TABLE_ELEMENTS)
    }
}

/// Counts the fuel of the user's code. Reading the request before it and writing the answer after
/// it have a fixed allowance of their own.
#[derive(Default)]
pub struct Meter {
    budget: u64,
    stage: Stage,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Before,
    User,
    /// With what the user's code used.
    After(u64),
}

/// Fuel for the driver on each side of the user's code. Ten megabytes of source take a fifth of it.
pub const DRIVER_FUEL: u64 = 2_000_000_000;

impl Meter {
    pub fn start(&mut self, budget: u64) {
        *self = Meter { budget, stage: Stage::Before };
    }

    /// The guest says whose code comes next; given the fuel left, answers the fuel to go on with.
    /// A guest may say anything: each stage begins at most once, so the most it can gain is one
    /// driver's allowance.
    pub fn enter(&mut self, phase: Phase, left: u64) -> Option<u64> {
        match (self.stage, phase) {
            (Stage::Before, Phase::User) => {
                self.stage = Stage::User;
                Some(self.budget)
            }
            (Stage::User, Phase::Driver) => {
                self.stage = Stage::After(self.budget.saturating_sub(left));
                Some(DRIVER_FUEL)
            }
            (Stage::Before, Phase::Driver) | (Stage::User, Phase::User) | (Stage::After(_), _) => {
                None
            }
        }
    }

    /// What the user's code used, given the fuel left.
    pub fn used(&self, left: u64) -> u64 {
        match self.stage {
            Stage::Before => 0,
            Stage::User => self.budget.saturating_sub(left),
            Stage::After(used) => used,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calling_phase_again_and_again_gains_no_fuel() {
        let mut meter = Meter::default();
        meter.start(100);
        assert_eq!(meter.enter(Phase::User, 7), Some(100));
        assert_eq!(meter.enter(Phase::User, 1), None);
        assert_eq!(meter.enter(Phase::Driver, 40), Some(DRIVER_FUEL));
        assert_eq!(meter.enter(Phase::User, 1), None);
        assert_eq!(meter.enter(Phase::Driver, 1), None);
        assert_eq!(meter.used(1), 60);
    }

    #[test]
    fn the_driver_has_more_memory_than_the_user() {
        let mut limit = MemoryLimit::new(1000);
        limit.enter(Phase::User);
        assert!(limit.memory_growing(10, 1000, None).unwrap());
        assert!(!limit.memory_growing(10, 1001, None).unwrap());
        limit.enter(Phase::Driver);
        assert!(limit.memory_growing(10, 1001, None).unwrap());
        assert!(limit.take_refused() && !limit.take_refused());
        assert_eq!(limit.peak(), 1001);
    }
}
