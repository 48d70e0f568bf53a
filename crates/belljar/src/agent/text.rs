//! Results and errors as an agent reads them: what was printed; or what went wrong in the first
//! line, then where, then what to do about it.

use belljar_core::limits::{MAX_TOOL_FAILURE_OUTPUT_BYTES, MAX_TOOL_TRACEBACK_BYTES};
use belljar_core::text::shortened;
use belljar_core::units::format_bytes;
use belljar_core::{
    CappedText, GuestError, RuntimeType, SandboxError, SandboxResult, Status, TRUNCATION_MARKER,
};

use super::Answer;

/// What is said when there is nothing to say.
const NO_OUTPUT: &str = "(no output)";

/// The longest first line of a failure.
const MAX_HEADLINE_BYTES: usize = 1024;

/// Lines of a traceback that are shown: its end, which says where and what.
const TRACEBACK_LINES: usize = 16;

/// What to say about an execution. `note` is why it could not be kept.
pub(super) fn of(result: &SandboxResult, note: Option<&SandboxError>) -> Answer {
    let mut text = if result.success() { printed(result) } else { failure(result) };
    if let Some(missing) = &result.meta.fallback_from {
        let told = format!("{missing} was not available, so this ran on {}", result.meta.runtime);
        section(&mut text, "note", &told);
    }
    if let Some(error) = note {
        section(&mut text, "note", &format!("this execution was not kept: {error}"));
    }
    Answer { text, success: result.success() }
}

/// What to say when nothing could be run.
pub(super) fn refused(error: &SandboxError) -> Answer {
    let mut text = format!("Error: {error}");
    if let Some(hint) = error.hint() {
        text.push_str(&format!("\nSuggestion: {hint}"));
    }
    Answer { text, success: false }
}

fn printed(result: &SandboxResult) -> String {
    let cap = usize::try_from(result.meta.resource_limits.stdout_max_bytes).unwrap_or(usize::MAX);
    let value = result.result.as_ref().map(|value| value.text.as_str()).unwrap_or_default();
    let mut text = if !result.stdout.is_empty() {
        result.stdout.clone()
    } else if !value.is_empty() {
        CappedText::new(value.to_owned(), cap).text
    } else {
        NO_OUTPUT.to_owned()
    };
    section(&mut text, "stderr", &end_of(&result.stderr, MAX_TOOL_FAILURE_OUTPUT_BYTES));
    text
}

fn failure(result: &SandboxResult) -> String {
    let traceback = result.error.as_ref().map(|error| error.traceback.as_str()).unwrap_or_default();
    let headline = CappedText::new(headline(result), MAX_HEADLINE_BYTES).text;
    let mut text = format!("Error: {headline}");
    let trace = last_lines(traceback.trim_end());
    if !trace.is_empty() && trace != headline {
        text.push_str(&format!("\n{trace}"));
    }
    section(&mut text, "stdout", &end_of(&result.stdout, MAX_TOOL_FAILURE_OUTPUT_BYTES));
    let stderr = own_stderr(result, traceback);
    section(&mut text, "stderr", &end_of(&stderr, MAX_TOOL_FAILURE_OUTPUT_BYTES));
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text.push_str(&format!("Suggestion: {}", suggestion(result)));
    text
}

/// What went wrong, in one line.
fn headline(result: &SandboxResult) -> String {
    let limits = &result.meta.resource_limits;
    let size = |limit: Option<u64>| limit.map_or_else(|| "its limit".to_owned(), format_bytes);
    match result.status() {
        Status::Timeout => format!("timed out after {} s", limits.timeout_seconds),
        Status::OutOfFuel => "the code used up its fuel".to_owned(),
        Status::OutOfMemory => {
            format!("the code needed more memory than {}", size(limits.memory_bytes))
        }
        Status::OutputLimit => "the code was stopped for flooding its output".to_owned(),
        Status::Quota => "the code wrote more files, or larger ones, than it may".to_owned(),
        // Code that cannot be examined is blocked as well, and imports nothing that is known.
        Status::Blocked if result.meta.blocked_imports.is_empty() => {
            let why = result.error.as_ref().map(|error| error.message.as_str());
            let why = why.filter(|why| !why.is_empty());
            format!("blocked: {}", why.unwrap_or("the code cannot be examined for blocked imports"))
        }
        Status::Blocked => {
            format!("blocked import: {}", result.meta.blocked_imports.join(", "))
        }
        Status::Cancelled => "the code was cancelled".to_owned(),
        Status::Suspended => "the code waits for a tool that answers later".to_owned(),
        Status::Crashed => "the interpreter broke and was thrown away".to_owned(),
        Status::Ok | Status::Error => match &result.error {
            Some(GuestError { name, message, .. }) => {
                let first = message.lines().next().unwrap_or_default();
                if first.is_empty() { name.clone() } else { format!("{name}: {first}") }
            }
            None => format!("the code exited with code {}", result.exit_code()),
        },
    }
}

/// What the agent can do about it.
fn suggestion(result: &SandboxResult) -> String {
    let name = result.error.as_ref().map(|error| error.name.as_str()).unwrap_or_default();
    match result.status() {
        Status::Timeout => {
            "look for a loop that does not end, do less, or allow more time with `timeout` or \
             SANDBOX_TIMEOUT_SEC"
        }
        Status::OutOfFuel => "do less, or raise SANDBOX_FUEL_BUDGET",
        Status::OutOfMemory => {
            "work on smaller pieces, or raise SANDBOX_MEMORY_BYTES (for docker also \
             DOCKER_MEMORY_LIMIT)"
        }
        Status::OutputLimit => "print only what is needed",
        Status::Quota => {
            "write less, or raise SANDBOX_WORKSPACE_MAX_BYTES or SANDBOX_WORKSPACE_MAX_FILES"
        }
        Status::Blocked if result.meta.blocked_imports.is_empty() => {
            "write shorter and plainer code, or run it in parts; whoever runs the tool can do \
             without the guard, by SANDBOX_BLOCK_DANGEROUS_IMPORTS=false and no \
             SANDBOX_BLOCK_IMPORTS"
        }
        Status::Blocked => {
            "do without these modules; whoever runs the tool can allow them with \
             SANDBOX_BLOCK_DANGEROUS_IMPORTS=false or SANDBOX_BLOCK_IMPORTS"
        }
        Status::Cancelled => "run it again if it was wanted",
        Status::Suspended => "do without that tool",
        Status::Crashed => "the code did what the interpreter does not survive; do it another way",
        Status::Ok | Status::Error => return about_error(result, name),
    }
    .to_owned()
}

fn about_error(result: &SandboxResult, name: &str) -> String {
    if let Some(module) = missing_module(result) {
        return about_module(result, &module);
    }
    match name {
        "" => "the code itself ended with that code; its output says why",
        "SyntaxError" | "IndentationError" | "TabError" => {
            "correct the syntax at the place shown and call again"
        }
        "EOFError" => "nobody answers input(); put the values into the code",
        "FileNotFoundError" | "PermissionError" => {
            "only files in the working directory can be used; it is empty at the start of every \
             call, and nothing in it stays"
        }
        "gaierror"
        | "URLError"
        | "ConnectionError"
        | "ConnectionRefusedError"
        | "ConnectTimeout"
        | "HTTPError" => "the sandbox has no network; put the data into the code",
        "MemoryError" => "work on smaller pieces, or raise SANDBOX_MEMORY_BYTES",
        "RecursionError" => "look for a recursion that does not end, or use a loop",
        _ => "correct the code at the last line of the traceback and call again",
    }
    .to_owned()
}

/// The module that could not be found, as the interpreters name it.
fn missing_module(result: &SandboxResult) -> Option<String> {
    let error = result.error.as_ref()?;
    let named = ["No module named ", "Cannot find module ", "Cannot find package "]
        .iter()
        .find_map(|start| error.message.strip_prefix(start))?;
    let quote = |c: char| c == '\'' || c == '"';
    let name = named.trim_start_matches(quote).split(quote).next().unwrap_or_default();
    Some(shortened(name).escape_debug().to_string())
}

fn about_module(result: &SandboxResult, module: &str) -> String {
    let there = match result.meta.language {
        RuntimeType::Python => "Python's standard library",
        RuntimeType::Javascript => "what the language itself has",
    };
    let remedy = match (result.meta.runtime.as_str(), result.meta.language) {
        ("wasm", RuntimeType::Python) => {
            format!("add it with `belljar packages add` if {module} is pure Python")
        }
        ("local", RuntimeType::Python) => {
            "install it for the Python that BELLJAR_PYTHON names".to_owned()
        }
        ("docker", _) => "build it into the image that DOCKER_IMAGE names".to_owned(),
        _ => "use another backend (SANDBOX_TYPE)".to_owned(),
    };
    format!("{module} is not installed; do it with {there}, or {remedy}")
}

/// What the code itself wrote to standard error: without the traceback, which is shown already,
/// and without the host's line about a limit.
fn own_stderr(result: &SandboxResult, traceback: &str) -> String {
    let mut text = if traceback.is_empty() {
        result.stderr.clone()
    } else {
        result.stderr.replacen(traceback, "", 1)
    };
    let notices =
        ["Timeout", "OutOfFuel", "OutOfMemory", "OutputLimit", "Quota", "Cancelled", "Crashed"];
    let is_notice = |line: &str| {
        notices
            .iter()
            .any(|name| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(": ")))
    };
    let limited = !matches!(result.status(), Status::Ok | Status::Error);
    let last = text.trim_end().rfind('\n').map_or(0, |end| end + 1);
    if limited && text.get(last..).is_some_and(is_notice) {
        text.truncate(last);
    }
    text
}

/// The end of a traceback.
fn last_lines(traceback: &str) -> String {
    let lines: Vec<&str> = traceback.lines().collect();
    let shown = lines.get(lines.len().saturating_sub(TRACEBACK_LINES)..).unwrap_or_default();
    let text = shown.join("\n");
    let text = end_of(&text, MAX_TOOL_TRACEBACK_BYTES);
    if shown.len() < lines.len() { format!("...\n{text}") } else { text }
}

/// The end of a text, with a sign where it begins in the middle.
fn end_of(text: &str, cap: usize) -> String {
    if text.len() <= cap {
        return text.to_owned();
    }
    let start = text.ceil_char_boundary(text.len() - cap);
    format!("{TRUNCATION_MARKER}\n{}", text.get(start..).unwrap_or_default())
}

/// Adds a named part, if there is something in it.
fn section(text: &mut String, name: &str, content: &str) {
    if content.trim().is_empty() {
        return;
    }
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text.push_str(&format!("[{name}]\n{content}"));
}

#[cfg(test)]
mod tests {
    use belljar_core::{Backend, CellValue, Meta, Outcome, ResourceLimits, Stop};

    use super::*;

    fn meta() -> Meta {
        Meta {
            runtime: "local".into(),
            blocked_imports: vec!["socket".into(), "subprocess".into()],
            resource_limits: ResourceLimits {
                timeout_seconds: 5.0,
                memory_bytes: Some(64 << 20),
                stdout_max_bytes: 10 * 1024,
                ..ResourceLimits::default()
            },
            ..Meta::default()
        }
    }

    fn raised(name: &str, message: &str) -> SandboxResult {
        let traceback = format!(
            "Traceback (most recent call last):\n  File \"<sandbox>\", line 1, in <module>\n{name}: {message}\n"
        );
        let error = GuestError { name: name.into(), message: message.into(), traceback };
        let stderr = error.traceback.clone();
        let mut result = SandboxResult::new(Outcome::Raised(error), meta());
        result.stderr = stderr;
        result
    }

    fn text(result: &SandboxResult) -> String {
        of(result, None).text
    }

    #[test]
    fn success_is_what_was_printed_or_the_value_or_a_word() {
        let mut result = SandboxResult::new(Outcome::Finished, meta());
        assert_eq!(text(&result), "(no output)");
        result.result = Some(CellValue { text: "42".into(), ..CellValue::default() });
        assert_eq!(text(&result), "42");
        result.stdout = " printed \n".into();
        assert_eq!(text(&result), " printed \n");
        result.stderr = "a warning\n".into();
        assert_eq!(text(&result), " printed \n[stderr]\na warning\n");
        result.stdout.clear();
        result.result = Some(CellValue { text: "x".repeat(1 << 20), ..CellValue::default() });
        assert!(text(&result).len() < 11 * 1024);
    }

    #[test]
    fn an_error_has_its_traceback_its_output_and_a_way_out() {
        let mut result = raised("ValueError", "Something went wrong\nand more");
        result.stdout = "so far".into();
        result.stderr = format!("careful!\n{}", result.stderr);
        insta::assert_snapshot!(text(&result), @r#"
        Error: ValueError: Something went wrong
        Traceback (most recent call last):
          File "<sandbox>", line 1, in <module>
        ValueError: Something went wrong
        and more
        [stdout]
        so far
        [stderr]
        careful!
        Suggestion: correct the code at the last line of the traceback and call again
        "#);
    }

    #[test]
    fn every_kind_of_error_has_a_suggestion_of_its_own() {
        let mut shown: Vec<String> = [
            ("ModuleNotFoundError", "No module named 'numpy'"),
            ("SyntaxError", "invalid syntax"),
            ("EOFError", "nobody is there"),
            ("FileNotFoundError", "[Errno 2] No such file"),
            ("URLError", "<urlopen error>"),
            ("MemoryError", ""),
            ("RecursionError", "maximum recursion depth exceeded"),
        ]
        .into_iter()
        .map(|(name, message)| short(&text(&raised(name, message))))
        .collect();
        shown.push(short(&text(&SandboxResult::new(Outcome::Exited(3), meta()))));
        for runtime in ["wasm", "docker", "pyodide"] {
            let mut result = raised("ModuleNotFoundError", "No module named 'numpy'");
            result.meta.runtime = runtime.into();
            shown.push(short(&text(&result)));
        }
        insta::assert_snapshot!(shown.join("\n\n"));
    }

    #[test]
    fn every_stop_has_a_suggestion_of_its_own() {
        let shown =
            Stop::ALL.map(|stop| text(&SandboxResult::new(Outcome::Stopped(stop, None), meta())));
        insta::assert_snapshot!(shown.join("\n\n"));
    }

    #[test]
    fn blocked_code_that_could_not_be_examined_says_why() {
        let message = "the code was not run, because it cannot be examined for blocked imports: \
                       it is longer than 1 MiB";
        let error = GuestError {
            name: "BlockedImportError".into(),
            message: message.into(),
            traceback: format!("BlockedImportError: {message}\n"),
        };
        let meta = Meta { blocked_imports: Vec::new(), ..meta() };
        let mut result = SandboxResult::new(Outcome::Stopped(Stop::Blocked, Some(error)), meta);
        result.stderr = format!("BlockedImportError: {message}\n");
        insta::assert_snapshot!(text(&result));
    }

    /// Its first and last line.
    fn short(text: &str) -> String {
        let lines: Vec<&str> = text.lines().collect();
        format!("{}\n{}", lines[0], lines[lines.len() - 1])
    }

    #[test]
    fn the_hosts_own_line_about_a_limit_is_said_once() {
        let error = GuestError {
            name: "KeyboardInterrupt".into(),
            message: String::new(),
            traceback: "Traceback …\nKeyboardInterrupt\n".into(),
        };
        let mut result = SandboxResult::new(Outcome::Stopped(Stop::Timeout, Some(error)), meta());
        result.stderr =
            "Traceback …\nKeyboardInterrupt\nTimeout: timed out after 5 s; raise it\n".into();
        insta::assert_snapshot!(text(&result), @r"
        Error: timed out after 5 s
        Traceback …
        KeyboardInterrupt
        Suggestion: look for a loop that does not end, do less, or allow more time with `timeout` or SANDBOX_TIMEOUT_SEC
        ");
    }

    #[test]
    fn errors_of_the_host_come_with_their_hint() {
        let error = SandboxError::BackendUnavailable {
            backend: Backend::Docker,
            reason: "Docker daemon not available".into(),
            hint: Some("Set SANDBOX_TYPE=local or start Docker daemon".into()),
        };
        insta::assert_snapshot!(refused(&error).text, @r"
        Error: the docker backend cannot be used: Docker daemon not available; nothing was run
        Suggestion: Set SANDBOX_TYPE=local or start Docker daemon
        ");
        let mut result = SandboxResult::new(Outcome::Finished, meta());
        result.stdout = "1\n".into();
        insta::assert_snapshot!(of(&result, Some(&error)).text, @r"
        1
        [note]
        this execution was not kept: the docker backend cannot be used: Docker daemon not available; nothing was run
        ");
    }

    #[test]
    fn whatever_a_guest_says_the_text_is_bounded() {
        let huge = "é\n".repeat(1 << 20);
        let error =
            GuestError { name: huge.clone(), message: huge.clone(), traceback: huge.clone() };
        let mut result = SandboxResult::new(Outcome::Raised(error), meta());
        result.stdout = huge.clone();
        result.stderr = format!("x{huge}");
        assert!(text(&result).len() < 16 * 1024);
    }
}
