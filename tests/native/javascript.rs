//! JavaScript by Node in the jail.

use std::time::Duration;

use belljar::{
    Backend, RuntimeType, Sandbox, SandboxConfig, SandboxError, StateAfter, Status, ToolDoc, Tools,
    create_sandbox,
};
use serde_json::json;
use support::{Cells, Expect, Jar, Lines, cancelled, processes_of, skipped};

/// A sandbox with Node in it; `None`, visibly, where there is none.
fn node(test: &str, config: SandboxConfig) -> Option<Box<dyn Sandbox>> {
    let runtime = RuntimeType::Javascript;
    match create_sandbox(&SandboxConfig { runtime, backend: Backend::Native, ..config }) {
        Ok(sandbox) => Some(sandbox),
        Err(SandboxError::BackendUnavailable { reason, .. }) => {
            skipped(test, &reason);
            None
        }
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn code_runs_with_what_node_has() {
    let jar = Jar::new();
    let Some(mut node) = node("code_runs_with_what_node_has", jar.config()) else { return };
    let code = "const path = require('path');\nconsole.log(path.join('a', 'b'), typeof Buffer);\n\
                console.error('err');\nawait writeText('f.txt', 'x');\n6 * 7";
    let result = node.run(code);
    result.gave(42);
    assert_eq!((result.stdout.as_str(), result.stderr.as_str()), ("a/b function\n", "err\n"));
    assert_eq!(result.files_created, ["f.txt"]);
    assert_eq!(
        (result.meta.runtime.as_str(), result.meta.language),
        ("local", RuntimeType::Javascript)
    );
    assert_eq!(jar.read("f.txt"), "x");
    node.run("throw new TypeError('bad')").raised("TypeError", "bad");
    node.run("process.exit(3)").ended(Status::Error, 3);
    assert!(!node.validate_code("let = = 1").expect("the host is fine"));
    assert!(node.validate_code("let a = 1").expect("the host is fine"));
}

#[test]
fn a_session_keeps_state_and_calls_tools() {
    let tools = Tools::new().with("add", |request| {
        Ok(json!(request.call.args.iter().filter_map(serde_json::Value::as_i64).sum::<i64>()))
    });
    let tools = tools.and_then(|tools| {
        tools.documented("add", ToolDoc::new("Adds.", "(...numbers: number[]) => number"))
    });
    let jar = Jar::new().with_tools(tools.expect("a good name"));
    let Some(mut node) = node("a_session_keeps_state_and_calls_tools", jar.config()) else {
        return;
    };
    node.run("[add.doc, add.signature].join()").gave("Adds.,(...numbers: number[]) => number");
    node.initialize(json!({"n": 1})).expect("a session");
    node.run("[add.doc, Object.keys(add)].join()").gave("Adds.,");
    node.run("let x = context.n + 1").kept(Status::Ok);
    node.run("(await Promise.all([add(x, 1), add(x, 2)])).join()").gave("3,4");
    let variable = node.get_variable("x").expect("the host is fine").expect("a variable");
    assert_eq!(variable.json, Some(json!(2)));
    assert!(node.get_variable("y").expect("the host is fine").is_none());
    node.destroy().expect("nothing is in the way");
    assert_eq!(processes_of(jar.workspace()), Vec::<String>::new());
}

#[test]
fn an_endless_loop_is_interrupted_and_the_session_lives_on() {
    let jar = Jar::new().timeout(Duration::from_secs(2));
    let (lines, on_stdout) = Lines::listen();
    let config = SandboxConfig { on_stdout: Some(on_stdout), ..jar.config() };
    let test = "an_endless_loop_is_interrupted_and_the_session_lives_on";
    let Some(mut node) = node(test, config) else { return };
    node.initialize(json!(null)).expect("a session");
    node.run("let x = 1").kept(Status::Ok);
    node.run("for (;;) {}").kept(Status::Timeout);
    node.run("await new Promise(() => {})").kept(Status::Timeout);
    cancelled(&mut *node, &lines, "console.log('go'); for (;;) {}").kept(Status::Cancelled);
    node.run("x").gave(1);
    // Whoever ends the process starts anew.
    let result = node.run("process.kill(process.pid, 'SIGKILL'); for (;;) {}");
    result.ended(Status::Crashed, -1);
    assert_eq!(result.meta.state, Some(StateAfter::Lost));
    node.run("typeof x").gave("undefined");
}

#[test]
fn the_host_cannot_be_reached() {
    let jar = Jar::new();
    let Some(mut node) = node("the_host_cannot_be_reached", jar.config()) else { return };
    let code = "const tried = (f) => { try { return f(); } catch (error) { return error.code; } };\n\
                const fs = require('fs');\n\
                [tried(() => fs.readFileSync('/etc/shadow')),\n \
                tried(() => fs.writeFileSync('/usr/x', '')),\n \
                await fetch('http://127.0.0.1:9').catch((error) => 'no network'),\n \
                Object.keys(process.env).some((name) => name.startsWith('CARGO')),\n \
                tried(() => fs.writeFileSync('own', 'x')) ?? fs.readFileSync('own', 'utf8')]";
    let expected = json!(["ENOENT", "EROFS", "no network", false, "x"]);
    node.run(code).gave(expected);
}
