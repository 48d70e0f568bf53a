//! Runs a guest on the calling thread until it is done, told to stop, or out of time.
//!
//! The guest is a future that comes back every few microseconds of work (a fuel yield) and whenever
//! it waits. Between two of its steps nothing runs in it: that is when the clock and the cancel
//! flag are looked at, and when an interrupt may be written into its memory.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

use crate::abi::Phase;

/// How long interrupted code may take to end by itself before it is stopped hard.
const GRACE: Duration = Duration::from_millis(250);

/// Why a guest was told to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopCause {
    /// Its time was up.
    Timeout,
    /// Somebody cancelled it.
    Cancelled,
}

/// How a guest's run came to its end.
pub struct Driven<T> {
    /// What the future gave; `None` when the guest had to be stopped hard.
    pub output: Option<T>,
    pub stop: Option<StopCause>,
}

/// What the driving thread, the guest's host calls and a canceller share.
#[derive(Default)]
pub struct Control {
    in_user_code: AtomicBool,
    interrupted: AtomicBool,
    cancelled: AtomicBool,
    sleeping_until: Mutex<Option<Instant>>,
    driver: Mutex<Option<Thread>>,
}

/// Stops the running call of a guest from another thread.
#[derive(Clone, Default)]
pub struct CancelHandle(Arc<Control>);

impl CancelHandle {
    /// Interrupts the running call; does nothing when none runs.
    pub fn cancel(&self) {
        self.0.cancel();
    }

    pub(crate) fn control(&self) -> Arc<Control> {
        Arc::clone(&self.0)
    }
}

impl std::fmt::Debug for CancelHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("CancelHandle")
    }
}

impl Control {
    pub fn enter(&self, phase: Phase) {
        self.in_user_code.store(phase == Phase::User, Ordering::Relaxed);
    }

    /// Asks the running guest to stop. Does nothing when none runs.
    fn cancel(&self) {
        self.cancelled.store(true, Ordering::Release);
        if let Some(thread) = &*lock(&self.driver) {
            thread.unpark();
        }
    }

    pub async fn sleep_until(&self, until: Instant) {
        std::future::poll_fn(|_| {
            let over = Instant::now() >= until || self.interrupted.load(Ordering::Relaxed);
            *lock(&self.sleeping_until) = (!over).then_some(until);
            if over { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    pub async fn sleep_forever(&self) {
        std::future::poll_fn(|_| {
            if self.interrupted.load(Ordering::Relaxed) { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    fn begin(&self) {
        self.in_user_code.store(false, Ordering::Relaxed);
        self.interrupted.store(false, Ordering::Relaxed);
        self.cancelled.store(false, Ordering::Release);
        *lock(&self.sleeping_until) = None;
        *lock(&self.driver) = Some(std::thread::current());
    }

    fn end(&self) {
        *lock(&self.driver) = None;
    }
}

/// Nothing panics while holding these locks; if it did, the value would still be whole.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Polls `future` to its end. At `deadline`, or when cancelled, `interrupt` is called once and the
/// guest gets [`GRACE`] to end by itself.
pub fn drive<F: Future>(
    future: F,
    control: &Control,
    deadline: Instant,
    mut interrupt: impl FnMut(),
) -> Driven<F::Output> {
    let mut future = std::pin::pin!(future);
    let wakeups =
        Arc::new(Wakeups { woken: AtomicBool::new(false), thread: std::thread::current() });
    let waker = Waker::from(Arc::clone(&wakeups));
    control.begin();
    let mut stop: Option<(StopCause, Instant)> = None;
    let output = loop {
        if let Poll::Ready(output) = Pin::as_mut(&mut future).poll(&mut Context::from_waker(&waker))
        {
            if stop.is_none() && Instant::now() >= deadline {
                // One long host call can overrun the deadline without ever coming back here.
                stop = Some((StopCause::Timeout, deadline));
            }
            break Some(output);
        }
        let now = Instant::now();
        match stop {
            Some((_, hard)) if now >= hard => break None,
            Some(_) => {}
            None => {
                if let Some(cause) = due(control, now, deadline) {
                    stop = Some((cause, now + GRACE));
                    if control.in_user_code.load(Ordering::Relaxed) {
                        interrupt();
                    }
                    control.interrupted.store(true, Ordering::Relaxed);
                    continue;
                }
            }
        }
        if !wakeups.woken.swap(false, Ordering::Acquire) {
            let next_stop = stop.map_or(deadline, |(_, hard)| hard);
            let until =
                lock(&control.sleeping_until).map_or(next_stop, |sleep| sleep.min(next_stop));
            std::thread::park_timeout(until.saturating_duration_since(now));
        }
    };
    control.end();
    Driven { output, stop: stop.map(|(cause, _)| cause) }
}

fn due(control: &Control, now: Instant, deadline: Instant) -> Option<StopCause> {
    if control.cancelled.load(Ordering::Acquire) {
        Some(StopCause::Cancelled)
    } else if now >= deadline {
        Some(StopCause::Timeout)
    } else {
        None
    }
}

struct Wakeups {
    woken: AtomicBool,
    thread: Thread,
}

impl Wake for Wakeups {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.woken.store(true, Ordering::Release);
        self.thread.unpark();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_ms(ms: u64) -> Instant {
        Instant::now() + Duration::from_millis(ms)
    }

    #[test]
    fn a_sleep_ends_when_its_time_has_come() {
        let control = Control::default();
        let driven = drive(control.sleep_until(in_ms(5)), &control, in_ms(10_000), || {});
        assert!(driven.output.is_some() && driven.stop.is_none());
    }

    #[test]
    fn what_ends_after_the_deadline_was_not_in_time() {
        let control = Control::default();
        let late = async { std::thread::sleep(Duration::from_millis(5)) };
        let driven = drive(late, &control, in_ms(1), || {});
        assert_eq!((driven.output, driven.stop), (Some(()), Some(StopCause::Timeout)));
    }

    #[test]
    fn the_deadline_ends_a_sleep_without_end() {
        let control = Control::default();
        let driven = drive(control.sleep_forever(), &control, in_ms(5), || {});
        assert!(driven.output.is_some());
        assert_eq!(driven.stop, Some(StopCause::Timeout));
    }

    #[test]
    fn what_ignores_the_interrupt_is_dropped() {
        let control = Control::default();
        control.enter(Phase::User);
        let mut interrupts = 0;
        let never = std::future::poll_fn(|context| {
            control.enter(Phase::User);
            context.waker().wake_by_ref();
            Poll::<()>::Pending
        });
        let driven = drive(never, &control, in_ms(1), || interrupts += 1);
        assert!(driven.output.is_none());
        assert_eq!((driven.stop, interrupts), (Some(StopCause::Timeout), 1));
    }

    #[test]
    fn cancel_from_another_thread_ends_a_wait() {
        let control = Control::default();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(20));
                control.cancel();
            });
            let driven = drive(control.sleep_forever(), &control, in_ms(60_000), || {});
            assert_eq!(driven.stop, Some(StopCause::Cancelled));
        });
    }
}
