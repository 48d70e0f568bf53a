//! The contract with the guests; its other half is `guests/abi.h`.

use serde::{Deserialize, Serialize};

/// Changes with anything in this file.
pub const ABI_VERSION: i32 = 2;

/// The module name of what a guest may ask of Belljar.
pub const IMPORT_MODULE: &str = "belljar";

/// Requests up to this size are written straight into a buffer of the guest's.
pub const REQUEST_BUFFER_BYTES: usize = 16 * 1024;

/// The most bytes a guest's random generator may want at once.
pub const MAX_RANDOM_STATE_BYTES: usize = 4096;

/// The index that makes the generator produce new numbers from its state at once.
pub const RANDOM_STATE_USED_UP: u32 = 624;

/// Whose code runs in the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    Driver,
    User,
}

impl Phase {
    pub fn from_guest(phase: i32) -> Option<Phase> {
        match phase {
            0 => Some(Phase::Driver),
            1 => Some(Phase::User),
            _ => None,
        }
    }
}

/// Addresses in the guest's memory, learnt when the image was made and part of its manifest; never
/// asked of a running guest. 0 means that the guest has no such thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Layout {
    /// Set to 1: an interrupt has arrived.
    pub interrupt_tripped: u32,
    /// Set to 1: some signal has arrived.
    pub any_tripped: u32,
    /// Bit 1 set: the interpreter looks at signals before its next step.
    pub eval_breaker: u32,
    /// Set to [`RANDOM_STATE_USED_UP`] when the state below is renewed.
    pub random_index: u32,
    /// The state of the shared random generator.
    pub random_state: u32,
    /// How many bytes that state has.
    pub random_state_bytes: u32,
    /// Where requests go that fit it.
    pub request_buffer: u32,
}

/// The bit of `eval_breaker` that means signals.
pub const EVAL_BREAKER_SIGNALS: u32 = 1 << 1;

impl Layout {
    /// How many there are.
    pub const WORDS: usize = 7;

    /// From the words in the order of `abi.h`.
    pub fn from_words(words: [u32; Layout::WORDS]) -> Layout {
        let [
            interrupt_tripped,
            any_tripped,
            eval_breaker,
            random_index,
            random_state,
            random_state_bytes,
            request_buffer,
        ] = words;
        Layout {
            interrupt_tripped,
            any_tripped,
            eval_breaker,
            random_index,
            random_state,
            random_state_bytes,
            request_buffer,
        }
    }

    /// True when everything that is there lies inside a memory of this size, and a request buffer
    /// is there.
    pub fn fits(&self, memory_bytes: usize) -> bool {
        let inside = |address: u32, len: usize| {
            (address as usize).is_multiple_of(4) && address as usize + len <= memory_bytes
        };
        let words =
            [self.interrupt_tripped, self.any_tripped, self.eval_breaker, self.random_index];
        let random_state_bytes = self.random_state_bytes as usize;
        words.into_iter().all(|word| inside(word, 4))
            && random_state_bytes <= MAX_RANDOM_STATE_BYTES
            && inside(self.random_state, random_state_bytes)
            && self.request_buffer != 0
            && inside(self.request_buffer, REQUEST_BUFFER_BYTES)
    }
}
