//! The guest's stdout and stderr: capped as they are written, given to a listener line by line.

use belljar_core::limits::{OUTPUT_FLOOD_FACTOR, OUTPUT_FLOOD_FLOOR_BYTES};
use belljar_core::text::CappedBytes;

pub struct Output {
    captured: CappedBytes,
    flood_limit: u64,
}

impl Output {
    pub fn new(cap: u64) -> Output {
        let flood_limit = cap.saturating_mul(OUTPUT_FLOOD_FACTOR).max(OUTPUT_FLOOD_FLOOR_BYTES);
        Output {
            captured: CappedBytes::new(usize::try_from(cap).unwrap_or(usize::MAX)),
            flood_limit,
        }
    }

    /// `false` when the guest has written so much more than its cap that it should be stopped.
    pub fn write(&mut self, bytes: &[u8]) -> bool {
        self.captured.push(bytes);
        self.captured.seen() <= self.flood_limit
    }

    /// What was captured since the last call.
    pub fn take(&mut self, cap: u64) -> CappedBytes {
        std::mem::replace(
            &mut self.captured,
            CappedBytes::new(usize::try_from(cap).unwrap_or(usize::MAX)),
        )
    }
}
