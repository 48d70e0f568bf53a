//! Calls that wait for an answer, and the answers.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use belljar::{SandboxError, ToolAnswer, ToolCall, ToolFailure};

use crate::render;

/// The most of a call's arguments that is shown on a line.
const SHOWN_CHARS: usize = 200;

/// A call as one would write it, cut to a line.
pub(crate) fn shown(call: &ToolCall) -> String {
    let mut arguments: Vec<String> = call.args.iter().map(ToString::to_string).collect();
    // A name may be any text, and must not look like several arguments.
    let named =
        |name: &str| if is_identifier(name) { name.to_owned() } else { format!("{name:?}") };
    arguments.extend(call.kwargs.iter().map(|(name, value)| format!("{}={value}", named(name))));
    let text = format!("{}({})", call.name, arguments.join(", "));
    let text = render::spelled_out(&text);
    match text.char_indices().nth(SHOWN_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

fn is_identifier(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|char| char.is_alphanumeric() || char == '_')
}

/// The calls, one on a line, with their numbers.
pub(crate) fn list(calls: &[ToolCall]) -> String {
    calls.iter().fold(String::new(), |mut text, call| {
        // Writing to a string cannot fail.
        let _ = write!(text, "\n  {}  {}", call.id, shown(call));
        text
    })
}

/// How to answer the first of these calls.
pub(crate) fn how_to_answer(id: &str, calls: &[ToolCall]) -> String {
    let call = calls.first().map_or(1, |call| call.id);
    format!("answer with `belljar session resume {id} --answer {call}=JSON`")
}

/// The answers that were typed. Every one must be to a call that waits.
pub(crate) fn answers(
    answers: &[(u64, String)],
    failures: &[(u64, String)],
    pending: &[ToolCall],
) -> Result<Vec<ToolAnswer>, SandboxError> {
    if pending.is_empty() {
        return Err(SandboxError::NotSuspended);
    }
    let mut typed = Vec::new();
    for (call, text) in answers {
        typed.push(ToolAnswer { id: *call, outcome: Ok(value(*call, text)?) });
    }
    for (call, message) in failures {
        typed.push(ToolAnswer { id: *call, outcome: Err(ToolFailure::new(message)) });
    }
    for (index, answer) in typed.iter().enumerate() {
        if !pending.iter().any(|call| call.id == answer.id) {
            return Err(wrong(
                answer.id,
                "nobody waits for it",
                format!("the calls that wait are:{}", list(pending)),
            ));
        }
        if typed[..index].iter().any(|earlier| earlier.id == answer.id) {
            return Err(wrong(answer.id, "it is answered twice", "answer it once".to_owned()));
        }
    }
    Ok(typed)
}

/// An answer's JSON, given or in a file.
fn value(call: u64, text: &str) -> Result<serde_json::Value, SandboxError> {
    let (text, is_file) = match text.strip_prefix('@') {
        Some(path) => (read(Path::new(path))?, true),
        None => (text.to_owned(), false),
    };
    serde_json::from_str(&text).map_err(|error| {
        let quoted = serde_json::Value::String(text.trim().to_owned()).to_string();
        let hint = if is_file {
            "the file must hold one JSON value".to_owned()
        } else {
            format!("a text needs its own quotation marks: --answer '{call}={quoted}'")
        };
        wrong(call, &format!("it is not JSON ({error})"), hint)
    })
}

fn read(path: &Path) -> Result<String, SandboxError> {
    fs::read_to_string(path).map_err(|error| SandboxError::Input {
        what: "the answer in".to_owned(),
        path: path.to_owned(),
        problem: error.to_string(),
        hint: None,
    })
}

fn wrong(call: u64, problem: &str, hint: String) -> SandboxError {
    SandboxError::Input {
        what: "the answer to call".to_owned(),
        path: call.to_string().into(),
        problem: problem.to_owned(),
        hint: Some(hint),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pending() -> Vec<ToolCall> {
        let call =
            json!({"id": 3, "name": "approve", "args": ["deploy", 1], "kwargs": {"to": [1]}});
        vec![serde_json::from_value(call).unwrap()]
    }

    fn complaint(typed: &[(u64, &str)], failures: &[(u64, &str)]) -> String {
        let own = |list: &[(u64, &str)]| -> Vec<(u64, String)> {
            list.iter().map(|(call, text)| (*call, (*text).to_owned())).collect()
        };
        let error = answers(&own(typed), &own(failures), &pending()).unwrap_err();
        format!("{error}\nhint: {}", error.hint().unwrap_or_default())
    }

    #[test]
    fn a_call_is_shown_as_it_was_written() {
        assert_eq!(list(&pending()), "\n  3  approve(\"deploy\", 1, to=[1])");
        let long = ToolCall { name: "x".repeat(500), ..ToolCall::default() };
        assert_eq!(shown(&long).chars().count(), SHOWN_CHARS + 1);
    }

    #[test]
    fn answers_are_json_or_files_or_failures() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a.json");
        fs::write(&file, "{\"ok\": true}\n").unwrap();
        let typed = |text: &str| answers(&[(3, text.to_owned())], &[], &pending()).unwrap();
        assert_eq!(typed("true")[0].outcome, Ok(json!(true)));
        assert_eq!(typed(&format!("@{}", file.display()))[0].outcome, Ok(json!({"ok": true})));
        let failed = answers(&[], &[(3, "no".to_owned())], &pending()).unwrap();
        assert_eq!(failed[0].outcome, Err(ToolFailure::new("no")));
    }

    #[test]
    fn wrong_answers_are_explained() {
        insta::assert_snapshot!(
            [
                complaint(&[(3, "yes")], &[]),
                complaint(&[(4, "1")], &[]),
                complaint(&[(3, "1")], &[(3, "no")]),
                complaint(&[(3, "@/no/such/file")], &[]),
            ]
            .join("\n")
        );
    }
}
