//! One piece of code that runs in a sandbox of the service: its lines as they come, until it ends,
//! its time is over, or nobody wants it any more.

use std::io::{BufRead, BufReader, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, SyncSender};
use std::task::Waker;
use std::time::{Duration, Instant};

use belljar_core::result::CellValue;
use belljar_core::{GuestError, SandboxError, Survives};
use belljar_host::{Control, Output, StopCause, Wait, Watch};
use serde_json::{Map, Value, json};

use super::driver;
use super::service::{MAX_ANSWER_BYTES, Remote};

/// How often it is looked whether somebody cancels.
const TICK: Duration = Duration::from_millis(20);
/// Lines that wait to be looked at.
const WAITING: usize = 64;

/// What an execution told.
pub(super) struct Told {
    pub(super) value: Option<CellValue>,
    /// What the driver that went along has to say.
    pub(super) account: Option<Vec<u8>>,
    pub(super) error: Option<GuestError>,
    pub(super) stop: Option<StopCause>,
    /// Whether it printed so much that it was given up.
    pub(super) flooded: bool,
}

enum Heard {
    Line(Vec<u8>),
    End,
    Failed(SandboxError),
}

/// Runs code in a context, for no longer than `timeout`.
pub(super) fn run(
    remote: &Arc<Remote>,
    body: Map<String, Value>,
    control: &Control,
    timeout: Duration,
    output: &mut [Output; 2],
) -> Result<Told, SandboxError> {
    let (sender, lines) = mpsc::sync_channel(WAITING);
    let unwanted = Arc::new(AtomicBool::new(false));
    let (reader, flag) = (Arc::clone(remote), Arc::clone(&unwanted));
    // A read cannot be broken off from outside. The service says something every five seconds; then
    // the thread sees that nobody listens, and closes the connection, which stops the code there.
    std::thread::spawn(move || listen(&reader, &Value::Object(body), &sender, &flag));
    let mut told = Told { value: None, account: None, error: None, stop: None, flooded: false };
    let mut watch = Watch::woken_by(control, timeout, Waker::noop().clone());
    loop {
        match lines.recv_timeout(TICK) {
            Ok(Heard::Line(line)) => {
                if !told.hear(&line, output) {
                    unwanted.store(true, Ordering::Release);
                    told.flooded = true;
                    return Ok(told);
                }
            }
            Ok(Heard::End) => return Ok(told),
            Ok(Heard::Failed(error)) => return Err(error),
            Err(RecvTimeoutError::Disconnected) => {
                return Err(lost("the connection to the sandbox broke".to_owned()));
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
        match watch.look(Instant::now()) {
            Wait::Until(_) => {}
            Wait::Interrupt | Wait::Over => {
                unwanted.store(true, Ordering::Release);
                told.stop = watch.stop();
                return Ok(told);
            }
        }
    }
}

fn lost(problem: String) -> SandboxError {
    SandboxError::ConnectionLost { problem, survives: Survives::MayHaveRun }
}

fn listen(remote: &Remote, body: &Value, to: &SyncSender<Heard>, unwanted: &AtomicBool) {
    let response = match remote.execute(body) {
        Ok(response) => response,
        Err(error) => {
            // Whoever asked may have gone.
            let _ = to.send(Heard::Failed(error));
            return;
        }
    };
    let mut reader = BufReader::new(response.into_body().into_reader());
    loop {
        let mut line = Vec::new();
        let read = (&mut reader).take(MAX_ANSWER_BYTES).read_until(b'\n', &mut line);
        let heard = match read {
            Ok(0) => Heard::End,
            Ok(_) => Heard::Line(line),
            Err(error) => Heard::Failed(lost(format!("the connection broke: {error}"))),
        };
        let last = !matches!(heard, Heard::Line(_));
        if unwanted.load(Ordering::Acquire) || to.send(heard).is_err() || last {
            return;
        }
    }
}

impl Told {
    /// `false` when it prints too much. What makes no sense is passed over, as what is not known.
    fn hear(&mut self, line: &[u8], output: &mut [Output; 2]) -> bool {
        let Ok(event) = serde_json::from_slice::<Value>(line) else { return true };
        let text = |name: &str| event[name].as_str().unwrap_or_default().to_owned();
        match event["type"].as_str() {
            Some("stdout") => return output[0].write(text("text").as_bytes()),
            Some("stderr") => return output[1].write(text("text").as_bytes()),
            Some("result") if event["is_main_result"] != json!(false) => {
                match driver::heard(&event) {
                    Some(account) => self.account = Some(account),
                    None => self.value = Some(value(&event)),
                }
            }
            Some("error") => {
                self.error = Some(GuestError {
                    name: text("name"),
                    message: text("value"),
                    traceback: text("traceback"),
                });
            }
            _ => {}
        }
        true
    }
}

/// A value in its forms, by their MIME types.
fn value(event: &Value) -> CellValue {
    const FORMS: [(&str, &str); 9] = [
        ("html", "text/html"),
        ("markdown", "text/markdown"),
        ("svg", "image/svg+xml"),
        ("png", "image/png"),
        ("jpeg", "image/jpeg"),
        ("pdf", "application/pdf"),
        ("latex", "text/latex"),
        ("javascript", "application/javascript"),
        ("json", "application/json"),
    ];
    let forms = FORMS.into_iter().filter_map(|(name, kind)| match &event[name] {
        Value::Null => None,
        Value::String(text) => Some((kind.to_owned(), text.clone())),
        other => Some((kind.to_owned(), other.to_string())),
    });
    CellValue {
        text: event["text"].as_str().unwrap_or_default().to_owned(),
        json: None,
        mime: forms.collect(),
    }
}
