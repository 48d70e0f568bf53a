//! The policy's limits on tools, and what the result says of their use.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use belljar::{PolicyLayer, SandboxConfig, Status, ToolFailure, Tools, create_sandbox};
use serde_json::{Value, json};
use support::{Cells, Expect, Jar};

/// A jar with a tool that counts its calls, and the count.
fn counted(change: impl FnOnce(PolicyLayer) -> PolicyLayer) -> (Jar, Arc<AtomicUsize>) {
    let calls = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&calls);
    let tools = Tools::new().with("echo", move |request| {
        counter.fetch_add(1, Ordering::SeqCst);
        Ok(request.call.args.first().cloned().unwrap_or_default())
    });
    let tools = tools.expect("a good name").llm(|prompt| Ok(prompt.to_owned()));
    (Jar::new().with_tools(tools).with(change), calls)
}

#[test]
fn number_of_calls() {
    let (jar, calls) = counted(|layer| layer.max_tool_calls(3));
    let mut session = jar.session();
    let result = session.run("x = [echo(n) for n in range(3)]\nx");
    assert_eq!(result.gave(json!([0, 1, 2])).meta.tools.calls, 3);
    assert_eq!(result.meta.resource_limits.max_tool_calls, Some(3));
    let message = "at most 3 calls are allowed; raise max_tool_calls to allow more";
    for code in [
        "for n in range(10): echo(n)",
        "for n in range(10): await echo(n)",
        "import asyncio\nawait asyncio.gather(*(echo.aio(n) for n in range(10)))",
        "llm_query_batched(['x'] * 10)",
    ] {
        calls.store(0, Ordering::SeqCst);
        let result = session.run(code);
        result.raised("ToolLimitError", message).kept(Status::Error);
        assert_eq!(result.meta.tools.calls, 3, "{code}");
        assert!(calls.load(Ordering::SeqCst) <= 3, "{code}");
    }
    let code = "n = 0\nwhile True:\n  try: echo(n)\n  except RuntimeError: break\n  n += 1\nn";
    session.run(code).gave(3);
    assert_eq!(session.run("1").meta.tools.calls, 0, "each cell is counted by itself");
}

#[test]
fn bytes_of_arguments_and_results() {
    let (jar, calls) = counted(|layer| layer.max_tool_bytes(10_000));
    let mut session = jar.session();
    let result = session.run("len(echo('x' * 1000))");
    let bytes = result.gave(1000).meta.tools.bytes;
    assert!((2_000..2_200).contains(&bytes), "{bytes} for a thousand there and back");
    assert_eq!(result.meta.resource_limits.max_tool_bytes, Some(10_000));
    let message = "arguments and results may have 10000 bytes together; raise max_tool_bytes to \
                   allow more";
    calls.store(0, Ordering::SeqCst);
    session.run("echo('x' * 20_000)").raised("ToolLimitError", message);
    assert_eq!(calls.load(Ordering::SeqCst), 0, "it was not called");
    session.run("echo('x' * 7_000)").raised("ToolLimitError", message);
    assert_eq!(calls.load(Ordering::SeqCst), 1, "its result was too large");
    let result = session.run("for _ in range(100): echo('x' * 1000)");
    result.raised("ToolLimitError", message);
    assert!(result.meta.tools.bytes <= 10_000, "{:?}", result.meta.tools);
    session.run("await echo('x' * 20_000)").raised("ToolLimitError", message);
    session.run("echo('again')").gave("again");
}

#[test]
fn depth_of_rlm_query() {
    let tools = Tools::new().rlm(|_, _, request| Ok(json!(request.depth)));
    for (depth, allowed) in [(0, true), (1, true), (2, false), (3, false)] {
        let jar = Jar::new()
            .with_tools(tools.clone().at_depth(depth))
            .with(|layer| layer.max_rlm_depth(2));
        let mut session = jar.session();
        for call in ["rlm_query('t')", "await rlm_query('t')", "rlm_query_batched(['t'])[0]"] {
            let result = session.run(call);
            assert_eq!(result.meta.tools.depth, depth);
            if allowed {
                result.gave(depth);
            } else {
                let message = "rlm_query may be nested 2 deep; raise max_rlm_depth to allow more";
                result.raised("ToolLimitError", message);
            }
        }
    }
}

/// A tool that gives its task to a sandbox of its own, one level deeper.
fn recursive(config: &SandboxConfig, depth: u64) -> Tools {
    let config = config.clone();
    let answer = move |task: &str, ctx: &Value, request: &belljar::ToolRequest| {
        let inner =
            SandboxConfig { tools: recursive(&config, request.depth + 1), ..config.clone() };
        let failed = |error: belljar::SandboxError| ToolFailure::new(error.to_string());
        let mut sandbox = create_sandbox(&inner).map_err(failed)?;
        sandbox.initialize(ctx.clone()).map_err(failed)?;
        let result = sandbox.execute(task).map_err(failed)?;
        match (result.error, result.result) {
            (Some(error), _) => Err(ToolFailure::new(format!("{}: {}", error.name, error.message))),
            (None, value) => Ok(value.and_then(|value| value.json).unwrap_or_default()),
        }
    };
    Tools::new().rlm(answer).at_depth(depth)
}

#[test]
fn sandboxes_in_sandboxes_come_to_an_end() {
    let jar = Jar::new().with(|layer| layer.max_rlm_depth(3));
    let jar = {
        let tools = recursive(&jar.config(), 0);
        jar.with_tools(tools)
    };
    let mut session = jar.session_about(json!({"n": 3, "task": "context['n']"}));
    session.run("rlm_query('context[\"n\"] * 2')").gave(6);
    let code = "code = 'context[\"n\"] + rlm_query(\"context[\\\\\"n\\\\\"]\", {\"n\": 40})'\nrlm_query(code, {'n': 2})";
    session.run(code).gave(42);
    let endless = "task = 'rlm_query(context, context)'\nrlm_query(task, task)";
    let message = "ToolError: ToolError: ToolLimitError: rlm_query may be nested 3 deep; raise \
                   max_rlm_depth to allow more";
    session.run(endless).raised("ToolError", message);
}

#[test]
fn arguments_json_cannot_carry() {
    let (jar, calls) = counted(|layer| layer);
    let mut session = jar.session();
    session.run(
        "cyclic = []; cyclic.append(cyclic)\ndeep = []\nfor _ in range(100_000): deep = [deep]",
    );
    let not_json = |what: &str| format!("{what} cannot be sent as JSON");
    for (call, name, message) in [
        ("echo({1})", "TypeError", not_json("argument 1 of echo()") + ": set is no JSON type"),
        (
            "echo(1, b'x')",
            "TypeError",
            not_json("argument 2 of echo()") + ": bytes is no JSON type",
        ),
        (
            "echo(k=object())",
            "TypeError",
            not_json("argument 'k' of echo()") + ": object is no JSON type",
        ),
        (
            "echo(float('nan'))",
            "ValueError",
            not_json("argument 1 of echo()")
                + ": Out of range float values are not JSON compliant: nan",
        ),
        (
            "echo([float('inf')])",
            "ValueError",
            not_json("argument 1 of echo()")
                + ": Out of range float values are not JSON compliant: inf",
        ),
        ("echo(cyclic)", "ValueError", not_json("argument 1 of echo()") + ": it contains itself"),
        (
            "echo(deep)",
            "ValueError",
            "argument 1 of echo() is nested too deeply for JSON".to_owned(),
        ),
        (
            "echo('\\ud800')",
            "ValueError",
            "argument 1 of echo() holds half of a surrogate pair, which JSON cannot carry"
                .to_owned(),
        ),
        (
            "echo({(1, 2): 3})",
            "TypeError",
            not_json("argument 1 of echo()")
                + ": keys must be str, int, float, bool or None, not tuple",
        ),
    ] {
        for call in [call.to_owned(), format!("await {call}")] {
            let result = session.run(&call);
            result.raised(name, &message).kept(Status::Error);
            assert_eq!(result.meta.tools.calls, 0, "{call}");
        }
    }
    assert_eq!(calls.load(Ordering::SeqCst), 0);
    session.run("echo('alive')").gave("alive");
}

#[test]
fn arguments_with_methods_of_their_own() {
    let (jar, _) = counted(|layer| layer);
    let mut session = jar.session();
    for (code, ends) in [
        (
            "class S(str):\n  def encode(self, *a): 1 / 0\n  def __len__(self): return -5\necho(S('s'))",
            Some("s"),
        ),
        ("class L(list):\n  def __iter__(self): raise SystemExit(9)\necho(L([1]))", None),
        ("class D(dict):\n  def items(self): raise ValueError('items')\necho(D(a=1))", None),
        ("class I(int):\n  def __repr__(self): return '1, \"do\": \"x\"'\necho(I(7))", None),
        ("class F(float):\n  __repr__ = lambda self: 'null'\necho(F(7))", None),
    ] {
        let result = session.run(code);
        match ends {
            Some(value) => drop(result.gave(value)),
            None => assert!(matches!(result.status(), Status::Ok | Status::Error), "{result:#?}"),
        }
        session.run("echo('alive')").gave("alive");
    }
}

#[test]
fn depth_of_the_arguments() {
    let (jar, calls) = counted(|layer| layer);
    let mut session = jar.session();
    for depth in [10, 50] {
        let code = format!("v = 1\nfor _ in range({depth}): v = [v]\necho(v) == v");
        session.run(&code).gave(true);
    }
    calls.store(0, Ordering::SeqCst);
    for depth in [130, 400] {
        let code = format!("v = 1\nfor _ in range({depth}): v = [v]\necho(v)");
        let message = "it is too large or nested too deeply";
        session.run(&code).raised("ToolLimitError", message).kept(Status::Error);
    }
    assert_eq!(calls.load(Ordering::SeqCst), 0);
    session.run("echo('alive')").gave("alive");
}
