//! Progress of slow things, on a terminal only.

use std::sync::Mutex;
use std::time::Duration;

use belljar::wasm::{CompileEvent, on_compile};
use indicatif::ProgressBar;

/// Shows that the interpreter is being compiled, which happens once and takes some seconds.
pub(crate) fn show_compilation() {
    let spinner: Mutex<Option<ProgressBar>> = Mutex::new(None);
    on_compile(move |event| {
        let Ok(mut spinner) = spinner.lock() else { return };
        match event {
            CompileEvent::Started => {
                // Draws to standard error, and only if that is a terminal.
                let bar = ProgressBar::new_spinner()
                    .with_message("preparing the interpreter (only the first time)");
                bar.enable_steady_tick(Duration::from_millis(100));
                *spinner = Some(bar);
            }
            CompileEvent::Finished => {
                if let Some(bar) = spinner.take() {
                    bar.finish_and_clear();
                }
            }
        }
    });
}
