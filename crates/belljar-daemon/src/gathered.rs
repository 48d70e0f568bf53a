//! A line that comes in parts, of bounded length: shared by those who wait for it on a thread and
//! those who wait in a task.

use belljar_core::limits::MAX_MESSAGE_BYTES;

/// What has come of a line so far.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    line: Vec<u8>,
    too_long: bool,
}

/// A line that has ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// It, without its end.
    Line(Vec<u8>),
    /// It was too long; all of it is gone.
    TooLong,
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
        self.too_long |= end.is_none() && !allowed(text.len());
        if self.too_long {
            self.line = Vec::new();
        } else {
            self.line.extend_from_slice(text);
        }
        (text.len() + usize::from(end.is_some()), end.is_some())
    }

    /// The line, when it has ended.
    pub(crate) fn end(self) -> Ended {
        match self.line {
            _ if self.too_long => Ended::TooLong,
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
        assert_eq!(all(b"12345678\n12\n", 4, |_| false), [Ended::TooLong, line("12")]);
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
