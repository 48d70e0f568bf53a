//! Sessions in few words.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use belljar::{LineSink, Sandbox, SandboxResult, ToolAnswer, ToolOutcome};

/// How long something that must happen may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// What tests do with a sandbox, where the host is fine.
pub trait Cells {
    /// Runs a cell.
    fn run(&mut self, code: &str) -> SandboxResult;

    /// Answers calls that wait.
    fn answer(&mut self, answers: Vec<(u64, ToolOutcome)>) -> SandboxResult;

    /// The numbers of the calls that wait.
    fn waiting(&mut self) -> Vec<u64>;
}

impl<S: Sandbox + ?Sized> Cells for S {
    #[track_caller]
    fn run(&mut self, code: &str) -> SandboxResult {
        self.execute(code).expect("the host is fine")
    }

    #[track_caller]
    fn answer(&mut self, answers: Vec<(u64, ToolOutcome)>) -> SandboxResult {
        let answers = answers.into_iter().map(|(id, outcome)| ToolAnswer { id, outcome });
        self.resume(answers.collect()).expect("the host is fine")
    }

    fn waiting(&mut self) -> Vec<u64> {
        self.pending_calls().iter().map(|call| call.id).collect()
    }
}

/// Hears the lines of a stream while they come.
pub struct Lines {
    tell: Mutex<Sender<String>>,
    told: Mutex<Receiver<String>>,
}

impl Lines {
    /// A listener, and what the sandbox is to tell.
    #[must_use]
    pub fn listen() -> (Arc<Self>, LineSink) {
        let (tell, told) = channel();
        let lines = Arc::new(Self { tell: Mutex::new(tell), told: Mutex::new(told) });
        let sink = Arc::clone(&lines);
        let tell = move |line: &str| {
            sink.tell.lock().expect("a sender").send(line.to_owned()).expect("a listener");
        };
        (lines, Arc::new(tell))
    }

    /// Waits for the next one.
    #[must_use]
    pub fn next(&self) -> String {
        let told = self.told.lock().expect("a receiver");
        told.recv_timeout(PATIENCE).expect("another line")
    }

    /// All that have come since.
    #[must_use]
    pub fn so_far(&self) -> Vec<String> {
        self.told.lock().expect("a receiver").try_iter().collect()
    }
}

/// Runs a cell, and cancels it from another thread when it prints its first line.
pub fn cancelled(sandbox: &mut dyn Sandbox, lines: &Lines, code: &str) -> SandboxResult {
    let cancel = sandbox.cancel_handle();
    drop(lines.so_far());
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let _ = lines.next();
            cancel.cancel();
        });
        sandbox.run(code)
    })
}

/// Waits until something is so.
#[track_caller]
pub fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < PATIENCE, "still not: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
