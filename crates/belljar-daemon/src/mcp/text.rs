//! Results as a model reads them: text, and images.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use belljar::SandboxResult;
use rmcp::model::{CallToolResult, ContentBlock};
use serde::Serialize;

use crate::desk::Problem;

/// An answer that is not about code: a text, and the structure.
pub(super) fn answer(text: String, structure: &impl Serialize) -> Result<CallToolResult, Problem> {
    let mut result = CallToolResult::success(vec![ContentBlock::text(text)]);
    result.structured_content = Some(json(structure)?);
    Ok(result)
}

/// What an execution gave. That code failed is an error of the tool, not of the protocol, and the
/// result is complete either way.
pub(super) fn executed(mut result: SandboxResult) -> Result<CallToolResult, Problem> {
    let images = take_images(&mut result);
    let mut content = vec![ContentBlock::text(report(&result))];
    content.extend(images);
    let mut answer = CallToolResult::success(content);
    answer.is_error = Some(!result.success());
    answer.structured_content = Some(json(&result)?);
    Ok(answer)
}

fn json(value: &impl Serialize) -> Result<serde_json::Value, Problem> {
    serde_json::to_value(value)
        .map_err(|error| Problem::failed(format!("the answer cannot be written as JSON: {error}")))
}

/// What somebody who wrote the code wants to see, in the order of a notebook.
pub(super) fn report(result: &SandboxResult) -> String {
    let mut text = result.stdout.clone();
    if !result.stderr.is_empty() {
        section(&mut text, "stderr:");
        text.push_str(&result.stderr);
    }
    if let Some(value) = &result.result {
        section(&mut text, "result:");
        text.push_str(&value.text);
    }
    // Limits are told on stderr.
    if let Some(error) = &result.error
        && !result.stderr.contains(error.traceback.trim_end())
    {
        section(&mut text, "error:");
        text.push_str(&error.traceback);
    }
    if !result.success() {
        let ended = format!("status: {}, exit code {}", result.status(), result.exit_code());
        section(&mut text, &ended);
    }
    let changes = [
        ("files created", &result.files_created),
        ("files modified", &result.files_modified),
        ("files deleted", &result.files_deleted),
    ];
    for (what, files) in changes.into_iter().filter(|(_, files)| !files.is_empty()) {
        section(&mut text, &format!("{what}: {}", list(files)));
    }
    if text.trim().is_empty() { "(no output)".to_owned() } else { text.trim_end().to_owned() }
}

fn section(text: &mut String, title: &str) {
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text.push_str(title);
    text.push('\n');
}

fn list(files: &[String]) -> String {
    const SHOWN: usize = 20;
    let shown = files.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join(", ");
    match files.len().checked_sub(SHOWN) {
        Some(more @ 1..) => format!("{shown} and {more} more"),
        Some(0) | None => shown,
    }
}

/// Images of the value, as content. They are taken out of the result: a program finds them in the
/// content, and a model must not read them twice.
fn take_images(result: &mut SandboxResult) -> Vec<ContentBlock> {
    let Some(value) = &mut result.result else { return Vec::new() };
    let mut images = Vec::new();
    let kinds: Vec<String> =
        value.mime.keys().filter(|kind| kind.starts_with("image/")).cloned().collect();
    for kind in kinds {
        let Some(data) = value.mime.remove(&kind) else { continue };
        if kind == "image/svg+xml" {
            images.push(ContentBlock::image(STANDARD.encode(data), kind));
            continue;
        }
        // A guest says that it is an image; whoever shows it has to be able to decode it.
        let plain: String = data.split_ascii_whitespace().collect();
        match STANDARD.decode(&plain) {
            Ok(bytes) if !bytes.is_empty() => images.push(ContentBlock::image(plain, kind)),
            Ok(_) | Err(_) => {
                value.mime.insert(kind, data);
            }
        }
    }
    images
}

#[cfg(test)]
mod tests {
    use belljar::{CellValue, GuestError, Meta, Outcome};

    use super::*;

    fn finished(stdout: &str) -> SandboxResult {
        let mut result = SandboxResult::new(Outcome::Finished, Meta::default());
        result.stdout = stdout.to_owned();
        result
    }

    #[test]
    fn a_report_reads_like_a_notebook() {
        let mut result = finished("hello");
        result.stderr = "careful\n".to_owned();
        result.result = Some(CellValue { text: "42".to_owned(), ..CellValue::default() });
        result.files_created = (0..22).map(|number| format!("f{number}")).collect();
        insta::assert_snapshot!(report(&result), @"
        hello
        stderr:
        careful
        result:
        42
        files created: f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19 and 2 more
        ");
        assert_eq!(report(&finished("")), "(no output)");
    }

    #[test]
    fn an_error_is_told_once() {
        let error = GuestError {
            name: "ValueError".to_owned(),
            message: "no".to_owned(),
            traceback: "Traceback…\nValueError: no\n".to_owned(),
        };
        let mut result = SandboxResult::new(Outcome::Raised(error), Meta::default());
        insta::assert_snapshot!(report(&result), @"
        error:
        Traceback…
        ValueError: no
        status: error, exit code 1
        ");
        result.stderr = "Traceback…\nValueError: no\n".to_owned();
        insta::assert_snapshot!(report(&result), @"
        stderr:
        Traceback…
        ValueError: no
        status: error, exit code 1
        ");
    }

    #[test]
    fn images_are_images_only_when_they_can_be_decoded() {
        let mut result = finished("");
        let forms = [
            ("image/png", "iVBO\nRw=="),
            ("image/jpeg", "no base64!"),
            ("image/svg+xml", "<svg/>"),
            ("image/webp", "UklGRg=="),
            ("text/html", "<b>"),
        ];
        let mime = forms.map(|(kind, data)| (kind.to_owned(), data.to_owned())).into();
        result.result = Some(CellValue { mime, ..CellValue::default() });
        let images = take_images(&mut result);
        let images: Vec<_> = images.iter().filter_map(ContentBlock::as_image).collect();
        let shown: Vec<_> = images.iter().map(|i| (&*i.mime_type, &*i.data)).collect();
        let expected =
            [("image/png", "iVBORw=="), ("image/svg+xml", "PHN2Zy8+"), ("image/webp", "UklGRg==")];
        assert_eq!(shown, expected);
        let left: Vec<_> = result.result.unwrap().mime.into_keys().collect();
        assert_eq!(left, ["image/jpeg", "text/html"]);
    }
}
