//! The guest's output, shown while it runs.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use belljar::{SandboxConfig, SandboxResult};

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
}

impl Shown {
    fn remember(&self, stdout: &str) {
        if !stdout.is_empty() {
            self.mid_line.store(!stdout.ends_with('\n'), Ordering::Relaxed);
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
            // Whether anybody still reads is found out at the end.
            let _ = render::guest_text(io::stdout().lock(), text);
        }));
        let shown = Arc::clone(&self.shown);
        config.on_stderr = Some(Arc::new(move |text| {
            shown.stderr.fetch_add(text.len(), Ordering::Relaxed);
            let _ = render::guest_text(io::stderr().lock(), text);
        }));
    }

    /// Shows what is in a result and was not shown yet: the host's own last words, or everything
    /// where nothing was streamed. Then begins anew.
    pub(crate) fn finish(&self, result: &SandboxResult) -> io::Result<()> {
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
