//! Runs tools for one sandbox, each call on a thread, several at once.

use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use belljar_core::limits::{MAX_RUNNING_CALLS, MAX_STUCK_CALLS};
use belljar_core::{ToolFailure, ToolOutcome};
use belljar_host::{CallHost, Offer, Reply, Wish};
use serde_json::Value;

use super::{Entry, InputRequest, InputSource, RLM_QUERY, ToolRequest, Tools};

/// Threads of one sandbox, calls included that it has given up and that go on.
const MAX_THREADS_OF_ONE: usize = 2 * MAX_RUNNING_CALLS;

/// How long a thread waits for another call. Making one takes longer than many a tool.
const PATIENCE: Duration = Duration::from_millis(200);

/// Threads of this process that run tools, wanted or not.
static THREADS: AtomicUsize = AtomicUsize::new(0);

/// Serves the calls of one sandbox.
pub(crate) struct ToolServer {
    shared: Arc<Shared>,
}

struct Shared {
    tools: Tools,
    input: Option<InputSource>,
    max_rlm_depth: u64,
    can_wait: bool,
    work: Mutex<Work>,
    more_work: Condvar,
}

#[derive(Default)]
struct Work {
    waiting: VecDeque<(Wish, Reply)>,
    /// Threads that wait for a call, and threads that have not begun to.
    free: usize,
    /// The flags of the calls that run; one that is set belongs to a call nobody waits for, which
    /// may never end.
    running: Vec<Arc<AtomicBool>>,
}

impl ToolServer {
    /// `can_wait` says whether the sandbox can be suspended until an answer comes.
    pub(crate) fn new(
        tools: Tools,
        input: Option<InputSource>,
        max_rlm_depth: u64,
        can_wait: bool,
    ) -> Self {
        let (work, more_work) = (Mutex::default(), Condvar::new());
        let shared = Shared { tools, input, max_rlm_depth, can_wait, work, more_work };
        Self { shared: Arc::new(shared) }
    }
}

impl CallHost for ToolServer {
    fn begin(&self, wish: Wish, reply: Reply) {
        let mut work = self.shared.work();
        work.waiting.push_back((wish, reply));
        if work.free >= work.waiting.len() {
            self.shared.more_work.notify_one();
            return;
        }
        let wanted = work.running.iter().filter(|unwanted| !unwanted.load(Ordering::Relaxed));
        if wanted.count() + work.free >= MAX_RUNNING_CALLS {
            return;
        }
        if work.running.len() + work.free >= MAX_THREADS_OF_ONE {
            refuse(work, "too many calls that nobody waits for are still running");
            return;
        }
        if THREADS.fetch_add(1, Ordering::Relaxed) >= MAX_STUCK_CALLS {
            THREADS.fetch_sub(1, Ordering::Relaxed);
            refuse(work, "too many calls of this process are still running");
            return;
        }
        let shared = Arc::clone(&self.shared);
        let thread = std::thread::Builder::new().name("belljar-tool".to_owned());
        if thread.spawn(move || shared.serve()).is_err() {
            THREADS.fetch_sub(1, Ordering::Relaxed);
            refuse(work, "the host has no thread to run it on");
            return;
        }
        work.free += 1;
    }

    fn offer(&self, tool: &str) -> Offer {
        match self.shared.tools.entries.get(tool) {
            None => Offer::None,
            Some(Entry::Later) if self.shared.can_wait => Offer::Later,
            Some(Entry::Now(_) | Entry::Later) => Offer::Now,
        }
    }
}

fn refuse(mut work: MutexGuard<'_, Work>, why: &str) {
    let last = work.waiting.pop_back();
    drop(work);
    if let Some((_, reply)) = last {
        reply.send(Err(ToolFailure::new(why)));
    }
}

impl Shared {
    /// Nothing panics while holding the lock; if it did, the value would still be whole.
    fn work(&self) -> MutexGuard<'_, Work> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Serves calls until none comes for a while.
    fn serve(&self) {
        while let Some((wish, reply)) = self.next() {
            let unwanted = reply.unwanted();
            let outcome = if unwanted.load(Ordering::Relaxed) {
                Err(ToolFailure::new("nobody waits for it"))
            } else {
                let call = AssertUnwindSafe(|| self.run(wish, &unwanted));
                std::panic::catch_unwind(call)
                    .unwrap_or_else(|_| Err(ToolFailure::new("the tool panicked")))
            };
            let mut work = self.work();
            work.running.retain(|running| !Arc::ptr_eq(running, &unwanted));
            work.free += 1;
            drop(work);
            reply.send(outcome);
        }
        THREADS.fetch_sub(1, Ordering::Relaxed);
    }

    /// The thread counts as free when it comes here, and when it leaves it does not.
    fn next(&self) -> Option<(Wish, Reply)> {
        let waited = self
            .more_work
            .wait_timeout_while(self.work(), PATIENCE, |work| work.waiting.is_empty());
        let (mut work, _) = waited.unwrap_or_else(PoisonError::into_inner);
        work.free -= 1;
        let (wish, reply) = work.waiting.pop_front()?;
        work.running.push(reply.unwanted());
        Some((wish, reply))
    }

    fn run(&self, wish: Wish, unwanted: &Arc<AtomicBool>) -> ToolOutcome {
        let call = match wish {
            Wish::Input { prompt } => return self.read_line(prompt, unwanted),
            Wish::Tool(call) => call,
        };
        let depth = self.tools.depth;
        if call.name == RLM_QUERY && depth >= self.max_rlm_depth {
            return Err(ToolFailure::limit(format!(
                "rlm_query may be nested {} deep; raise max_rlm_depth to allow more",
                self.max_rlm_depth
            )));
        }
        match self.tools.entries.get(&call.name) {
            Some(Entry::Now(handler)) => {
                handler(&ToolRequest { call, depth, unwanted: Arc::clone(unwanted) })
            }
            Some(Entry::Later) | None => Err(ToolFailure::new(format!(
                "{} is answered later, and only a session can wait for that",
                call.name
            ))),
        }
    }

    fn read_line(&self, prompt: String, unwanted: &Arc<AtomicBool>) -> ToolOutcome {
        let source = self.input.as_ref().ok_or_else(ToolFailure::no_input)?;
        let request = InputRequest { prompt, unwanted: Arc::clone(unwanted) };
        source(&request).map(Value::String).ok_or_else(ToolFailure::end_of_input)
    }
}
