//! The same in JavaScript: one test for each thing a session does.

use std::sync::{Arc, Barrier};
use std::time::Duration;

use belljar::{
    Files, JavaScriptSandbox, Sandbox, SandboxConfig, Snapshot, Status, ToolFailure, ToolRequest,
    Tools,
};
use serde_json::{Value, json};
use support::{Cells, Expect, Jar, Lines, cancelled, given, home, in_new_processes};

fn jar() -> Jar {
    let tools = Tools::new()
        .with("echo", |request| Ok(json!(request.call.args)))
        .and_then(|tools| tools.with("fail", |_| Err(ToolFailure::new("declined"))))
        .and_then(|tools| tools.deferred("ask"));
    Jar::new().with_tools(tools.expect("good names"))
}

#[test]
fn state_lives_from_cell_to_cell() {
    let jar = jar();
    let mut session = jar.javascript();
    session
        .run("let x = 20; const twice = n => 2 * n; class Point { constructor(x) { this.x = x } }");
    session.run("var p = new Point(twice(x) + 1); function f() { return p.x }").kept(Status::Ok);
    session.run("[f(), x, p.constructor.name]").gave(json!([41, 20, "Point"]));
    // What was declared can be declared again.
    session.run("const x = 'again'; class Point {}; let twice = 3").kept(Status::Ok);
    session.run("[x, twice]").gave(json!(["again", 3]));
    session.run("missing").raised("ReferenceError", "missing is not defined");
    session.run("let half = 1; throw new Error('halfway')").raised("Error", "halfway");
    session.run("half").gave(1);
}

#[test]
fn context_variables_and_await() {
    let jar = jar();
    let mut session = JavaScriptSandbox::from_config(&jar.config()).expect("a sandbox");
    session.initialize(json!({"pages": ["one", "två"]})).expect("a session");
    session.run("context.pages[1]").gave("två");
    session
        .run("const later = v => new Promise(go => setTimeout(() => go(v), 1))")
        .kept(Status::Ok);
    session.run("const got = await later(5); [got, await later(6)]").gave(json!([5, 6]));
    let got = session.get_variable("got").expect("a session").expect("a variable");
    assert_eq!((got.type_name.as_str(), got.json), ("number", Some(json!(5))));
    assert_eq!(session.get_variable("nothing"), Ok(None));
    let found = session.complete("lat", 3).expect("a session");
    assert!(found.matches.contains(&"later".to_owned()), "{found:?}");
}

#[test]
fn tracebacks_show_earlier_cells() {
    let mut session = Jar::new().javascript();
    session.run("function inner(n) {\n  return n.x\n}").kept(Status::Ok);
    let result = session.run("inner(null)");
    let error = result.ended(Status::Error, 1).error.clone().expect("an error");
    assert_eq!(error.name, "TypeError");
    for part in ["<cell 1>:2", "<cell 2>:1", "return n.x"] {
        assert!(error.traceback.contains(part), "{part} in {}", error.traceback);
    }
}

#[test]
fn disasters_are_undone() {
    let jar =
        jar().timeout(Duration::from_millis(400)).with(|layer| layer.memory_bytes(64_000_000));
    let mut session = jar.javascript();
    session.run("var kept = [1]; var map = new Map([['k', kept]])").kept(Status::Ok);
    for (end, status) in [
        ("for (;;) { try { for (;;); } catch {} finally { continue } }", Status::Timeout),
        (
            "const all = []; for (;;) all.push(new Uint8Array(1_000_000).fill(1))",
            Status::OutOfMemory,
        ),
    ] {
        let result = session.run(&format!("kept.push(2); map.clear(); var fresh = 1; {end}"));
        assert_eq!(result.status(), status, "{result:#?}");
        if result.meta.state == Some(belljar::StateAfter::RolledBack) {
            session.run("[kept, map.size, typeof fresh]").gave(json!([[1], 1, "undefined"]));
        } else {
            session
                .run("kept.length = 1; map.set('k', kept); delete globalThis.fresh")
                .kept(Status::Ok);
        }
    }
    let fuel = jar.with(|layer| layer.fuel_budget(100_000_000));
    let mut session = fuel.javascript();
    session.run("var kept = 1").kept(Status::Ok);
    session.run("kept = 2; for (;;);").rolled_back(Status::OutOfFuel);
    session.run("kept").gave(1);
}

#[test]
fn an_interrupt_keeps_the_state() {
    let (lines, on_stdout) = Lines::listen();
    let jar = jar();
    let config = SandboxConfig { on_stdout: Some(on_stdout), ..jar.config() };
    let mut session = JavaScriptSandbox::from_config(&config).expect("a sandbox");
    session.initialize(Value::Null).expect("a session");
    for end in ["for (;;);", "await new Promise(go => setTimeout(go, 60_000))"] {
        let code = format!("var n = 'kept'; console.log('running'); {end}");
        let result = cancelled(&mut session, &lines, &code);
        result.ended(Status::Cancelled, -1).kept(Status::Cancelled);
        session.run("n").gave("kept");
    }
    session.run("await 5").gave(5);
}

#[test]
fn forks_and_snapshots() {
    let jar = jar();
    let mut parent = jar.javascript();
    let code =
        "var items = [1]; const counter = (() => { let n = 10; return () => ++n })(); counter();
function* numbers() { let n = 0; for (;;) yield ++n } const gen = numbers(); gen.next();
const big = new Uint8Array(5_000_000).fill(7); writeText('f', 'parent')";
    parent.run(code).kept(Status::Ok);
    let mut fork = parent.fork().expect("a fork");
    fork.run("items.push('fork'); big[0] = 1; writeText('f', 'fork'); counter()").gave(12);
    let state = "[items, counter(), gen.next().value, big[0], readText('f')]";
    parent.run(state).gave(json!([[1], 12, 2, 7, "parent"]));
    fork.run(state).gave(json!([[1, "fork"], 13, 2, 1, "fork"]));
    let path = jar.workspace().join("s.snapshot");
    parent.snapshot(Files::Without).expect("a snapshot").write(&path).expect("a file");
    let snapshot = Snapshot::read(&path, &home()).expect("a snapshot");
    let mut other = JavaScriptSandbox::from_config(&jar.config()).expect("a sandbox");
    other.restore(&snapshot).expect("a session");
    other.run("[items, counter(), gen.next().value]").gave(json!([[1], 13, 3]));
}

#[test]
fn randomness_differs_between_forks() {
    let jar = jar();
    let mut parent = jar.javascript();
    parent.run("Math.random()").kept(Status::Ok);
    let mut forks: Vec<Box<dyn Sandbox>> = (0..5).map(|_| parent.fork().expect("a fork")).collect();
    let mut seen: Vec<String> = forks
        .iter_mut()
        .map(|fork| fork.run("Math.random()").result.expect("a value").text)
        .collect();
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 5);
}

#[test]
fn tools() {
    let barrier = Arc::new(Barrier::new(3));
    let meet = move |request: &ToolRequest| {
        barrier.wait();
        Ok(request.call.args[0].clone())
    };
    let tools = Tools::new()
        .with("meet", meet)
        .and_then(|tools| tools.with("echo", |request| Ok(json!(request.call.args))))
        .and_then(|tools| tools.with("fail", |_| Err(ToolFailure::new("declined"))))
        .expect("good names")
        .llm(|prompt| Ok(prompt.to_uppercase()));
    let jar = Jar::new().with_tools(tools).with(|layer| layer.max_tool_calls(5));
    let mut session = jar.javascript();
    let result = session.run("await echo(1, 'två', {a: [null, true]})");
    result.gave(json!([1, "två", {"a": [null, true]}]));
    assert_eq!(result.meta.tools.calls, 1);
    session.run("echo.sync(1)").gave(json!([1]));
    session.run("await Promise.all([meet(1), meet(2), meet(3)])").gave(json!([1, 2, 3]));
    session.run("await llm_query_batched(['a', 'b'])").gave(json!(["A", "B"]));
    session.run("await fail()").raised("ToolError", "declined");
    session.run("fail.sync()").raised("ToolError", "declined");
    let result = session.run("for (let n = 0; n < 9; n++) await echo(n)");
    assert_eq!(
        result.ended(Status::Error, 1).error.as_ref().expect("an error").name,
        "ToolLimitError"
    );
    for bad in
        ["1n", "NaN", "(() => { const a = []; a.push(a); return a })()", "Symbol('x')", "() => 1"]
    {
        let result = session.run(&format!("await echo({bad})"));
        assert!(matches!(result.status(), Status::Ok | Status::Error), "{bad}: {result:#?}");
        session.run("echo.sync('alive')").gave(json!(["alive"]));
    }
}

#[test]
fn saved_while_it_waits_and_resumed_in_a_new_process() {
    if let Some(path) = given() {
        let snapshot = Snapshot::read(&path, &home()).expect("a snapshot");
        let jar = jar();
        let mut session = JavaScriptSandbox::from_config(&jar.config()).expect("a sandbox");
        session.restore(&snapshot).expect("a session");
        let waiting = session.waiting();
        assert_eq!(waiting.len(), 2);
        session.answer(vec![(waiting[1], Ok(json!("b")))]).waits_for(&["ask"]);
        session.answer(vec![(waiting[0], Ok(json!("a")))]).gave(json!(["a", "b", "local"]));
        session.run("try { await ask() } catch (e) { e.message }").waits_for(&["ask"]);
        let id = session.waiting()[0];
        session.answer(vec![(id, Err(ToolFailure::new("no")))]).kept(Status::Ok);
        return;
    }
    let jar = jar();
    let mut session = jar.javascript();
    let code = "async function both() { const local = 'local';
  const [a, b] = await Promise.all([ask(1), ask(2)]); return [a, b, local] }\nawait both()";
    session.run(code).waits_for(&["ask", "ask"]);
    assert!(session.execute("1").is_err(), "it waits");
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("waiting");
    session.snapshot(Files::With).expect("a snapshot").write(&path).expect("a file");
    in_new_processes("javascript::saved_while_it_waits_and_resumed_in_a_new_process", 1, &path);
}

#[test]
fn broken_surroundings() {
    let jar = Jar::new();
    for line in [
        "console.log = null",
        "globalThis.JSON = null; globalThis.Promise = null",
        "JSON.stringify = () => 'forged'; JSON.parse = null",
        "Object.prototype.toJSON = () => 'forged'; Array.prototype.push = null",
        "Object.defineProperty(Object.prototype, 'end', { get() { throw 1 } })",
        "for (const name of Object.getOwnPropertyNames(globalThis)) { try { delete globalThis[name] } catch {} }",
        "Error.prototype.toString = () => { throw 1 }; throw new Error('x')",
        "throw { toString() { throw 1 }, get name() { throw 2 } }",
        "throw null",
        "new Proxy({}, { get() { throw 1 }, ownKeys() { throw 2 } })",
        "const a = {}; a.a = a; a",
        "'x'.repeat(20_000_000)",
    ] {
        let mut session = jar.javascript();
        let result = session.run(line);
        assert!(matches!(result.status(), Status::Ok | Status::Error), "{line}: {result:#?}");
        let number = session.run("1 + 1").ended(Status::Ok, 0).result.clone().expect("a value");
        assert_eq!(number.text, "2", "{line}");
    }
}
