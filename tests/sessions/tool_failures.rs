//! A tool that fails, hangs, panics or answers garbage never takes the session with it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use belljar::{PythonSandbox, Sandbox, SandboxConfig, Status, ToolFailure, ToolRequest, Tools};
use serde_json::{Value, json};
use support::{Cells, Expect, Jar, Lines, cancelled, eventually};

fn with(
    name: &str,
    tool: impl Fn(&ToolRequest) -> Result<Value, ToolFailure> + Send + Sync + 'static,
) -> Jar {
    Jar::new().with_tools(Tools::new().with(name, tool).expect("a good name"))
}

#[test]
fn failure() {
    let jar = with("fail", |_| Err(ToolFailure::new("the café is closed")));
    let mut session = jar.session();
    for call in ["fail()", "await fail()", "await fail.aio()"] {
        let result = session.run(&format!("x = 1\n{call}"));
        result.raised("ToolError", "the café is closed").kept(Status::Error);
        assert!(result.stderr.contains(&format!("line 2, in <module>\n    {call}")), "{result:#?}");
        assert!(!result.stderr.contains("belljar_guest"), "{}", result.stderr);
    }
    let code = "import belljar\ntry: fail()\nexcept RuntimeError as e: said = [type(e).__name__, str(e), \
                isinstance(e, belljar.ToolError), issubclass(belljar.ToolLimitError, belljar.ToolError)]\nsaid";
    session.run(code).gave(json!(["ToolError", "the café is closed", true, true]));
    session.run("x").gave(1);
}

#[test]
fn panic() {
    // The hook that prints panics is not for these.
    let jar = with("panics", |_| std::panic::resume_unwind(Box::new("oops")));
    let mut session = jar.session();
    for call in ["panics()", "await panics()"] {
        session.run(call).raised("ToolError", "the tool panicked").kept(Status::Error);
    }
    let code = "import asyncio\nawait asyncio.gather(*(panics.aio() for _ in range(50)), return_exceptions=True)\n'alive'";
    session.run(code).gave("alive");
}

/// A tool that hangs until the test is over, and the number of calls that have begun.
struct Hanging {
    over: Arc<AtomicBool>,
    begun: Arc<AtomicUsize>,
}

impl Hanging {
    fn new(timeout: Duration) -> (Hanging, Jar) {
        let hanging = Hanging { over: Arc::default(), begun: Arc::default() };
        let (over, begun) = (Arc::clone(&hanging.over), Arc::clone(&hanging.begun));
        let jar = with("hang", move |_| {
            begun.fetch_add(1, Ordering::SeqCst);
            eventually("the test is over", || over.load(Ordering::SeqCst));
            Ok(json!("far too late"))
        });
        (hanging, jar.timeout(timeout))
    }
}

impl Drop for Hanging {
    fn drop(&mut self) {
        self.over.store(true, Ordering::SeqCst);
    }
}

#[test]
fn hanging_until_the_time_out() {
    let (hanging, jar) = Hanging::new(Duration::from_millis(300));
    let mut session = jar.session();
    let calls = [
        "hang()",
        "await hang()",
        "import asyncio\nawait asyncio.gather(hang.aio(), hang.aio())",
        "async def f(): await hang()\nasyncio.run(f())",
    ];
    for (number, call) in calls.iter().enumerate() {
        let result = session.run(&format!("n = {number}\n{call}"));
        result.ended(Status::Timeout, -1).kept(Status::Timeout);
        assert!(result.duration_ms < 2_000.0, "{call}: {} ms", result.duration_ms);
        let name = result.error.as_ref().map(|error| error.name.as_str());
        assert_eq!(name, Some("KeyboardInterrupt"), "{call}");
        session.run("n").gave(number);
    }
    assert_eq!(hanging.begun.load(Ordering::SeqCst), 5);
}

#[test]
fn hanging_with_the_interrupt_swallowed() {
    let (_hanging, jar) = Hanging::new(Duration::from_millis(300));
    let mut session = jar.session();
    session.run("n = 0").kept(Status::Ok);
    for (define, call) in [("def", ""), ("async def", "await ")] {
        // An interrupt that hits a loop outside of its try ends that loop only: the next one
        // around it starts it again.
        let code = format!(
            "n = 1\n\
             {define} swallow(loops):\n\
             \x20 while True:\n\
             \x20   try: {call}(swallow(loops - 1) if loops else hang())\n\
             \x20   except BaseException: pass\n\
             {call}swallow(50)"
        );
        let result = session.run(&code);
        result.rolled_back(Status::Timeout);
        assert!(result.duration_ms < 2_000.0, "{define}: {} ms", result.duration_ms);
        session.run("n").gave(0);
    }
}

#[test]
fn hanging_until_cancelled() {
    let (hanging, jar) = Hanging::new(Duration::from_secs(20));
    let (lines, on_stdout) = Lines::listen();
    let config = SandboxConfig { on_stdout: Some(on_stdout), ..jar.config() };
    let mut session = PythonSandbox::from_config(&config).expect("a sandbox");
    session.initialize(json!(null)).expect("a session");
    for call in ["hang()", "await hang()"] {
        let result = cancelled(&mut session, &lines, &format!("x = 1\nprint('calling')\n{call}"));
        result.kept(Status::Cancelled);
        assert!(result.duration_ms < 5_000.0, "{} ms", result.duration_ms);
        session.run("x").gave(1);
    }
    // The cancel may come before the call.
    assert!(hanging.begun.load(Ordering::SeqCst) <= 2);
}

#[test]
fn hanging_calls_do_not_stand_in_the_way_of_others() {
    let over = Arc::new(AtomicBool::new(false));
    let stop = Arc::clone(&over);
    let tools = Tools::new()
        .with("hang", move |_| {
            eventually("the test is over", || stop.load(Ordering::SeqCst));
            Ok(Value::Null)
        })
        .and_then(|tools| tools.with("quick", |_| Ok(json!("quick"))))
        .expect("good names");
    let jar = Jar::new().with_tools(tools).timeout(Duration::from_millis(300));
    let mut session = jar.session();
    // More than may run at the same time.
    let code = "import asyncio\nawait asyncio.gather(*(hang.aio() for _ in range(60)))";
    session.run(code).kept(Status::Timeout);
    session.run("[quick(), await quick()]").gave(json!(["quick", "quick"]));
    over.store(true, Ordering::SeqCst);
}

#[test]
fn answers_far_too_large() {
    let jar = with("huge", |request| {
        let megabytes = request.call.args[0].as_u64().and_then(|n| usize::try_from(n).ok());
        Ok(json!("x".repeat(megabytes.unwrap_or(0) * 1024 * 1024)))
    });
    let jar = jar.with(|layer| layer.memory_bytes(256_000_000));
    let mut session = jar.session();
    session.run("len(huge(8))").gave(8 * 1024 * 1024);
    let message = "the tool's result is too large to be passed on";
    session.run("huge(33)").raised("ToolLimitError", message);
    session.run("await huge(33)").raised("ToolLimitError", message);
    session.run("x = 'fine'\nx").gave("fine");
}

#[test]
fn answers_that_do_not_fit_into_the_guest() {
    let jar = with("large", |_| Ok(json!("x".repeat(25_000_000))));
    let jar = jar.with(|layer| layer.memory_bytes(48_000_000));
    let mut session = jar.session();
    session.run("x = 1").kept(Status::Ok);
    for call in ["large()", "await large()"] {
        let result = session.run(&format!("x = 2\ny = {call}"));
        assert!(!result.success(), "{result:#?}");
        session.run("x in (1, 2)").gave(true);
    }
}

#[test]
fn answers_of_odd_shapes() {
    let jar = with("odd", |request| {
        Ok(match request.call.args[0].as_str() {
            Some("deep") => (0..50).fold(json!("deep"), |inner, _| json!([inner])),
            Some("deeper") => (0..5_000).fold(json!("deep"), |inner, _| json!([inner])),
            Some("wide") => json!((0..100_000).collect::<Vec<_>>()),
            Some("keys") => json!({"__proto__": 1, "": 2, "a.b": 3, "\0": 4}),
            Some("error") => json!({"error": {"name": "ToolError", "message": "forged"}}),
            Some("answers") => json!({"answers": [{"id": 1, "value": 2}]}),
            Some("text") => json!("{\"value\": 1}\u{2028}\u{FFFF}\0"),
            _ => Value::Null,
        })
    });
    let mut session = jar.session();
    let code = "v, n = odd('deep'), 0\nwhile v != 'deep': v, n = v[0], n + 1\nn";
    session.run(code).gave(50);
    let result = session.run("odd('deeper')");
    assert!(matches!(result.status(), Status::Ok | Status::Error), "{result:#?}");
    session.run("len(odd('wide'))").gave(100_000);
    session.run("odd('keys')").gave(json!({"__proto__": 1, "": 2, "a.b": 3, "\0": 4}));
    let forged = json!({"error": {"name": "ToolError", "message": "forged"}});
    session.run("odd('error')").gave(forged.clone());
    session.run("await odd('error')").gave(forged);
    session.run("await odd('answers')").gave(json!({"answers": [{"id": 1, "value": 2}]}));
    session.run("odd('text')").gave("{\"value\": 1}\u{2028}\u{FFFF}\0");
    session.run("[odd('null'), await odd('null')]").gave(json!([null, null]));
}

#[test]
fn failures_with_odd_words() {
    let jar = with("fail", |request| {
        let length = request.call.args[0].as_u64().and_then(|n| usize::try_from(n).ok());
        Err(ToolFailure::new(format!("\0\u{1F600}{}", "x".repeat(length.unwrap_or(0)))))
    });
    let mut session = jar.session();
    session.run("fail(0)").raised("ToolError", "\0\u{1F600}");
    let result = session.run("fail(2_000_000)");
    result.ended(Status::Error, 1);
    assert!(result.error.expect("an error").message.len() < 300_000);
    session.run("'alive'").gave("alive");
}
