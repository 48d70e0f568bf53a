//! Functions of the host, called from cells.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::time::Duration;

use belljar::{Sandbox, Status, ToolFailure, ToolRequest, Tools};
use serde_json::{Value, json};
use support::{Cells, Expect, Jar, eventually};

/// A tool that gives its arguments back.
fn echo(request: &ToolRequest) -> Result<Value, ToolFailure> {
    Ok(json!({"args": request.call.args, "kwargs": request.call.kwargs}))
}

fn jar() -> Jar {
    Jar::new().with_tools(Tools::new().with("echo", echo).expect("a good name"))
}

#[test]
fn are_plain_functions() {
    let jar = jar();
    let mut session = jar.session();
    let both = json!({"args": [1, "two"], "kwargs": {"three": [3.5, null, true]}});
    session.run("echo(1, 'two', three=(3.5, None, True))").gave(both.clone());
    session.run("import belljar\nbelljar.tools.echo(1, 'two', three=[3.5, None, True])").gave(both);
    session.run("from belljar.tools import echo as e\ne()").gave(json!({"args": [], "kwargs": {}}));
    session.run("list(map(lambda n: echo(n)['args'][0], range(3)))").gave(json!([0, 1, 2]));
    session.run("[repr(echo), callable(echo), echo.__name__]").gave(json!([
        "<tool echo>",
        true,
        "echo"
    ]));
    jar.run("echo(1)").gave(json!({"args": [1], "kwargs": {}}));
}

#[test]
fn can_be_awaited() {
    let mut session = jar().session();
    for code in [
        "await echo(1)",
        "await belljar.tools.echo(1)",
        "await echo.aio(1)",
        "async def f(): return await echo(1)\nawait f()",
        "(await echo(*[1], **{}))",
        "import asyncio\nawait asyncio.create_task(echo.aio(1)) if False else await echo(1)",
        "await asyncio.wait_for(echo.aio(1), 5)",
        "async def g(): return await echo(1)\nasyncio.run(g())",
        "async with asyncio.TaskGroup() as group: task = group.create_task(g())\ntask.result()",
        "await asyncio.to_thread(echo, 1)",
        "[await echo(n) for n in (1,)][0]",
    ] {
        let result = session.run(&format!("import belljar\n{code}"));
        result.gave(json!({"args": [1], "kwargs": {}}));
        assert_eq!(result.meta.tools.calls, 1, "{code}");
    }
}

#[test]
fn values_come_through_unchanged() {
    let mut session = jar().session();
    for (python, value) in [
        ("'\\x00\\x1f\\u2028\\U0001F600\"\\\\'", json!("\0\u{1f}\u{2028}\u{1F600}\"\\")),
        ("2**53 + 1", json!(9_007_199_254_740_993_i64)),
        ("2**64 - 1", json!(u64::MAX)),
        ("-2**63", json!(i64::MIN)),
        ("0.1", json!(0.1)),
        ("1e308", json!(1e308)),
        ("5e-324", json!(5e-324)),
        ("-0.0", json!(-0.0)),
        ("{}", json!({})),
        ("[[], {'': {}}]", json!([[], {"": {}}])),
        ("{'__proto__': 1, 'constructor': 2}", json!({"__proto__": 1, "constructor": 2})),
        ("(1, (2,))", json!([1, [2]])),
        ("{2: 'a', None: 'b', True: 'c'}", json!({"2": "a", "null": "b", "true": "c"})),
        ("'x' * 1_000_000", json!("x".repeat(1_000_000))),
    ] {
        let result = session.run(&format!("v = {python}\necho(v)['args'][0]"));
        let came_back = result.ended(Status::Ok, 0).result.clone().and_then(|value| value.json);
        assert_eq!(came_back.as_ref(), Some(&value), "{python}");
        let code = "type(echo(v)['args'][0]) is type(v) or isinstance(v, tuple)";
        session.run(code).gave(true);
    }
}

#[test]
fn names_that_were_taken_stay_taken() {
    let jar = jar();
    let mut session = jar.session();
    session.run("echo = 'mine'").kept(Status::Ok);
    session.run("import belljar\n[echo, belljar.tools.echo(1)['args']]").gave(json!(["mine", [1]]));
    let mut fork = session.fork().expect("a fork");
    fork.run("echo").gave("mine");
    fork.run("del echo").kept(Status::Ok);
    fork.run("belljar.tools.echo(2)['args']").gave(json!([2]));
}

#[test]
fn without_tools_none_of_the_names_exist() {
    let mut session = Jar::new().session();
    for name in ["llm_query", "rlm_query", "llm_query_batched", "rlm_query_batched", "echo"] {
        let message = format!("name '{name}' is not defined");
        session.run(name).raised("NameError", &message);
    }
    let message = "the host offers no tool 'echo'; it offers: none";
    session.run("import belljar; belljar.tools.echo").raised("AttributeError", message);
    let tools = Tools::new().llm(|prompt| Ok(prompt.to_owned()));
    let mut session = Jar::new().with_tools(tools).session();
    session.run("llm_query_batched([])").gave(json!([]));
    session.run("rlm_query").raised("NameError", "name 'rlm_query' is not defined");
}

/// A jar whose tool `meet` returns only when so many of its calls run at the same time.
fn meeting(count: usize) -> Jar {
    let barrier = Arc::new(Barrier::new(count));
    let meet = move |request: &ToolRequest| {
        barrier.wait();
        Ok(json!(request.call.args))
    };
    let for_llm = Arc::new(Barrier::new(count));
    let tools = Tools::new().with("meet", meet).expect("a good name").llm(move |prompt| {
        for_llm.wait();
        Ok(prompt.to_uppercase())
    });
    Jar::new().with_tools(tools)
}

#[test]
fn several_awaited_run_at_the_same_time() {
    let mut session = meeting(3).session();
    for code in [
        "import asyncio\nawait asyncio.gather(*(meet.aio(n) for n in range(3)))",
        "await asyncio.gather(meet(0), meet(1), meet(2))",
        "await asyncio.gather(*(meet(n) for n in range(3)))",
        "calls = [meet(n) for n in range(3)]\nawait asyncio.gather(*calls)",
        "await asyncio.gather(*map(meet, range(3)))",
        "async with asyncio.TaskGroup() as g: ts = [g.create_task(meet(n)) for n in range(3)]\n\
         [t.result() for t in ts]",
        "async def one(n): return await meet(n)\nawait asyncio.gather(*map(one, range(3)))",
        "async def all(): return await asyncio.gather(*map(one, range(3)))\nasyncio.run(all())",
        "tasks = [asyncio.create_task(one(n)) for n in range(3)]\n[await task for task in tasks]",
        "async with asyncio.TaskGroup() as g: ts = [g.create_task(one(n)) for n in range(3)]\n\
         [t.result() for t in ts]",
        "await asyncio.gather(*(asyncio.to_thread(meet, n) for n in range(3)))",
    ] {
        let result = session.run(code);
        result.gave(json!([[0], [1], [2]]));
        assert_eq!(result.meta.tools.calls, 3, "{code}");
    }
}

#[test]
fn batches_run_at_the_same_time_and_keep_their_order() {
    let mut session = meeting(4).session();
    let expected = json!(["A", "B", "C", "D"]);
    session.run("llm_query_batched(['a', 'b', 'c', 'd'])").gave(expected.clone());
    session.run("await llm_query_batched(['a', 'b', 'c', 'd'])").gave(expected.clone());
    let code = "import asyncio\nasync def f(): return await llm_query_batched(list('abcd'))\n\
                asyncio.run(f())";
    session.run(code).gave(expected);
    let result = session.run("llm_query_batched([])");
    assert_eq!(result.gave(json!([])).meta.tools.calls, 0);
    session.run("llm_query_batched('abcd')").ended(Status::Error, 1);
}

#[test]
fn the_first_error_of_a_batch_is_raised() {
    let tools = Tools::new().llm(|prompt| match prompt {
        "bad" => Err(ToolFailure::new("no answer to bad")),
        "worse" => Err(ToolFailure::new("no answer to worse")),
        good => Ok(good.to_owned()),
    });
    let mut session = Jar::new().with_tools(tools).session();
    for code in ["llm_query_batched(%)", "await llm_query_batched(%)"] {
        let code = code.replace('%', "['good', 'bad', 'worse', 'good']");
        let result = session.run(&code);
        result.raised("ToolError", "no answer to bad");
        assert_eq!(result.meta.tools.calls, 4);
    }
    session.run("llm_query('good')").gave("good");
}

#[test]
fn more_calls_than_threads_take_turns() {
    let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (now, peak) = (Arc::clone(&running), Arc::clone(&most));
    let work = move |request: &ToolRequest| {
        peak.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        std::thread::sleep(Duration::from_millis(2));
        now.fetch_sub(1, Ordering::SeqCst);
        Ok(request.call.args[0].clone())
    };
    let tools = Tools::new().with("work", work).expect("a good name");
    let mut session = Jar::new().with_tools(tools).session();
    let code = "import asyncio\nsum(await asyncio.gather(*(work.aio(n) for n in range(300))))";
    session.run(code).gave(44_850);
    let most = most.load(Ordering::SeqCst);
    assert!((2..=32).contains(&most), "{most} at the same time");
}

#[test]
fn timers_run_while_tools_do() {
    let tools = Tools::new().with("slow", |_| {
        std::thread::sleep(Duration::from_millis(150));
        Ok(json!("slow"))
    });
    let mut session = Jar::new().with_tools(tools.expect("a good name")).session();
    let code = "import asyncio\norder = []
async def tick():
  for n in range(3): await asyncio.sleep(0.01); order.append(n)
async def call(): order.append(await slow())
await asyncio.gather(call(), tick())\norder";
    session.run(code).gave(json!([0, 1, 2, "slow"]));
}

#[test]
fn a_call_nobody_waits_for_is_told_so() {
    let (begun, told) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (counter, flag, seen) = (Arc::clone(&begun), Arc::clone(&told), Arc::clone(&begun));
    let tools = Tools::new()
        .with("slow", move |request| {
            counter.fetch_add(1, Ordering::SeqCst);
            eventually("it is told", || request.cancelled());
            flag.fetch_add(1, Ordering::SeqCst);
            Ok(Value::Null)
        })
        .and_then(|tools| {
            tools.with("wait_for_begun", move |request| {
                let count = request.call.args[0].as_u64().expect("a number");
                eventually("it has begun", || seen.load(Ordering::SeqCst) as u64 == count);
                Ok(Value::Null)
            })
        });
    let jar = Jar::new().with_tools(tools.expect("good names"));
    let mut session = jar.session();
    for (number, end) in [
        (1, "f.cancel()"),
        (2, "try: await asyncio.wait_for(f, 0.02)\nexcept TimeoutError: pass"),
        (3, "forgotten = f"),
        (4, "sys.exit(0)"),
    ] {
        let code = format!("import asyncio, sys\nf = slow.aio()\nwait_for_begun({number})\n{end}");
        session.run(&code).ended(Status::Ok, 0);
        eventually(end, || told.load(Ordering::SeqCst) == number);
    }
}

#[test]
fn the_answer_of_an_earlier_cells_call_never_comes() {
    let mut session = jar().session();
    session.run("future = echo.aio(1)").kept(Status::Ok);
    let message = "the execution that asked for it has ended";
    session.run("await future").raised("ToolError", message);
    session.run("await echo.aio(2)").gave(json!({"args": [2], "kwargs": {}}));
}

#[test]
fn work_from_odd_places() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let record = Arc::clone(&seen);
    let tools = Tools::new().with("note", move |request| {
        record.lock().expect("a list").push(request.call.args[0].clone());
        Ok(json!("noted"))
    });
    let mut session = Jar::new().with_tools(tools.expect("a good name")).session();
    session.run("class D:\n  def __del__(self): note('del')\nd = D()\ndel d").kept(Status::Ok);
    session.run("import gc\nd = D(); d.me = d; del d; gc.collect(); None").kept(Status::Ok);
    session.run("class R:\n  def __repr__(self): return note('repr')\nR()").kept(Status::Ok);
    session.run("sorted([2, 1], key=lambda n: note(n) and n)").gave(json!([1, 2]));
    session.run("def g(): yield note('generator')\nlist(g())").gave(json!(["noted"]));
    session.run("import functools\nfunctools.partial(note, 'partial')()").gave("noted");
    session.run("getattr(__import__('belljar').tools, 'note')('getattr')").gave("noted");
    session.run("eval('note(\"eval\")')").gave("noted");
    session
        .run("try: 1 / 0\nfinally: note('finally')")
        .raised("ZeroDivisionError", "division by zero");
    let expected =
        ["del", "del", "repr", "2", "1", "generator", "partial", "getattr", "eval", "finally"];
    let seen = seen.lock().expect("a list");
    let seen: Vec<String> =
        seen.iter().map(|v| v.as_str().map_or(v.to_string(), str::to_owned)).collect();
    assert_eq!(seen, expected);
}

#[test]
fn looking_at_a_variable_calls_none() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&calls);
    let tools = Tools::new().with("note", move |_| {
        counter.fetch_add(1, Ordering::SeqCst);
        Ok(json!("noted"))
    });
    let mut session = Jar::new().with_tools(tools.expect("a good name")).session();
    session.run("class R:\n  def __repr__(self): return note()\nr = R()").kept(Status::Ok);
    let seen = session.get_variable("r").expect("a session").expect("a variable");
    assert_eq!((seen.type_name.as_str(), calls.load(Ordering::SeqCst)), ("R", 0), "{seen:?}");
    assert!(seen.text.contains("raises ToolError"), "{seen:?}");
    session.run("note()").gave("noted");
}

#[test]
fn names_are_checked_when_they_are_offered() {
    let handler = |_: &ToolRequest| Ok(Value::Null);
    let tools = Tools::new().with("b", handler).and_then(|tools| tools.with("a", handler));
    let tools = tools.expect("good names");
    assert_eq!(tools.names(), ["a", "b"]);
    for bad in ["", "a b", "a-b", "class", "function", "1a", "é", "a.b", "__import__('os')", "a\0"]
    {
        assert!(tools.clone().with(bad, handler).is_err(), "{bad:?}");
        assert!(tools.clone().deferred(bad).is_err(), "{bad:?}");
    }
    assert!(tools.with("a", handler).is_err(), "taken");
}
