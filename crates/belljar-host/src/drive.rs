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
use std::time::{Duration, Instant};

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

/// What the driving thread, the guest's host calls and a canceller share.
#[derive(Default)]
pub struct Control {
    in_user_code: AtomicBool,
    interrupted: AtomicBool,
    cancelled: AtomicBool,
    sleeping_until: Mutex<Option<Instant>>,
    driver: Mutex<Option<Waker>>,
}

/// Stops the running call of a guest from another thread.
#[derive(Clone, Default)]
pub struct CancelHandle(Arc<Control>);

impl CancelHandle {
    /// Interrupts the running call; does nothing when none runs.
    pub fn cancel(&self) {
        self.0.cancel();
    }

    /// What it shares with the call it stops.
    #[must_use]
    pub fn control(&self) -> Arc<Control> {
        Arc::clone(&self.0)
    }
}

impl std::fmt::Debug for CancelHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("CancelHandle")
    }
}

impl Control {
    /// Whose code runs from now on.
    pub fn enter(&self, user_code: bool) {
        self.in_user_code.store(user_code, Ordering::Relaxed);
    }

    /// Asks the running guest to stop. Does nothing when none runs.
    fn cancel(&self) {
        self.cancelled.store(true, Ordering::Release);
        if let Some(waker) = &*lock(&self.driver) {
            waker.wake_by_ref();
        }
    }

    /// Waits until `ready` gives something. `None` when it is `until`, or the guest is interrupted,
    /// so that it can notice. `ready` sees to it that the waker is woken.
    pub async fn wait<T>(
        &self,
        until: Option<Instant>,
        mut ready: impl FnMut(&Waker) -> Option<T>,
    ) -> Option<T> {
        std::future::poll_fn(|context| {
            let found = ready(context.waker());
            let over = self.interrupted.load(Ordering::Relaxed)
                || until.is_some_and(|until| Instant::now() >= until);
            let done = found.is_some() || over;
            *lock(&self.sleeping_until) = until.filter(|_| !done);
            if done { Poll::Ready(found) } else { Poll::Pending }
        })
        .await
    }

    /// Waits for nothing but time.
    pub async fn sleep(&self, until: Option<Instant>) {
        self.wait(until, |_| None::<()>).await;
    }

    fn begin(&self, waker: Waker) {
        self.in_user_code.store(false, Ordering::Relaxed);
        self.interrupted.store(false, Ordering::Relaxed);
        self.cancelled.store(false, Ordering::Release);
        *lock(&self.sleeping_until) = None;
        *lock(&self.driver) = Some(waker);
    }

    fn end(&self) {
        *lock(&self.driver) = None;
    }
}

/// Nothing panics while holding these locks; if it did, the value would still be whole.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What to do with a guest that runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Look again at this time, if nothing happens before.
    Until(Instant),
    /// Tell it to stop. Said once.
    Interrupt,
    /// It has had its time.
    Over,
}

/// One execution under the clock: any number of futures that run a guest, one after the other, with
/// one deadline for all of them.
pub struct Watch<'a> {
    control: &'a Control,
    deadline: Instant,
    /// Set once the guest was told to stop, with the time at which its patience ends.
    stop: Option<(StopCause, Instant)>,
}

impl<'a> Watch<'a> {
    /// For a guest that is a future.
    #[must_use]
    pub fn new(control: &'a Control, timeout: Duration) -> Watch<'a> {
        let wakeups = Wakeups { woken: AtomicBool::new(false), thread: std::thread::current() };
        Watch::woken_by(control, timeout, Arc::new(wakeups).into())
    }

    /// For whoever waits by other means; `waker` is woken when somebody cancels.
    #[must_use]
    pub fn woken_by(control: &'a Control, timeout: Duration, waker: Waker) -> Watch<'a> {
        control.begin(waker);
        Watch { control, deadline: Instant::now() + timeout, stop: None }
    }

    /// Why the guest was told to stop, if it was.
    #[must_use]
    pub fn stop(&self) -> Option<StopCause> {
        self.stop.map(|(cause, _)| cause)
    }

    /// What to do with the guest now.
    pub fn look(&mut self, now: Instant) -> Wait {
        match self.stop {
            Some((_, hard)) if now >= hard => Wait::Over,
            Some((_, hard)) => Wait::Until(hard),
            None => match due(self.control, now, self.deadline) {
                Some(cause) => {
                    self.stop = Some((cause, now + GRACE));
                    Wait::Interrupt
                }
                None => Wait::Until(self.deadline),
            },
        }
    }

    /// Polls `future` to its end. At the deadline, or when cancelled, `interrupt` is called once
    /// and the guest gets [`GRACE`] to end by itself; `None` when it does not.
    pub fn drive<F: Future>(
        &mut self,
        future: F,
        mut interrupt: impl FnMut(),
    ) -> Option<F::Output> {
        let mut future = std::pin::pin!(future);
        let wakeups =
            Arc::new(Wakeups { woken: AtomicBool::new(false), thread: std::thread::current() });
        let waker = Waker::from(Arc::clone(&wakeups));
        loop {
            let polled = Pin::as_mut(&mut future).poll(&mut Context::from_waker(&waker));
            let now = Instant::now();
            if let Poll::Ready(output) = polled {
                // What never waits still has to hear that it should stop.
                if self.stop.is_none() {
                    let cause = due(self.control, now, self.deadline);
                    self.stop = cause.map(|cause| (cause, now + GRACE));
                    self.control.interrupted.store(cause.is_some(), Ordering::Relaxed);
                }
                return Some(output);
            }
            let next_stop = match self.look(now) {
                Wait::Over => return None,
                Wait::Until(stop) => stop,
                Wait::Interrupt => {
                    if self.control.in_user_code.load(Ordering::Relaxed) {
                        interrupt();
                    }
                    self.control.interrupted.store(true, Ordering::Relaxed);
                    continue;
                }
            };
            if !wakeups.woken.swap(false, Ordering::Acquire) {
                let until = lock(&self.control.sleeping_until)
                    .map_or(next_stop, |sleep| sleep.min(next_stop));
                std::thread::park_timeout(until.saturating_duration_since(now));
            }
        }
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        self.control.end();
    }
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
    thread: std::thread::Thread,
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

    fn watch(control: &Control, ms: u64) -> Watch<'_> {
        Watch::new(control, Duration::from_millis(ms))
    }

    #[test]
    fn a_sleep_ends_when_its_time_has_come() {
        let control = Control::default();
        let mut watch = watch(&control, 10_000);
        let soon = Instant::now() + Duration::from_millis(5);
        assert!(watch.drive(control.sleep(Some(soon)), || {}).is_some());
        assert_eq!(watch.stop(), None);
    }

    #[test]
    fn what_ends_after_the_deadline_was_not_in_time() {
        let control = Control::default();
        let mut watch = watch(&control, 1);
        let late = async { std::thread::sleep(Duration::from_millis(5)) };
        assert_eq!(watch.drive(late, || {}), Some(()));
        assert_eq!(watch.stop(), Some(StopCause::Timeout));
    }

    #[test]
    fn the_deadline_ends_a_sleep_without_end() {
        let control = Control::default();
        let mut watch = watch(&control, 5);
        assert!(watch.drive(control.sleep(None), || {}).is_some());
        assert_eq!(watch.stop(), Some(StopCause::Timeout));
    }

    #[test]
    fn what_ignores_the_interrupt_is_dropped() {
        let control = Control::default();
        let mut watch = watch(&control, 1);
        let mut interrupts = 0;
        let never = std::future::poll_fn(|context| {
            control.enter(true);
            context.waker().wake_by_ref();
            Poll::<()>::Pending
        });
        assert!(watch.drive(never, || interrupts += 1).is_none());
        assert_eq!((watch.stop(), interrupts), (Some(StopCause::Timeout), 1));
    }

    #[test]
    fn cancel_from_another_thread_ends_a_wait() {
        let control = Control::default();
        let mut watch = watch(&control, 60_000);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(20));
                control.cancel();
            });
            watch.drive(control.sleep(None), || {});
        });
        assert_eq!(watch.stop(), Some(StopCause::Cancelled));
    }

    #[test]
    fn a_cancel_of_something_that_never_waits_is_heard() {
        let control = Control::default();
        let mut watch = watch(&control, 60_000);
        control.cancel();
        assert_eq!(watch.drive(async { 1 }, || {}), Some(1));
        assert_eq!(watch.stop(), Some(StopCause::Cancelled));
    }

    #[test]
    fn a_cancel_between_two_runs_of_one_execution_is_not_lost() {
        let control = Control::default();
        let mut watch = watch(&control, 60_000);
        assert_eq!(watch.drive(async { 1 }, || {}), Some(1));
        control.cancel();
        assert!(watch.drive(control.sleep(None), || {}).is_some());
        assert_eq!(watch.stop(), Some(StopCause::Cancelled));
    }
}
