//! The guest's output, shown while it runs.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use belljar::{CancelHandle, SandboxConfig, SandboxResult};

use crate::render;

/// Shows output as it comes and remembers how much that was.
#[derive(Clone, Default)]
pub(crate) struct Streams {
    shown: Arc<Shown>,
}

#[derive(Default)]
struct Shown {
    stdout: AtomicUsize,
    stderr: AtomicUsize,
    /// Whether the last line of standard output has no end yet.
    mid_line: AtomicBool,
    /// Whether whoever read it has gone, such as `head`.
    unread: AtomicBool,
    /// What to stop then.
    running: Mutex<Option<CancelHandle>>,
}

impl Shown {
    fn remember(&self, stdout: &str) {
        if !stdout.is_empty() {
            self.mid_line.store(!stdout.ends_with('\n'), Ordering::Relaxed);
        }
    }

    fn note(&self, written: io::Result<()>) {
        if written.is_err() {
            self.unread.store(true, Ordering::Relaxed);
            if let Some(code) = &*self.running.lock().unwrap_or_else(PoisonError::into_inner) {
                code.cancel();
            }
        }
    }
}

impl Streams {
    /// Has the sandboxes of a configuration show what they write.
    pub(crate) fn attach(&self, config: &mut SandboxConfig) {
        let shown = Arc::clone(&self.shown);
        config.on_stdout = Some(Arc::new(move |text| {
            shown.stdout.fetch_add(text.len(), Ordering::Relaxed);
            shown.remember(text);
            shown.note(render::guest_text(io::stdout().lock(), text));
        }));
        let shown = Arc::clone(&self.shown);
        config.on_stderr = Some(Arc::new(move |text| {
            shown.stderr.fetch_add(text.len(), Ordering::Relaxed);
            if shown.unread.load(Ordering::Relaxed) {
                return;
            }
            shown.note(render::guest_text(io::stderr().lock(), text));
        }));
    }

    /// Has code stopped when nobody reads its output any more.
    pub(crate) fn stop_unread(&self, code: CancelHandle) {
        *self.shown.running.lock().unwrap_or_else(PoisonError::into_inner) = Some(code);
    }

    /// Shows what is in a result and was not shown yet: the host's own last words, or everything
    /// where nothing was streamed. Then begins anew.
    pub(crate) fn finish(&self, result: &SandboxResult) -> io::Result<()> {
        if self.shown.unread.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let rest = |text: &'_ str, shown: &AtomicUsize| {
            let shown = shown.swap(0, Ordering::Relaxed);
            text.get(shown..).unwrap_or_default().to_owned()
        };
        let stdout = rest(&result.stdout, &self.shown.stdout);
        self.shown.remember(&stdout);
        render::guest_text(io::stdout().lock(), &stdout)?;
        io::stdout().flush()?;
        render::guest_text(io::stderr().lock(), &rest(&result.stderr, &self.shown.stderr))
    }

    /// Ends the line of standard output, if it has no end yet.
    pub(crate) fn fresh_line(&self) -> io::Result<()> {
        if self.shown.mid_line.swap(false, Ordering::Relaxed) {
            writeln!(io::stdout())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use belljar::{Meta, Outcome};

    use super::*;

    #[test]
    fn a_longer_stream_than_result_is_no_trouble() {
        let streams = Streams::default();
        streams.shown.stdout.store(100, Ordering::Relaxed);
        let result = SandboxResult::new(Outcome::Finished, Meta::default());
        streams.finish(&result).unwrap();
        assert_eq!(streams.shown.stdout.load(Ordering::Relaxed), 0);
    }
}
