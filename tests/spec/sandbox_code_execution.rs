//! Capability: Sandbox Code Execution.
//!
//! "Local" is the native backend: a subprocess, and a jail around it. `duration` is
//! `SandboxResult::duration`, in seconds.

use std::path::Path;
use std::time::Duration;

use belljar::{PolicyLayer, SandboxConfig, SandboxLogger, Status, create_sandbox};
use support::{Cells, Expect, Jar, processes_of};

/// What starting an interpreter and a busy machine may add.
const SLOWNESS_SECONDS: f64 = 2.0;

#[test]
fn scenario_1_local_execution() {
    let result = Jar::native().open().run("print('Hello')");
    result.printed("Hello\n");
    assert_eq!(result.meta.runtime, "local");
    assert!(result.duration() > 0.0 && result.duration() < 1.0, "{} s", result.duration());
}

// Scenario 2, Docker Execution: not yet

#[test]
fn scenario_3_timeout_enforcement() {
    let jar = Jar::native().timeout(Duration::from_secs(5));
    let result = jar.open().run("while True:\n    pass");
    result.ended(Status::Timeout, -1);
    assert!(result.meta.timed_out);
    assert!(result.stderr.contains("Timeout: timed out after 5 s"), "{}", result.stderr);
    let duration = result.duration();
    assert!((5.0..5.0 + SLOWNESS_SECONDS).contains(&duration), "{duration} s");
    assert_eq!(processes_of(jar.workspace()), Vec::<String>::new());
}

#[test]
fn scenario_4_output_truncation() {
    let jar = Jar::native().with(|layer| layer.stdout_max_bytes(10 * 1024));
    let result = jar.open().run("for i in range(100000):\n    print(f'Line {i}: ' + 'X' * 100)");
    result.ended(Status::Ok, 0);
    assert_eq!(result.stdout.len(), 10 * 1024);
    assert!(result.stdout.starts_with("Line 0: XXX"));
    assert!(result.stdout.ends_with("... (output truncated)"));
    assert!(result.meta.truncated);
}

#[test]
fn scenario_5_non_zero_exit_code() {
    let result = Jar::native().open().run("raise ValueError(\"Something went wrong\")");
    result.raised("ValueError", "Something went wrong");
    let traceback = "Traceback (most recent call last):\n  File \"<sandbox>\", line 1, in <module>\n    \
                     raise ValueError(\"Something went wrong\")\nValueError: Something went wrong\n";
    assert_eq!((result.exit_code(), result.stderr.as_str()), (1, traceback));
    assert!(!result.success());
}

/// What the variable `SANDBOX_BLOCK_DANGEROUS_IMPORTS=true` sets.
#[test]
fn scenario_6_dangerous_import_blocking() {
    let variables = [("SANDBOX_BLOCK_DANGEROUS_IMPORTS", "true")];
    let jar = Jar::native().with(|layer| {
        layer.merge(PolicyLayer::from_variables(variables).expect("a good variable"))
    });
    let (logger, log) = SandboxLogger::captured();
    let config = SandboxConfig { logger: Some(logger), ..jar.config() };
    let code = "import subprocess\nsubprocess.run([\"rm\", \"-rf\", \"/\"])";
    let result = create_sandbox(&config).expect("a sandbox").run(code);
    result.ended(Status::Blocked, 1).changed(&[], &[], &[]);
    assert_eq!(result.meta.blocked_imports, ["subprocess"]);
    let error = result.error.as_ref().expect("an error");
    assert_eq!(error.name, "BlockedImportError");
    let message = "the code was not run, because it imports `subprocess` (line 1); instead of \
                   subprocess, use Python itself for what the program would do, or a tool that \
                   the host offers";
    assert_eq!(error.message, message);
    assert_eq!(result.stderr, format!("BlockedImportError: {message}\n"));
    let logged = log.events().iter().any(|event| {
        event["event_type"] == "blocked_import"
            && event["detail"].as_str().is_some_and(|detail| detail.contains("instead of"))
    });
    assert!(logged, "suggestions are logged");
    for blocked in ["os", "shutil", "socket"] {
        jar.open().run(&format!("import {blocked}")).ended(Status::Blocked, 1);
    }
    let own = Jar::native().with(|layer| layer.block_imports(["json"]));
    own.open().run("import json").ended(Status::Blocked, 1);
    own.open().run("import os; print(os.sep)").printed("/\n");
}

// Scenario 7, Missing Docker Daemon: not yet

/// Who removes a workspace is who made it: here the test's jar. Only `run_python_code` makes one
/// itself: not yet.
#[test]
fn scenario_8_working_directory_isolation() {
    let jar = Jar::native();
    let code = "with open(\"test.txt\", \"w\") as f:\n    f.write(\"data\")\n\
                import os\nprint(os.getcwd())";
    let result = jar.open().run(code);
    result.printed("/app\n").changed(&["test.txt"], &[], &[]);
    assert_eq!(jar.read("test.txt"), "data");
    assert!(!Path::new("test.txt").exists(), "not in the project");
    let escape = jar.open().run(&format!(
        "open({:?}, 'w')",
        Path::new(env!("CARGO_MANIFEST_DIR")).join("test.txt").display().to_string()
    ));
    assert_eq!(escape.error.as_ref().map(|error| &*error.name), Some("FileNotFoundError"));
    let workspace = jar.workspace().to_owned();
    drop(jar);
    assert!(!workspace.exists(), "nothing holds it");
}

// Scenario 9, Execution Artifact Storage: not yet
// Scenario 10, Multi-Language Support: not yet
