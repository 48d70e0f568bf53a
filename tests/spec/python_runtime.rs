//! Capability: Python Runtime.
//!
//! The specification was written for another host; its abstract base class is the trait `Sandbox`,
//! its `__init__` is `SandboxBase::new`, its exceptions are the variants of `SandboxError`.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use belljar::wasm::{PythonHost, RunOptions};
use belljar::{
    CancelHandle, ExecutionPolicy, GuestError, Home, LaunchPlan, LogFormat, Meta, Outcome,
    PolicyLayer, PythonSandbox, RuntimeType, Sandbox, SandboxBase, SandboxConfig, SandboxError,
    SandboxLogger, SandboxResult, Status, run_untrusted_python,
};
use support::{Expect, Interpreter, Jar, home, interpreter_from_npm, packages_home, skipped};

/// The smallest subclass: says that all went well, and that code ending in `+` does not compile.
struct Minimal(SandboxBase);

impl Sandbox for Minimal {
    fn base(&self) -> &SandboxBase {
        &self.0
    }

    fn runtime(&self) -> RuntimeType {
        RuntimeType::Python
    }

    fn cancel_handle(&self) -> CancelHandle {
        CancelHandle::default()
    }

    fn execute(&mut self, code: &str) -> Result<SandboxResult, SandboxError> {
        let mut result = SandboxResult::new(Outcome::Finished, Meta::default());
        result.stdout = code.to_owned();
        Ok(result)
    }

    fn check_code(&mut self, code: &str) -> Result<Option<GuestError>, SandboxError> {
        Ok(code.ends_with('+').then(GuestError::default))
    }
}

fn minimal() -> Minimal {
    Minimal(SandboxBase::new(ExecutionPolicy::default(), "workspace", None))
}

/// A sandbox whose events are kept, and the events.
fn logged(jar: &Jar) -> (PythonSandbox, belljar::logging::LogCapture) {
    let (logger, events) = SandboxLogger::captured();
    let config = SandboxConfig { logger: Some(logger), ..jar.config() };
    (PythonSandbox::from_config(&config).expect("a sandbox"), events)
}

// ## Requirement: Base Sandbox Abstraction

#[test]
fn define_abstract_execute_method() {
    // Code as a string in, a typed result out: the signature every implementation must have.
    let execute: fn(&mut Minimal, &str) -> Result<SandboxResult, SandboxError> = Sandbox::execute;
    assert_eq!(execute(&mut minimal(), "x").expect("a result").stdout, "x");
    let mut object: Box<dyn Sandbox> = Box::new(minimal());
    assert_eq!(object.execute("y").expect("a result").stdout, "y");
}

#[test]
fn define_abstract_validate_code_method() {
    let validate: fn(&mut Minimal, &str) -> Result<bool, SandboxError> = Sandbox::validate_code;
    assert_eq!(validate(&mut minimal(), "x = 1"), Ok(true));
    assert_eq!(validate(&mut minimal(), "x = 1 +"), Ok(false));
    let jar = Jar::new();
    assert_eq!(jar.sandbox().validate_code("open('/app/ran', 'w')"), Ok(true));
    assert!(!jar.workspace().join("ran").exists());
}

#[test]
fn provide_shared_initialization() {
    let policy = ExecutionPolicy::default()
        .with(PolicyLayer::new().fuel_budget(12_345))
        .expect("a valid policy");
    let (logger, events) = SandboxLogger::captured();
    let given = Minimal(SandboxBase::new(policy.clone(), "/tmp/w", Some(logger)));
    assert_eq!(given.policy(), &policy);
    assert_eq!(given.workspace(), Path::new("/tmp/w"));
    given.logger().log_execution_start(given.runtime(), given.policy(), "x");
    assert_eq!(events.events()[0]["fuel_budget"], 12_345);

    let without_logger = minimal();
    let default = format!("{:?}", SandboxLogger::default());
    assert_eq!(format!("{:?}", without_logger.logger()), default);
}

#[test]
fn provide_log_helper_method() {
    let (logger, events) = SandboxLogger::captured();
    let base = SandboxBase::new(ExecutionPolicy::default(), "workspace", Some(logger.clone()));
    let mut sandbox = Minimal(base);
    let result = sandbox.execute("x").expect("a result");
    sandbox.log_execution_metrics(&result);
    logger.log_execution_complete(&result);
    let mut events = events.events();
    for event in &mut events {
        event.as_object_mut().expect("an object").remove("timestamp");
    }
    assert_eq!(events.len(), 2);
    assert_eq!(events[0], events[1]);
    assert_eq!(events[0]["event"], "execution_complete");
}

// ## Requirement: Python Sandbox Implementation

#[test]
fn execute_python_code_successfully() {
    let result = Jar::with_default_policy().run("print('Hello')");
    assert!(result.success());
    assert_eq!(result.stdout, "Hello\n");
    assert!(result.fuel_consumed.is_some_and(|fuel| fuel > 0));
}

#[test]
fn execute_with_injected_setup_code() {
    let jar = Jar::with_default_policy().with_home(packages_home());
    assert!(RunOptions::default().inject_setup);
    let mut sandbox = jar.sandbox();
    sandbox.execute("import urllib3; print('OK')").expect("a result").printed("OK\n");
    let result = sandbox.execute("import sys; print(sys.path)").expect("a result");
    result.printed("['/lib/python3.13', '/app', '/app/site-packages']\n");
    let result = sandbox.execute("import urllib3; print(urllib3.__file__)").expect("a result");
    result.printed("/app/site-packages/urllib3/__init__.py\n");
}

#[test]
fn execute_without_injected_setup() {
    let jar = Jar::with_default_policy().with_home(packages_home());
    let mut sandbox = jar.sandbox();
    let options = RunOptions { inject_setup: false, ..RunOptions::default() };
    let result = sandbox.execute_with("import sys; print(sys.path)", options).expect("a result");
    result.printed("['/lib/python3.13']\n");
    let result = sandbox.execute_with("import urllib3", options).expect("a result");
    result.raised("ModuleNotFoundError", "No module named 'urllib3'");
}

#[test]
fn handle_execution_errors_gracefully() {
    let jar = Jar::with_default_policy();
    let result = jar.run("raise ValueError('test')");
    assert!(!result.success());
    assert!(result.stderr.ends_with("ValueError: test\n"), "{result:#?}");
    result.raised("ValueError", "test");
    jar.run("print('alive')").printed("alive\n");
}

#[test]
fn reuse_existing_host_layer_logic() {
    let jar = Jar::with_default_policy().with_data(&[("d", "x")]);
    let plan = LaunchPlan::new(&jar.config()).expect("a plan");
    let host = PythonHost::new(plan, &home().cache(), CancelHandle::default()).expect("a host");
    for code in [
        "import os, sys; print(os.getcwd(), os.listdir('/'), dict(os.environ), sys.argv)",
        "open('/etc/passwd')",
        "open('/data/d', 'w')",
        "x = 'a' * 200_000_000",
    ] {
        let delegated = jar.run(code);
        let logger = SandboxLogger::default();
        let direct = run_untrusted_python(code, &host, RunOptions::default(), &logger)
            .expect("the host is fine");
        assert_eq!(comparable(delegated), comparable(direct));
    }
}

/// A result without what differs between two runs.
fn comparable(mut result: SandboxResult) -> SandboxResult {
    result.duration_ms = 0.0;
    result.fuel_consumed = None;
    result.meta.execution_id.clear();
    result
}

// ## Requirement: Python Code Validation

#[test]
fn validate_syntactically_correct_code() {
    assert_eq!(Jar::new().sandbox().validate_code("x = 1 + 2"), Ok(true));
}

#[test]
fn reject_syntactically_invalid_code() {
    assert_eq!(Jar::new().sandbox().validate_code("x = 1 +"), Ok(false));
}

#[test]
fn validation_does_not_execute_code() {
    let jar = Jar::new();
    jar.write("precious.txt", "still here");
    let (mut sandbox, events) = logged(&jar);
    assert_eq!(sandbox.validate_code("import os; os.system('rm -rf /')"), Ok(true));
    let destroys = "import os\nos.remove('/app/precious.txt')\nopen('/app/new', 'w')\nprint(1)";
    assert_eq!(sandbox.validate_code(destroys), Ok(true));
    assert_eq!(jar.read("precious.txt"), "still here");
    assert_eq!(fs::read_dir(jar.workspace()).expect("the workspace").count(), 1);
    assert_eq!(events.events(), Vec::<serde_json::Value>::new());
}

#[test]
fn use_python_compile_for_validation() {
    let jar = Jar::new();
    let mut sandbox = jar.sandbox();
    let error = sandbox.check_code("x = 1 +").expect("the host is fine").expect("an error");
    assert_eq!(error.name, "SyntaxError");
    assert_eq!(error.message, "invalid syntax (<sandbox>, line 1)");
    // Found by the compiler after parsing, as only compile() does.
    assert_eq!(sandbox.validate_code("return 5"), Ok(false));
    assert_eq!(sandbox.validate_code("def f():\n  x = 1\n  nonlocal x"), Ok(false));
    // The grammar that will run: the guest's, however new.
    assert_eq!(sandbox.validate_code("type X = int\nmatch 1:\n  case _: pass"), Ok(true));
}

// ## Requirement: File Delta Detection

#[test]
fn detect_created_files() {
    let jar = Jar::new();
    let result = jar.run("open('/app/output.txt', 'w').write('data')");
    result.changed(&["output.txt"], &[], &[]);
    assert_eq!(jar.read("output.txt"), "data");
}

#[test]
fn detect_modified_files() {
    let jar = Jar::new();
    jar.write("input.txt", "some");
    let result = jar.run("with open('/app/input.txt', 'a') as f: f.write('more')");
    result.changed(&[], &["input.txt"], &[]);
    assert_eq!(jar.read("input.txt"), "somemore");
}

#[test]
fn exclude_user_code_py_from_delta() {
    let jar = Jar::new();
    let result = jar.run("open('/app/other.py', 'w').write('x = 1')");
    result.changed(&["other.py"], &[], &[]);
    assert!(!jar.workspace().join("user_code.py").exists());
}

#[test]
fn provide_relative_paths() {
    let jar = Jar::new();
    assert!(jar.workspace().is_absolute());
    let code = "import os\nos.mkdir('/app/subdir')\nopen('/app/subdir/file.txt', 'w').close()";
    jar.run(code).changed(&["subdir/file.txt"], &[], &[]);
}

// ## Requirement: Execution Metrics

#[test]
fn measure_execution_duration() {
    let jar = Jar::new();
    let mut sandbox = jar.sandbox();
    sandbox.load().expect("the guest");
    let started = Instant::now();
    let result = sandbox.execute("import time; time.sleep(0.1)").expect("a result");
    let outside = started.elapsed();
    assert!((100.0..300.0).contains(&result.duration_ms), "{result:#?}");
    // A monotonic clock with a fine resolution, around the execution and nothing else.
    assert!(Duration::from_secs_f64(result.duration()) <= outside);
    let quick = sandbox.execute("").expect("a result");
    assert!(quick.duration_ms > 0.0 && quick.duration_ms.fract() != 0.0, "{quick:#?}");
}

#[test]
fn capture_fuel_consumption() {
    let jar = Jar::with_default_policy();
    assert_eq!(jar.config().policy.fuel_budget, 2_000_000_000);
    let fuel_of = |iterations: u64| {
        let result = jar.run(&format!("for _ in range({iterations}): pass"));
        result.ended(Status::Ok, 0);
        result.fuel_consumed.expect("fuel is counted")
    };
    let (one, two) = (fuel_of(1_000), fuel_of(2_000));
    let per_iteration = (two - one) / 1_000;
    assert!(per_iteration > 0);
    let iterations = 1_000 + (1_000_000 - one) / per_iteration;
    let consumed = fuel_of(iterations);
    assert!((950_000..1_050_000).contains(&consumed), "{consumed}");
    assert_eq!(fuel_of(iterations), consumed, "fuel is deterministic");
}

#[test]
fn capture_memory_usage() {
    let used = |code: &str| Jar::new().run(code).memory_used_bytes.expect("memory is known");
    assert!(used("x = bytearray(10_000_000)") >= 10_000_000);
    assert!(used("x = bytearray(60_000_000)") >= used("") + 50_000_000);
}

#[test]
fn set_workspace_path() {
    let dir = tempfile::Builder::new().prefix("sandbox-").tempdir().expect("a directory");
    let config = SandboxConfig { workspace: Some(dir.path().to_owned()), ..Jar::new().config() };
    let mut sandbox = PythonSandbox::from_config(&config).expect("a sandbox");
    let result = sandbox.execute("").expect("a result");
    assert_eq!(result.workspace_path, dir.path().display().to_string());
}

// ## Requirement: Security Boundary Preservation

#[test]
fn enforce_wasi_filesystem_isolation() {
    let result = Jar::with_default_policy().run("open(\"/etc/passwd\")");
    assert!(!result.success());
    result.raised("PermissionError", "[Errno 63] Operation not permitted: '/etc/passwd'");
}

#[test]
fn enforce_fuel_limits() {
    let jar = Jar::new().with(|layer| layer.fuel_budget(100_000));
    let result = jar.run("while True: pass");
    result.ended(Status::OutOfFuel, -1);
    assert_eq!(result.fuel_consumed, Some(100_000));
    assert!(result.stderr.starts_with("OutOfFuel: all 100000 units of fuel"), "{result:#?}");
    assert!(result.duration_ms < 5_000.0, "{result:#?}");
}

#[test]
fn enforce_memory_limits() {
    let jar = Jar::new().with(|layer| layer.memory_bytes(64_000_000));
    let result = jar.run("x = 'a' * 100_000_000");
    result.ended(Status::OutOfMemory, -1);
    assert_eq!(result.error.as_ref().map(|error| error.name.as_str()), Some("MemoryError"));
    jar.run("print('alive')").printed("alive\n");
}

#[test]
fn enforce_output_capping() {
    let jar = Jar::new().with(|layer| layer.stdout_max_bytes(1000));
    let result = jar.run("print('x' * 10_000)");
    assert!(result.stdout.len() <= 1000, "{}", result.stdout.len());
    assert!(result.stdout.ends_with("... (output truncated)"), "{result:#?}");
    assert!(result.meta.truncated);
    assert!(!jar.run("print('x' * 100)").meta.truncated);
}

// ## Requirement: Logging Integration

#[test]
fn log_execution_start() {
    let jar = Jar::new().with(|layer| layer.fuel_budget(123_456_789).memory_bytes(64_000_000));
    // The guest reads the log while it runs, so the event was written before.
    let log = jar.workspace().join("log.jsonl");
    let logger = SandboxLogger::to_file(LogFormat::Json, &log).expect("a log file");
    let config = SandboxConfig { logger: Some(logger), ..jar.config() };
    let mut sandbox = PythonSandbox::from_config(&config).expect("a sandbox");
    let result = sandbox.execute("print(open('/app/log.jsonl').read())").expect("a result");
    let seen = result.ended(Status::Ok, 0).stdout.trim();
    let event: serde_json::Value = serde_json::from_str(seen).expect("one event, as JSON");
    assert_eq!(event["event"], "execution_start");
    assert_eq!(event["runtime"], "python");
    assert_eq!(event["fuel_budget"], 123_456_789);
    assert_eq!(event["memory_bytes"], 64_000_000);
}

#[test]
fn log_execution_completion() {
    let jar = Jar::new();
    let (mut sandbox, events) = logged(&jar);
    let result = sandbox.execute("print('secret output')").expect("a result");
    let events = events.events();
    assert_eq!(events.len(), 2, "{events:?}");
    assert_eq!(events[1]["event"], "execution_complete");
    assert_eq!(events[1]["success"], true);
    assert_eq!(events[1]["duration_ms"], result.duration_ms);
    assert_eq!(events[1]["fuel_consumed"], result.fuel_consumed.expect("fuel is counted"));
    assert!(!serde_json::to_string(&events).expect("JSON").contains("secret"), "{events:?}");
}

#[test]
fn log_security_violations() {
    let jar = Jar::new().with(|layer| layer.fuel_budget(100_000));
    let (mut sandbox, events) = logged(&jar);
    let result = sandbox.execute("while True: pass").expect("a result");
    result.ended(Status::OutOfFuel, -1);
    let security: Vec<_> =
        events.events().into_iter().filter(|event| event["event"] == "security").collect();
    assert_eq!(security.len(), 1, "{security:?}");
    assert_eq!(security[0]["event_type"], "fuel_exhaustion");
    assert_eq!(security[0]["level"], "WARN");
}

// ## Requirement: WASM Binary Configuration

#[test]
fn use_default_wasm_binary() {
    let dir = tempfile::tempdir().expect("a home");
    let home = Home::at(dir.path());
    let jar = Jar::new().with_home(home.clone());
    // Without a file there, the interpreter that comes with Belljar is used.
    assert_eq!(jar.sandbox().wasm_binary_path(), None);
    let default = dir.path().join("bin/python.wasm");
    fs::create_dir(dir.path().join("bin")).expect("a directory");
    fs::write(&default, "").expect("a file");
    assert_eq!(jar.sandbox().wasm_binary_path(), Some(default.as_path()));
    assert_eq!(home.python_wasm(), default);
}

#[test]
fn use_custom_wasm_binary() {
    let path = match interpreter_from_npm() {
        Interpreter::Found(path) => path,
        Interpreter::Missing(reason) => return skipped("use_custom_wasm_binary", &reason),
    };
    let jar = Jar::new().with_wasm_binary(&path).with_data(&[("d.txt", "data")]);
    let mut sandbox = jar.sandbox();
    assert_eq!(sandbox.wasm_binary_path(), Some(path.as_path()));
    // Compiling takes a while, so one sandbox serves everything that is to be seen.
    let mut run = |code: &str| sandbox.execute(code).expect("the host is fine");

    let result = run("import sys; print(sys.version_info[:2], sys.argv)");
    result.printed("(3, 12) ['/app/user_code.py', '-X', 'utf8']\n");
    let result = run("open('/app/out.txt', 'w').write('x'); print(open('/data/d.txt').read())");
    result.printed("data\n").changed(&["out.txt"], &[], &[]);
    let result = run("raise ValueError('test')");
    result.ended(Status::Error, 1);
    assert!(result.stderr.ends_with("ValueError: test\n"), "{result:#?}");
    run("import sys; sys.exit(3)").ended(Status::Error, 3);
    let result = run("open('/etc/passwd')");
    result.ended(Status::Error, 1);
    let expected = "PermissionError: [Errno 63] Operation not permitted: '/etc/passwd'\n";
    assert!(result.stderr.ends_with(expected), "{result:#?}");
    let result = run("open('/data/d.txt', 'w')");
    assert!(result.stderr.contains("Read-only file system"), "{result:#?}");
    let result = run("import os; print(dict(os.environ), os.listdir('/'))");
    result.printed(
        "{'LC_ALL': 'C.UTF-8', 'PYTHONIOENCODING': 'utf-8', 'PYTHONUTF8': '1'} ['app', 'data']\n",
    );
}

#[test]
fn validate_wasm_binary_exists() {
    let jar = Jar::new().with_wasm_binary("/nowhere/python.wasm");
    let error = jar.try_run("print(1)").unwrap_err();
    assert!(matches!(error, SandboxError::ArtifactNotFound { .. }), "{error:?}");
    assert_eq!(
        error.to_string(),
        "the interpreter cannot be used: /nowhere/python.wasm: no such file; nothing was run"
    );
    assert_eq!(
        error.hint().as_deref(),
        Some("give a WASI build of Python as wasm_binary_path, or none to use the embedded one")
    );
}
