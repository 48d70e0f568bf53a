//! Server-sent events: what is printed while code runs, then the result. Whoever does not read them
//! misses lines, which the result holds anyway; nobody waits for it.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use serde::Serialize;
use tokio::sync::mpsc;
use tokio::time::sleep;
use tokio_util::sync::DropGuard;

use super::errors::ErrorBody;
use super::forms::{Missed, PrintedLine};
use crate::desk::{Listener, Printed};

/// Bytes of lines that wait to be read; more are missed.
const MAX_WAITING_BYTES: usize = 1024 * 1024;

/// How often something is written while nothing happens, so that whoever is in between does not
/// take the connection for dead.
const SIGN_OF_LIFE: Duration = Duration::from_secs(15);

/// The side that tells.
#[derive(Clone)]
pub(super) struct Events(Arc<Shared>);

struct Shared {
    sender: mpsc::UnboundedSender<Bytes>,
    waiting: Arc<AtomicUsize>,
    missed: AtomicU64,
}

/// The side that is read.
pub(super) struct Reader {
    receiver: mpsc::UnboundedReceiver<Bytes>,
    waiting: Arc<AtomicUsize>,
}

pub(super) fn channel() -> (Events, Reader) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let waiting = Arc::new(AtomicUsize::new(0));
    let shared = Shared { sender, waiting: Arc::clone(&waiting), missed: AtomicU64::new(0) };
    (Events(Arc::new(shared)), Reader { receiver, waiting })
}

impl Events {
    /// Tells what is printed.
    pub(super) fn listener(&self) -> Listener {
        let events = self.clone();
        Arc::new(move |printed, text| events.printed(printed, &text))
    }

    fn printed(&self, printed: Printed, text: &str) {
        let name = match printed {
            Printed::Stdout => "stdout",
            Printed::Stderr => "stderr",
        };
        let event = event(name, &PrintedLine { text });
        let shared = &self.0;
        if shared.waiting.load(Ordering::Relaxed) + event.len() > MAX_WAITING_BYTES {
            shared.missed.fetch_add(1, Ordering::Relaxed);
            return;
        }
        self.send(event);
    }

    /// The last event, whatever waits: there is only one.
    pub(super) fn finish(self, outcome: Result<&impl Serialize, ErrorBody>) {
        let lines = self.0.missed.load(Ordering::Relaxed);
        if lines > 0 {
            self.send(event("missed", &Missed { lines }));
        }
        self.send(match outcome {
            Ok(result) => event("result", result),
            Err(error) => event("error", &error),
        });
    }

    fn send(&self, event: Bytes) {
        self.0.waiting.fetch_add(event.len(), Ordering::Relaxed);
        // Whoever has gone reads nothing.
        let _ = self.0.sender.send(event);
    }
}

fn event(name: &str, data: &impl Serialize) -> Bytes {
    // JSON on one line: no line of a guest's can be taken for an event. What we make ourselves can
    // always be written.
    let data = serde_json::to_string(data).unwrap_or_default();
    format!("event: {name}\ndata: {data}\n\n").into()
}

impl Reader {
    async fn next(&mut self) -> Option<Bytes> {
        tokio::select! {
            event = self.receiver.recv() => {
                let event = event?;
                self.waiting.fetch_sub(event.len(), Ordering::Relaxed);
                Some(event)
            }
            () = sleep(SIGN_OF_LIFE) => Some(Bytes::from_static(b":\n\n")),
        }
    }

    /// An answer that goes on until the last event, or until its client has gone: then `gone` ends.
    pub(super) fn response(self, gone: DropGuard) -> Response {
        let events = stream::unfold((self, gone), |(mut reader, gone)| async {
            let event = reader.next().await?;
            Some((Ok::<_, Infallible>(event), (reader, gone)))
        });
        let headers =
            [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-store")];
        (headers, Body::from_stream(events)).into_response()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    async fn all(mut reader: Reader) -> String {
        let mut text = String::new();
        while let Some(event) = reader.next().await {
            text.push_str(std::str::from_utf8(&event).unwrap());
        }
        text
    }

    #[tokio::test]
    async fn lines_come_first_and_then_the_result() {
        let (events, reader) = channel();
        events.listener()(Printed::Stdout, "one\n\nevent: result\n".to_owned());
        events.listener()(Printed::Stderr, "two".to_owned());
        events.finish(Ok(&json!({"status": "ok"})));
        insta::assert_snapshot!(all(reader).await, @r#"
        event: stdout
        data: {"text":"one\n\nevent: result\n"}

        event: stderr
        data: {"text":"two"}

        event: result
        data: {"status":"ok"}
        "#);
    }

    #[tokio::test]
    async fn whoever_does_not_read_misses_lines_and_not_the_result() {
        let (events, reader) = channel();
        let line = "x".repeat(1000);
        for _ in 0..2000 {
            events.listener()(Printed::Stdout, line.clone());
        }
        assert!(reader.waiting.load(Ordering::Relaxed) <= MAX_WAITING_BYTES);
        events.finish(Ok(&json!("done")));
        let text = all(reader).await;
        let told = text.matches("event: stdout").count();
        assert!(text.contains(&format!("event: missed\ndata: {{\"lines\":{}}}", 2000 - told)));
        assert!(text.ends_with("event: result\ndata: \"done\"\n\n"));
    }
}
