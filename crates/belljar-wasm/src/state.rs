//! What the host keeps for one guest while it runs.

use std::sync::Arc;

use belljar_core::limits::DRIVER_MEMORY_RESERVE;
use wasmtime::{Memory, ResourceLimiter};

use crate::abi::Phase;
use crate::wasi::Wasi;
use belljar_host::Control;
use belljar_host::Desk;

/// Elements of a guest's function tables. Guests are static programs: theirs never grow.
const MAX_TABLE_ELEMENTS: usize = 100_000;

/// Tables of a guest. Compilers make one.
const MAX_TABLES: usize = 4;

/// The data of a guest's store.
pub struct State {
    pub wasi: Wasi,
    pub desk: Desk,
    pub control: Arc<Control>,
    /// Known once the guest is instantiated.
    pub memory: Option<Memory>,
    pub memory_limit: MemoryLimit,
    pub meter: Meter,
}

impl State {
    pub fn new(
        wasi: Wasi,
        desk: Desk,
        memory_bytes: u64,
        birth: Birth,
        control: Arc<Control>,
    ) -> State {
        State {
            wasi,
            desk,
            control,
            memory: None,
            memory_limit: MemoryLimit::new(memory_bytes, birth),
            meter: Meter::default(),
        }
    }
}

/// The memory that a guest is born with.
#[derive(Clone, Copy, Default)]
pub struct Birth {
    /// All of it: its image.
    pub image_bytes: usize,
    /// The part of it that is not charged to the guest: what its image holds beyond the plain one.
    pub free_bytes: usize,
}

/// The cap on a guest's memory: the policy's for the user's code, a little more for our driver. What
/// is free lies outside of all that is counted here.
pub struct MemoryLimit {
    bytes: usize,
    birth: Birth,
    driver: bool,
    peak: usize,
    refused: bool,
}

impl MemoryLimit {
    fn new(bytes: u64, birth: Birth) -> MemoryLimit {
        MemoryLimit {
            bytes: usize::try_from(bytes).unwrap_or(usize::MAX),
            birth,
            driver: true,
            peak: 0,
            refused: false,
        }
    }

    pub fn enter(&mut self, phase: Phase) {
        self.driver = phase == Phase::Driver;
    }

    /// What the policy allows.
    pub fn bytes(&self) -> u64 {
        self.bytes as u64
    }

    /// What the policy has to allow for a memory of that size.
    pub fn charged(&self, size: usize) -> u64 {
        size.saturating_sub(self.birth.free_bytes) as u64
    }

    /// The most memory the guest has had, in bytes.
    pub fn peak(&self) -> usize {
        self.peak.saturating_sub(self.birth.free_bytes)
    }

    /// Whether the guest was refused memory since the last time this was asked.
    pub fn take_refused(&mut self) -> bool {
        std::mem::take(&mut self.refused)
    }

    fn cap(&self) -> usize {
        let reserve =
            if self.driver { usize::try_from(DRIVER_MEMORY_RESERVE).unwrap_or(0) } else { 0 };
        self.bytes.saturating_add(reserve).saturating_add(self.birth.free_bytes)
    }
}

impl ResourceLimiter for MemoryLimit {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        _: Option<usize>,
    ) -> wasmtime::Result<bool> {
        // wasmtime asks for the heap of exceptions too and does not say so. It must fit the cap by
        // itself, is smaller than any image, and never grows, whatever is said here: see the engine.
        // A memory that begins as an image is not the guest's growth.
        let born = current == 0 && desired == self.birth.image_bytes;
        let granted = born || desired <= self.cap();
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

    /// The cap is per memory, so there is one.
    fn memories(&self) -> usize {
        1
    }

    fn instances(&self) -> usize {
        1
    }

    fn tables(&self) -> usize {
        MAX_TABLES
    }
}

/// Counts the fuel of the user's code. Reading the request before it has an allowance of its own;
/// writing the answer after it goes on with what is left plus a small one.
#[derive(Default)]
pub struct Meter {
    budget: u64,
    turn: Turn,
    stage: Stage,
    /// What reading the request has taken of the budget.
    reading: u64,
}

/// Which call of an execution it is: one that waits for tools has several.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub enum Turn {
    #[default]
    First,
    Later,
}

impl Turn {
    pub fn request_fuel(self) -> u64 {
        match self {
            Turn::First => REQUEST_FUEL,
            Turn::Later => LATER_REQUEST_FUEL,
        }
    }
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Before,
    User,
    After {
        /// What the user's code had used when it said that it was over.
        used: u64,
    },
}

/// Fuel for reading a request. Ten megabytes of source take a tenth of it.
const REQUEST_FUEL: u64 = 2_000_000_000;

/// Fuel for reading the answers of tools. It counts as the user's, but for the usual amount: there
/// may be any number of such turns.
const LATER_REQUEST_FUEL: u64 = 1_000_000_000;

/// What reading a few answers takes.
const USUAL_LATER_FUEL: u64 = 1_000_000;

/// Fuel on top of the budget for writing the answer, so that code which used up its budget to the
/// last unit can still be reported.
const ANSWER_FUEL: u64 = 100_000_000;

/// What writing an answer usually takes at most; more than that is counted as the user's.
const USUAL_ANSWER_FUEL: u64 = 10_000_000;

impl Meter {
    pub fn start(&mut self, turn: Turn, budget: u64) {
        *self = Meter { budget, turn, stage: Stage::Before, reading: 0 };
    }

    /// The guest says whose code comes next; given the fuel left, answers the fuel to go on with.
    /// A guest may say anything: each stage begins at most once, and the most it can gain is one
    /// answer's allowance.
    pub fn enter(&mut self, phase: Phase, left: u64) -> Option<u64> {
        match (self.stage, phase) {
            (Stage::Before, Phase::User) => {
                self.reading = self.read(left).min(self.budget);
                self.budget -= self.reading;
                self.stage = Stage::User;
                Some(self.budget)
            }
            (Stage::User, Phase::Driver) => {
                self.stage = Stage::After { used: self.budget.saturating_sub(left) };
                Some(left.saturating_add(ANSWER_FUEL))
            }
            (Stage::Before, Phase::Driver)
            | (Stage::User, Phase::User)
            | (Stage::After { .. }, _) => None,
        }
    }

    /// What reading took beyond the usual, given the fuel left of the allowance for it.
    fn read(&self, left: u64) -> u64 {
        match self.turn {
            Turn::First => 0,
            Turn::Later => {
                (LATER_REQUEST_FUEL.saturating_sub(left)).saturating_sub(USUAL_LATER_FUEL)
            }
        }
    }

    /// What the user's code used, given the fuel left.
    pub fn used(&self, left: u64) -> u64 {
        match self.stage {
            Stage::Before => self.read(left),
            Stage::User => self.reading + self.budget.saturating_sub(left),
            Stage::After { used } => {
                let answer = self
                    .budget
                    .saturating_add(ANSWER_FUEL)
                    .saturating_sub(used)
                    .saturating_sub(left);
                let used = used.saturating_add(answer.saturating_sub(USUAL_ANSWER_FUEL));
                self.reading + used.min(self.budget)
            }
        }
    }

    /// True once the user's code has begun: only then can its fuel run out.
    pub fn counts(&self) -> bool {
        self.stage != Stage::Before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calling_phase_again_and_again_gains_no_fuel() {
        let mut meter = Meter::default();
        meter.start(Turn::First, 100);
        assert_eq!(meter.enter(Phase::User, 7), Some(100));
        assert_eq!(meter.enter(Phase::User, 1), None);
        assert_eq!(meter.enter(Phase::Driver, 40), Some(40 + ANSWER_FUEL));
        assert_eq!(meter.enter(Phase::User, 1), None);
        assert_eq!(meter.enter(Phase::Driver, 1), None);
        assert_eq!(meter.used(40 + ANSWER_FUEL - 5), 60);
    }

    #[test]
    fn work_done_after_saying_it_is_over_is_counted() {
        let mut meter = Meter::default();
        meter.start(Turn::First, 1_000_000_000);
        meter.enter(Phase::User, 0);
        meter.enter(Phase::Driver, 1_000_000_000);
        assert_eq!(meter.used(600_000_000), 490_000_000);
        assert_eq!(meter.used(0), 1_000_000_000);
    }

    #[test]
    fn reading_again_and_again_is_the_users_work() {
        let mut meter = Meter::default();
        meter.start(Turn::Later, 1000);
        assert_eq!(meter.used(LATER_REQUEST_FUEL), 0);
        assert_eq!(meter.used(0), LATER_REQUEST_FUEL - USUAL_LATER_FUEL);
        assert_eq!(meter.enter(Phase::User, 0), Some(0), "nothing is left for the code");
    }

    #[test]
    fn only_an_image_may_be_born_larger_than_the_cap() {
        let birth = Birth { image_bytes: 50_000_000, free_bytes: 0 };
        let mut ours = MemoryLimit::new(1000, birth);
        assert!(ours.memory_growing(0, 50_000_000, None).unwrap());
        let mut foreign = MemoryLimit::new(1000, Birth::default());
        foreign.enter(Phase::User);
        assert!(!foreign.memory_growing(0, 50_000_000, None).unwrap());
        assert!(foreign.memory_growing(0, 1000, None).unwrap());
        assert_eq!(foreign.memories(), 1);
    }

    #[test]
    fn what_an_image_holds_beyond_the_plain_one_is_neither_charged_nor_reported() {
        let mut limit = MemoryLimit::new(1000, Birth { image_bytes: 800, free_bytes: 500 });
        assert!(limit.memory_growing(0, 800, None).unwrap());
        assert_eq!(limit.peak(), 300);
        limit.enter(Phase::User);
        assert!(limit.memory_growing(800, 1500, None).unwrap());
        assert!(!limit.memory_growing(1500, 1501, None).unwrap());
        assert_eq!((limit.peak(), limit.bytes()), (1000, 1000));
    }

    #[test]
    fn the_driver_has_more_memory_than_the_user() {
        let mut limit = MemoryLimit::new(1000, Birth::default());
        limit.enter(Phase::User);
        assert!(limit.memory_growing(10, 1000, None).unwrap());
        assert!(!limit.memory_growing(10, 1001, None).unwrap());
        limit.enter(Phase::Driver);
        assert!(limit.memory_growing(10, 1001, None).unwrap());
        assert!(limit.take_refused() && !limit.take_refused());
        assert_eq!(limit.peak(), 1001);
    }
}
