//! Progress of slow things, on a terminal only.

use std::sync::Mutex;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use belljar::GuestImage;
use belljar::wasm::{CompileEvent, on_compile};
use indicatif::ProgressBar;

/// How long something may take in silence.
const PATIENCE: Duration = Duration::from_secs(1);

/// Does something that may take a while, and says so when it does.
pub(crate) fn during<T>(message: &'static str, work: impl FnOnce() -> T) -> T {
    let (done, waiting) = mpsc::channel::<()>();
    thread::scope(|scope| {
        scope.spawn(move || {
            // Ends by the sender's end; only a time-out means that it takes long.
            if waiting.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
                let bar = spinner(message);
                let _ = waiting.recv();
                bar.finish_and_clear();
            }
        });
        let result = work();
        drop(done);
        result
    })
}

/// Draws to standard error, and only if that is a terminal.
fn spinner(message: &'static str) -> ProgressBar {
    let bar = ProgressBar::new_spinner().with_message(message);
    bar.enable_steady_tick(Duration::from_millis(100));
    bar
}

/// Shows that the interpreter is being compiled, which happens once and takes some seconds.
pub(crate) fn show_compilation() {
    let bar: Mutex<Option<ProgressBar>> = Mutex::new(None);
    on_compile(move |event| {
        let Ok(mut bar) = bar.lock() else { return };
        match event {
            CompileEvent::Started(image) => {
                *bar = Some(spinner(match image {
                    GuestImage::Plain => "preparing the interpreter (only the first time)",
                    GuestImage::Data => {
                        "preparing the data image, for up to a minute (only the first time)"
                    }
                }));
            }
            CompileEvent::Finished => {
                if let Some(bar) = bar.take() {
                    bar.finish_and_clear();
                }
            }
        }
    });
}
