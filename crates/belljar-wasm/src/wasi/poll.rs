//! Waiting: the only thing a guest can wait for is time.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Wasi;
use super::errno::{Errno, Result};
use super::view::View;
use belljar_host::Control;

const SUBSCRIPTION_BYTES: u32 = 48;
const EVENT_BYTES: u32 = 32;
type Event = [u8; EVENT_BYTES as usize];
const TAG_CLOCK: u8 = 0;
const CLOCK_ABSOLUTE: u16 = 1;

/// Subscriptions of one call. wasi-libc's poll and select ask for one per descriptor.
const MAX_SUBSCRIPTIONS: u32 = 1024;

/// A wait that the guest asked for.
pub struct Wait {
    events: Vec<Event>,
    /// How long until the first timer; `None` when something is ready at once.
    duration: Option<Duration>,
}

impl Wasi {
    /// Reads the subscriptions of `poll_oneoff`.
    pub fn plan_wait(&mut self, view: &View<'_>, subscriptions: u32, count: u32) -> Result<Wait> {
        if count == 0 || count > MAX_SUBSCRIPTIONS {
            return Err(Errno::INVAL);
        }
        let mut ready = Vec::new();
        let mut earliest: Option<(u64, Event)> = None;
        for index in 0..count {
            let at = subscriptions.checked_add(index * SUBSCRIPTION_BYTES).ok_or(Errno::FAULT)?;
            view.bytes(at, SUBSCRIPTION_BYTES)?;
            let (user_data, tag) = (view.read_u64(at)?, view.read_u8(at + 8)?);
            if tag == TAG_CLOCK {
                let ns = self.remaining(view, at)?;
                if earliest.is_none_or(|(other, _)| ns < other) {
                    earliest = Some((ns, event(user_data, tag)));
                }
            } else {
                // Files and streams are always ready.
                ready.push(event(user_data, tag));
            }
        }
        Ok(match earliest {
            Some((ns, event)) if ready.is_empty() => {
                let real = ns > 0 && !self.clock.skip(ns);
                Wait { events: vec![event], duration: real.then(|| Duration::from_nanos(ns)) }
            }
            _ => Wait { events: ready, duration: None },
        })
    }

    fn remaining(&mut self, view: &View<'_>, at: u32) -> Result<u64> {
        let (id, timeout, flags) =
            (view.read_u32(at + 16)?, view.read_u64(at + 24)?, view.read_u16(at + 40)?);
        let now = self.clock.now(id)?;
        Ok(if flags & CLOCK_ABSOLUTE != 0 { timeout.saturating_sub(now) } else { timeout })
    }
}

impl Wait {
    /// Waits; ends early when the guest is interrupted, so that it can notice.
    pub async fn finish(&self, control: &Arc<Control>) {
        if let Some(duration) = self.duration {
            control.sleep(Instant::now().checked_add(duration)).await;
        }
    }

    pub fn report(&self, view: &mut View<'_>, out: u32, count_out: u32) -> Result<()> {
        let mut at = out;
        for event in &self.events {
            view.write(at, event)?;
            at = at.checked_add(EVENT_BYTES).ok_or(Errno::FAULT)?;
        }
        view.write_len(count_out, self.events.len())
    }
}

fn event(user_data: u64, tag: u8) -> Event {
    let mut event = [0; EVENT_BYTES as usize];
    event[..8].copy_from_slice(&user_data.to_le_bytes());
    event[10] = tag;
    event
}
