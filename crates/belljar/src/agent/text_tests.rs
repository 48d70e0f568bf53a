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
    let error = GuestError { name: huge.clone(), message: huge.clone(), traceback: huge.clone() };
    let mut result = SandboxResult::new(Outcome::Raised(error), meta());
    result.stdout = huge.clone();
    result.stderr = format!("x{huge}");
    assert!(text(&result).len() < 16 * 1024);
}
