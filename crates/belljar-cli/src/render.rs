//! What people see: errors with hints, guests' output, tables. Colour only on a terminal.

use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use belljar::core::text::is_invisible;
use belljar::{CellValue, SandboxError};

use crate::exit;

const ERROR: Style = AnsiColor::Red.on_default().bold();
const WAITING: Style = AnsiColor::Yellow.on_default().bold();
const HINT: Style = AnsiColor::Cyan.on_default().bold();
/// For names in tables.
pub(crate) const STRONG: Style = Style::new().bold();
/// For side remarks.
pub(crate) const FAINT: Style = Style::new().dimmed();

/// Prints an error that kept Belljar from doing what was asked.
pub(crate) fn failure(error: &anyhow::Error) -> ExitCode {
    // A reader that went away, such as `head`, has seen what it wanted.
    if error.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe) {
        return ExitCode::SUCCESS;
    }
    let hint = error.downcast_ref::<SandboxError>().and_then(SandboxError::hint);
    problem(&format!("{error:#}"), hint.as_deref());
    ExitCode::from(exit::COULD_NOT_RUN)
}

/// Prints `error: …` and, when there is one, `hint: …` to standard error.
pub(crate) fn problem(message: &str, hint: Option<&str>) {
    labelled(ERROR, "error:", message, hint);
}

/// Says that another backend ran the code than was asked for.
pub(crate) fn stand_in(missing: &str, runtime: &str) {
    let message = format!("the {missing} backend is not there; this ran on {runtime}");
    labelled(WAITING, "warning:", &message, None);
}

/// Prints that something waits, and for what: nothing is wrong, but nothing goes on either.
pub(crate) fn waiting(message: &str, hint: &str) {
    labelled(WAITING, "suspended:", message, Some(hint));
}

fn labelled(style: Style, label: &str, message: &str, hint: Option<&str>) {
    let mut err = anstream::stderr().lock();
    // There is nowhere left to report that standard error cannot be written.
    let _ = writeln!(err, "{style}{label}{style:#} {}", visible(message));
    if let Some(hint) = hint {
        let _ = writeln!(err, "{HINT}hint:{HINT:#} {}", visible(hint));
    }
}

/// Prints a side remark to standard error.
pub(crate) fn note(message: &str) {
    let _ = writeln!(anstream::stderr(), "{FAINT}{}{FAINT:#}", visible(message));
}

/// Prints a value as JSON: on one line for programs, indented for people.
pub(crate) fn json(value: &impl serde::Serialize) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    if out.is_terminal() {
        let text = serde_json::to_string_pretty(value).map_err(io::Error::from)?;
        // JSON itself lets some characters pass that a terminal obeys.
        let lines: Vec<String> = text.lines().map(spelled_out).collect();
        out.write_all(lines.join("\n").as_bytes())?;
    } else {
        serde_json::to_writer(&mut out, value).map_err(io::Error::from)?;
    }
    writeln!(out)?;
    out.flush()?;
    Ok(())
}

/// Text on one line, in which nothing moves the cursor or the order of letters.
pub(crate) fn spelled_out(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for char in text.chars() {
        if is_invisible(char) {
            let mut units = [0; 2];
            for unit in char.encode_utf16(&mut units) {
                // Writing to a string cannot fail.
                let _ = write!(shown, "\\u{unit:04x}");
            }
        } else {
            shown.push(char);
        }
    }
    shown
}

/// Gives the guest's output as it was written, except that a terminal gets no control sequences
/// other than colours.
pub(crate) fn guest_text(mut stream: impl Write + IsTerminal, text: &str) -> io::Result<()> {
    if stream.is_terminal() {
        stream.write_all(harmless(text).as_bytes())?;
    } else {
        stream.write_all(text.as_bytes())?;
    }
    stream.flush()
}

/// Prints the value of a cell's last expression, as the interpreter would.
pub(crate) fn value(value: &CellValue) -> io::Result<()> {
    let mut text = value.text.clone();
    text.push('\n');
    guest_text(io::stdout().lock(), &text)
}

/// How long ago something was, roughly.
pub(crate) fn ago(elapsed: Duration) -> String {
    if elapsed < Duration::from_secs(10) { "just now".to_owned() } else { span(elapsed) + " ago" }
}

/// How long something takes, roughly.
pub(crate) fn span(time: Duration) -> String {
    let seconds = time.as_secs();
    let (count, unit) = match seconds {
        0..60 => (seconds, "second"),
        60..3600 => (seconds / 60, "minute"),
        3600..172_800 => (seconds / 3600, "hour"),
        _ => (seconds / 86_400, "day"),
    };
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {unit}{plural}")
}

/// Text that cannot do more to a terminal than colour it: escape sequences other than colours are
/// shown instead of obeyed.
fn harmless(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(index) = rest.find(is_dangerous) {
        out.push_str(&rest[..index]);
        rest = &rest[index..];
        let length = color_sequence(rest).unwrap_or(0);
        if length > 0 {
            out.push_str(&rest[..length]);
            rest = &rest[length..];
        } else {
            let control = rest.chars().next().unwrap_or('\u{fffd}');
            out.push(picture_of(control));
            rest = &rest[control.len_utf8()..];
        }
    }
    out.push_str(rest);
    out
}

/// A message of ours that may quote what somebody else wrote: no control characters but line ends.
pub(crate) fn visible(text: &str) -> String {
    text.chars().map(|c| if c.is_control() && c != '\n' { picture_of(c) } else { c }).collect()
}

fn is_dangerous(c: char) -> bool {
    c.is_control() && !matches!(c, '\n' | '\r' | '\t' | '\u{8}')
}

/// The length of a colour sequence (`ESC [ digits ; … m`) at the beginning of the text.
fn color_sequence(text: &str) -> Option<usize> {
    let parameters = text.strip_prefix("\u{1b}[")?;
    let end = parameters.find(|c: char| !c.is_ascii_digit() && c != ';' && c != ':')?;
    parameters[end..].starts_with('m').then_some(2 + end + 1)
}

/// A visible sign for a control character.
fn picture_of(control: char) -> char {
    match u32::from(control) {
        code @ 0..=0x1f => char::from_u32(0x2400 + code).unwrap_or('\u{fffd}'),
        0x7f => '\u{2421}',
        _ => '\u{fffd}',
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_pass_and_everything_else_is_shown() {
        for (text, shown) in [
            ("plain\tüñ\r\n", "plain\tüñ\r\n"),
            ("\u{1b}[1;31mred\u{1b}[0m", "\u{1b}[1;31mred\u{1b}[0m"),
            ("\u{1b}[2J", "␛[2J"),
            ("\u{1b}]0;title\u{7}", "␛]0;title␇"),
            ("\u{1b}[31", "␛[31"),
            ("\u{1b}", "␛"),
            ("a\u{9b}2Jb", "a\u{fffd}2Jb"),
            ("\u{7f}", "␡"),
        ] {
            assert_eq!(harmless(text), shown);
        }
    }

    #[test]
    fn times_are_rough() {
        for (seconds, shown) in [
            (3, "just now"),
            (59, "59 seconds ago"),
            (60, "1 minute ago"),
            (7199, "1 hour ago"),
            (86_400, "24 hours ago"),
            (172_800, "2 days ago"),
        ] {
            assert_eq!(ago(Duration::from_secs(seconds)), shown);
        }
    }

    #[test]
    fn our_messages_hold_no_control_characters() {
        assert_eq!(visible("a\n\u{1b}[31mb\r"), "a\n␛[31mb␍");
    }
}
