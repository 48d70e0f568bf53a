//! What goes on while code runs: tools, input, lines, cancel, suspension.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use belljar::{InputRequest, SandboxConfig, SandboxError, Status, ToolFailure, Tools};
use serde_json::{Value, json};
use support::{Cells, Expect, Jar, Lines, cancelled};

use crate::{config, open_with, session};

#[test]
fn tools_are_run_here_several_at_once() {
    let both = Arc::new(Barrier::new(2));
    let tools = Tools::new()
        .with("meet", move |request| {
            both.wait();
            Ok(request.call.args[0].clone())
        })
        .and_then(|tools| tools.with("fail", |_| Err(ToolFailure::new("no such luck"))))
        .and_then(|tools| tools.with("boom", |_| panic!("a tool's own mistake")))
        .expect("good names")
        .llm(|prompt| Ok(format!("answer to {prompt}")))
        .rlm(|task, ctx, request| Ok(json!([task, ctx, request.depth])));
    let jar = Jar::new().with_tools(tools.at_depth(1));
    let mut sandbox = session(&jar);
    // Two answers at the same moment, often.
    for _ in 0..50 {
        let met = sandbox.run("import asyncio\nawait asyncio.gather(meet.aio(1), meet.aio(2))");
        met.gave(json!([1, 2]));
        assert_eq!((met.meta.tools.calls, met.meta.tools.depth), (2, 1));
    }
    sandbox.run("llm_query('q'), rlm_query('t', 5)").gave(json!(["answer to q", ["t", 5, 1]]));
    sandbox.run("fail()").raised("ToolError", "no such luck");
    sandbox.run("boom()").raised("ToolError", "the tool panicked");
    let mut fork = sandbox.fork().expect("a fork");
    fork.run("llm_query('from a fork')").gave("answer to from a fork");
}

#[test]
fn calls_are_counted_on_both_sides() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&calls);
    let tools = Tools::new().with("count", move |_| {
        counter.fetch_add(1, Ordering::Relaxed);
        Ok(Value::Null)
    });
    let jar = Jar::new().with_tools(tools.expect("a good name"));
    let jar = jar.with(|layer| layer.max_tool_calls(3));
    let mut sandbox = session(&jar);
    let code = "n = 0\ntry:\n  while True:\n    count(); n += 1\nexcept Exception as e: print(n, type(e).__name__)";
    sandbox.run(code).printed("3 ToolLimitError\n");
    assert_eq!(calls.load(Ordering::Relaxed), 3);
    sandbox.run(code).printed("3 ToolLimitError\n");
}

#[test]
fn a_tool_that_never_answers_ends_with_the_time() {
    let waits = |request: &belljar::ToolRequest| {
        while !request.cancelled() {
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(Value::Null)
    };
    let tools = Tools::new().with("never", waits).expect("a good name");
    let jar = Jar::new().with_tools(tools).timeout(Duration::from_millis(300));
    let mut sandbox = session(&jar);
    let start = Instant::now();
    sandbox.run("never()").kept(Status::Timeout);
    assert!(start.elapsed() < Duration::from_secs(10));
    sandbox.run("1").gave(1);
}

#[test]
fn input_is_answered_here() {
    let jar = Jar::new();
    let on_input = |request: &InputRequest| (request.prompt == "name? ").then(|| "Ada".to_owned());
    let config = SandboxConfig { on_input: Some(Arc::new(on_input)), ..config(&jar) };
    let mut sandbox = open_with(&config);
    sandbox.run("print(input('name? '))").ended(Status::Ok, 0);
    let ended = sandbox.run("input('more? ')");
    assert_eq!(ended.error.as_ref().map(|error| error.name.as_str()), Some("EOFError"));
}

#[test]
fn lines_come_while_code_runs() {
    let ((out, on_stdout), (err, on_stderr)) = (Lines::listen(), Lines::listen());
    let jar = Jar::new();
    let config =
        SandboxConfig { on_stdout: Some(on_stdout), on_stderr: Some(on_stderr), ..config(&jar) };
    let mut sandbox = open_with(&config);
    let code = "import sys, time\nprint('one')\nprint('e', file=sys.stderr)\nprint('two\\nthree')\n\
                print('rest', end='')";
    assert_eq!(sandbox.run(code).stdout, "one\ntwo\nthree\nrest");
    assert_eq!(out.so_far(), ["one\n", "two\n", "three\n", "rest"]);
    assert_eq!(err.so_far(), ["e\n"]);
    let many = sandbox.run("for i in range(20_000): print(i)");
    assert_eq!(out.so_far().concat(), many.stdout);
}

#[test]
fn running_code_is_cancelled_and_its_session_lives() {
    let (lines, on_stdout) = Lines::listen();
    let jar = Jar::new();
    let mut sandbox = open_with(&SandboxConfig { on_stdout: Some(on_stdout), ..config(&jar) });
    sandbox.initialize(Value::Null).expect("a session");
    let code = "before = 'set'\nprint('running')\nwhile True: pass";
    let result = cancelled(&mut *sandbox, &lines, code);
    result.kept(Status::Cancelled);
    assert_eq!(result.error.as_ref().map(|error| error.name.as_str()), Some("KeyboardInterrupt"));
    sandbox.run("before").gave("set");
    sandbox.cancel();
    sandbox.run("'nothing ran, so nothing was cancelled'").ended(Status::Ok, 0);
}

/// Wherever the code is by then, on its way included.
#[test]
fn a_cancel_at_any_time_is_heard() {
    let jar = Jar::new();
    let mut sandbox = session(&jar);
    for microseconds in [0u64, 50, 100, 200, 400, 800, 1600, 3200] {
        let cancel = sandbox.cancel_handle();
        std::thread::scope(|scope| {
            let (began, begin) = std::sync::mpsc::channel();
            scope.spawn(move || {
                let () = begin.recv().expect("a beginning");
                std::thread::sleep(Duration::from_micros(microseconds));
                // One that comes before the call does nothing, as on every backend.
                for _ in 0..100 {
                    cancel.cancel();
                    std::thread::sleep(Duration::from_millis(1));
                }
            });
            began.send(()).expect("a listener");
            let start = Instant::now();
            sandbox.run("while True: pass").ended(Status::Cancelled, -1);
            assert!(start.elapsed() < Duration::from_secs(5));
        });
    }
    sandbox.run("1").gave(1);
}

#[test]
fn an_execution_waits_for_a_tool_that_answers_later() {
    let tools = Tools::new().deferred("approve").expect("a good name");
    let jar = Jar::new().with_tools(tools);
    let mut sandbox = session(&jar);
    let none = sandbox.resume(Vec::new()).expect_err("nothing waits");
    assert_eq!(none, SandboxError::NotSuspended);
    sandbox.run("print('yes' if await approve('?') else 'no')").waits_for(&["approve"]);
    let waiting = sandbox.waiting();
    let refused = sandbox.execute("1").expect_err("it waits");
    assert_eq!(refused, SandboxError::Suspended { pending: waiting.clone() });
    let mut fork = sandbox.fork().expect("a fork");
    sandbox.answer(vec![(waiting[0], Ok(json!(true)))]).printed("yes\n");
    fork.answer(vec![(waiting[0], Ok(json!(false)))]).printed("no\n");
}
