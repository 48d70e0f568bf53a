//! Capability: REPL Sandbox, the generic scenarios on the native backend.
//!
//! Its worker is a process in a jail, its interrupt buffer is SIGINT, and `worker.terminate()` is
//! the end of the process and of everything it has started.

use std::fs;
use std::time::Duration;

use belljar::{Backend, Sandbox, SandboxConfig, SandboxError, StateAfter, Status, Tools};
use serde_json::json;
use support::{
    Cells, Expect, Jar, Lines, alone, attacked_natively, cancelled, eventually, processes_of,
};

/// What a busy machine may add to a time-out.
const SLOWNESS_MS: f64 = 1500.0;

fn with_lines(to_stdout: bool) -> (std::sync::Arc<Lines>, Jar, Box<dyn Sandbox>) {
    let (lines, sink) = Lines::listen();
    let jar = Jar::native();
    let mut config = jar.config();
    let callback = if to_stdout { &mut config.on_stdout } else { &mut config.on_stderr };
    *callback = Some(sink);
    let mut sandbox = belljar::create_sandbox(&config).expect("a sandbox");
    sandbox.initialize(json!(null)).expect("a session");
    (lines, jar, sandbox)
}

// ## Requirement: Sandbox Lifecycle

#[test]
fn initialize_with_context() {
    let jar = Jar::native();
    let mut sandbox = jar.open_session(json!({"chapters": ["one", "två"], "n": 1.5}));
    sandbox.run("context['chapters'][1], context['n']").gave(json!(["två", 1.5]));
    sandbox.initialize(json!("another")).expect("a session");
    sandbox.run("context").gave("another");
}

#[test]
fn cleanup_on_destroy() {
    alone("repl_sandbox_native::cleanup_on_destroy", || {
        let jar = Jar::native();
        attacked_natively(&jar, "a session that was destroyed", || {
            let mut sandbox = jar.open_session(());
            let code = "import subprocess\nheld, file = bytearray(60_000_000), open('f', 'w')\n\
                        child = subprocess.Popen(['sleep', '600'])";
            sandbox.run(code).ended(Status::Ok, 0);
            assert!(processes_of(jar.workspace()).len() >= 2, "a session and its child");
            sandbox.destroy().expect("nothing is in the way");
            assert_eq!(processes_of(jar.workspace()), Vec::<String>::new());
            let refused = sandbox.get_variable("held").expect_err("no session");
            assert!(matches!(refused, SandboxError::NotInSession { .. }), "{refused}");
        });
    });
}

// ## Requirement: Code Execution

#[test]
fn execute_returns_result() {
    let jar = Jar::native();
    let mut sandbox = jar.open_session(());
    let result =
        sandbox.run("import sys; print('out'); print('err', file=sys.stderr); {}['missing']");
    result.raised("KeyError", "'missing'");
    assert_eq!(result.stdout, "out\n");
    assert!(result.stderr.starts_with("err\nTraceback"), "{}", result.stderr);
    assert!(result.duration() > 0.0);
}

#[test]
fn stdout_capture() {
    let jar = Jar::native();
    let mut sandbox = jar.open_session(());
    sandbox.run("print('printed', 1)\nprint('text')").printed("printed 1\ntext\n");
}

#[test]
fn stderr_capture() {
    let result =
        Jar::native().open_session(()).run("import sys; x = sys.stderr.write('error text')");
    assert_eq!((result.stdout.as_str(), result.stderr.as_str()), ("", "error text"));
}

#[test]
fn error_capture() {
    let jar = Jar::native();
    let mut sandbox = jar.open_session(());
    sandbox.run("raise ValueError('the message')").raised("ValueError", "the message");
    sandbox.run("x = (").raised("SyntaxError", "'(' was never closed (<cell 2>, line 1)");
}

// ## Requirement: Timeout Handling

#[test]
fn timeout_exceeded() {
    let jar = Jar::native().timeout(Duration::from_millis(300));
    let mut sandbox = jar.open_session(());
    let result = sandbox.run("while True: pass");
    result.ended(Status::Timeout, -1);
    assert!(result.meta.timed_out);
    let notice = "Timeout: timed out after 0.3 s; raise timeout_seconds to allow more\n";
    assert!(result.stderr.ends_with(notice), "{}", result.stderr);
}

#[test]
fn timeout_configurable() {
    for milliseconds in [100, 600] {
        let jar = Jar::native().timeout(Duration::from_millis(milliseconds));
        let result = jar.open_session(()).run("import time; time.sleep(60)");
        result.ended(Status::Timeout, -1);
        let at_least = f64::from(u32::try_from(milliseconds).expect("a few"));
        let expected = at_least..at_least + SLOWNESS_MS;
        assert!(expected.contains(&result.duration_ms), "{result:#?}");
    }
}

#[test]
fn true_interrupt_with_worker() {
    let jar = Jar::native().timeout(Duration::from_millis(300));
    let mut sandbox = jar.open_session(());
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
    // Who swallows it is ended; the session goes on with a new interpreter and its context.
    let stubborn = "import time\nwhile True:\n  try: time.sleep(60)\n  except BaseException: pass";
    let result = sandbox.run(stubborn);
    result.ended(Status::Timeout, -1);
    assert_eq!(result.meta.state, Some(StateAfter::Lost));
    sandbox.run("'n' in globals(), context").gave(json!([false, null]));
}

// ## Requirement: Output Truncation

#[test]
fn output_within_limit() {
    let jar = Jar::native().with(|layer| layer.stdout_max_bytes(1000));
    let result = jar.open_session(()).run("print('x' * 999)");
    result.printed(&format!("{}\n", "x".repeat(999)));
    assert!(!result.meta.truncated);
}

#[test]
fn output_exceeds_limit() {
    let jar = Jar::native().with(|layer| layer.stdout_max_bytes(1000));
    let mut sandbox = jar.open_session(());
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
    let jar = Jar::native().with_tools(tools);
    let mut sandbox = jar.open_session(());
    sandbox.run("llm_query('a question')").gave("answer to a question");
    sandbox.run("await llm_query('another')").gave("answer to another");
    let batch = "llm_query_batched(['one', 'two'])";
    sandbox.run(batch).gave(json!(["answer to one", "answer to two"]));
}

#[test]
fn rlm_query_function() {
    let tools = Tools::new()
        .rlm(|task, ctx, request| Ok(json!({"task": task, "ctx": ctx, "depth": request.depth})));
    let jar = Jar::native().with_tools(tools);
    let mut sandbox = jar.open_session("all of it");
    let answer = json!({"task": "summarise", "ctx": ["a", "part"], "depth": 0});
    sandbox.run("rlm_query('summarise', ['a', 'part'])").gave(answer.clone());
    sandbox.run("await rlm_query('summarise', ctx=['a', 'part'])").gave(answer);
}

#[test]
fn rlm_query_default_context() {
    let tools = Tools::new().rlm(|task, ctx, _| Ok(json!([task, ctx])));
    let jar = Jar::native().with_tools(tools);
    let mut sandbox = jar.open_session("the first");
    sandbox.run("rlm_query('t')").gave(json!(["t", "the first"]));
    sandbox.run("context = {'now': 'another'}").ended(Status::Ok, 0);
    sandbox.run("rlm_query('t')").gave(json!(["t", {"now": "another"}]));
    let both = json!([["u", {"now": "another"}], ["v", {"now": "another"}]]);
    sandbox.run("rlm_query_batched(['u', 'v'])").gave(both);
}

// ## Requirement: Utility Functions

#[test]
fn chunk_text_function() {
    let jar = Jar::native();
    let mut sandbox = jar.open_session(());
    sandbox.run("chunk_text('abcdefgh', 4, 2)").gave(json!(["abcd", "cdef", "efgh"]));
    sandbox.run("chunk_text('abcdefg', 3)").gave(json!(["abc", "def", "g"]));
    let message = "chunk_text(): overlap must be at least 0 and less than size (4), not 4";
    sandbox.run("chunk_text('abc', 4, 4)").raised("ValueError", message);
}

#[test]
fn search_context_function() {
    let jar = Jar::native();
    let mut sandbox = jar.open_session("the cat sat; the dog ran");
    sandbox.run("search_context(r'[cd].[tg]', window=3)").gave(json!([
        {"match": "cat", "start": 4, "end": 7, "context": "he cat sa"},
        {"match": "dog", "start": 17, "end": 20, "context": "he dog ra"},
    ]));
    sandbox.run("search_context('bird')").gave(json!([]));
}

// ## Requirement: Variable Access

#[test]
fn get_existing_variable() {
    let jar = Jar::native();
    let mut sandbox = jar.open_session(());
    sandbox.run("found = {'pages': [1, None, 2.5], 'ok': True}\nodd = {3}").ended(Status::Ok, 0);
    let found = sandbox.get_variable("found").expect("a session").expect("a variable");
    assert_eq!(found.type_name, "dict");
    assert_eq!(found.json, Some(json!({"pages": [1, null, 2.5], "ok": true})));
    let odd = sandbox.get_variable("odd").expect("a session").expect("a variable");
    assert_eq!((odd.type_name.as_str(), odd.text.as_str(), odd.json), ("set", "{3}", None));
}

#[test]
fn get_missing_variable() {
    let jar = Jar::native();
    let mut sandbox = jar.open_session(());
    assert_eq!(sandbox.get_variable("missing"), Ok(None));
    sandbox.run("there = None").ended(Status::Ok, 0);
    let there = sandbox.get_variable("there").expect("a session").expect("None is a value");
    assert_eq!(there.json, Some(json!(null)));
}

// ## Requirement: Execution Cancellation

#[test]
fn cancel_with_worker_isolation() {
    let (lines, _jar, mut sandbox) = with_lines(true);
    let code = "before = 'set'\nprint('running', flush=True)\nwhile True: pass";
    let result = cancelled(&mut *sandbox, &lines, code);
    result.kept(Status::Cancelled);
    assert_eq!(result.error.as_ref().map(|error| error.name.as_str()), Some("KeyboardInterrupt"));
    sandbox.run("before").gave("set");
    sandbox.cancel();
    sandbox.run("'nothing ran, so nothing was cancelled'").ended(Status::Ok, 0);
}

// ## Requirement: Stdout/Stderr Callbacks

#[test]
fn stdout_callback() {
    let (lines, _jar, mut sandbox) = with_lines(true);
    let code = "import sys\nprint('one')\nprint('two\\nthree')\nprint('err', file=sys.stderr)\n\
                print('rest', end='')";
    assert_eq!(sandbox.run(code).stdout, "one\ntwo\nthree\nrest");
    assert_eq!(lines.so_far(), ["one\n", "two\n", "three\n", "rest"]);
}

#[test]
fn stderr_callback() {
    let (lines, _jar, mut sandbox) = with_lines(false);
    let code = "import sys\nprint('out')\nprint('one\\ntwo', file=sys.stderr)";
    assert_eq!(sandbox.run(code).stderr, "one\ntwo\n");
    assert_eq!(lines.so_far(), ["one\n", "two\n"]);
}

// ## Requirement: Sandbox Factory

#[test]
fn create_with_config() {
    let jar = Jar::native().with(|layer| layer.stdout_max_bytes(123_456));
    let config = SandboxConfig { session_id: Some("s-1".to_owned()), ..jar.config() };
    let mut sandbox = belljar::create_sandbox(&config).expect("a sandbox");
    sandbox.initialize(json!("ctx")).expect("a session");
    let result = sandbox.run("context");
    result.gave("ctx");
    assert_eq!(result.meta.resource_limits.stdout_max_bytes, 123_456);
    assert_eq!(result.meta.session_id.as_deref(), Some("s-1"));
    assert_eq!(sandbox.session_id(), Some("s-1"));
}

#[test]
fn config_backend_option() {
    let result = Jar::native().open().run("print('native')");
    assert_eq!(result.printed("native\n").meta.runtime, Backend::Native.runtime_name());
    for layer in ["mountns", "pidns", "netns", "seccomp", "rlimits"] {
        assert!(result.meta.isolation.iter().any(|held| held == layer), "{result:#?}");
    }
}

#[test]
fn shared_interface() {
    let tools = Tools::new().llm(|prompt| Ok(prompt.to_owned()));
    let jar = Jar::native().with_tools(tools);
    let mut sandbox: Box<dyn Sandbox> = jar.open();
    sandbox.initialize(json!(41)).expect("a session");
    let result = sandbox.execute("x = llm_query(str(context + 1))").expect("a result");
    assert_eq!(result.meta.state, Some(StateAfter::Kept));
    sandbox.cancel();
    let x = sandbox.get_variable("x").expect("a session").expect("a variable");
    assert_eq!((x.text.as_str(), result.meta.tools.calls), ("'42'", 1));
    sandbox.destroy().expect("nothing is in the way");
    eventually("its process is gone", || processes_of(jar.workspace()).is_empty());
    assert_eq!(fs::read_dir(jar.workspace()).expect("the workspace stays").count(), 0);
}
