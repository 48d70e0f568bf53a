//! Cells that wait for an answer which may come when the process has ended.

use std::time::Duration;

use belljar::{
    Files, PythonSandbox, Sandbox, SandboxError, Snapshot, Status, ToolAnswer, ToolFailure, Tools,
};
use serde_json::{Value, json};
use support::{Cells, Expect, Jar, given, home, in_new_processes};

fn jar() -> Jar {
    let tools = Tools::new().deferred("approve").and_then(|tools| tools.deferred("ask"));
    let tools = tools.and_then(|tools| tools.with("now", |request| Ok(json!(request.call.args))));
    Jar::new().with_tools(tools.expect("good names"))
}

fn ok(id: u64, value: impl Into<Value>) -> (u64, Result<Value, ToolFailure>) {
    (id, Ok(value.into()))
}

/// Of the only call that waits.
fn only(session: &mut dyn Sandbox) -> u64 {
    let waiting = session.waiting();
    assert_eq!(waiting.len(), 1, "{waiting:?}");
    waiting[0]
}

#[test]
fn one_call() {
    let jar = jar();
    let mut session = jar.session();
    session.run("state = ['before']").kept(Status::Ok);
    let code =
        "print('asking')\nreply = await approve('pay', amount=5)\nprint('told')\nstate + [reply]";
    let result = session.run(code);
    result.waits_for(&["approve"]);
    assert_eq!((result.stdout.as_str(), result.result.as_ref()), ("asking\n", None));
    assert_eq!((result.error.as_ref(), result.meta.tools.calls), (None, 1));
    let pending = session.pending_calls();
    assert_eq!(pending, result.pending_calls);
    assert_eq!(pending[0].args, [json!("pay")]);
    assert_eq!(json!(pending[0].kwargs), json!({"amount": 5}));
    let id = pending[0].id;
    let result = session.answer(vec![ok(id, json!({"by": "Ada"}))]);
    result.gave(json!(["before", {"by": "Ada"}])).kept(Status::Ok);
    assert_eq!(result.stdout, "told\n", "what was told before is not told again");
    assert_eq!(session.pending_calls(), []);
    session.run("reply").gave(json!({"by": "Ada"}));
}

#[test]
fn calls_one_after_the_other() {
    let jar = jar();
    let mut session = jar.session();
    let code = "total = 0\nfor n in range(4): total += await ask(n)\ntotal";
    let mut result = session.run(code);
    let mut seen = Vec::new();
    for n in 0..4 {
        result.waits_for(&["ask"]);
        assert_eq!(result.pending_calls[0].args, [json!(n)]);
        seen.push(only(&mut session));
        result = session.answer(vec![ok(seen[seen.len() - 1], n * 10)]);
    }
    result.gave(60);
    seen.dedup();
    assert_eq!(seen.len(), 4, "numbers are never used again");
    assert_eq!(result.meta.tools.calls, 4, "of the whole execution");
}

const THREE: &str = "import asyncio\norder = []
async def one(n):
  order.append(await ask(n)); return n
await asyncio.gather(*(one(n) for n in range(3)))\norder";

#[test]
fn several_answered_one_by_one() {
    let jar = jar();
    let mut session = jar.session();
    session.run(THREE).waits_for(&["ask", "ask", "ask"]);
    let waiting = session.waiting();
    session.answer(vec![ok(waiting[2], "c")]).waits_for(&["ask", "ask"]);
    session.answer(vec![ok(waiting[0], "a")]).waits_for(&["ask"]);
    assert_eq!(session.waiting(), [waiting[1]]);
    session.answer(vec![ok(waiting[1], "b")]).gave(json!(["c", "a", "b"]));
}

#[test]
fn several_answered_together() {
    let jar = jar();
    let mut session = jar.session();
    session.run(THREE).waits_for(&["ask", "ask", "ask"]);
    let answers = session.waiting().into_iter().map(|id| ok(id, id)).collect::<Vec<_>>();
    let expected: Vec<u64> = answers.iter().map(|(id, _)| *id).collect();
    session.answer(answers).gave(json!(expected));
}

#[test]
fn what_can_be_done_now_is_done_first() {
    let jar = jar();
    let mut session = jar.session();
    let code = "import asyncio\ndone = []
async def soon(n): done.append(await now(n))
async def sleepy(): await asyncio.sleep(0.01); done.append('slept')
await asyncio.gather(approve(), soon(1), soon(2))\ndone";
    let result = session.run(&code.replace("approve()", "approve.aio()"));
    result.waits_for(&["approve"]);
    let done = session.get_variable("done").expect("a session").expect("a variable").json;
    let mut done = done.and_then(|done| done.as_array().cloned()).expect("a list");
    done.sort_by_key(ToString::to_string);
    assert_eq!(done, [json!([1]), json!([2])]);
    assert_eq!(result.meta.tools.calls, 3);
    let id = only(&mut session);
    session.answer(vec![ok(id, true)]).kept(Status::Ok);
}

#[test]
fn an_error_is_raised_where_it_is_awaited() {
    let jar = jar();
    let mut session = jar.session();
    let code = "import belljar\ntry: await approve('x')\nexcept belljar.ToolError as e: said = str(e)\nsaid";
    session.run(code).waits_for(&["approve"]);
    let id = only(&mut session);
    session.answer(vec![(id, Err(ToolFailure::new("declined")))]).gave("declined");
    session.run("x = 1\nawait approve('y')").waits_for(&["approve"]);
    let id = only(&mut session);
    let result = session.answer(vec![(id, Err(ToolFailure::limit("no more today")))]);
    result.raised("ToolLimitError", "no more today").kept(Status::Error);
    assert!(result.stderr.contains("line 2, in <module>\n    await approve('y')"), "{result:#?}");
    session.run("x").gave(1);
}

#[test]
fn wrong_answers_are_refused_and_change_nothing() {
    let jar = jar();
    let mut session = jar.session();
    let refused = session.resume(Vec::new()).expect_err("nothing waits");
    assert_eq!(refused, SandboxError::NotSuspended);
    session.run("n = 1\nn += await ask()\nn").waits_for(&["ask"]);
    let id = only(&mut session);
    let answer = |id: u64| ToolAnswer { id, outcome: Ok(json!(1)) };
    for wrong in [vec![answer(id + 1)], vec![answer(0)], vec![answer(id), answer(u64::MAX)]] {
        let refused = session.resume(wrong).expect_err("no such call");
        assert_eq!(refused, SandboxError::Suspended { pending: vec![id] });
    }
    assert_eq!(session.waiting(), [id]);
    session.answer(vec![ok(id, 41)]).gave(42);
    assert_eq!(session.resume(vec![answer(id)]).expect_err("over"), SandboxError::NotSuspended);
}

#[test]
fn two_answers_to_one_call_are_one_too_many() {
    let jar = jar();
    let mut session = jar.session();
    session.run("await ask()").waits_for(&["ask"]);
    let id = only(&mut session);
    session.answer(vec![ok(id, "first"), ok(id, "second")]).gave("first");
    session.run("1").gave(1);
}

#[test]
fn nothing_else_runs_while_it_waits() {
    let jar = jar();
    let mut session = jar.session();
    session.run("x = 1\nx = await ask()").waits_for(&["ask"]);
    let id = only(&mut session);
    let refused = session.execute("x = 3").expect_err("it waits");
    let text =
        format!("the session waits for the answer to call {id}; nothing was run, and it waits on");
    assert_eq!(refused.to_string(), text);
    // Looking does no harm.
    let x = session.get_variable("x").expect("a session").expect("a variable");
    assert_eq!(x.json, Some(json!(1)));
    session.cancel();
    assert_eq!(session.waiting(), [id]);
    session.answer(vec![ok(id, 2)]).kept(Status::Ok);
    session.run("x").gave(2);
}

#[test]
fn without_an_answer_it_waits_on() {
    let jar = jar();
    let mut session = jar.session();
    session.run("await ask()").waits_for(&["ask"]);
    let id = only(&mut session);
    session.answer(Vec::new()).waits_for(&["ask"]);
    session.answer(Vec::new()).waits_for(&["ask"]);
    session.answer(vec![ok(id, 5)]).gave(5);
}

#[test]
fn timers_run_while_it_waits() {
    let jar = jar();
    let mut session = jar.session();
    let code = "import asyncio\ntry: said = await asyncio.wait_for(ask.aio(), 0.05)
except TimeoutError: said = 'too late'\nsaid";
    session.run(code).waits_for(&["ask"]);
    std::thread::sleep(Duration::from_millis(80));
    session.answer(Vec::new()).gave("too late");
    assert_eq!(session.waiting(), Vec::<u64>::new());
    // An answer that is there wins over a time-out that has passed meanwhile.
    session.run(code).waits_for(&["ask"]);
    std::thread::sleep(Duration::from_millis(80));
    let id = only(&mut session);
    session.answer(vec![ok(id, "in time")]).gave("in time");
    session.run(&code.replace("0.05", "60")).waits_for(&["ask"]);
    session.answer(Vec::new()).waits_for(&["ask"]);
    let id = only(&mut session);
    session.answer(vec![ok(id, "long before")]).gave("long before");
}

#[test]
fn a_call_that_is_cancelled_is_not_asked_for_any_more() {
    let jar = jar();
    let mut session = jar.session();
    let code = "import asyncio\nfirst, second = ask.aio(1), ask.aio(2)\n\
                done, pending = await asyncio.wait([first, second], return_when='FIRST_COMPLETED')\n\
                for task in pending: task.cancel()\nawait approve(done.pop().result())";
    session.run(code).waits_for(&["ask", "ask"]);
    let second = session.waiting()[1];
    let result = session.answer(vec![ok(second, "quick")]);
    result.waits_for(&["approve"]);
    assert_eq!(result.pending_calls[0].args, [json!("quick")]);
    let id = only(&mut session);
    session.answer(vec![ok(id, "yes")]).gave("yes");
}

#[test]
fn saved_while_it_waits_and_resumed_in_a_new_process() {
    if let Some(path) = given() {
        let snapshot = Snapshot::read(&path, &home()).expect("a snapshot");
        let pending = snapshot.info().pending_calls;
        assert_eq!(pending.iter().map(|call| &*call.name).collect::<Vec<_>>(), ["approve", "ask"]);
        let elsewhere = jar();
        let mut session = elsewhere.sandbox();
        session.restore(&snapshot).expect("a session");
        assert_eq!(session.pending_calls(), pending);
        assert!(session.execute("1").is_err(), "it still waits");
        session.answer(vec![ok(pending[1].id, "Ada")]).waits_for(&["approve"]);
        let result = session.answer(vec![ok(pending[0].id, true)]);
        result.gave(json!(["Ada", true, "local", 3])).kept(Status::Ok);
        assert_eq!((result.stdout.as_str(), result.meta.tools.calls), ("after\n", 2));
        session.run("await now(1)").gave(json!([1]));
        return;
    }
    let jar = jar();
    let mut session = jar.session();
    let code = "import asyncio
async def pay(local):
  held = [1, 2]
  try:
    allowed, name = await asyncio.gather(approve.aio({'pay': 5}), ask.aio('name?'))
  finally: held.append(3)
  print('after')
  return [name, allowed, local, len(held)]
await pay('local')";
    session.run(code).waits_for(&["approve", "ask"]);
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("waiting");
    session.snapshot(Files::With).expect("a snapshot").write(&path).expect("a file");
    drop(session);
    in_new_processes("suspend::saved_while_it_waits_and_resumed_in_a_new_process", 1, &path);
}

#[test]
fn a_snapshot_of_a_waiting_session_can_be_answered_twice() {
    let jar = jar();
    let mut session = jar.session();
    session.run("reply = await ask()").waits_for(&["ask"]);
    let snapshot = session.snapshot(Files::Without).expect("a snapshot");
    let mut fork = session.fork().expect("a fork");
    let id = only(&mut session);
    assert_eq!(fork.waiting(), [id]);
    session.answer(vec![ok(id, "original")]).kept(Status::Ok);
    fork.answer(vec![ok(id, "fork")]).kept(Status::Ok);
    let mut restored = jar.sandbox();
    restored.restore(&snapshot).expect("a session");
    restored.answer(vec![ok(id, "restored")]).kept(Status::Ok);
    session.run("reply").gave("original");
    fork.run("reply").gave("fork");
    restored.run("reply").gave("restored");
    session.restore(&snapshot).expect("back to where it waited");
    assert_eq!(session.waiting(), [id]);
}

#[test]
fn a_resume_that_goes_wrong_leaves_it_waiting() {
    let tools = Tools::new().deferred("ask").expect("a good name");
    let jar = Jar::new().with_tools(tools).timeout(Duration::from_millis(400));
    let mut session = jar.session();
    let code = "steps = ['asked']\nreply = await ask()\nsteps.append(reply)
if reply == 'spin': sum(range(10**12))
if reply == 'abort': import os; os.abort()
if reply == 'raise': 1 / 0
steps";
    session.run(code).waits_for(&["ask"]);
    let id = only(&mut session);
    session.answer(vec![ok(id, "spin")]).rolled_back(Status::Timeout);
    assert_eq!(session.waiting(), [id], "it can be answered again");
    session.answer(vec![ok(id, "abort")]).rolled_back(Status::Crashed);
    assert_eq!(session.waiting(), [id]);
    session.answer(vec![ok(id, "well")]).gave(json!(["asked", "well"]));
    session.run("steps").gave(json!(["asked", "well"]));
}

#[test]
fn an_interrupt_after_resuming_ends_the_cell() {
    let tools = Tools::new().deferred("ask").expect("a good name");
    let jar = Jar::new().with_tools(tools).timeout(Duration::from_millis(400));
    let mut session = jar.session();
    session.run("reply = await ask()\nwhile True: pass").waits_for(&["ask"]);
    let id = only(&mut session);
    session.answer(vec![ok(id, "here")]).kept(Status::Timeout);
    assert_eq!(session.waiting(), Vec::<u64>::new());
    session.run("reply").gave("here");
}

#[test]
fn only_a_session_that_awaits_can_wait() {
    let jar = jar();
    let message = "approve is answered later, so its call has to be awaited";
    jar.session().run("approve(1)").raised("ToolError", message);
    let message = "approve is answered later, and only a session can wait for that";
    jar.run("await approve(1)").raised("ToolError", message);
}

#[test]
fn a_loop_of_ones_own_cannot_be_suspended() {
    let tools = Tools::new().deferred("ask").expect("a good name");
    let jar = Jar::new().with_tools(tools).timeout(Duration::from_secs(3));
    let mut session = jar.session();
    let code = "import asyncio\nasync def f(): return await ask.aio()\nx = 1\nasyncio.run(f())";
    let result = session.run(code);
    result.ended(Status::Error, 1).kept(Status::Error);
    session.run("x").gave(1);
}

#[test]
fn calls_nobody_waits_for_end_with_their_cell() {
    let jar = jar();
    let mut session = jar.session();
    let result = session.run("future = ask.aio(1)\n'the cell is over'");
    result.gave("the cell is over");
    assert_eq!(result.pending_calls, []);
    let message = "the execution that asked for it has ended";
    session.run("await future").raised("ToolError", message);
}

#[test]
fn a_waiting_session_can_be_given_up() {
    let jar = jar();
    let mut session = jar.session();
    session.run("x = 1\nawait ask()").waits_for(&["ask"]);
    session.initialize(json!("new")).expect("a session");
    assert_eq!(session.waiting(), Vec::<u64>::new());
    session.run("context").gave("new");
    session.run("await ask()").waits_for(&["ask"]);
    session.destroy().expect("nothing is in the way");
    assert_eq!(session.waiting(), Vec::<u64>::new());
}

#[test]
fn fuel_and_time_are_those_of_the_part_that_ran() {
    let jar = jar().with(|layer| layer.fuel_budget(500_000_000));
    let mut session = jar.session();
    let code = "for _ in range(300_000): pass\nawait ask()\nfor _ in range(300_000): pass";
    let first = session.run(code).waits_for(&["ask"]).fuel_consumed.expect("fuel is counted");
    std::thread::sleep(Duration::from_millis(50));
    let id = only(&mut session);
    let result = session.answer(vec![ok(id, 1)]);
    let both = result.kept(Status::Ok).fuel_consumed.expect("fuel is counted");
    assert!(both > first + first / 2, "{both} after {first}: one budget for the whole cell");
    assert!(result.duration_ms < 2_000.0, "{} ms", result.duration_ms);
    let code = "await ask()\nwhile True: pass";
    session.run(code).waits_for(&["ask"]);
    let id = only(&mut session);
    session.answer(vec![ok(id, 1)]).rolled_back(Status::OutOfFuel);
    assert_eq!(session.waiting(), [id]);
}

/// A session in which everything a cell can hold is alive while it waits.
#[test]
fn generators_locks_and_contexts_are_there_after_the_wait() {
    let jar = jar();
    let mut session: PythonSandbox = jar.session();
    let code = "import asyncio, contextvars
var = contextvars.ContextVar('var', default='unset'); lock = asyncio.Lock(); events = []
async def stream():
  try:
    for n in range(3): yield await ask(n)
  finally: events.append('closed')
async def main():
  var.set('inside')
  async with lock, asyncio.TaskGroup() as group:
    background = group.create_task(asyncio.sleep(0.02, 'slept'))
    replies = [reply async for reply in stream()]
  return [replies, var.get(), lock.locked(), background.result(), events]
await main()";
    let mut result = session.run(code);
    for n in 0..3 {
        result.waits_for(&["ask"]);
        let snapshot = session.snapshot(Files::Without).expect("a snapshot");
        session = jar.sandbox();
        session.restore(&snapshot).expect("a session");
        let id = only(&mut session);
        result = session.answer(vec![ok(id, n)]);
    }
    result.gave(json!([[0, 1, 2], "inside", false, "slept", ["closed"]]));
}
