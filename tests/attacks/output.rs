//! Flooding the output.

use std::time::Duration;

use belljar::Status;
use support::{Expect, Jar, attack, permitted};

const MARKER: &str = "... (output truncated)";

#[test]
fn flood_of_stdout() {
    let result = attack(&Jar::new(), "while True: print('x' * 100_000)");
    result.ended(Status::OutputLimit, -1);
    assert_eq!(result.stdout.len(), 2_000_000);
    assert!(result.stdout.ends_with(MARKER) && result.meta.truncated);
    permitted(&Jar::new(), "print('x' * 100_000)").printed(&format!("{}\n", "x".repeat(100_000)));
}

#[test]
fn flood_of_stderr() {
    let result = attack(&Jar::new(), "import sys\nwhile True: sys.stderr.write('x' * 100_000)");
    result.ended(Status::OutputLimit, -1);
    assert!(result.stderr.len() <= 1_000_000, "{}", result.stderr.len());
    assert!(result.stderr.contains(MARKER) && result.meta.truncated);
    let notice =
        "OutputLimit: stopped for writing many times more output than is kept; print less\n";
    assert!(result.stderr.ends_with(notice));
    let result = permitted(&Jar::new(), "import sys\nsys.stderr.write('x' * 1000)\nNone");
    assert_eq!(result.ended(Status::Ok, 0).stderr, "x".repeat(1000));
}

#[test]
fn flood_below_the_text_layer() {
    let result = attack(&Jar::new(), "import os\nwhile True: os.write(1, b'y' * 1_000_000)");
    result.ended(Status::OutputLimit, -1);
    assert_eq!(result.stdout.len(), 2_000_000);
    permitted(&Jar::new(), "import os; os.write(1, b'y')\nNone").printed("y");
}

#[test]
fn flood_in_small_drops() {
    let jar = Jar::new().timeout(Duration::from_secs(1)).with(|layer| layer.stdout_max_bytes(1000));
    let result = attack(&jar, "while True: print('x')");
    result.ended(Status::Timeout, -1);
    assert_eq!(result.stdout.len(), 1000);
    assert!(result.stdout.ends_with(MARKER));
}

#[test]
fn more_than_is_kept_but_no_flood() {
    let jar = Jar::new().with(|layer| layer.stdout_max_bytes(1000).stderr_max_bytes(500));
    let result = attack(&jar, "import sys\nprint('x' * 5000)\nsys.stderr.write('y' * 5000)\nNone");
    result.ended(Status::Ok, 0);
    assert_eq!(result.stdout, format!("{}{MARKER}", "x".repeat(1000 - MARKER.len())));
    assert_eq!(result.stderr, format!("{}{MARKER}", "y".repeat(500 - MARKER.len())));
    assert!(result.meta.truncated);
    let result = permitted(&jar, "print('x' * 999)");
    result.printed(&format!("{}\n", "x".repeat(999)));
    assert!(!result.meta.truncated);
}

#[test]
fn huge_value_of_the_last_expression() {
    let jar = Jar::new().with(|layer| layer.memory_bytes(256_000_000));
    let result = attack(&jar, "'x' * 20_000_000");
    let value = result.ended(Status::Ok, 0).result.as_ref().expect("a value");
    assert!(value.text.len() < 1_000_000, "{}", value.text.len());
    assert_eq!(value.json, None);
    let result = permitted(&jar, "'x' * 10");
    assert_eq!(result.result.as_ref().map(|value| &*value.text), Some("'xxxxxxxxxx'"));
}

#[test]
fn huge_exception() {
    let result = attack(&Jar::new(), "raise ValueError('x' * 20_000_000)");
    result.ended(Status::Error, 1);
    let error = result.error.as_ref().expect("an error");
    assert_eq!(error.name, "ValueError");
    assert!(error.message.len() < 100_000 && error.traceback.len() < 1_000_000);
    let result = attack(&Jar::new(), "raise type('E' * 10**6, (Exception,), {})('x')");
    let error = result.ended(Status::Error, 1).error.as_ref().expect("an error");
    assert!(error.name.len() < 1000, "{}", error.name.len());
    permitted(&Jar::new(), "raise ValueError('x' * 10)").raised("ValueError", "xxxxxxxxxx");
}

#[test]
fn output_that_is_no_text() {
    let result =
        attack(&Jar::new(), "import os\nfor _ in range(100): os.write(1, bytes(range(256)))");
    result.ended(Status::Ok, 0);
    assert!(result.stdout.contains('\u{fffd}') && result.stdout.contains('\0'));
    let text = serde_json::to_string(&result).expect("JSON");
    assert_eq!(serde_json::from_str::<belljar::SandboxResult>(&text).expect("JSON"), result);
}
