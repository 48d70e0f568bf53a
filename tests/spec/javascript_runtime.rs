//! Capability: Python Runtime, for JavaScript: the same scenarios, with the same names and in the
//! same order where they make sense, and those that only JavaScript has at the end.

use std::fs;
use std::time::{Duration, Instant};

use belljar::logging::LogCapture;
use belljar::{
    Home, JavaScriptSandbox, LogFormat, RuntimeType, Sandbox, SandboxConfig, SandboxError,
    SandboxLogger, SandboxResult, Status, create_sandbox,
};
use support::{Cells, Expect, Jar};

fn sandbox(jar: &Jar) -> JavaScriptSandbox {
    JavaScriptSandbox::from_config(&jar.config()).expect("a sandbox")
}

fn run(jar: &Jar, code: &str) -> SandboxResult {
    sandbox(jar).run(code)
}

fn session(jar: &Jar) -> JavaScriptSandbox {
    let mut session = sandbox(jar);
    session.initialize(serde_json::Value::Null).expect("a session");
    session
}

/// A sandbox whose events are kept, and the events.
fn logged(jar: &Jar) -> (JavaScriptSandbox, LogCapture) {
    let (logger, events) = SandboxLogger::captured();
    let config = SandboxConfig { logger: Some(logger), ..jar.config() };
    (JavaScriptSandbox::from_config(&config).expect("a sandbox"), events)
}

// ## Requirement: Base Sandbox Abstraction

#[test]
fn define_abstract_execute_method() {
    let jar = Jar::new();
    let config = SandboxConfig { runtime: RuntimeType::Javascript, ..jar.config() };
    let mut object: Box<dyn Sandbox> = create_sandbox(&config).expect("a sandbox");
    assert_eq!(object.runtime(), RuntimeType::Javascript);
    let result = object.execute("console.log(typeof globalThis)").expect("a result");
    result.printed("object\n");
    let meta = serde_json::to_value(&result.meta).expect("JSON");
    assert_eq!((&meta["runtime"], &meta["language"]), (&"wasm".into(), &"javascript".into()));
}

#[test]
fn define_abstract_validate_code_method() {
    let jar = Jar::new();
    assert_eq!(sandbox(&jar).validate_code("writeText('ran', '')"), Ok(true));
    assert!(!jar.workspace().join("ran").exists());
}

#[test]
fn provide_shared_initialization() {
    let jar = Jar::new().with(|layer| layer.fuel_budget(123_456_789));
    let made = sandbox(&jar);
    assert_eq!(made.policy(), &jar.config().policy);
    assert_eq!(made.workspace(), jar.workspace());
    // A configuration that names another language is not asked.
    assert_eq!(jar.config().runtime, RuntimeType::Python);
    assert_eq!(made.runtime(), RuntimeType::Javascript);
}

// ## Requirement: Python Sandbox Implementation

#[test]
fn execute_javascript_code_successfully() {
    let result = run(&Jar::with_default_policy(), "console.log('Hello')");
    result.printed("Hello\n");
    assert!(result.success());
    assert!(result.fuel_consumed.is_some_and(|fuel| fuel > 0));
}

#[test]
fn handle_execution_errors_gracefully() {
    let jar = Jar::with_default_policy();
    let result = run(&jar, "throw new TypeError('test')");
    assert!(!result.success());
    assert!(result.stderr.contains("Uncaught TypeError: test\n    at <sandbox>:1:"), "{result:#?}");
    result.raised("TypeError", "test");
    run(&jar, "null.x").ended(Status::Error, 1);
    run(&jar, "throw 'text'").raised("Uncaught", "'text'");
    run(&jar, "console.log('alive')").printed("alive\n");
}

#[test]
fn exit_codes() {
    let jar = Jar::new();
    let result = run(&jar, "console.log('before'); process.exit(3); console.log('after')");
    assert_eq!(
        (result.ended(Status::Error, 3).stdout.as_str(), &result.error),
        ("before\n", &None)
    );
    let swallowed =
        "try { process.exit(4) } catch { console.log('no') } finally { console.log('no') }";
    assert_eq!(run(&jar, swallowed).ended(Status::Error, 4).stdout, "");
    run(&jar, "setTimeout(() => console.log('no'), 0); process.exit(0)").printed("");
    run(&jar, "setTimeout(() => process.exit(5), 1)").ended(Status::Error, 5);
}

// ## Requirement: Python Code Validation

#[test]
fn validate_syntactically_correct_code() {
    assert_eq!(sandbox(&Jar::new()).validate_code("let x = 1 + 2"), Ok(true));
}

#[test]
fn reject_syntactically_invalid_code() {
    assert_eq!(sandbox(&Jar::new()).validate_code("let x = 1 +"), Ok(false));
}

#[test]
fn validation_does_not_execute_code() {
    let jar = Jar::new();
    jar.write("precious.txt", "still here");
    let (mut sandbox, events) = logged(&jar);
    let destroys = "removeFile('precious.txt'); writeText('new', ''); console.log(1); for (;;) {}";
    assert_eq!(sandbox.validate_code(destroys), Ok(true));
    assert_eq!(sandbox.validate_code("import './missing.js'"), Ok(true));
    assert_eq!(jar.read("precious.txt"), "still here");
    assert_eq!(fs::read_dir(jar.workspace()).expect("the workspace").count(), 1);
    assert_eq!(events.events(), Vec::<serde_json::Value>::new());
}

#[test]
fn use_javascript_compile_for_validation() {
    let jar = Jar::new();
    let mut sandbox = sandbox(&jar);
    let error = sandbox.check_code("let x = 1 +").expect("the host is fine").expect("an error");
    assert_eq!(error.name, "SyntaxError");
    assert_eq!(error.message, "Unexpected end of input");
    assert!(error.traceback.contains("<sandbox>:1"), "{error:?}");
    // Found after parsing.
    for wrong in ["let a; let a", "break", "const c", "class A { #x; #x }", "({a: 1} = 5)"] {
        assert_eq!(sandbox.validate_code(wrong), Ok(false), "{wrong}");
    }
    // The grammar that will run: the guest's, however new.
    for right in ["await 0", "class A { static { } #x = 1n }", "a ??= b?.c", "/(?<=a)b/v", ""] {
        assert_eq!(sandbox.validate_code(right), Ok(true), "{right}");
    }
}

// ## Requirement: File Delta Detection

#[test]
fn detect_created_files() {
    let jar = Jar::new();
    let result = run(&jar, "writeText('/app/output.txt', 'data'); writeJson('o.json', {a: [1]})");
    result.changed(&["o.json", "output.txt"], &[], &[]);
    assert_eq!(jar.read("output.txt"), "data");
    assert_eq!(jar.read("o.json"), "{\n  \"a\": [\n    1\n  ]\n}\n");
}

#[test]
fn detect_modified_files() {
    let jar = Jar::new();
    jar.write("input.txt", "some");
    jar.write("n.json", "{\"n\": 1}");
    let code = "appendText('input.txt', 'more'); console.log(readText('input.txt'));
                writeJson('n.json', {n: readJson('n.json').n + 1}, 0)";
    run(&jar, code).printed("somemore\n").changed(&[], &["input.txt", "n.json"], &[]);
    assert_eq!(
        (jar.read("input.txt"), jar.read("n.json")),
        ("somemore".into(), "{\"n\":2}\n".into())
    );
}

#[test]
fn detect_deleted_files() {
    let jar = Jar::new();
    jar.write("old.txt", "x");
    jar.write("kept.txt", "x");
    let code = "removeFile('old.txt'); console.log(listFiles(), exists('old.txt'))";
    run(&jar, code).printed("[ 'kept.txt' ] false\n").changed(&[], &[], &["old.txt"]);
}

#[test]
fn exclude_user_code_from_delta() {
    let jar = Jar::new();
    run(&jar, "writeText('other.js', 'export {}')").changed(&["other.js"], &[], &[]);
    assert_eq!(fs::read_dir(jar.workspace()).expect("the workspace").count(), 1);
}

#[test]
fn provide_relative_paths() {
    let jar = Jar::new();
    let code = "makeDir('/app/subdir/deep'); writeText('/app/subdir/deep/file.txt', '');
                console.log(listFiles('.', {recursive: true}), listFiles())";
    let result = run(&jar, code);
    result.printed("[ 'subdir/deep/file.txt' ] [ 'subdir/' ]\n");
    result.changed(&["subdir/deep/file.txt"], &[], &[]);
}

// ## Requirement: Execution Metrics

#[test]
fn measure_execution_duration() {
    let jar = Jar::new();
    let mut sandbox = sandbox(&jar);
    sandbox.load().expect("the guest");
    let started = Instant::now();
    let result = sandbox.run("await new Promise(done => setTimeout(done, 100))");
    let outside = started.elapsed();
    assert!((100.0..400.0).contains(&result.duration_ms), "{result:#?}");
    assert!(Duration::from_secs_f64(result.duration()) <= outside);
    let quick = sandbox.run("");
    assert!(quick.duration_ms > 0.0 && quick.duration_ms.fract() != 0.0, "{quick:#?}");
}

#[test]
fn capture_fuel_consumption() {
    let jar = Jar::with_default_policy();
    let fuel_of = |iterations: u64| {
        let result = run(&jar, &format!("for (let i = 0; i < {iterations}; i++);"));
        result.ended(Status::Ok, 0);
        result.fuel_consumed.expect("fuel is counted")
    };
    let (one, two) = (fuel_of(100_000), fuel_of(200_000));
    assert!(two > one + 100_000, "{one}, {two}");
}

#[test]
fn capture_memory_usage() {
    let used = |code| run(&Jar::new(), code).memory_used_bytes.expect("memory is known");
    assert!(used("globalThis.x = new Uint8Array(10_000_000)") >= 10_000_000);
    assert!(used("globalThis.x = new Uint8Array(60_000_000)") >= used("") + 50_000_000);
}

#[test]
fn set_workspace_path() {
    let dir = tempfile::Builder::new().prefix("sandbox-").tempdir().expect("a directory");
    let config = SandboxConfig { workspace: Some(dir.path().to_owned()), ..Jar::new().config() };
    let mut sandbox = JavaScriptSandbox::from_config(&config).expect("a sandbox");
    let result = sandbox.run("console.log(process.cwd())");
    assert_eq!(result.printed("/app\n").workspace_path, dir.path().display().to_string());
}

// ## Requirement: Security Boundary Preservation

#[test]
fn enforce_wasi_filesystem_isolation() {
    let result = run(&Jar::with_default_policy(), "readText('/etc/passwd')");
    result.raised("Error", "EPERM: operation not permitted, open '/etc/passwd'");
    let code = "try { readText('none') } catch (e) { console.log(e.code, e instanceof Error) }";
    run(&Jar::new(), code).printed("ENOENT true\n");
}

#[test]
fn data_is_read_only() {
    let jar = Jar::new().with_data(&[("d.json", "[1]")]);
    run(&jar, "console.log(readJson('/data/d.json'), listFiles('/data'))")
        .printed("[ 1 ] [ 'd.json' ]\n");
    let result = run(&jar, "writeText('/data/d.json', 'x')");
    result.raised("Error", "EROFS: read-only file system, open '/data/d.json'");
    assert_eq!(fs::read_to_string(jar.data().join("d.json")).expect("a file"), "[1]");
}

#[test]
fn environment_and_arguments() {
    let jar =
        Jar::new().with(|layer| layer.env("TOKEN", "t").argv(["js", "/app/main.js", "--fast"]));
    let code = "console.log(process.env.TOKEN, process.env.PATH, process.argv)";
    run(&jar, code).printed("t undefined [ 'js', '/app/main.js', '--fast' ]\n");
}

#[test]
fn nothing_of_python_in_the_environment() {
    let code =
        "console.log(Object.keys(process.env).some(k => k.startsWith('PYTHON')), process.argv)";
    run(&Jar::new(), code).printed("false [ 'javascript', '/app/user_code.js' ]\n");
}

#[test]
fn enforce_fuel_limits() {
    let jar = Jar::new().with(|layer| layer.fuel_budget(1_000_000));
    let result = run(&jar, "for (;;) {}");
    result.ended(Status::OutOfFuel, -1);
    assert_eq!(result.fuel_consumed, Some(1_000_000));
    assert!(result.stderr.starts_with("OutOfFuel: all 1000000 units of fuel"), "{result:#?}");
}

#[test]
fn enforce_memory_limits() {
    let jar = Jar::new().with(|layer| layer.memory_bytes(64_000_000));
    let result = run(&jar, "globalThis.x = new Uint8Array(100_000_000)");
    result.ended(Status::OutOfMemory, -1);
    let error = result.error.as_ref().expect("an error");
    assert_eq!((&*error.name, &*error.message), ("InternalError", "out of memory"));
    let code = "try { new ArrayBuffer(1e8) } catch (e) { console.log(e.message) }";
    run(&jar, code).printed("out of memory\n");
}

#[test]
fn enforce_time_outs() {
    let jar = Jar::new().timeout(Duration::from_millis(300));
    let result = run(&jar, "console.log('begun'); for (;;) {}");
    result.ended(Status::Timeout, -1);
    assert_eq!(result.stdout, "begun\n");
    assert!(result.meta.timed_out && result.duration_ms < 3_000.0, "{result:#?}");
}

#[test]
fn enforce_output_capping() {
    let jar = Jar::new().with(|layer| layer.stdout_max_bytes(1000).stderr_max_bytes(500));
    let result = run(&jar, "console.log('x'.repeat(10_000)); console.error('y'.repeat(10_000))");
    result.ended(Status::Ok, 0);
    assert_eq!((result.stdout.len(), result.stderr.len()), (1000, 500));
    assert!(result.stdout.ends_with("... (output truncated)"), "{result:#?}");
    assert!(result.stderr.ends_with("... (output truncated)"), "{result:#?}");
    assert!(result.meta.truncated);
    assert!(!run(&jar, "console.log('x'.repeat(100))").meta.truncated);
}

// ## Requirement: Logging Integration

#[test]
fn log_execution_start() {
    let jar = Jar::new().with(|layer| layer.fuel_budget(123_456_789).memory_bytes(64_000_000));
    // The guest reads the log while it runs, so the event was written before.
    let log = jar.workspace().join("log.jsonl");
    let logger = SandboxLogger::to_file(LogFormat::Json, &log).expect("a log file");
    let config = SandboxConfig { logger: Some(logger), ..jar.config() };
    let mut sandbox = JavaScriptSandbox::from_config(&config).expect("a sandbox");
    let result = sandbox.run("console.log(readText('log.jsonl'))");
    let seen = result.ended(Status::Ok, 0).stdout.trim();
    let event: serde_json::Value = serde_json::from_str(seen).expect("one event, as JSON");
    assert_eq!(event["event"], "execution_start");
    assert_eq!(event["runtime"], "javascript");
    assert_eq!(event["fuel_budget"], 123_456_789);
    assert_eq!(event["memory_bytes"], 64_000_000);
}

#[test]
fn log_execution_completion() {
    let jar = Jar::new();
    let (mut sandbox, events) = logged(&jar);
    let result = sandbox.run("console.log('secret output')");
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
    let jar = Jar::new().with(|layer| layer.fuel_budget(1_000_000));
    let (mut sandbox, events) = logged(&jar);
    sandbox.run("for (;;) {}").ended(Status::OutOfFuel, -1);
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
    let jar = Jar::new().with_home(Home::at(dir.path()));
    // Another interpreter of Python's is no interpreter of JavaScript.
    fs::create_dir(dir.path().join("bin")).expect("a directory");
    fs::write(dir.path().join("bin/python.wasm"), "").expect("a file");
    assert_eq!(sandbox(&jar).wasm_binary_path(), None);
}

#[test]
fn validate_wasm_binary_exists() {
    let jar = Jar::new().with_wasm_binary("/nowhere/javascript.wasm");
    let error = JavaScriptSandbox::from_config(&jar.config())
        .and_then(|mut sandbox| sandbox.execute("console.log(1)"))
        .expect_err("there is no such file");
    assert!(matches!(error, SandboxError::ArtifactNotFound { .. }), "{error:?}");
}

// ## What JavaScript has

#[test]
fn modules_of_the_workspace() {
    let jar = Jar::new();
    jar.write(
        "lib/m.js",
        "import { two } from './n.js'; export const four = two * two; export default 5",
    );
    jar.write("lib/n.js", "export const two = 2");
    let code = "import five, { four } from './lib/m.js'; console.log(four, five);
                const m = await import('./lib/n.js'); console.log(m.two, Object.keys(m))";
    run(&jar, code).printed("4 5\n2 [ 'two' ]\n");
    jar.write("bad.js", "export const = 1");
    let result = run(&jar, "import './bad.js'");
    assert_eq!(
        result.ended(Status::Error, 1).error.as_ref().map(|e| &*e.name),
        Some("SyntaxError")
    );
    for missing in
        ["import 'fs'", "await import('./none.js')", "require('fs')", "fetch('http://x')"]
    {
        run(&jar, missing).ended(Status::Error, 1);
    }
    let mut session = session(&jar);
    session.run("import { two } from './lib/n.js'; const also = await import('./lib/m.js')");
    session.run("two + also.four").gave(6);
}

#[test]
fn top_level_await_and_timers() {
    let jar = Jar::new();
    let code = "setTimeout(() => console.log('late'), 20); setImmediate(() => console.log('soon'));
                queueMicrotask(() => console.log('micro')); let n = 0;
                const id = setInterval(() => { if (++n === 3) { clearInterval(id); console.log('third') } }, 1);
                clearTimeout(setTimeout(() => console.log('never'), 0));
                console.log(await new Promise(done => setTimeout(done, 10, 'awaited')))";
    let result = run(&jar, code);
    let lines: Vec<&str> = result.ended(Status::Ok, 0).stdout.lines().collect();
    assert_eq!(
        (lines.len(), lines[0], lines[1], lines[4]),
        (5, "micro", "soon", "late"),
        "{lines:?}"
    );
    assert!(lines.contains(&"third") && lines.contains(&"awaited"), "{lines:?}");
    let result = run(&jar, "await new Promise(() => {})");
    let error = result.ended(Status::Error, 1).error.as_ref().expect("an error");
    assert!(error.message.contains("can never happen"), "{error:?}");
}

#[test]
fn text_and_data() {
    let code = "console.log(new TextDecoder().decode(new TextEncoder().encode('é日😀')), new TextEncoder().encode('é'));
                const a = { d: new Date(0), m: new Map([[1, new Set([2])]]) }; a.self = a; const b = structuredClone(a);
                console.log(b !== a, b.self === b, b.d.getTime(), [...b.m.get(1)], btoa('hi'), atob('aGk='));
                try { structuredClone(() => 1) } catch (e) { console.log(e.name) }
                console.log(crypto.getRandomValues(new Uint8Array(4)).length, crypto.randomUUID().length)";
    let expected =
        "é日😀 Uint8Array(2) [ 195, 169 ]\ntrue true 0 [ 2 ] aGk= hi\nDataCloneError\n4 36\n";
    run(&Jar::new(), code).printed(expected);
}

#[test]
fn errors_of_the_library_are_told() {
    let result = run(&Jar::new(), "throw new DOMException('stop', 'AbortError')");
    result.raised("AbortError", "stop");
    let result = run(&Jar::new(), "structuredClone(() => 1)");
    assert_eq!(result.error.as_ref().map(|e| &*e.name), Some("DataCloneError"));
}

#[test]
fn randomness_differs_unless_deterministic() {
    let code = "console.log(Math.random(), crypto.randomUUID(), Date.now())";
    let jar = Jar::new();
    let mut sandbox = sandbox(&jar);
    assert_ne!(sandbox.run(code).stdout, sandbox.run(code).stdout);
    let fixed = Jar::new().with(|layer| layer.deterministic(true));
    let (one, two) = (run(&fixed, code), run(&fixed, code));
    assert_eq!(one.ended(Status::Ok, 0).stdout, two.stdout);
    assert_eq!(one.fuel_consumed, two.fuel_consumed);
    let numbers = run(&fixed, "console.log(Math.random() === Math.random())");
    numbers.printed("false\n");
}
