//! Which sandboxes a connection has, and how each is reached.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use belljar::CancelHandle;
use belljar_core::protocol::RpcError;
use belljar_core::protocol::methods::SandboxId;

use super::errors::{busy, unknown};
use super::seat::Ask;

/// How often what should end is told so.
const CANCEL_AGAIN: Duration = Duration::from_millis(20);

pub(super) struct Seats {
    max: usize,
    /// Looked at before every request, without waiting for whoever holds the rest.
    closed: AtomicBool,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    last: SandboxId,
    seats: BTreeMap<SandboxId, Seat>,
    /// Those that end, or have ended.
    ending: Vec<JoinHandle<()>>,
}

/// How a sandbox is reached.
pub(super) struct Seat {
    pub(super) asks: SyncSender<Ask>,
    /// Empty until it is there.
    pub(super) cancel: Arc<OnceLock<CancelHandle>>,
    pub(super) thread: JoinHandle<()>,
}

impl Seats {
    pub(super) fn new(max: usize) -> Self {
        Self { max, closed: AtomicBool::new(false), known: Mutex::default() }
    }

    /// A number for a new sandbox.
    pub(super) fn reserve(&self) -> Result<SandboxId, RpcError> {
        let mut known = self.known();
        known.ending.retain(|thread| !thread.is_finished());
        if self.is_closed() || known.seats.len() >= self.max {
            return Err(busy(&format!("there are {} sandboxes, and no more may be", self.max)));
        }
        known.last += 1;
        Ok(known.last)
    }

    /// A sandbox can be reached from now on, unless nobody is there any more who could. It cannot
    /// leave before it has come: `start` runs while nobody else looks.
    pub(super) fn seat(
        &self,
        number: SandboxId,
        start: impl FnOnce() -> Result<Seat, RpcError>,
    ) -> Result<(), RpcError> {
        let mut known = self.known();
        let seat = start()?;
        if self.is_closed() {
            known.ending.push(seat.thread);
        } else {
            known.seats.insert(number, seat);
        }
        Ok(())
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// A sandbox has ended.
    pub(super) fn leave(&self, number: SandboxId) {
        let mut known = self.known();
        if let Some(seat) = known.seats.remove(&number) {
            known.ending.push(seat.thread);
        }
    }

    pub(super) fn ask(&self, ask: Ask) -> Result<(), RpcError> {
        let number = ask.wish.sandbox();
        let asks = self.known().seats.get(&number).map(|seat| seat.asks.clone());
        let asks = asks.ok_or_else(|| unknown("sandbox", number))?;
        asks.try_send(ask).map_err(|error| match error {
            TrySendError::Full(_) => busy("too many requests wait for this sandbox"),
            TrySendError::Disconnected(_) => unknown("sandbox", number),
        })
    }

    pub(super) fn cancel(&self, number: SandboxId) -> Result<(), RpcError> {
        let known = self.known();
        let seat = known.seats.get(&number).ok_or_else(|| unknown("sandbox", number))?;
        if let Some(cancel) = seat.cancel.get() {
            cancel.cancel();
        }
        Ok(())
    }

    /// Ends all of them and waits until they have ended.
    pub(super) fn close(&self) {
        let (mut threads, mut cancels) = (Vec::new(), Vec::new());
        {
            let mut known = self.known();
            self.closed.store(true, Ordering::Release);
            threads.append(&mut known.ending);
            for seat in std::mem::take(&mut known.seats).into_values() {
                // Without the sender its thread ends after what it does now.
                drop(seat.asks);
                cancels.push(seat.cancel);
                threads.push(seat.thread);
            }
        }
        // What is about to begin does not hear a cancel: it is said again.
        while threads.iter().any(|thread| !thread.is_finished()) {
            cancels.iter().filter_map(|cancel| cancel.get()).for_each(CancelHandle::cancel);
            std::thread::sleep(CANCEL_AGAIN);
        }
        for thread in threads {
            // What panicked is gone as well.
            let _ = thread.join();
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
