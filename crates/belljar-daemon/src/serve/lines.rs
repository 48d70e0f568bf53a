//! Lines of a stream, of bounded length.

use std::io::{self, BufRead, BufReader};

use belljar_core::limits::MAX_MESSAGE_BYTES;

pub(super) struct Lines<R> {
    input: BufReader<R>,
    max: usize,
}

/// What was read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Read {
    /// A line, without its end.
    Line(Vec<u8>),
    /// One that was too long; all of it is gone.
    TooLong,
    /// There are no more.
    End,
}

impl<R: io::Read> Lines<R> {
    pub(super) fn new(input: R) -> Self {
        Self { input: BufReader::with_capacity(64 * 1024, input), max: MAX_MESSAGE_BYTES }
    }

    /// The next line that is not empty. What has no end when the stream ends is no line.
    pub(super) fn next(&mut self) -> io::Result<Read> {
        loop {
            let mut line = Vec::new();
            let mut too_long = false;
            loop {
                let part = match self.input.fill_buf() {
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    other => other?,
                };
                if part.is_empty() {
                    return Ok(Read::End);
                }
                let end = part.iter().position(|byte| *byte == b'\n');
                let text = &part[..end.unwrap_or(part.len())];
                too_long |= line.len() + text.len() > self.max;
                if too_long {
                    line = Vec::new();
                } else {
                    line.extend_from_slice(text);
                }
                let used = text.len() + usize::from(end.is_some());
                self.input.consume(used);
                if end.is_some() {
                    break;
                }
            }
            if too_long {
                return Ok(Read::TooLong);
            }
            if !line.trim_ascii().is_empty() {
                return Ok(Read::Line(line));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn all(text: &[u8], max: usize) -> Vec<Read> {
        let mut lines = Lines { input: BufReader::with_capacity(7, text), max };
        let mut found = Vec::new();
        loop {
            match lines.next().unwrap() {
                Read::End => return found,
                other => found.push(other),
            }
        }
    }

    #[test]
    fn long_lines_are_passed_over_and_half_ones_are_none() {
        let line = |text: &str| Read::Line(text.as_bytes().to_vec());
        let text = b"one\n\n  \r\n123456789012345678901\nthree four\nhalf";
        assert_eq!(all(text, 20), [line("one"), Read::TooLong, line("three four")]);
    }

    proptest! {
        #[test]
        fn lines_are_those_of_the_text(text in "[ab\n]{0,80}") {
            let whole = text.rfind('\n').map_or("", |end| &text[..end]);
            let expected: Vec<Read> = whole.lines().filter(|line| !line.is_empty())
                .map(|line| Read::Line(line.as_bytes().to_vec())).collect();
            prop_assert_eq!(all(text.as_bytes(), 1000), expected);
        }
    }
}
