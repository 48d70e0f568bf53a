//! Output capture with a hard cap, applied while bytes arrive.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What truncated output ends with.
pub const TRUNCATION_MARKER: &str = "... (output truncated)";

/// A text as a message shows it: not longer than a line.
#[must_use]
pub fn shortened(text: &str) -> String {
    const SHOWN: usize = 60;
    if text.len() <= SHOWN {
        return text.to_owned();
    }
    format!("{}…", &text[..text.floor_char_boundary(SHOWN)])
}

/// Collects bytes up to a cap. What does not fit is counted and dropped; it never costs memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CappedBytes {
    kept: Vec<u8>,
    cap: usize,
    seen: u64,
}

impl CappedBytes {
    /// Keeps at most `cap` bytes.
    #[must_use]
    pub const fn new(cap: usize) -> Self {
        Self { kept: Vec::new(), cap, seen: 0 }
    }

    /// Takes more output. Returns how many of these bytes were kept.
    pub fn push(&mut self, bytes: &[u8]) -> usize {
        self.seen = self.seen.saturating_add(bytes.len() as u64);
        let room = self.cap - self.kept.len();
        let fitting = &bytes[..bytes.len().min(room)];
        self.kept.extend_from_slice(fitting);
        fitting.len()
    }

    /// All bytes that were ever pushed, kept or not.
    #[must_use]
    pub const fn seen(&self) -> u64 {
        self.seen
    }

    /// The bytes kept so far.
    #[must_use]
    pub fn kept(&self) -> &[u8] {
        &self.kept
    }

    /// Whether something was dropped.
    #[must_use]
    pub const fn overflowed(&self) -> bool {
        self.seen > self.kept.len() as u64
    }

    /// The text, at most `cap` bytes long, marker included.
    #[must_use]
    pub fn finish(self) -> CappedText {
        let overflowed = self.overflowed();
        match String::from_utf8(self.kept) {
            Ok(text) if !overflowed => CappedText { text, truncated: false },
            Ok(text) => CappedText::truncate(text, self.cap),
            Err(error) => {
                // Replacement characters are longer than the bytes they stand for, so the text can
                // outgrow the cap even when the bytes did not.
                let bytes = error.into_bytes();
                let text = String::from_utf8_lossy(trim_cut_char(&bytes, overflowed)).into_owned();
                if overflowed || text.len() > self.cap {
                    CappedText::truncate(text, self.cap)
                } else {
                    CappedText { text, truncated: false }
                }
            }
        }
    }
}

/// Text that fits its cap, and whether it is all there was.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct CappedText {
    /// The text. Ends with [`TRUNCATION_MARKER`] when truncated, if the cap has room for it.
    pub text: String,
    /// Whether something is missing.
    pub truncated: bool,
}

impl CappedText {
    /// Fits a whole text into `cap` bytes.
    #[must_use]
    pub fn new(text: String, cap: usize) -> Self {
        if text.len() <= cap { Self { text, truncated: false } } else { Self::truncate(text, cap) }
    }

    /// Fits a text whose rest is already lost into `cap` bytes, marker included.
    fn truncate(mut text: String, cap: usize) -> Self {
        let Some(room) = cap.checked_sub(TRUNCATION_MARKER.len()) else {
            text.truncate(text.floor_char_boundary(cap));
            return Self { text, truncated: true };
        };
        text.truncate(text.floor_char_boundary(room));
        text.push_str(TRUNCATION_MARKER);
        Self { text, truncated: true }
    }
}

/// Drops an incomplete character at the end when the cap cut it, so that the cut does not show as a
/// replacement character nobody wrote.
fn trim_cut_char(bytes: &[u8], cut: bool) -> &[u8] {
    if !cut {
        return bytes;
    }
    let tail = bytes.utf8_chunks().last().map_or(&[][..], |chunk| chunk.invalid());
    let incomplete = std::str::from_utf8(tail).is_err_and(|error| error.error_len().is_none());
    if incomplete { &bytes[..bytes.len() - tail.len()] } else { bytes }
}

/// Whether a character does something to a terminal or to the order of text instead of being shown.
#[must_use]
pub fn is_invisible(char: char) -> bool {
    let reorders = matches!(char, '\u{61c}' | '\u{200e}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    char.is_control() || reorders
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn capture(cap: usize, parts: &[&[u8]]) -> CappedText {
        let mut buffer = CappedBytes::new(cap);
        for part in parts {
            buffer.push(part);
        }
        buffer.finish()
    }

    #[test]
    fn text_that_fits_is_untouched() {
        assert_eq!(
            capture(5, &[b"he", b"llo"]),
            CappedText { text: "hello".into(), truncated: false }
        );
    }

    #[test]
    fn text_that_does_not_fit_ends_with_the_marker_within_the_cap() {
        let got = capture(30, &[&[b'x'; 100]]);
        assert_eq!(got.text, format!("{}{TRUNCATION_MARKER}", "x".repeat(8)));
        assert_eq!(got.text.len(), 30);
        assert!(got.truncated);
    }

    #[test]
    fn a_cap_smaller_than_the_marker_still_holds() {
        let got = capture(3, &[b"abcdef"]);
        assert_eq!((got.text.as_str(), got.truncated), ("abc", true));
        assert_eq!(capture(0, &[b"a"]), CappedText { text: String::new(), truncated: true });
    }

    #[test]
    fn invalid_utf8_is_replaced() {
        assert_eq!(capture(100, &[b"a\xffb"]).text, "a\u{fffd}b");
    }

    #[test]
    fn a_character_cut_by_the_cap_leaves_no_replacement_character() {
        let got = capture(4, &["aé€".as_bytes()]);
        assert_eq!((got.text.as_str(), got.truncated), ("aé", true));
    }

    proptest! {
        #[test]
        fn never_exceeds_the_cap_and_never_loses_silently(
            parts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..64), 0..8),
            cap in 0usize..200,
        ) {
            let whole: Vec<u8> = parts.concat();
            let mut buffer = CappedBytes::new(cap);
            for part in &parts {
                buffer.push(part);
                prop_assert!(buffer.kept().len() <= cap);
            }
            prop_assert_eq!(buffer.seen(), whole.len() as u64);
            let got = buffer.finish();
            prop_assert!(got.text.len() <= cap);
            if got.truncated {
                prop_assert!(cap < TRUNCATION_MARKER.len() || got.text.ends_with(TRUNCATION_MARKER));
            } else {
                prop_assert_eq!(got.text, String::from_utf8_lossy(&whole));
            }
        }

        #[test]
        fn valid_text_is_cut_between_characters(text in "\\PC{0,80}", cap in 0usize..120) {
            let got = capture(cap, &[text.as_bytes()]);
            let shown = got.text.strip_suffix(TRUNCATION_MARKER).unwrap_or(&got.text);
            prop_assert!(text.starts_with(shown), "{shown:?} is not a beginning of {text:?}");
            prop_assert_eq!(got.truncated, text.len() > cap);
        }
    }
}
