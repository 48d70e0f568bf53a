//! Capability: REPL Sandbox, the scenarios that concern Pyodide, and the generic ones on it.
//!
//! The worker is a thread of Deno or Node in a jail; SIGINT to the process is what writes to the
//! interrupt buffer; `indexURL` is `index_url`, `useWorker` is `use_worker`.

use std::time::Duration;

use belljar::pyodide::DEFAULT_INDEX_URL;
use belljar::{LaunchPlan, Sandbox, SandboxConfig, SandboxError, Status, Tools, create_sandbox};
use serde_json::{Value, json};
use support::{Cells, Expect, Jar, Lines, cancelled, processes_of};

fn session(config: &SandboxConfig, context: Value) -> Box<dyn Sandbox> {
    let mut sandbox = create_sandbox(config).expect("a sandbox");
    sandbox.initialize(context).expect("a session");
    sandbox
}

fn jailed_arguments(config: &SandboxConfig) -> Vec<String> {
    LaunchPlan::new(config).expect("a plan").jail.expect("a jail").args
}

// ## Requirement: Sandbox Lifecycle

#[test]
fn initialize_with_context() {
    let jar = Jar::new();
    let Some(config) = jar.pyodide("initialize_with_context") else { return };
    let mut session = session(&config, json!({"chapters": ["one", "tv\u{e5}"]}));
    session.run("context['chapters'][1]").gave("tv\u{e5}");
}

#[test]
fn cleanup_on_destroy() {
    let jar = Jar::new();
    let Some(config) = jar.pyodide("cleanup_on_destroy") else { return };
    let mut session = session(&config, json!(null));
    session.run("1").gave(1);
    assert!(!processes_of(jar.workspace()).is_empty(), "a session is a process");
    session.destroy().expect("nothing is in the way");
    assert_eq!(processes_of(jar.workspace()), Vec::<String>::new());
}

// ## Requirement: Code Execution

#[test]
fn execute_returns_result() {
    let jar = Jar::new();
    let Some(config) = jar.pyodide("execute_returns_result") else { return };
    let mut session = session(&config, json!(null));
    let result = session.run("import sys\nprint('out')\nprint('err', file=sys.stderr)\n6 * 7");
    assert_eq!((result.stdout.as_str(), result.stderr.as_str()), ("out\n", "err\n"));
    result.gave(42);
    assert!(result.duration_ms > 0.0);
    assert_eq!(result.meta.runtime, "pyodide");
    session.run("raise ValueError('bad')").raised("ValueError", "bad");
    session.run("open('f.txt', 'w').write('x')");
    assert_eq!(jar.read("f.txt"), "x");
}

// ## Requirement: Timeout Handling

#[test]
fn true_interrupt_with_worker() {
    let jar = Jar::new().timeout(Duration::from_secs(2));
    let Some(config) = jar.pyodide("true_interrupt_with_worker") else { return };
    let mut session = session(&config, json!(null));
    session.run("x = 1").kept(Status::Ok);
    let result = session.run("while True: pass");
    result.kept(Status::Timeout);
    assert_eq!(result.error.expect("an error").name, "KeyboardInterrupt");
    session.run("x").gave(1);
}

/// Not in the document: whoever swallows the interrupt is ended, and the session begins anew.
#[test]
fn an_interrupt_that_is_swallowed() {
    let jar = Jar::new().timeout(Duration::from_secs(2));
    let Some(config) = jar.pyodide("an_interrupt_that_is_swallowed") else { return };
    let mut session = session(&config, json!("kept"));
    let code = "def swallow(loops):\n  while True:\n    try: swallow(loops - 1) if loops else 1\n    \
                except BaseException: pass\nswallow(50)";
    let result = session.run(code);
    assert_eq!(result.status(), Status::Timeout);
    assert_eq!(result.meta.state, Some(belljar::StateAfter::Lost));
    session.run("context").gave("kept");
}

// ## Requirement: LLM Bridge Functions

#[test]
fn llm_query_function() {
    let tools = Tools::new().with("llm_query", |request| {
        Ok(json!(format!("answer to {}", request.call.args[0].as_str().unwrap_or_default())))
    });
    let jar = Jar::new().with_tools(tools.expect("a good name"));
    let Some(config) = jar.pyodide("llm_query_function") else { return };
    let mut session = session(&config, json!(null));
    session.run("llm_query('a')").gave("answer to a");
    let code = "import asyncio\nawait asyncio.gather(llm_query.aio('b'), llm_query.aio('c'))";
    session.run(code).gave(json!(["answer to b", "answer to c"]));
}

// ## Requirement: Variable Access

#[test]
fn get_existing_variable() {
    let jar = Jar::new();
    let Some(config) = jar.pyodide("get_existing_variable") else { return };
    let mut session = session(&config, json!(null));
    session.run("x = {'a': [1, None]}").kept(Status::Ok);
    let variable = session.get_variable("x").expect("the host is fine").expect("a variable");
    assert_eq!(variable.json, Some(json!({"a": [1, null]})));
    assert!(session.get_variable("y").expect("the host is fine").is_none());
}

// ## Requirement: Worker Isolation

#[test]
fn worker_based_execution() {
    let jar = Jar::new();
    let Some(config) = jar.pyodide("worker_based_execution") else { return };
    for use_worker in [None, Some(true)] {
        let config = SandboxConfig { use_worker, ..config.clone() };
        assert!(!jailed_arguments(&config).contains(&"--direct".to_owned()));
    }
    // In the main thread of Node, or Deno, nobody could write to the interrupt buffer.
    let (lines, on_stdout) = Lines::listen();
    let config = SandboxConfig { on_stdout: Some(on_stdout), ..config };
    let mut session = session(&config, json!(null));
    cancelled(&mut *session, &lines, "print('go')\nwhile True: pass").kept(Status::Cancelled);
}

#[test]
fn fallback_to_direct_mode() {
    let jar = Jar::new();
    let Some(config) = jar.pyodide("fallback_to_direct_mode") else { return };
    let config = SandboxConfig { use_worker: Some(false), ..config };
    assert!(jailed_arguments(&config).contains(&"--direct".to_owned()));
    let mut session = session(&config, json!({"n": 2}));
    session.run("x = context['n'] * 21").kept(Status::Ok);
    session.run("x").gave(42);
}

#[test]
fn worker_termination_cleanup() {
    let jar = Jar::new();
    let Some(config) = jar.pyodide("worker_termination_cleanup") else { return };
    for use_worker in [Some(true), Some(false)] {
        let config = SandboxConfig { use_worker, ..config.clone() };
        let mut session = session(&config, json!(null));
        session.run("held = bytearray(30_000_000)").kept(Status::Ok);
        session.destroy().expect("nothing is in the way");
        assert_eq!(processes_of(jar.workspace()), Vec::<String>::new());
    }
}

// ## Requirement: Execution Cancellation

#[test]
fn cancel_with_worker_isolation() {
    let jar = Jar::new();
    let Some(config) = jar.pyodide("cancel_with_worker_isolation") else { return };
    let (lines, on_stdout) = Lines::listen();
    let config = SandboxConfig { on_stdout: Some(on_stdout), ..config };
    let mut session = session(&config, json!(null));
    session.run("x = 1").kept(Status::Ok);
    for wait in [
        "while True: pass",
        "import time; time.sleep(60)",
        "import asyncio; await asyncio.sleep(60)",
    ] {
        let result = cancelled(&mut *session, &lines, &format!("print('go')\n{wait}"));
        result.kept(Status::Cancelled);
        session.run("x").gave(1);
    }
}

#[test]
fn cancel_without_worker() {
    let jar = Jar::new();
    let Some(config) = jar.pyodide("cancel_without_worker") else { return };
    let (lines, on_stdout) = Lines::listen();
    let config = SandboxConfig { use_worker: Some(false), on_stdout: Some(on_stdout), ..config };
    let mut session = session(&config, json!(null));
    let code = "import time\nprint('go')\nend = time.time() + 1.5\n\
                while time.time() < end: pass\n'to the end'";
    cancelled(&mut *session, &lines, code).gave("to the end");
}

#[test]
fn timeout_without_worker() {
    let jar = Jar::new().timeout(Duration::from_secs(2));
    let Some(config) = jar.pyodide("timeout_without_worker") else { return };
    let config = SandboxConfig { use_worker: Some(false), ..config };
    let mut session = session(&config, json!("kept"));
    let result = session.run("while True: pass");
    assert_eq!(result.status(), Status::Timeout);
    assert_eq!(processes_of(jar.workspace()), Vec::<String>::new());
    session.run("context").gave("kept");
}

// ## Requirement: Configurable CDN

#[test]
fn custom_indexurl_string() {
    let jar = Jar::new();
    let Some(config) = jar.pyodide("custom_indexurl_string") else { return };
    let folder = config.index_url[0].clone();
    let jail = LaunchPlan::new(&config).expect("a plan").jail.expect("a jail");
    assert!(jail.mounts.iter().any(|mount| mount.host.display().to_string() == folder));
    create_sandbox(&config).expect("a sandbox").run("1").gave(1);
}

#[test]
fn indexurl_with_fallbacks() {
    let jar = Jar::new();
    let Some(config) = jar.pyodide("indexurl_with_fallbacks") else { return };
    let folder = config.index_url[0].clone();
    for places in [["/nowhere", &folder], [&folder, "/nowhere"]] {
        let index_url = places.map(str::to_owned).to_vec();
        let config = SandboxConfig { index_url, ..config.clone() };
        create_sandbox(&config).expect("a sandbox").run("1").gave(1);
    }
    let index_url = ["/nowhere", "/neither"].map(str::to_owned).to_vec();
    let error = LaunchPlan::new(&SandboxConfig { index_url, ..config }).expect_err("no Pyodide");
    assert_eq!(
        error.to_string(),
        "the pyodide backend cannot be used: cannot load Pyodide from /nowhere: there is no such \
         folder; cannot load Pyodide from /neither: there is no such folder; nothing was run"
    );
}

#[test]
fn default_cdn() {
    assert!(DEFAULT_INDEX_URL.starts_with("https://cdn.jsdelivr.net/pyodide/"));
    let jar = Jar::new();
    let Some(config) = jar.pyodide("default_cdn") else { return };
    let config = SandboxConfig { index_url: Vec::new(), ..config };
    match create_sandbox(&config) {
        // Where there is a network.
        Ok(mut sandbox) => assert!(sandbox.run("1").success()),
        Err(SandboxError::BackendUnavailable { reason, .. }) => {
            assert!(reason.contains(DEFAULT_INDEX_URL), "{reason}");
        }
        Err(other) => panic!("{other}"),
    }
}
