//! A line that comes in parts, of bounded length: shared by those who wait for it on a thread and
//! those who wait in a task.

use belljar_core::limits::MAX_MESSAGE_BYTES;

/// What is kept of a line that may not go on.
const BEGINNING_BYTES: usize = 256;

/// What has come of a line so far.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    line: Vec<u8>,
    too_long: bool,
    refused: bool,
}

/// A line that has ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// It, without its end.
    Line(Vec<u8>),
    /// It was too long; all of it is gone.
    TooLong,
    /// It was not allowed to go on; its beginning is there.
    Refused {
        /// Enough to see what it was.
        beginning: Vec<u8>,
    },
    /// There was nothing in it.
    Empty,
}

impl Gathered {
    /// Takes what belongs to the line from the beginning of `part`: how many bytes that is, and
    /// whether the line has ended with it. `allowed` may refuse to keep more than is there.
    pub(crate) fn take(
        &mut self,
        part: &[u8],
        allowed: impl FnOnce(usize) -> bool,
    ) -> (usize, bool) {
        let end = part.iter().position(|byte| *byte == b'\n');
        let text = part.get(..end.unwrap_or(part.len())).unwrap_or_default();
        self.too_long |= self.line.len() + text.len() > MAX_MESSAGE_BYTES;
        // Most lines come at once and are gone at once: only those that go on are asked about.
        let refused = end.is_none() && !self.too_long && !self.refused && !allowed(text.len());
        if self.too_long {
            self.line = Vec::new();
        } else if self.refused || refused {
            self.refused = true;
            self.line
                .extend_from_slice(text.get(..BEGINNING_BYTES.min(text.len())).unwrap_or(text));
            self.line.truncate(BEGINNING_BYTES);
            self.line.shrink_to_fit();
        } else {
            self.line.extend_from_slice(text);
        }
        (text.len() + usize::from(end.is_some()), end.is_some())
    }

    /// The line, when it has ended.
    pub(crate) fn end(self) -> Ended {
        match self.line {
            _ if self.too_long => Ended::TooLong,
            beginning if self.refused => Ended::Refused { beginning },
            line if line.trim_ascii().is_empty() => Ended::Empty,
            line => Ended::Line(line),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn all(text: &[u8], piece: usize, allowed: impl Fn(usize) -> bool) -> Vec<Ended> {
        let (mut found, mut line) = (Vec::new(), Gathered::default());
        for mut part in text.chunks(piece) {
            while !part.is_empty() {
                let (used, ended) = line.take(part, &allowed);
                part = &part[used..];
                if ended {
                    found.push(std::mem::take(&mut line).end());
                }
            }
        }
        found
    }

    #[test]
    fn long_lines_are_passed_over_and_half_ones_are_none() {
        let line = |text: &str| Ended::Line(text.as_bytes().to_vec());
        let text = b"one\n\n  \r\nthree four\nhalf";
        let expected = [line("one"), Ended::Empty, Ended::Empty, line("three four")];
        assert_eq!(all(text, 7, |_| true), expected);
        let long = [vec![b'x'; MAX_MESSAGE_BYTES + 1], b"\nnext\n".to_vec()].concat();
        assert_eq!(all(&long, 1 << 20, |_| true), [Ended::TooLong, line("next")]);
    }

    #[test]
    fn what_goes_on_can_be_refused() {
        let line = |text: &str| Ended::Line(text.as_bytes().to_vec());
        let refused = Ended::Refused { beginning: b"12345678".to_vec() };
        assert_eq!(all(b"12345678\n12\n", 4, |_| false), [refused, line("12")]);
        let long = [vec![b'x'; 100_000], b"\n".to_vec()].concat();
        let refused = Ended::Refused { beginning: vec![b'x'; BEGINNING_BYTES] };
        assert_eq!(all(&long, 7000, |_| false), [refused]);
        assert_eq!(all(b"12345678\n12\n", 4, |_| true), [line("12345678"), line("12")]);
    }

    proptest! {
        #[test]
        fn lines_are_those_of_the_text(text in "[ab\n]{0,80}", piece in 1usize..20) {
            let whole = text.rfind('\n').map_or("", |end| &text[..=end]);
            let expected: Vec<Ended> = whole.lines().map(|line| match line {
                "" => Ended::Empty,
                line => Ended::Line(line.as_bytes().to_vec()),
            }).collect();
            prop_assert_eq!(all(text.as_bytes(), piece, |_| true), expected);
        }
    }
}
