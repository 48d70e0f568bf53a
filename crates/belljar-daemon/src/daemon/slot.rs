//! One worker after the other in the same directory.

use std::io;
use std::sync::Arc;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use belljar_core::protocol::BUSY;
use belljar_core::protocol::methods::{HELLO, Hello, PROTOCOL_VERSION};
use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;
use tokio::net::unix::pipe;
use tokio::time::{sleep, timeout};

use super::budget::Budget;
use super::hub::{Hub, Slot};
use super::launch::{Launch, Process, Started};
use super::limits::seconds;
use super::lines::{Heard, Lines, Patience, Reading};
use super::worker::{Answer, Lost, Worker};

/// Between a worker's end and the next one's start. Longer each time when none becomes ready.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// How long a worker may take to be ready.
const START: Duration = Duration::from_secs(60);

/// A worker that lives has so many times as long to get to the question whether it does.
const LONGEST_QUEUE: u32 = 12;

/// How long it may take to end after it was told to.
const ENDS_WITHIN: Duration = Duration::from_secs(5);

/// Of what a worker writes to its standard error so much is logged.
const MAX_LOGGED_BYTES: usize = 64 * 1024;

/// Keeps a worker there until the daemon ends.
pub(super) async fn supervise(hub: Arc<Hub>, launch: Arc<Launch>, number: usize) {
    let Some(slot) = hub.slots.get(number) else { return };
    let mut pause = FIRST_PAUSE;
    loop {
        let started = {
            let (launch, directory) = (Arc::clone(&launch), slot.directory.clone());
            tokio::task::spawn_blocking(move || launch.start(&directory)).await
        };
        match started.map_err(io::Error::other).and_then(|started| started) {
            Ok(started) => {
                let End { why, was_ready } = live(&hub, slot, started).await;
                if was_ready {
                    pause = FIRST_PAUSE;
                }
                if hub.is_stopping() {
                    return;
                }
                tracing::warn!(worker = number, why, "a worker ended and is replaced");
            }
            Err(error) => {
                tracing::error!(worker = number, %error, "a worker cannot be started");
            }
        }
        slot.restarts.fetch_add(1, Ordering::Relaxed);
        hub.counters.restarts.add();
        tokio::select! {
            () = sleep(pause) => {}
            () = hub.stopped() => return,
        }
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// How a worker's life was over.
struct End {
    why: String,
    was_ready: bool,
}

/// The life of one worker.
async fn live(hub: &Arc<Hub>, slot: &Slot, started: Started) -> End {
    let Started { process, protocol, errors, layers } = started;
    let pid = process.pid();
    let stream = match converted(protocol) {
        Ok(stream) => Arc::new(stream),
        Err(error) => {
            end(process, Duration::ZERO).await;
            return End { why: error.to_string(), was_ready: false };
        }
    };
    if let Ok(errors) = pipe::Receiver::from_owned_fd(errors) {
        tokio::spawn(log_errors(errors, slot.number));
    }
    *hub.layers.lock().unwrap_or_else(PoisonError::into_inner) = layers;
    let worker = Arc::new(Worker::new(slot.number, pid, Arc::clone(&stream)));
    let finished = tokio::select! {
        why = listen(&worker, &stream) => Err(why),
        () = worker.outbox.run() => Err("nothing can be sent to it".to_owned()),
        why = watch(hub, slot, &worker) => Err(why),
        () = stopped(hub, &worker) => Ok(()),
    };
    let was_ready = slot.current.send_replace(None).is_some();
    let patience = match finished {
        Ok(()) => {
            worker.outbox.finish();
            ENDS_WITHIN
        }
        Err(_) => Duration::ZERO,
    };
    if patience.is_zero() {
        // Before it is dead its sessions are locked; but nobody has to wait to hear of it.
        worker.lose();
    }
    end(process, patience).await;
    worker.lose();
    End { why: finished.err().unwrap_or_else(|| "the daemon ends".to_owned()), was_ready }
}

fn converted(protocol: std::os::unix::net::UnixStream) -> io::Result<UnixStream> {
    protocol.set_nonblocking(true)?;
    UnixStream::from_std(protocol)
}

async fn end(process: Process, patience: Duration) {
    // Panics have been logged where they happened.
    let _ = tokio::task::spawn_blocking(move || process.end(patience)).await;
}

/// Takes in what the worker says, until it says no more.
async fn listen(worker: &Arc<Worker>, stream: &UnixStream) -> String {
    let mut lines = Lines::new(Reading(stream), Budget::new(usize::MAX));
    loop {
        match lines.next(Patience::default()).await {
            Ok(Heard::Line(line)) => {
                if let Err(problem) = worker.hear(&line) {
                    return format!("it makes no sense: {problem}");
                }
            }
            Ok(Heard::TooLong | Heard::NoRoom { .. }) => {
                return "it sent a line that is too long".to_owned();
            }
            Ok(Heard::Silence | Heard::End) => return "it is gone".to_owned(),
            Err(error) => return format!("it cannot be heard: {error}"),
        }
    }
}

/// Lets the worker be used once it answers, and sees whether it goes on answering.
async fn watch(hub: &Hub, slot: &Slot, worker: &Arc<Worker>) -> String {
    let mut patience = START;
    loop {
        let hello = match answered(worker, patience).await {
            Some(Ok(Ok(hello))) => hello,
            // Too much waits for it, so that it is not asked as long as it takes some of it.
            Some(Ok(Err(error)))
                if error.code == BUSY && worker.last_sign().elapsed() < patience =>
            {
                sleep(seconds(hub.limits.ping_seconds)).await;
                continue;
            }
            Some(Ok(Err(error))) => return format!("it does not say who it is: {error}"),
            Some(Err(Lost)) => return "it is gone".to_owned(),
            None => return format!("it has not answered for {} seconds", patience.as_secs_f64()),
        };
        if slot.current.borrow().is_none() {
            match serde_json::from_str::<Hello>(hello.get()) {
                Ok(hello) if is_ours(&hello) => {}
                Ok(hello) => {
                    return format!("it is version {}; was the program exchanged?", hello.belljar);
                }
                Err(error) => return format!("it does not say who it is: {error}"),
            }
            tracing::info!(
                worker = slot.number,
                pid = worker.pid,
                milliseconds = worker.started.elapsed().as_millis(),
                "a worker is ready"
            );
            slot.current.send_replace(Some(Arc::clone(worker)));
        }
        patience = seconds(hub.limits.hang_seconds);
        sleep(seconds(hub.limits.ping_seconds)).await;
    }
}

/// Who a worker says it is. What it was sent before comes first: it hangs when in all that time it
/// takes nothing and says nothing, or goes on like this for many times as long.
async fn answered(worker: &Worker, patience: Duration) -> Option<Result<Answer, Lost>> {
    let asked = Instant::now();
    let answer = worker.call(HELLO, &());
    tokio::pin!(answer);
    let longest = patience.saturating_mul(LONGEST_QUEUE);
    loop {
        let left = patience.saturating_sub(worker.last_sign().max(asked).elapsed());
        if let Ok(answer) = timeout(left, &mut answer).await {
            return Some(answer);
        }
        if worker.last_sign().max(asked).elapsed() >= patience || asked.elapsed() >= longest {
            return None;
        }
    }
}

fn is_ours(hello: &Hello) -> bool {
    hello.protocol == PROTOCOL_VERSION && hello.belljar == env!("CARGO_PKG_VERSION")
}

/// Comes back when the daemon ends and this worker has nothing more to do.
async fn stopped(hub: &Hub, worker: &Worker) {
    hub.ended().await;
    while !worker.outbox.is_empty() {
        sleep(Duration::from_millis(1)).await;
    }
}

/// Passes on what a worker complains about: lines of ours, or of whoever took it over.
async fn log_errors(mut errors: pipe::Receiver, worker: usize) {
    let mut left = MAX_LOGGED_BYTES;
    let mut part = vec![0; 4096];
    while let Ok(read) = errors.read(&mut part).await {
        let text = part.get(..read).unwrap_or_default();
        if text.is_empty() {
            return;
        }
        if left > 0 {
            let text = text.get(..left.min(text.len())).unwrap_or_default();
            left -= text.len();
            let text = String::from_utf8_lossy(text);
            tracing::warn!(worker, text = text.trim_end(), "a worker complains");
        }
    }
}
