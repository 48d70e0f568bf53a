//! Tools as a way out: arguments that mean something else, messages nobody should send, answers
//! that come too late.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use belljar::{PythonSandbox, SandboxResult, StateAfter, Status, ToolDoc, Tools};
use serde_json::{Value, json};
use support::{Cells, Expect, Jar, Usage, attacked, eventually, permitted};

/// What the host was asked to do.
type Seen = Arc<Mutex<Vec<(String, Vec<Value>, Value)>>>;

/// A jar with a tool that gives back its first argument and one whose answers come later; and every
/// call that reached the first.
fn jar() -> (Jar, Seen) {
    let seen = Seen::default();
    let record = Arc::clone(&seen);
    let tools = Tools::new().with("echo", move |request| {
        let call = &request.call;
        let kwargs = Value::Object(call.kwargs.clone());
        record.lock().expect("a list").push((call.name.clone(), call.args.clone(), kwargs));
        Ok(call.args.first().cloned().unwrap_or_default())
    });
    let tools = tools.and_then(|tools| tools.deferred("later")).expect("good names");
    (Jar::new().with_tools(tools), seen)
}

/// Runs hostile code in a session of its own; a plain cell must pass in it afterwards unless it was
/// told that the driver itself is broken.
#[track_caller]
fn in_session(jar: &Jar, code: &str) -> SandboxResult {
    attacked(jar, code, || {
        let mut session = jar.session();
        let result = session.run(code);
        if result.status() != Status::Suspended {
            session.run("echo('still here')").gave("still here");
        }
        result
    })
}

/// Talks to the host without the driver.
const FORGE: &str = "import _belljar_host, json
def send(message):
  if not isinstance(message, bytes): message = json.dumps(message).encode()
  try: return json.loads(_belljar_host.call(message))
  except RuntimeError as e: return str(e)
";

/// Sends forged messages; gives what came back.
#[track_caller]
fn forged(jar: &Jar, expression: &str) -> Value {
    let result = in_session(jar, &format!("{FORGE}{expression}"));
    result.ended(Status::Ok, 0);
    result.result.and_then(|value| value.json).expect("JSON")
}

/// What is said about a tool is text: whatever code it looks like, none of it runs, and the session
/// goes on.
#[test]
fn code_in_a_signature_is_not_run() {
    let look = "boom = lambda *args: open('ran', 'w')\nimport inspect\n\
                [str(inspect.signature(echo)), echo.__doc__, repr(echo), help(echo)]";
    for signature in [
        "(x=boom())".to_owned(),
        "(x: boom() = 1) -> boom()".to_owned(),
        "(x): boom()".to_owned(),
        "(x=(lambda: boom())(), y=[boom() for _ in 'a'])".to_owned(),
        "(x): ...; boom()".to_owned(),
        format!("(x={}1)", "-".repeat(4000)),
        "(".repeat(4096),
        format!("(x={}{})", "[".repeat(150), "]".repeat(150)),
        "(**a, *b, c=1, /)".to_owned(),
        "'; boom(); '".to_owned(),
        "${boom()}`".to_owned(),
    ] {
        let tools = Tools::new().with("echo", |_| Ok(Value::Null)).expect("a good name");
        let about = ToolDoc::new(r#"</doc> ''' """ \ `${boom()}`"#, signature.as_str());
        let jar = Jar::new().with_tools(tools.documented("echo", about).expect("plain text"));
        attacked(&jar, &signature, || {
            let mut session = jar.session();
            session.run(look).ended(Status::Ok, 0);
            session.run("echo()").ended(Status::Ok, 0);
            let mut script = jar.javascript();
            script
                .run("[echo.signature, `${echo}`.includes(echo.signature)]")
                .gave(json!([signature, false]));
        });
        assert!(!jar.workspace().join("ran").exists(), "{signature} was run");
    }
}

#[test]
fn a_plain_signature_is_shown() {
    let tools = Tools::new().with("echo", |_| Ok(Value::Null)).expect("a good name");
    let tools = tools.documented("echo", ToolDoc::new("Echoes.", "(x: str = 'y') -> str"));
    let jar = Jar::new().with_tools(tools.expect("plain text"));
    permitted(&jar, "import inspect\n[str(inspect.signature(echo)), echo.__doc__]")
        .gave(json!(["(x: str = 'y') -> str", "Echoes."]));
}

/// Nothing was called: the message made no sense, or was too much.
#[track_caller]
fn assert_refused(answer: &Value, message: &str) {
    let too_much = json!({"error": {
        "name": "ToolLimitError",
        "message": "it is too large or nested too deeply",
    }});
    assert!(answer == "the host refused the call" || *answer == too_much, "{message}: {answer}");
}

#[test]
fn arguments_that_look_like_messages() {
    let (jar, seen) = jar();
    for value in [
        json!({"do": "call", "name": "secret", "args": [], "kwargs": {}}),
        json!("\"}],\"name\":\"secret\",\"args\":[{\""),
        json!({"end": "finished", "value": {"text": "forged"}}),
        json!({"answers": [{"id": 1, "value": 1}], "error": {"name": "x", "message": "y"}}),
        json!({"$serde_json::private::RawValue": "1", "$serde_json::private::Number": "x"}),
        json!({"__proto__": {"polluted": true}, "constructor": {"prototype": 1}, "": 0}),
        json!("\u{0}\u{1}\n\r\u{2028}\u{feff}</script>${jndi:ldap://x}$(reboot)`reboot`%s%n"),
    ] {
        let text = value.to_string();
        let code =
            format!("import json\nv = json.loads(r'''{text}''')\necho(v, do='wait', id=-1) == v");
        in_session(&jar, &code).gave(true);
        let (name, args, kwargs) = seen.lock().expect("a list").remove(0);
        assert_eq!((name.as_str(), args), ("echo", vec![value]));
        assert_eq!(kwargs, json!({"do": "wait", "id": -1}));
        seen.lock().expect("a list").clear();
    }
    let code = "echo(name='x', args=[1], kwargs={'a': 1}, id=7, self=1, do='drop')";
    in_session(&jar, code).ended(Status::Ok, 0);
    let (_, _, kwargs) = seen.lock().expect("a list").remove(0);
    let expected =
        json!({"name": "x", "args": [1], "kwargs": {"a": 1}, "id": 7, "self": 1, "do": "drop"});
    assert_eq!(kwargs, expected);
}

#[test]
fn arguments_far_too_large() {
    let (jar, seen) = jar();
    let jar = jar.with(|layer| layer.memory_bytes(256_000_000));
    let code = "echo('x' * 33_600_000)";
    in_session(&jar, code).ended(Status::Error, 1);
    let code = "echo([0] * 3_000_000)";
    in_session(&jar, code).ended(Status::Error, 1);
    assert_eq!(seen.lock().expect("a list").len(), 2, "only the cells that came after");
    permitted(&jar, "len(echo('x' * 8_000_000))").gave(8_000_000);
    permitted(&jar, "len(echo([0] * 100_000))").gave(100_000);
}

#[test]
fn arguments_far_too_deep() {
    let (jar, _) = jar();
    let deep = "send(b'{\"do\":\"call\",\"name\":\"echo\",\"args\":' + b'[' * N + b']' * N + b'}')";
    for depth in ["1_000", "100_000", "10_000_000"] {
        assert_refused(&forged(&jar, &deep.replace('N', depth)), depth);
    }
    let value = (0..48).fold(json!([]), |inner, _| json!([inner]));
    assert_eq!(forged(&jar, &deep.replace('N', "50"))["value"], value);
}

#[test]
fn text_that_is_no_text() {
    let (jar, _) = jar();
    for text in [
        "b'\\\\ud800'",
        "b'\\\\udc00\\\\ud800'",
        "b'\\xff\\xfe'",
        "b'\\xed\\xa0\\x80'",
        "b'\\n'",
        "b'\\x00'",
    ] {
        let send = format!(
            "send(b'{{\"do\":\"call\",\"name\":\"echo\",\"args\":[\"' + {text} + b'\"]}}')"
        );
        assert_eq!(forged(&jar, &send), "the host refused the call", "{text}");
    }
    let send =
        "send(b'{\"do\":\"call\",\"name\":\"echo\",\"args\":[\"\\\\ud83d\\\\ude00\\\\u0000\"]}')";
    assert_eq!(forged(&jar, send), json!({"value": "\u{1F600}\0"}));
}

#[test]
fn messages_that_make_no_sense() {
    let (jar, seen) = jar();
    let nonsense = [
        "b''",
        "b'{}'",
        "b'null'",
        "b'[]'",
        "b'{'",
        "b'\\x00' * 100",
        "b' ' * 1_000_000",
        "{'do': 'fly'}",
        "{'do': ['call']}",
        "{'do': None}",
        "{'name': 'echo'}",
        "{'do': 'call'}",
        "{'do': 'call', 'name': 5}",
        "{'do': 'call', 'name': 'echo', 'args': {}}",
        "{'do': 'call', 'name': 'echo', 'kwargs': []}",
        "{'do': 'call', 'name': 'echo', 'depth': 0}",
        "{'do': 'begin', 'name': 'echo', 'id': -1}",
        "{'do': 'begin', 'name': 'echo', 'id': 2**64}",
        "{'do': 'begin', 'name': 'echo', 'id': 1.5}",
        "{'do': 'begin', 'name': 'echo', 'id': '1'}",
        "{'do': 'begin', 'name': 'echo'}",
        "{'do': 'wait'}x".trim_end_matches('x'),
        "{'do': 'wait', 'seconds': 'x'}",
        "{'do': 'drop'}",
        "{'do': 'drop', 'id': -1}",
        "{'do': 'input'}",
        "{'do': 'input', 'prompt': 5}",
        "b'{\"do\":\"wait\",\"seconds\":1e999}'",
        "b'{\"do\":\"call\",\"do\":\"wait\",\"name\":\"echo\",\"seconds\":0}'",
    ];
    let list = format!("[send(m) for m in [{}]]", nonsense.join(", "));
    let answers = forged(&jar, &list);
    for (message, answer) in nonsense.iter().zip(answers.as_array().expect("a list")) {
        let harmless = *message == "{'do': 'wait'}" && *answer == json!({"answers": []});
        assert!(harmless || answer == "the host refused the call", "{message}: {answer}");
    }
    let names: Vec<_> = seen.lock().expect("a list").iter().map(|call| call.1.clone()).collect();
    assert_eq!(names, [[json!("still here")]]);
    let good = "send({'do': 'call', 'name': 'echo', 'args': [5], 'kwargs': {}})";
    assert_eq!(forged(&jar, good), json!({"value": 5}));
}

#[test]
fn message_of_33_mebibytes_and_json_bombs() {
    let (jar, _) = jar();
    let jar = jar.with(|layer| layer.memory_bytes(512_000_000));
    for bomb in [
        "bytes(33 * 1024 * 1024 + 1)",
        "b'{\"do\":\"call\",\"name\":\"echo\",\"args\":[\"' + b'x' * (33 << 20) + b'\"]}'",
        "b'{\"do\":\"call\",\"name\":\"echo\",\"args\":[' + b'0,' * 8_000_000 + b'0]}'",
        "b'{\"do\":\"call\",\"name\":\"echo\",\"args\":[' + b'{},' * 8_000_000 + b'0]}'",
        "b'{\"do\":\"call\",\"name\":\"echo\",\"kwargs\":{' + b'\"\":[],' * 4_000_000 + b'\"\":0}}'",
        "b'{\"do\":\"call\",\"name\":\"' + b'n' * 30_000_000 + b'\"' + b' ' * 1000",
    ] {
        assert_refused(&forged(&jar, &format!("send({bomb})")), bomb);
    }
    let long = forged(&jar, "len(str(send({'do': 'call', 'name': 'n' * 1_000_000})))");
    assert!(long.as_u64().is_some_and(|length| length < 1000), "a name is not given back whole");
}

#[test]
fn tools_that_are_not_offered() {
    let (jar, seen) = jar();
    for name in ["secret", "Echo", "echo ", "echo\\0", "__class__", "../echo", "", "llm_query"] {
        let answer = forged(&jar, &format!("send({{'do': 'call', 'name': '{name}'}})"));
        assert_eq!(answer["error"]["name"], "ToolError", "{name}: {answer}");
        let answer = forged(&jar, &format!("send({{'do': 'begin', 'id': 5, 'name': '{name}'}})"));
        assert_eq!(answer["error"]["name"], "ToolError", "{name}: {answer}");
    }
    let seen = seen.lock().expect("a list");
    assert!(seen.iter().all(|call| call.1 == [json!("still here")]), "{seen:?}");
}

#[test]
fn numbers_used_twice_or_never() {
    let (jar, _) = jar();
    let begin = "for n in range(3): send({'do': 'begin', 'id': ID, 'name': 'echo', 'args': [n]})
told = []
while len(told) < 3: told += send({'do': 'wait', 'seconds': 5})['answers']
sorted(a['value'] for a in told)";
    for id in ["7", "0", "2**64 - 1", "2**53"] {
        assert_eq!(forged(&jar, &begin.replace("ID", id)), json!([0, 1, 2]), "{id}");
    }
    let drops = "[send({'do': 'drop', 'id': n}) for n in (0, 1, 99, 2**64 - 1)]";
    assert_eq!(forged(&jar, drops), json!([{}, {}, {}, {}]));
    let doubled = format!(
        "{FORGE}for n in range(3): send({{'do': 'begin', 'id': 7, 'name': 'later', 'args': [n]}})\n\
         real = later.aio('real')\nawait real"
    );
    let result = attacked(&jar, "doubled numbers", || {
        let mut session = jar.session();
        let result = session.run(&doubled);
        let answers = result.pending_calls.iter().map(|call| (call.id, Ok(json!(call.args))));
        session.answer(answers.collect()).gave(json!(["real"]));
        result
    });
    assert!(result.pending_calls.len() <= 4, "{:?}", result.pending_calls);
}

#[test]
fn waiting_for_ever() {
    let (jar, _) = jar();
    let jar = jar.timeout(Duration::from_millis(400));
    for wait in [
        "send({'do': 'begin', 'id': 1, 'name': 'later'}); send({'do': 'wait', 'seconds': 1e9})",
        "send({'do': 'wait', 'seconds': 1e300})",
        "while True: send({'do': 'wait', 'seconds': 0})",
        "while True: send({'do': 'wait', 'seconds': None})",
        "while True: send({'do': 'begin', 'id': 1, 'name': 'later'})",
        "while True: echo(1)",
    ] {
        let code = format!("{FORGE}{wait}");
        let result = in_session(&jar, &code);
        assert!(!result.success() && result.duration_ms < 3_000.0, "{wait}: {result:#?}");
    }
    let waits = "send({'do': 'wait', 'seconds': -5}), send({'do': 'wait', 'seconds': 0.01})";
    assert_eq!(forged(&jar, waits), json!([{"answers": []}, {"answers": []}]));
}

#[test]
fn limits_of_the_policy_got_round() {
    let (jar, seen) = jar();
    let jar = jar.with(|layer| layer.max_tool_calls(5));
    let loops = "refused = 0\nfor n in range(1000):\n  a = send({'do': 'call', 'name': 'echo', 'args': [n]})\n  \
                 refused += 'error' in a and a['error']['name'] == 'ToolLimitError'\nrefused";
    assert_eq!(forged(&jar, loops), 995);
    assert_eq!(seen.lock().expect("a list").len(), 6, "five, and one in the next cell");
    let nested = "from belljar_guest import driver\nimport json\n\
                  r = json.dumps({'op': 'execute', 'code': 'for n in range(9): echo(n)', 'filename': 'x', 'value': True}).encode()\n\
                  for _ in range(9): driver.handle(r)";
    seen.lock().expect("a list").clear();
    let result = attacked(&jar, nested, || jar.session().run(nested));
    assert_eq!(result.meta.tools.calls, 5);
    assert_eq!(seen.lock().expect("a list").len(), 5);
}

/// Replaces the driver's answer to a cell.
#[track_caller]
fn answering(jar: &Jar, before: &str, answer: &str) -> (PythonSandbox, SandboxResult) {
    let code = format!(
        "{FORGE}from belljar_guest import cells\n{before}\ncells._conclude = lambda *a: {answer:?}"
    );
    let mut session = jar.session();
    session.run("kept = 'kept'").kept(Status::Ok);
    let result = session.run(&code);
    (session, result)
}

#[test]
fn waiting_forged() {
    let (jar, _) = jar();
    let jar = jar.timeout(Duration::from_millis(500));
    for timer in ["null", "0", "-5", "1e9", "1e308", "0.001"] {
        let answer = format!("{{\"end\":\"waiting\",\"timer\":{timer}}}");
        attacked(&jar, &answer, || {
            // Nothing was begun, so nothing can come.
            let (mut session, result) = answering(&jar, "", &answer);
            assert!(!result.success() && result.pending_calls.is_empty(), "{result:#?}");
            assert_eq!(result.meta.state, Some(StateAfter::RolledBack), "{timer}");
            session.run("kept").gave("kept");
        });
    }
    for nonsense in ["\"x\"", "[]", "1e999", "true"] {
        let answer = format!("{{\"end\":\"waiting\",\"timer\":{nonsense}}}");
        let (mut session, result) = answering(&jar, "", &answer);
        result.rolled_back(Status::Crashed);
        session.run("kept").gave("kept");
    }
    // Something was begun: its answers come, and the lie goes on until the clock ends it.
    let begin = "send({'do': 'begin', 'id': 1, 'name': 'echo'})";
    let answer = "{\"end\":\"waiting\",\"timer\":0.001}";
    let (mut session, result) = answering(&jar, begin, answer);
    assert!(!result.success(), "{result:#?}");
    assert!(result.duration_ms < 3_000.0, "{} ms", result.duration_ms);
    session.run("kept").gave("kept");
    // A session that pretends to wait can be answered, and is as broken as it made itself.
    let begin = "send({'do': 'begin', 'id': 99, 'name': 'later', 'args': ['forged']})";
    let (mut session, result) = answering(&jar, begin, answer);
    result.waits_for(&["later"]);
    let result = session.answer(vec![(99, Ok(json!(1)))]);
    assert!(!result.success(), "{result:#?}");
}

#[test]
fn ten_thousand_calls_begun() {
    let (jar, _) = jar();
    let jar = jar.with(|layer| layer.max_tool_calls(1_000_000));
    let begins = "refused = 0\nfor n in range(12_000):\n  \
                  refused += 'error' in send({'do': 'begin', 'id': n + 1, 'name': 'later'})\nrefused";
    assert_eq!(forged(&jar, begins), 2_000);
    let code = "import asyncio\nfutures = [later.aio(n) for n in range(12_000)]\n\
                sum(f.done() and isinstance(f.exception(), RuntimeError) for f in futures)";
    in_session(&jar, code).gave(2_000);
    let code = "import asyncio\nsum(await asyncio.gather(*(echo.aio(1) for n in range(2_000))))";
    in_session(&jar, code).gave(2_000);
}

#[test]
fn results_that_would_fill_the_host() {
    const EACH: usize = 4 * 1024 * 1024;
    let most = Arc::new(AtomicU64::new(0));
    let peak = Arc::clone(&most);
    let tools = Tools::new()
        .with("echo", |request| match request.call.args.first() {
            Some(Value::Number(_)) => Ok(json!("x".repeat(EACH))),
            other => Ok(other.cloned().unwrap_or_default()),
        })
        .and_then(|tools| {
            tools.with("measure", move |_| {
                peak.store(Usage::now().private_bytes(), Ordering::SeqCst);
                Ok(Value::Null)
            })
        });
    let jar = Jar::new().with_tools(tools.expect("good names"));
    // Never fetched by the guest: the policy's bytes end it long before the host's memory.
    let hoard =
        "for n in range(200): send({'do': 'begin', 'id': n + 1, 'name': 'echo', 'args': [n]})
import time; time.sleep(0.5)
send({'do': 'call', 'name': 'measure'})
'hoarded'";
    let grown = attacked(&jar, "hoarded results", || {
        let before = Usage::now().private_bytes();
        jar.session().run(&format!("{FORGE}{hoard}")).gave("hoarded");
        most.load(Ordering::SeqCst).saturating_sub(before)
    });
    // What may wait, and what 32 tools may hold in their hands.
    assert!(grown < 450 * 1024 * 1024, "{grown} bytes of results nobody fetched");
    let code = "async def one(n):
  try: return len(await echo(n))
  except RuntimeError as e: return type(e).__name__
sizes = [await one(n) for n in range(17)]
sizes[14:]";
    let result = attacked(&jar, code, || jar.session().run(code));
    result.gave(json!([EACH, "ToolLimitError", "ToolLimitError"]));
}

#[test]
fn an_answer_after_the_end_reaches_no_other_call() {
    let (release, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let (go, count) = (Arc::clone(&release), Arc::clone(&done));
    let (let_go, ended) = (Arc::clone(&release), Arc::clone(&done));
    let begun = Arc::new(AtomicUsize::new(0));
    let (starts, started) = (Arc::clone(&begun), Arc::clone(&begun));
    let tools = Tools::new()
        .with("old", move |_| {
            starts.fetch_add(1, Ordering::SeqCst);
            eventually("it is let go", || go.load(Ordering::SeqCst));
            count.fetch_add(1, Ordering::SeqCst);
            Ok(json!("old"))
        })
        .and_then(|tools| {
            tools.with("until_begun", move |_| {
                eventually("it has begun", || started.load(Ordering::SeqCst) == 1);
                Ok(Value::Null)
            })
        })
        .and_then(|tools| {
            tools.with("fresh", move |_| {
                let_go.store(true, Ordering::SeqCst);
                eventually("the old one has ended", || ended.load(Ordering::SeqCst) == 1);
                std::thread::sleep(Duration::from_millis(20));
                Ok(json!("fresh"))
            })
        })
        .and_then(|tools| tools.with("echo", |request| Ok(request.call.args[0].clone())))
        .expect("good names");
    let jar = Jar::new().with_tools(tools);
    attacked(&jar, "a late answer", || {
        let mut session = jar.session();
        session.run("x = 1").kept(Status::Ok);
        // The number of this call is used again after the rollback.
        let code = "f = old.aio()\nuntil_begun()\nimport os; os.abort()";
        session.run(code).rolled_back(Status::Crashed);
        session.run("await fresh()").gave("fresh");
        session.run("echo('and nothing else comes')").gave("and nothing else comes");
    });
}

#[test]
fn the_driver_of_the_calls_patched() {
    let (jar, seen) = jar();
    for patch in [
        "calls._begun.clear(); calls._last_id = 0",
        "calls._last_id = 2**63",
        "calls.deliver = None",
        "calls.exception_of = None",
        "calls._ERRORS.clear()",
        "calls.ask = lambda message: {'value': 'forged'}",
        "tools._offered.clear()",
        "tools.Tool.aio = None",
        "loop.Run.go_on = lambda self: False",
    ] {
        let code = format!("from belljar_guest import calls, tools, loop\n{patch}\nawait echo(1)");
        let result = attacked(&jar, patch, || jar.session().run(&code));
        assert!(
            matches!(
                result.status(),
                Status::Ok | Status::Error | Status::Crashed | Status::Timeout
            ),
            "{patch}: {result:#?}"
        );
    }
    assert!(seen.lock().expect("a list").iter().all(|call| call.0 == "echo"));
    permitted(&jar, "await echo(1)").gave(1);
}
