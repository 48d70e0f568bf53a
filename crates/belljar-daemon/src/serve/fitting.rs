//! Results that are too long or too heavy for a message. The code has run: what is left out is what
//! can be done without, and the rest is told.

use belljar::SandboxResult;
use belljar_core::TRUNCATION_MARKER;
use belljar_core::limits::MAX_MESSAGE_BYTES;
use belljar_core::protocol::{FAILED, RpcError, check_weight};
use serde_json::value::{RawValue, to_raw_value};

/// A message beside its result.
const ENVELOPE_BYTES: usize = 1024;

/// What is kept of each stream where all of it is too much: escaped at its worst it still fits.
const SHORT_OUTPUT_BYTES: usize = 2 * 1024 * 1024;

/// What can be done without, in this order.
const STEPS: [fn(&mut SandboxResult); 4] = [|_| (), without_forms, without_json, with_short_output];

/// The result as it can be sent.
pub(super) fn fitted(mut result: SandboxResult) -> Result<Box<RawValue>, RpcError> {
    for step in STEPS {
        step(&mut result);
        let told = to_raw_value(&result).map_err(|error| untold(&error.to_string()))?;
        let text = told.get();
        if text.len() + ENVELOPE_BYTES <= MAX_MESSAGE_BYTES && check_weight(text.as_bytes()).is_ok()
        {
            return Ok(told);
        }
    }
    Err(untold("the names of its files or its calls are longer than any message may be"))
}

fn without_forms(result: &mut SandboxResult) {
    if let Some(value) = &mut result.result {
        value.mime.clear();
    }
}

fn without_json(result: &mut SandboxResult) {
    if let Some(value) = &mut result.result {
        value.json = None;
    }
}

fn with_short_output(result: &mut SandboxResult) {
    for text in [&mut result.stdout, &mut result.stderr] {
        if text.len() > SHORT_OUTPUT_BYTES {
            let kept = SHORT_OUTPUT_BYTES - TRUNCATION_MARKER.len();
            text.truncate(text.floor_char_boundary(kept));
            text.push_str(TRUNCATION_MARKER);
            result.meta.truncated = true;
        }
    }
}

fn untold(why: &str) -> RpcError {
    let problem = format!("the code ran, and its result cannot be told: {why}");
    let hint = "its files and its session are as it left them";
    let data = serde_json::json!({ "kind": "result_too_long", "hint": hint });
    RpcError { code: FAILED, message: problem, data: Some(data) }
}

#[cfg(test)]
mod tests {
    use belljar_core::{CellValue, Meta, Outcome};

    use super::*;

    fn result() -> SandboxResult {
        let mut result = SandboxResult::new(Outcome::Finished, Meta::default());
        result.stdout = "printed\n".to_owned();
        result.result = Some(CellValue {
            text: "text".to_owned(),
            json: Some(serde_json::json!([1])),
            mime: [("text/html".to_owned(), "form".to_owned())].into(),
        });
        result
    }

    fn told(result: SandboxResult) -> SandboxResult {
        serde_json::from_str(fitted(result).unwrap().get()).unwrap()
    }

    #[test]
    fn what_fits_is_told_as_it_is() {
        assert_eq!(told(result()), result());
    }

    #[test]
    fn a_form_that_is_too_long_is_left_out_alone() {
        let mut long = result();
        // Each of these takes six bytes.
        let form = "\u{1}".repeat(12 * 1024 * 1024);
        long.result.as_mut().unwrap().mime.insert("text/html".to_owned(), form);
        let mut expected = result();
        expected.result.as_mut().unwrap().mime.clear();
        assert_eq!(told(long), expected);
    }

    #[test]
    fn json_that_is_too_heavy_is_left_out_and_output_that_is_too_long_is_cut() {
        let mut heavy = result();
        heavy.result.as_mut().unwrap().json =
            Some(serde_json::json!(vec![serde_json::json!({}); 500_000]));
        let value = told(heavy).result.unwrap();
        assert_eq!((value.text.as_str(), value.json), ("text", None));
        let mut long = result();
        long.stdout = "\u{1}".repeat(12 * 1024 * 1024);
        let short = told(long);
        assert!(short.stdout.ends_with(TRUNCATION_MARKER) && short.meta.truncated);
        assert!(short.stdout.len() <= SHORT_OUTPUT_BYTES);
    }

    #[test]
    fn at_worst_it_is_told_that_the_code_ran() {
        let mut names = result();
        names.files_created = vec!["x".repeat(4096); 20_000];
        insta::assert_snapshot!(
            fitted(names).unwrap_err(),
            @"the code ran, and its result cannot be told: the names of its files or its calls are longer than any message may be"
        );
    }
}
