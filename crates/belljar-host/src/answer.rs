//! What a driver says about a cell, read straight from the guest's memory and cut to size.
//!
//! Guest data: everything in it may be a lie, and any length may be absurd.

use std::borrow::Cow;
use std::collections::BTreeMap;

use belljar_core::json;
use belljar_core::limits::{
    MAX_ANSWER_WEIGHT, MAX_COMPLETIONS, MAX_ERROR_MESSAGE_BYTES, MAX_ERROR_NAME_BYTES,
    MAX_TRACEBACK_BYTES, MAX_VALUE_JSON_BYTES, MAX_VALUE_NESTING, MAX_VALUE_RICH_BYTES,
    MAX_VALUE_TEXT_BYTES, MAX_VALUE_WEIGHT,
};
use belljar_core::text::is_invisible;
use belljar_core::{CellValue, GuestError, TRUNCATION_MARKER};
use serde::{Deserialize, Deserializer};
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

/// What the driver says when a call returns.
pub enum Told {
    /// The cell has ended.
    Ended(Answer),
    /// It waits for calls it has begun, or for a time this many seconds away.
    Waiting {
        /// When to wake it, in seconds from now, even if no call is answered.
        timer: Option<f64>,
    },
}

impl Told {
    /// `None` when it makes no sense.
    pub fn parse(bytes: &[u8]) -> Option<Told> {
        let raw: RawAnswer<'_> = serde_json::from_slice(bytes).ok()?;
        let end = match raw.end {
            RawEnd::Waiting => return Some(Told::Waiting { timer: raw.timer }),
            RawEnd::Finished => CellEnd::Finished,
            RawEnd::Raised => CellEnd::Raised,
            RawEnd::Exited => CellEnd::Exited,
            RawEnd::OutOfMemory => CellEnd::OutOfMemory,
            RawEnd::NoSpace => CellEnd::NoSpace,
        };
        Some(Told::Ended(Answer {
            end,
            exit_code: raw.exit_code,
            error: raw.error.map(|error| GuestError {
                name: capped(&error.name, MAX_ERROR_NAME_BYTES),
                message: capped(&error.message, MAX_ERROR_MESSAGE_BYTES),
                traceback: capped(&error.traceback, MAX_TRACEBACK_BYTES),
            }),
            value: raw.value.map(|value| CellValue {
                text: capped(&value.text, MAX_VALUE_TEXT_BYTES),
                json: value.json.and_then(small_json),
                mime: value.mime.map(small_forms).unwrap_or_default(),
            }),
        }))
    }
}

/// A variable of a session, as the guest shows it.
#[derive(Clone, Debug, PartialEq)]
pub struct Variable {
    /// The name of its type.
    pub type_name: String,
    /// As the interpreter would print it.
    pub text: String,
    /// As JSON, where it can be.
    pub json: Option<serde_json::Value>,
}

/// What could stand at a place in the code.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Completions {
    /// Where the text to be replaced begins, in characters.
    pub start: usize,
    /// What it could be replaced by.
    pub matches: Vec<String>,
}

impl Variable {
    /// `None` when the answer makes no sense, `Some(None)` when there is no such variable.
    pub fn parse(bytes: &[u8]) -> Option<Option<Variable>> {
        let raw: RawInspection<'_> = serde_json::from_slice(bytes).ok()?;
        if !matches!(raw.end, RawEnd::Finished) {
            return None;
        }
        Some(raw.variable.map(|variable| Variable {
            type_name: capped(&variable.type_name, MAX_ERROR_NAME_BYTES),
            text: capped(&variable.text, MAX_VALUE_TEXT_BYTES),
            json: variable.json.and_then(small_json),
        }))
    }
}

impl Completions {
    /// `None` when the answer makes no sense.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<Completions> {
        if json::weight(bytes).is_none_or(|weight| weight > MAX_ANSWER_WEIGHT) {
            return None;
        }
        let raw: RawCompletions<'_> = serde_json::from_slice(bytes).ok()?;
        // They are typed and shown as they are: nothing that a terminal would obey.
        let harmless = |text: &&Cow<'_, str>| {
            text.len() <= MAX_ERROR_NAME_BYTES && !text.chars().any(is_invisible)
        };
        let matches = raw.matches.iter().filter(harmless).take(MAX_COMPLETIONS);
        let matches = matches.map(|text| text.clone().into_owned()).collect();
        Some(Completions { start: raw.start, matches })
    }
}

#[derive(Deserialize)]
struct RawInspection<'a> {
    end: RawEnd,
    #[serde(borrow)]
    variable: Option<RawVariable<'a>>,
}

#[derive(Deserialize)]
struct RawVariable<'a> {
    #[serde(rename = "type", borrow)]
    type_name: Cow<'a, str>,
    #[serde(borrow)]
    text: Cow<'a, str>,
    /// Here `null` is a value, and no value is no field.
    #[serde(default, borrow, deserialize_with = "present")]
    json: Option<&'a RawValue>,
}

fn present<'de, D: Deserializer<'de>>(json: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(json).map(Some)
}

#[derive(Deserialize)]
struct RawCompletions<'a> {
    start: usize,
    #[serde(borrow)]
    matches: Vec<Cow<'a, str>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum RawEnd {
    Finished,
    Raised,
    Exited,
    OutOfMemory,
    NoSpace,
    Waiting,
}

#[derive(Deserialize)]
struct RawAnswer<'a> {
    end: RawEnd,
    #[serde(default)]
    timer: Option<f64>,
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
    mime: Option<&'a RawValue>,
}

/// Looked at before it is unpacked: in memory it takes many times its text.
fn small_json(json: &RawValue) -> Option<serde_json::Value> {
    if json.get().len() > MAX_VALUE_JSON_BYTES {
        return None;
    }
    let weight = json::weight_within(json.get().as_bytes(), MAX_VALUE_NESTING)?;
    if weight > MAX_VALUE_WEIGHT { None } else { serde_json::from_str(json.get()).ok() }
}

/// The rich forms, as long as they are not too large together. What is no text has none.
fn small_forms(forms: &RawValue) -> BTreeMap<String, String> {
    let light = json::weight(forms.get().as_bytes()).is_some_and(|it| it <= MAX_ANSWER_WEIGHT);
    let read = || serde_json::from_str::<BTreeMap<Cow<'_, str>, Cow<'_, str>>>(forms.get());
    let Some(Ok(forms)) = light.then(read) else { return BTreeMap::new() };
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

    fn ended(bytes: &[u8]) -> Answer {
        match Told::parse(bytes) {
            Some(Told::Ended(answer)) => answer,
            _ => panic!("no answer of a cell that has ended"),
        }
    }

    #[test]
    fn an_honest_answer_is_understood() {
        let answer = ended(br#"{"end": "finished", "exit_code": 0, "value": {"text": "\u00e9"}}"#);
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
            assert!(Told::parse(nonsense.as_bytes()).is_none(), "{nonsense}");
        }
        assert!(Told::parse(b"\xff").is_none());
    }

    #[test]
    fn absurd_lengths_are_cut() {
        let long = "\u{e9}".repeat(2 * MAX_VALUE_TEXT_BYTES);
        let bytes = format!(r#"{{"end": "finished", "value": {{"text": "{long}"}}}}"#);
        let text = ended(bytes.as_bytes()).value.unwrap().text;
        assert!(text.len() <= MAX_VALUE_TEXT_BYTES && text.ends_with(TRUNCATION_MARKER));
    }

    #[test]
    fn large_json_and_rich_forms_are_left_out() {
        let long = "x".repeat(MAX_VALUE_JSON_BYTES);
        let bytes = format!(r#"{{"end": "finished", "value": {{"text": "", "json": "{long}"}}}}"#);
        assert_eq!(ended(bytes.as_bytes()).value.unwrap().json, None);
        let half = "x".repeat(MAX_VALUE_RICH_BYTES / 2);
        let bytes = format!(
            r#"{{"end": "finished", "value": {{"text": "", "mime": {{"a": "{half}", "b": "{half}", "c": ""}}}}}}"#
        );
        let forms = ended(bytes.as_bytes()).value.unwrap().mime;
        assert_eq!(forms.keys().collect::<Vec<_>>(), ["a", "c"]);
    }

    #[test]
    fn deep_and_heavy_json_is_left_out_and_the_text_stays() {
        let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        let value = |json: &str| {
            let bytes = format!(
                r#"{{"end": "finished", "value": {{"text": "t", "json": {json}, "mime": {{}}}}}}"#
            );
            let value = ended(bytes.as_bytes()).value.unwrap();
            assert_eq!(value.text, "t");
            value.json
        };
        assert!(value(&nested(MAX_VALUE_NESTING)).is_some());
        assert_eq!(value(&nested(MAX_VALUE_NESTING + 1)), None);
        assert_eq!(value(&nested(100_000)), None);
        assert!(value(&format!("[{}1]", "{},".repeat(1000))).is_some());
        assert_eq!(value(&format!("[{}1]", "{},".repeat(500_000))), None);
        let variable = format!(
            r#"{{"end": "finished", "variable": {{"type": "list", "text": "t", "json": {}}}}}"#,
            nested(MAX_VALUE_NESTING + 1)
        );
        let variable = Variable::parse(variable.as_bytes()).unwrap().unwrap();
        assert_eq!((variable.text.as_str(), variable.json), ("t", None));
    }

    #[test]
    fn forms_that_are_no_text_are_none() {
        let bytes = br#"{"end": "finished", "value": {"text": "t", "mime": [[1]]}}"#;
        assert_eq!(ended(bytes).value.unwrap().mime.len(), 0);
    }

    #[test]
    fn a_variable_is_there_or_not() {
        assert_eq!(Variable::parse(br#"{"end": "finished", "variable": null}"#), Some(None));
        assert_eq!(Variable::parse(b"[]"), None);
        assert_eq!(Variable::parse(br#"{"end": "exited", "variable": null}"#), None);
        let variable = Variable::parse(
            br#"{"end": "finished", "variable": {"type": "int", "text": "1", "json": 1}}"#,
        );
        assert_eq!(variable.unwrap().unwrap().json, Some(1.into()));
        let none = br#"{"end": "finished", "variable": {"type": "NoneType", "text": "None", "json": null}}"#;
        assert_eq!(Variable::parse(none).unwrap().unwrap().json, Some(serde_json::Value::Null));
        let object = br#"{"end": "finished", "variable": {"type": "object", "text": "<object>"}}"#;
        assert_eq!(Variable::parse(object).unwrap().unwrap().json, None);
    }
}
