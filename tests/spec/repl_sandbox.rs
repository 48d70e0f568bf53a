//! Capability: REPL Sandbox.
//!
//! The specification was written for Pyodide in a worker. Here the interpreter is on wasm: its
//! worker is a session, its interrupt buffer the words by which the host marks SIGINT as arrived,
//! `undefined` is `None`, its callbacks are fields of `SandboxConfig`. What one particular other
//! backend does is listed in its place, with the suite that will hold it; the generic scenarios on
//! the native backend are in `repl_sandbox_native.rs`.

use std::os::unix::fs::FileTypeExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use belljar::{
    Backend, PythonSandbox, Sandbox, SandboxConfig, SandboxError, StateAfter, Status, Tools,
    create_sandbox,
};
use serde_json::json;
use support::{
    Cells, Daemon, Expect, Jar, Lines, Usage, alone, cancelled, pyodide_from_npm, skipped,
};

// ## Requirement: Sandbox Lifecycle

#[test]
fn initialize_with_context() {
    let jar = Jar::new();
    let mut sandbox = jar.sandbox();
    sandbox.initialize(json!({"chapters": ["one", "två"], "n": 1.5})).expect("a session");
    sandbox.run("context['chapters'][1], context['n']").gave(json!(["två", 1.5]));
    sandbox.initialize(json!("another")).expect("a session");
    sandbox.run("context").gave("another");
}

#[test]
fn cleanup_on_destroy() {
    alone("repl_sandbox::cleanup_on_destroy", || {
        let jar = Jar::new();
        jar.session().run("open('f', 'w').write('warm')").ended(Status::Ok, 0);
        let before = Usage::now();
        let mut sandbox = jar.session();
        sandbox.run("held, file = bytearray(b'x') * 60_000_000, open('f')").ended(Status::Ok, 0);
        let during = Usage::now();
        assert!(during.private_bytes() > before.private_bytes() + 60_000_000, "it held memory");
        sandbox.destroy().expect("nothing is in the way");
        before.assert_no_growth(6 * 1024 * 1024, "a session that was destroyed");
        let refused = sandbox.get_variable("held").expect_err("no session");
        assert!(matches!(refused, SandboxError::NotInSession { .. }), "{refused}");
    });
}

// ## Requirement: Code Execution

#[test]
fn execute_returns_result() {
    let mut sandbox = Jar::new().session();
    let result =
        sandbox.run("import sys; print('out'); print('err', file=sys.stderr); {}['missing']");
    result.raised("KeyError", "'missing'");
    assert_eq!(result.stdout, "out\n");
    assert!(result.stderr.starts_with("err\nTraceback"), "{}", result.stderr);
    assert!(result.duration() > 0.0);
}

#[test]
fn stdout_capture() {
    Jar::new().session().run("print('printed', 1)\nprint('text')").printed("printed 1\ntext\n");
}

#[test]
fn stderr_capture() {
    let result = Jar::new().session().run("import sys; sys.stderr.write('error text')");
    assert_eq!((result.stdout.as_str(), result.stderr.as_str()), ("", "error text"));
}

#[test]
fn error_capture() {
    let mut sandbox = Jar::new().session();
    sandbox.run("raise ValueError('the message')").raised("ValueError", "the message");
    sandbox.run("x = (").raised("SyntaxError", "'(' was never closed (<cell 2>, line 1)");
}

// ## Requirement: Timeout Handling

#[test]
fn timeout_exceeded() {
    let mut sandbox = Jar::new().timeout(Duration::from_millis(300)).session();
    let result = sandbox.run("while True: pass");
    result.ended(Status::Timeout, -1);
    assert!(result.meta.timed_out);
    let notice = "Timeout: timed out after 0.3 s; raise timeout_seconds to allow more\n";
    assert!(result.stderr.ends_with(notice), "{}", result.stderr);
}

#[test]
fn timeout_configurable() {
    for milliseconds in [100, 600] {
        let jar = Jar::new().timeout(Duration::from_millis(milliseconds));
        let result = jar.session().run("import time; time.sleep(60)");
        result.ended(Status::Timeout, -1);
        let at_least = f64::from(u32::try_from(milliseconds).expect("a few"));
        assert!((at_least..at_least + 400.0).contains(&result.duration_ms), "{result:#?}");
    }
}

/// The host writes the interrupt into the interpreter's memory, which raises KeyboardInterrupt; the
/// session lives on with everything the cell did.
#[test]
fn true_interrupt_with_worker() {
    let mut sandbox = Jar::new().timeout(Duration::from_millis(300)).session();
    sandbox.run("n = 0").ended(Status::Ok, 0);
    let result = sandbox.run("while True: n += 1");
    result.kept(Status::Timeout);
    let error = result.error.as_ref().expect("an error");
    assert_eq!(error.name, "KeyboardInterrupt");
    assert!(error.traceback.contains("\"<cell 2>\", line 1"), "{}", error.traceback);
    sandbox.run("n > 1000").gave(true);
    sandbox
        .run("import time\ntry: time.sleep(60)\nexcept KeyboardInterrupt: print('caught')")
        .kept(Status::Timeout);
}

// ## Requirement: Output Truncation

#[test]
fn output_within_limit() {
    let jar = Jar::new().with(|layer| layer.stdout_max_bytes(1000));
    let result = jar.session().run("print('x' * 999)");
    result.printed(&format!("{}\n", "x".repeat(999)));
    assert!(!result.meta.truncated);
}

#[test]
fn output_exceeds_limit() {
    let jar = Jar::new().with(|layer| layer.stdout_max_bytes(1000));
    let mut sandbox = jar.session();
    let result = sandbox.run("print('x' * 1000)");
    result.ended(Status::Ok, 0);
    assert_eq!(result.stdout.len(), 1000);
    assert!(result.stdout.ends_with("... (output truncated)"), "{}", result.stdout);
    assert!(result.meta.truncated);
    sandbox.run("print('the cap is per execution')").printed("the cap is per execution\n");
}

// ## Requirement: LLM Bridge Functions

#[test]
fn llm_query_function() {
    let tools = Tools::new().llm(|prompt| Ok(format!("answer to {prompt}")));
    let mut sandbox = Jar::new().with_tools(tools).session();
    sandbox.run("llm_query('a question')").gave("answer to a question");
    sandbox.run("await llm_query('another')").gave("answer to another");
    let batch = "llm_query_batched(['one', 'two'])";
    sandbox.run(batch).gave(json!(["answer to one", "answer to two"]));
}

#[test]
fn rlm_query_function() {
    let tools = Tools::new()
        .rlm(|task, ctx, request| Ok(json!({"task": task, "ctx": ctx, "depth": request.depth})));
    let mut sandbox = Jar::new().with_tools(tools).session_about(json!("all of it"));
    let answer = json!({"task": "summarise", "ctx": ["a", "part"], "depth": 0});
    sandbox.run("rlm_query('summarise', ['a', 'part'])").gave(answer.clone());
    sandbox.run("await rlm_query('summarise', ctx=['a', 'part'])").gave(answer);
}

#[test]
fn rlm_query_default_context() {
    let tools = Tools::new().rlm(|task, ctx, _| Ok(json!([task, ctx])));
    let mut sandbox = Jar::new().with_tools(tools).session_about(json!("the first"));
    sandbox.run("rlm_query('t')").gave(json!(["t", "the first"]));
    sandbox.run("context = {'now': 'another'}").ended(Status::Ok, 0);
    sandbox.run("rlm_query('t')").gave(json!(["t", {"now": "another"}]));
    let both = json!([["u", {"now": "another"}], ["v", {"now": "another"}]]);
    sandbox.run("rlm_query_batched(['u', 'v'])").gave(both);
}

// ## Requirement: Utility Functions

#[test]
fn chunk_text_function() {
    let mut sandbox = Jar::new().session();
    sandbox.run("chunk_text('abcdefgh', 4, 2)").gave(json!(["abcd", "cdef", "efgh"]));
    sandbox.run("chunk_text('abcdefg', 3)").gave(json!(["abc", "def", "g"]));
    let message = "chunk_text(): overlap must be at least 0 and less than size (4), not 4";
    sandbox.run("chunk_text('abc', 4, 4)").raised("ValueError", message);
}

#[test]
fn search_context_function() {
    let mut sandbox = Jar::new().session_about(json!("the cat sat; the dog ran"));
    sandbox.run("search_context(r'[cd].[tg]', window=3)").gave(json!([
        {"match": "cat", "start": 4, "end": 7, "context": "he cat sa"},
        {"match": "dog", "start": 17, "end": 20, "context": "he dog ra"},
    ]));
    sandbox.run("search_context('bird')").gave(json!([]));
}

// ## Requirement: Variable Access

#[test]
fn get_existing_variable() {
    let mut sandbox = Jar::new().session();
    sandbox.run("found = {'pages': [1, None, 2.5], 'ok': True}\nodd = {3}").ended(Status::Ok, 0);
    let found = sandbox.get_variable("found").expect("a session").expect("a variable");
    assert_eq!(found.type_name, "dict");
    assert_eq!(found.json, Some(json!({"pages": [1, null, 2.5], "ok": true})));
    // What JSON cannot carry comes as its type and text.
    let odd = sandbox.get_variable("odd").expect("a session").expect("a variable");
    assert_eq!((odd.type_name.as_str(), odd.text.as_str(), odd.json), ("set", "{3}", None));
}

#[test]
fn get_missing_variable() {
    let mut sandbox = Jar::new().session();
    assert_eq!(sandbox.get_variable("missing"), Ok(None));
    sandbox.run("there = None").ended(Status::Ok, 0);
    let there = sandbox.get_variable("there").expect("a session").expect("None is a value");
    assert_eq!(there.json, Some(json!(null)));
}

// ## Requirement: Worker Isolation
//
// Scenario: Worker-based execution        repl_sandbox_pyodide.rs
// Scenario: Fallback to direct mode       repl_sandbox_pyodide.rs
// Scenario: Worker termination cleanup    repl_sandbox_pyodide.rs; on wasm `destroy` gives
//                                         the memory back, see `cleanup_on_destroy`

// ## Requirement: Execution Cancellation

#[test]
fn cancel_with_worker_isolation() {
    let (lines, on_stdout) = Lines::listen();
    let jar = Jar::new();
    let config = SandboxConfig { on_stdout: Some(on_stdout), ..jar.config() };
    let mut sandbox = PythonSandbox::from_config(&config).expect("a sandbox");
    sandbox.initialize(json!(null)).expect("a session");
    let code = "before = 'set'\nprint('running')\nwhile True: pass";
    let result = cancelled(&mut sandbox, &lines, code);
    result.kept(Status::Cancelled);
    assert_eq!(result.error.as_ref().map(|error| error.name.as_str()), Some("KeyboardInterrupt"));
    sandbox.run("before").gave("set");
    sandbox.cancel();
    sandbox.run("'nothing ran, so nothing was cancelled'").ended(Status::Ok, 0);
}

// Scenario: Cancel without worker         repl_sandbox_pyodide.rs

// ## Requirement: Configurable CDN
//
// Scenario: Custom indexURL string        repl_sandbox_pyodide.rs
// Scenario: IndexURL with fallbacks       repl_sandbox_pyodide.rs
// Scenario: Default CDN                   repl_sandbox_pyodide.rs

// ## Requirement: Stdout/Stderr Callbacks

#[test]
fn stdout_callback() {
    let (lines, on_stdout) = Lines::listen();
    let jar = Jar::new();
    let config = SandboxConfig { on_stdout: Some(on_stdout), ..jar.config() };
    let mut sandbox = PythonSandbox::from_config(&config).expect("a sandbox");
    sandbox.initialize(json!(null)).expect("a session");
    let code = "import sys\nprint('one')\nprint('two\\nthree')\nprint('err', file=sys.stderr)\n\
                print('rest', end='')";
    assert_eq!(sandbox.run(code).stdout, "one\ntwo\nthree\nrest");
    assert_eq!(lines.so_far(), ["one\n", "two\n", "three\n", "rest"]);
}

#[test]
fn stderr_callback() {
    let (lines, on_stderr) = Lines::listen();
    let jar = Jar::new();
    let config = SandboxConfig { on_stderr: Some(on_stderr), ..jar.config() };
    let mut sandbox = PythonSandbox::from_config(&config).expect("a sandbox");
    sandbox.initialize(json!(null)).expect("a session");
    let code = "import sys\nprint('out')\nprint('one\\ntwo', file=sys.stderr)";
    assert_eq!(sandbox.run(code).stderr, "one\ntwo\n");
    assert_eq!(lines.so_far(), ["one\n", "two\n"]);
}

// ## Requirement: Backend Selection

#[test]
fn backend_type_enumeration() {
    for name in ["pyodide", "native", "daemon"] {
        let backend: Backend = name.parse().expect("a backend");
        assert_eq!(backend.to_string(), name);
    }
    assert!("wishful".parse::<Backend>().is_err());
}

#[test]
fn auto_select_daemon_when_running() {
    let jar = Jar::new();
    let daemon = Daemon::start();
    let config =
        SandboxConfig { backend: Backend::Auto, socket: Some(daemon.socket()), ..jar.config() };
    let result = create_sandbox(&config).expect("a sandbox").run("1");
    assert_eq!(result.gave(1).meta.runtime, "daemon");
    // What it cannot do is not asked of it.
    let data = Jar::new().with_data(&[("d", "1")]);
    let config = SandboxConfig { policy: data.config().policy, ..config };
    let runtime = create_sandbox(&config).expect("a sandbox").run("1").meta.runtime;
    assert_ne!(runtime, "daemon");
}

#[test]
fn auto_select_native_when_python_available() {
    let jar = Jar::new();
    let config = SandboxConfig { backend: Backend::Auto, ..jar.config() };
    let (jailed, why, _) = belljar::jail_report();
    let mut sandbox = create_sandbox(&config).expect("a sandbox");
    if jailed {
        assert_eq!(sandbox.run("1").meta.runtime, "local");
    } else {
        skipped("auto_select_native_when_python_available", &why);
    }
    // What native cannot enforce is not asked of it.
    let strict = Jar::new().with(|layer| layer.fuel_budget(5_000_000_000));
    let config = SandboxConfig { backend: Backend::Auto, ..strict.config() };
    assert_eq!(create_sandbox(&config).expect("a sandbox").run("1").meta.runtime, "wasm");
}

#[test]
fn fallback_to_pyodide() {
    let jar = Jar::new();
    let config = SandboxConfig {
        backend: Backend::Auto,
        python: Some("/there/is/no/python".into()),
        ..jar.config_on(Backend::Pyodide)
    };
    let config = SandboxConfig { backend: Backend::Auto, ..config };
    match pyodide_from_npm() {
        Ok(_) if belljar::jail_report().0 => {
            assert_eq!(
                create_sandbox(&config).expect("a sandbox").run("1").meta.runtime,
                "pyodide"
            );
        }
        Ok(_) => skipped("fallback_to_pyodide", &belljar::jail_report().1),
        Err(why) => skipped("fallback_to_pyodide", &why),
    }
    let nothing = SandboxConfig { index_url: vec!["/nowhere".to_owned()], ..config };
    assert_eq!(create_sandbox(&nothing).expect("a sandbox").run("1").meta.runtime, "wasm");
}

#[test]
fn explicit_backend_selection() {
    let jar = Jar::new();
    let config = SandboxConfig { backend: Backend::Wasm, ..jar.config() };
    let mut sandbox = create_sandbox(&config).expect("a sandbox");
    assert_eq!(sandbox.run("1").meta.runtime, "wasm");
    // One that this build lacks is refused, and no other takes its place.
    for backend in [Backend::Native, Backend::Daemon, Backend::Pyodide] {
        let config = SandboxConfig { backend, ..jar.config() };
        match create_sandbox(&config) {
            Ok(mut sandbox) => {
                let runtime = sandbox.run("1").meta.runtime;
                assert_eq!(runtime, backend.runtime_name());
            }
            Err(SandboxError::BackendUnavailable { backend: named, .. }) => {
                assert_eq!(named, backend);
            }
            Err(other) => panic!("{other}"),
        }
    }
}

// ## Requirement: Native Python Sandbox
//
// The generic scenarios on this backend are in `repl_sandbox_native.rs`.

/// Code that looks for the driver's connection meets JSON-RPC 2.0 there; what it prints is apart.
#[test]
fn json_rpc_protocol() {
    let code = r#"import json, os, stat
fd = max(fd for fd in range(3, 256) if os.path.exists(f'/proc/self/fd/{fd}') and stat.S_ISSOCK(os.fstat(fd).st_mode))
os.write(fd, b'{"jsonrpc": "2.0", "id": 7001, "method": "wishful", "params": {}}\n')
answer = json.loads(os.read(fd, 4096))
print(answer['jsonrpc'], answer['id'], answer['error']['code'])"#;
    Jar::native().open_session(()).run(code).printed("2.0 7001 -32601\n");
}

#[test]
fn execute_code() {
    let jar = Jar::native();
    let mut sandbox = jar.open_session(());
    let code = "import os, sys\nprint('out', os.getpid() > 1)\nprint('err', file=sys.stderr)";
    let result = sandbox.run(code);
    result.ended(Status::Ok, 0);
    assert_eq!((result.stdout.as_str(), result.stderr.as_str()), ("out True\n", "err\n"));
    assert!(result.duration() > 0.0);
    // What its children print belongs to it.
    sandbox.run("import subprocess\nx = subprocess.run(['echo', 'child'])").printed("child\n");
}

#[test]
fn bridge_callback_handling() {
    let tools = Tools::new()
        .llm(|prompt| Ok(format!("answer to {prompt}")))
        .rlm(|task, ctx, _| Ok(json!([task, ctx])));
    let jar = Jar::native().with_tools(tools);
    let mut sandbox = jar.open_session("all of it");
    let result = sandbox.run("llm_query('q'), rlm_query('t')");
    result.gave(json!(["answer to q", ["t", "all of it"]]));
    assert_eq!(result.meta.tools.calls, 2);
}

#[test]
fn context_injection() {
    let jar = Jar::native();
    let mut sandbox = jar.open_session(json!({"pages": ["one", "två"]}));
    sandbox.run("context['pages'][1]").gave("två");
}

/// It is asked what it is rather than for `--version`, since an answer to that proves little.
#[test]
fn python_availability_check() {
    let jar = Jar::native();
    let version = jar.open().run("").meta.language_version.expect("a version");
    let minor: u32 = version.split('.').nth(1).and_then(|minor| minor.parse().ok()).expect("3.x");
    assert!(version.starts_with("3.") && minor >= 8, "{version}");
    let missing = Some("/nowhere/python3".into());
    let refused = create_sandbox(&SandboxConfig { python: missing, ..jar.config() });
    let Err(SandboxError::BackendUnavailable { backend, reason, .. }) = refused else {
        panic!("a Python that is not there was found");
    };
    assert_eq!(backend, Backend::Native);
    assert!(reason.starts_with("/nowhere/python3: No such file"), "{reason}");
}

// ## Requirement: Daemon Client Sandbox
//
// More about this backend is in the suite `remote`.

#[test]
fn ipc_connection() {
    let daemon = Daemon::start();
    let kind = std::fs::symlink_metadata(daemon.socket()).expect("a file").file_type();
    assert!(kind.is_socket());
    let jar = Jar::new();
    let config =
        SandboxConfig { backend: Backend::Daemon, socket: Some(daemon.socket()), ..jar.config() };
    create_sandbox(&config).expect("a sandbox").run("print('hello')").printed("hello\n");
}

#[test]
fn socket_path() {
    let home = std::env::home_dir().expect("a home directory");
    if std::env::var_os(belljar::remote::SOCKET_VARIABLE).is_some() {
        skipped("socket_path", "BELLJAR_SOCKET is set here");
        return;
    }
    let path = belljar::remote::socket_path().expect("a path");
    assert_eq!(path, home.join(".rlm/daemon.sock"));
}

/// There is no client for it yet: on Windows the backend says that it is not available.
#[test]
fn named_pipe_path() {
    assert_eq!(belljar::remote::WINDOWS_PIPE, r"\\.\pipe\rlm-daemon");
}

/// Which worker serves it is tested where the daemon is.
#[test]
fn execute_via_daemon() {
    let jar = Jar::new();
    let mut sandbox = create_sandbox(&jar.config_on(Backend::Daemon)).expect("a sandbox");
    let code = "import sys\nprint('out')\nprint('err', file=sys.stderr)\nopen('f', 'w').write('x')";
    let result = sandbox.run(code);
    result.ended(Status::Ok, 0).changed(&["f"], &[], &[]);
    assert_eq!((result.stdout.as_str(), result.stderr.as_str()), ("out\n", "err\n"));
    assert_eq!((result.meta.runtime.as_str(), jar.read("f").as_str()), ("daemon", "x"));
    assert!(result.duration() > 0.0);
}

#[test]
fn daemon_availability_check() {
    let daemon = Daemon::start();
    let hello = belljar::remote::available(&daemon.socket()).expect("a daemon");
    assert_eq!(hello.pid, std::process::id());
    // It has to be there, and it has to answer.
    let folder = tempfile::tempdir().expect("a directory");
    let silent = folder.path().join("silent.sock");
    assert!(belljar::remote::available(&silent).is_err());
    let _listener = std::os::unix::net::UnixListener::bind(&silent).expect("a socket");
    let refused = belljar::remote::available(&silent).expect_err("nobody answers");
    assert!(refused.to_string().contains("no answer has come within 2 s"), "{refused}");
}

// ## Requirement: Sandbox Factory

#[test]
fn create_with_config() {
    let jar = Jar::new().with(|layer| layer.stdout_max_bytes(123_456));
    let config = SandboxConfig { session_id: Some("s-1".to_owned()), ..jar.config() };
    let mut sandbox = create_sandbox(&config).expect("a sandbox");
    sandbox.initialize(json!("ctx")).expect("a session");
    let result = sandbox.run("context");
    result.gave("ctx");
    assert_eq!(result.meta.resource_limits.stdout_max_bytes, 123_456);
    assert_eq!(result.meta.session_id.as_deref(), Some("s-1"));
    assert_eq!(sandbox.session_id(), Some("s-1"));
}

#[test]
fn config_backend_option() {
    let jar = Jar::new();
    let config = SandboxConfig { backend: Backend::Wasm, ..jar.config() };
    let result = create_sandbox(&config).expect("a sandbox").run("print('wasm')");
    assert_eq!(result.printed("wasm\n").meta.runtime, "wasm");
    assert_eq!(result.meta.isolation[0], "wasm");
}

#[test]
fn shared_interface() {
    /// Works with whatever implements the interface.
    fn visit(sandbox: &mut dyn Sandbox, calls: &AtomicUsize) {
        sandbox.initialize(json!(41)).expect("a session");
        let result = sandbox.execute("x = llm_query(str(context + 1))").expect("a result");
        assert_eq!(result.meta.state, Some(StateAfter::Kept));
        sandbox.cancel();
        let x = sandbox.get_variable("x").expect("a session").expect("a variable");
        assert_eq!((x.text.as_str(), calls.load(Ordering::Relaxed)), ("'42'", 1));
        sandbox.destroy().expect("nothing is in the way");
    }
    let calls = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&calls);
    let tools = Tools::new().llm(move |prompt| {
        counter.fetch_add(1, Ordering::Relaxed);
        Ok(prompt.to_owned())
    });
    let jar = Jar::new().with_tools(tools);
    visit(&mut *create_sandbox(&jar.config()).expect("a sandbox"), &calls);
}
