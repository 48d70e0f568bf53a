//! The guest's stdout and stderr: capped as they are written, given to a listener line by line.

use std::sync::Arc;

use belljar_core::TRUNCATION_MARKER;
use belljar_core::limits::{MAX_LINE_BYTES, OUTPUT_FLOOD_FACTOR, OUTPUT_FLOOD_FLOOR_BYTES};
use belljar_core::text::CappedBytes;

/// Told whole lines, with their newline, while the guest runs; the last one may lack it. The guest
/// waits until it returns, so nothing piles up.
pub type LineSink = Arc<dyn Fn(&str) + Send + Sync>;

/// What one stream of a guest has said.
pub struct Output {
    captured: CappedBytes,
    cap: usize,
    flood_limit: u64,
    lines: Option<Lines>,
}

impl Output {
    /// Keeps at most `cap` bytes.
    pub fn new(cap: u64, sink: Option<LineSink>) -> Output {
        let flood_limit = cap.saturating_mul(OUTPUT_FLOOD_FACTOR).max(OUTPUT_FLOOD_FLOOR_BYTES);
        let cap = usize::try_from(cap).unwrap_or(usize::MAX);
        let lines = sink.map(|sink| Lines { sink, begun: Vec::new(), left: cap });
        Output { captured: CappedBytes::new(cap), cap, flood_limit, lines }
    }

    /// `false` when the guest has written so much more than its cap that it should be stopped.
    pub fn write(&mut self, bytes: &[u8]) -> bool {
        self.captured.push(bytes);
        if let Some(lines) = &mut self.lines {
            lines.push(bytes);
        }
        self.captured.seen() <= self.flood_limit
    }

    /// Whether what was kept ends with this.
    pub fn ends_with(&self, text: &str) -> bool {
        self.captured.kept().ends_with(text.as_bytes())
    }

    /// What was captured since the last call; a listener gets the rest.
    pub fn take(&mut self) -> CappedBytes {
        if let Some(lines) = &mut self.lines {
            lines.finish(self.cap);
        }
        std::mem::replace(&mut self.captured, CappedBytes::new(self.cap))
    }
}

/// Cuts a stream into lines.
struct Lines {
    sink: LineSink,
    /// A line that has no end yet.
    begun: Vec<u8>,
    /// What may still be told: a listener gets no more than is kept.
    left: usize,
}

impl Lines {
    fn push(&mut self, bytes: &[u8]) {
        let told = &bytes[..bytes.len().min(self.left)];
        self.left -= told.len();
        for line in told.split_inclusive(|byte| *byte == b'\n') {
            for piece in line.chunks(MAX_LINE_BYTES) {
                if self.begun.len() + piece.len() > MAX_LINE_BYTES {
                    self.tell_whole_characters();
                }
                self.begun.extend_from_slice(piece);
            }
            if line.ends_with(b"\n") {
                self.tell();
            }
        }
        if told.len() < bytes.len() {
            self.tell();
            if std::mem::take(&mut self.left) == 0 && !told.is_empty() {
                (self.sink)(TRUNCATION_MARKER);
            }
        }
    }

    fn tell(&mut self) {
        if !self.begun.is_empty() {
            (self.sink)(&String::from_utf8_lossy(&self.begun));
            self.begun.clear();
        }
    }

    /// Keeps the beginning of a character whose end has not come yet.
    fn tell_whole_characters(&mut self) {
        let cut = match std::str::from_utf8(&self.begun) {
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            _ => self.begun.len(),
        };
        let rest = self.begun.split_off(cut);
        self.tell();
        self.begun = rest;
    }

    fn finish(&mut self, cap: usize) {
        self.tell();
        self.left = cap;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    fn told(cap: u64, writes: &[&[u8]]) -> Vec<String> {
        let told = Arc::new(Mutex::new(Vec::new()));
        let sink = {
            let told = Arc::clone(&told);
            Arc::new(move |line: &str| told.lock().unwrap().push(line.to_owned()))
        };
        let mut output = Output::new(cap, Some(sink));
        for bytes in writes {
            output.write(bytes);
        }
        output.take();
        let told = told.lock().unwrap();
        told.clone()
    }

    #[test]
    fn a_listener_gets_whole_lines_and_the_rest_at_the_end() {
        assert_eq!(told(100, &[b"a", b"b\nc\n", b"d"]), ["ab\n", "c\n", "d"]);
    }

    #[test]
    fn a_listener_gets_no_more_than_is_kept() {
        assert_eq!(told(4, &[b"ab\ncdef\n", b"more\n"]), ["ab\n", "c", TRUNCATION_MARKER]);
    }

    #[test]
    fn a_line_without_end_is_told_in_pieces() {
        let long = "\u{e9}".repeat(MAX_LINE_BYTES);
        let pieces = told(1 << 30, &[b"x", long.as_bytes(), b"y"]);
        assert!(pieces.iter().all(|piece| piece.len() <= MAX_LINE_BYTES + 3));
        assert_eq!(pieces.concat(), format!("x{long}y"));
    }
}
