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
#[path = "text_tests.rs"]
mod tests;
