//! What a driver says about a cell, read straight from the guest's memory and cut to size.
//!
//! Guest data: everything in it may be a lie, and any length may be absurd.

use std::borrow::Cow;
use std::collections::BTreeMap;

use belljar_core::limits::{
    MAX_ERROR_MESSAGE_BYTES, MAX_ERROR_NAME_BYTES, MAX_TRACEBACK_BYTES, MAX_VALUE_JSON_BYTES,
    MAX_VALUE_RICH_BYTES, MAX_VALUE_TEXT_BYTES,
};
use belljar_core::{CellValue, GuestError, TRUNCATION_MARKER};
use serde::Deserialize;
use serde_json::value::RawValue;

/// What the driver says about a cell.
#[derive(Clone, Debug)]
pub struct Answer {
    /// How it ended.
    pub end: CellEnd,
    /// 0, 1 after an uncaught exception, or what `sys.exit` was given.
    pub exit_code: u8,
    /// The uncaught exception.
    pub error: Option<GuestError>,
    /// The last expression's value.
    pub value: Option<CellValue>,
}

/// How a cell ended, as its driver sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CellEnd {
    /// At its end.
    Finished,
    /// With an uncaught exception.
    Raised,
    /// With `sys.exit`.
    Exited,
    /// With an uncaught `MemoryError`.
    OutOfMemory,
    /// With an uncaught "no space left".
    NoSpace,
}

impl Answer {
    /// `None` when it makes no sense.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Answer> {
        let raw: RawAnswer<'_> = serde_json::from_slice(bytes).ok()?;
        Some(Answer {
            end: raw.end,
            exit_code: raw.exit_code,
            error: raw.error.map(|error| GuestError {
                name: capped(&error.name, MAX_ERROR_NAME_BYTES),
                message: capped(&error.message, MAX_ERROR_MESSAGE_BYTES),
                traceback: capped(&error.traceback, MAX_TRACEBACK_BYTES),
            }),
            value: raw.value.map(|value| CellValue {
                text: capped(&value.text, MAX_VALUE_TEXT_BYTES),
                json: value.json.and_then(small_json),
                mime: small_forms(value.mime),
            }),
        })
    }
}

#[derive(Deserialize)]
struct RawAnswer<'a> {
    end: CellEnd,
    #[serde(default)]
    exit_code: u8,
    #[serde(default, borrow)]
    error: Option<RawError<'a>>,
    #[serde(default, borrow)]
    value: Option<RawCellValue<'a>>,
}

#[derive(Deserialize)]
struct RawError<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow)]
    message: Cow<'a, str>,
    #[serde(borrow)]
    traceback: Cow<'a, str>,
}

#[derive(Deserialize)]
struct RawCellValue<'a> {
    #[serde(borrow)]
    text: Cow<'a, str>,
    #[serde(default, borrow)]
    json: Option<&'a RawValue>,
    #[serde(default, borrow)]
    mime: BTreeMap<Cow<'a, str>, Cow<'a, str>>,
}

/// Looked at before it is unpacked: in memory it takes many times its text.
fn small_json(json: &RawValue) -> Option<serde_json::Value> {
    if json.get().len() > MAX_VALUE_JSON_BYTES {
        None
    } else {
        serde_json::from_str(json.get()).ok()
    }
}

/// The rich forms, as long as they are not too large together.
fn small_forms(forms: BTreeMap<Cow<'_, str>, Cow<'_, str>>) -> BTreeMap<String, String> {
    let mut left = MAX_VALUE_RICH_BYTES;
    let mut fits = |bytes: usize| left.checked_sub(bytes).map(|rest| left = rest).is_some();
    let small = forms.into_iter().filter(|(mime, form)| fits(mime.len() + form.len()));
    small.map(|(mime, form)| (mime.into_owned(), form.into_owned())).collect()
}

/// At most `max` bytes of a text, with the usual mark when something is missing.
fn capped(text: &str, max: usize) -> String {
    if text.len() <= max {
        return text.to_owned();
    }
    let kept = text.floor_char_boundary(max - TRUNCATION_MARKER.len());
    format!("{}{TRUNCATION_MARKER}", &text[..kept])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_honest_answer_is_understood() {
        let answer =
            Answer::parse(br#"{"end": "finished", "exit_code": 0, "value": {"text": "\u00e9"}}"#)
                .unwrap();
        assert_eq!(
            (answer.end, answer.value.unwrap().text),
            (CellEnd::Finished, "\u{e9}".to_owned())
        );
    }

    #[test]
    fn nonsense_is_not() {
        for nonsense in
            ["", "[]", "{}", "null", r#"{"end": "well"}"#, r#"{"end": "exited", "exit_code": 256}"#]
        {
            assert!(Answer::parse(nonsense.as_bytes()).is_none(), "{nonsense}");
        }
        assert!(Answer::parse(b"\xff").is_none());
    }

    #[test]
    fn absurd_lengths_are_cut() {
        let long = "\u{e9}".repeat(2 * MAX_VALUE_TEXT_BYTES);
        let bytes = format!(r#"{{"end": "finished", "value": {{"text": "{long}"}}}}"#);
        let text = Answer::parse(bytes.as_bytes()).unwrap().value.unwrap().text;
        assert!(text.len() <= MAX_VALUE_TEXT_BYTES && text.ends_with(TRUNCATION_MARKER));
    }
}
