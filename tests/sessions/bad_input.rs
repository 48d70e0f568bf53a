//! Cells that break what they stand on: clear errors, nothing lost.

use std::time::Duration;

use belljar::{PythonSandbox, Sandbox, Status, Tools};
use serde_json::json;
use support::{Cells, Expect, Jar};

/// Checks that a session still does everything a session does.
#[track_caller]
fn assert_works(session: &mut PythonSandbox, because_of: &str) {
    let code = "import asyncio, sys\nclass C:\n  def m(self): return [len('ab'), str(5), max(1, 2)]\n\
                [kept, C().m(), await asyncio.sleep(0, 'awaited'), isinstance(1, int)]";
    let result = session.run(code);
    assert!(result.success(), "after {because_of}: {result:#?}");
    result.gave(json!(["kept", [2, "5", 2], "awaited", true]));
    session.run("print('out'); 1 / 0").raised("ZeroDivisionError", "division by zero");
    let result = session.run("print('out')\nsys.stderr.write('err')\n'value'");
    assert_eq!((result.stdout.as_str(), result.stderr.as_str()), ("out\n", "err"), "{because_of}");
    result.gave("value");
    let kept = session.get_variable("kept").expect("a session").expect("a variable");
    assert_eq!(kept.json, Some(json!("kept")), "{because_of}");
    assert!(session.complete("kep", 3).expect("a session").matches.contains(&"kept".to_owned()));
}

/// Runs each line in a session of its own, which must work afterwards.
#[track_caller]
fn survives(lines: &[&str]) {
    let jar = Jar::new();
    for line in lines {
        let mut session = jar.session();
        session.run("kept = 'kept'").kept(Status::Ok);
        let result = session.run(line);
        assert!(matches!(result.status(), Status::Ok | Status::Error), "{line}: {result:#?}");
        assert_works(&mut session, line);
    }
}

#[test]
fn builtins_redefined() {
    survives(&[
        "import builtins\nbuiltins.len = None",
        "import builtins\nbuiltins.print = builtins.open = builtins.repr = 3",
        "import builtins\ndel builtins.__build_class__, builtins.isinstance, builtins.type",
        "import builtins\nbuiltins.__import__ = None",
        "import builtins\nfor name in list(vars(builtins)): setattr(builtins, name, None)",
        "import builtins\nvars(builtins).clear()",
        "__builtins__ = None",
        "del __builtins__",
        "import builtins\nbuiltins.BaseException = builtins.Exception = int",
        "__name__ = 5; __file__ = None; __loader__ = 1",
    ]);
}

#[test]
fn names_of_builtins_as_variables() {
    let mut session = Jar::new().session();
    session.run("list, str, print, len = [1], 'text', 5, 6").kept(Status::Ok);
    session.run("[list, str, print, len]").gave(json!([[1], "text", 5, 6]));
    session.run("del list, str, print, len").kept(Status::Ok);
    session.run("print(len(list(str(12))))").printed("2\n");
    // A builtin that was replaced by another function is what its user wanted.
    session.run("import builtins\nbuiltins.len = lambda thing: 42").kept(Status::Ok);
    session.run("len('a')").gave(42);
    assert_eq!(session.get_variable("missing"), Ok(None));
    session.run("len('a')").gave(42);
}

#[test]
fn modules_of_the_library_broken() {
    survives(&[
        "import json; json.dumps = json.loads = None; json.encoder.c_make_encoder = None",
        "import traceback, linecache; traceback.TracebackException = linecache.getline = None",
        "import linecache; linecache.cache = None",
        "import linecache; linecache.clearcache()",
        "import asyncio; asyncio.get_event_loop().close()",
        "import asyncio; asyncio.set_event_loop_policy(None)",
        "import asyncio; asyncio.set_event_loop(None)",
        "import sys; sys.setrecursionlimit(30)",
        "import sys; sys.settrace(lambda *a: 1 / 0)",
        "import sys; sys.setprofile(lambda *a: 1 / 0)",
        "import sys; sys.excepthook = sys.displayhook = sys.unraisablehook = None",
        "import sys; sys.meta_path.clear(); sys.path.clear(); sys.path_hooks.clear()",
        "import gc; gc.disable(); gc.set_threshold(1, 1, 1); gc.freeze()",
        "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)",
        "import os; os.chdir('/'); os.environ.clear()",
        "import warnings; warnings.simplefilter('error')",
        "import threading; threading.main_thread = None",
        "import atexit; atexit.register(lambda: 1 / 0)",
    ]);
}

/// What makes every import or every name fail breaks no more than that.
#[test]
fn what_cells_stand_on_removed() {
    let jar = Jar::new();
    for line in [
        "__builtins__ = {}",
        "import sys; sys.modules.clear()",
        "import sys; sys.modules['sys'] = sys.modules['builtins'] = sys.modules['__main__'] = None",
        "import sys; del sys.modules; del sys.path",
        "import sys; vars(sys).clear()",
    ] {
        let mut session = jar.session();
        session.run("kept = 'kept'").kept(Status::Ok);
        let result = session.run(line);
        assert!(matches!(result.status(), Status::Ok | Status::Error), "{line}: {result:#?}");
        session.run("kept").gave("kept");
        let kept = session.get_variable("kept").expect("a session").expect("a variable");
        assert_eq!(kept.json, Some(json!("kept")), "{line}");
        session.run("nothing").raised("NameError", "name 'nothing' is not defined");
    }
}

#[test]
fn the_namespace_emptied() {
    let jar = Jar::new();
    for line in
        ["globals().clear()", "for name in list(globals()): del globals()[name]", "vars().clear()"]
    {
        let mut session = jar.session_about(json!("context"));
        session.run(&format!("x = 1\n{line}")).ended(Status::Ok, 0);
        session.run("x").raised("NameError", "name 'x' is not defined");
        session.run("kept = 'kept'").kept(Status::Ok);
        assert_works(&mut session, line);
    }
}

#[test]
fn the_context_deleted() {
    let tools = Tools::new().rlm(|_, ctx, _| Ok(ctx.clone()));
    let mut session = Jar::new().with_tools(tools).session_about(json!("some text"));
    session.run("del context").kept(Status::Ok);
    session.run("context").raised("NameError", "name 'context' is not defined");
    assert_eq!(session.get_variable("context"), Ok(None));
    let message = "search_context(): there is no context; set the variable `context` first";
    session.run("search_context('x')").raised("ValueError", message);
    session.run("rlm_query('t')").ended(Status::Ok, 0);
    session.run("context = {1}\nrlm_query('t')").ended(Status::Error, 1);
    session
        .run("context = 'new text'\n[rlm_query('t'), len(search_context('t'))]")
        .gave(json!(["new text", 2]));
}

#[test]
fn standard_streams_replaced() {
    survives(&[
        "import sys; sys.stdout = None",
        "import sys; del sys.stdout, sys.stderr",
        "import sys; sys.stdout.close()",
        "import sys; sys.stdout.close(); sys.stderr.close(); sys.__stdout__.close()",
        "import sys; sys.stdout.detach()",
        "import sys; sys.stdin.close()",
        "import os; os.close(0)",
    ]);
}

#[test]
fn output_sent_elsewhere_is_not_lost() {
    let mut session = Jar::new().session();
    let code = "import sys, io\nmine = sys.stdout = io.StringIO()\nprint('caught')";
    session.run(code).printed("");
    session.run("print('still caught')\nmine.getvalue()").gave("caught\nstill caught\n");
    session.run("sys.stdout = sys.__stdout__\nprint('back')").printed("back\n");
    session.run("class Bad:\n  def write(self, text): raise ValueError('no')\nsys.stdout = Bad()\nprint('x')")
        .raised("ValueError", "no");
    session.run("sys.stdout = sys.__stdout__\nprint('back')").printed("back\n");
}

#[test]
fn descriptors_of_the_streams_closed() {
    let jar = Jar::new();
    let mut session = jar.session();
    session.run("kept = 'kept'\nimport os; os.close(1); os.close(2)").kept(Status::Ok);
    session.run("kept").gave("kept");
    let result = session.run("print('x')");
    assert!(matches!(result.status(), Status::Ok | Status::Error), "{result:#?}");
    session.run("f = open('not stdout', 'w'); f.fileno() > 2 or kept").ended(Status::Ok, 0);
    session.run("kept").gave("kept");
}

#[test]
fn objects_that_do_not_want_to_be_shown() {
    let evil = "class Evil:
  def __repr__(self): {}
  __str__ = __repr__
evil = Evil()";
    let mut session = Jar::new().timeout(Duration::from_millis(500)).session();
    session.run("kept = 'kept'").kept(Status::Ok);
    for (body, shown) in [
        ("raise ValueError('no')", "ValueError"),
        ("raise SystemExit(3)", "SystemExit"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
        ("return 5", "TypeError"),
        ("return repr(self)", "RecursionError"),
        ("return 'x' * 10**9", "MemoryError"),
    ] {
        session.run(&evil.replace("{}", body)).kept(Status::Ok);
        let result = session.run("evil");
        assert!(!result.success(), "{body}: {result:#?}");
        if let Some(error) = &result.error {
            assert_eq!(error.name, shown, "{body}");
        }
        session.run("kept").gave("kept");
        match session.get_variable("evil") {
            Ok(seen) => {
                let name = seen.map(|seen| seen.type_name);
                assert_eq!(name.as_deref(), Some("Evil"), "{body}");
            }
            Err(error) => assert!(error.to_string().contains("cannot be shown"), "{body}: {error}"),
        }
        session.run("kept").gave("kept");
        let result = session.run("raise type('Sad', (Exception,), {'__str__': Evil.__repr__, '__repr__': Evil.__repr__})");
        assert!(!result.success(), "{body}");
        session.run("kept").gave("kept");
    }
    session.run(&evil.replace("{}", "sum(range(10**12))")).kept(Status::Ok);
    session.run("kept = 'changed'\nevil").rolled_back(Status::Timeout);
    session.run("kept").gave("kept");
}

#[test]
fn values_without_end() {
    let mut session = Jar::new().session();
    let cyclic = session.run("a = [1]; a.append(a); a");
    let value = cyclic.ended(Status::Ok, 0).result.clone().expect("a value");
    assert_eq!((value.text.as_str(), value.json), ("[1, [...]]", None));
    let seen = session.get_variable("a").expect("a session").expect("a variable");
    assert_eq!((seen.text.as_str(), seen.json), ("[1, [...]]", None));
    session.run("d = {}; d['d'] = d; d").ended(Status::Ok, 0);
    let result = session.run("deep = []\nfor _ in range(100_000): deep = [deep]\ndeep");
    assert!(!result.success(), "its text cannot be had");
    session.run("a[0]").gave(1);
    let deep = session.get_variable("deep").map(|deep| deep.map(|deep| deep.type_name));
    assert!(deep.is_err() || deep == Ok(Some("list".to_owned())), "{deep:?}");
    session.run("del deep\na[0]").gave(1);
}

#[test]
fn gigantic_values() {
    let mut session = Jar::new().session();
    let result = session.run("text = 'x' * 20_000_000\ntext");
    let value = result.ended(Status::Ok, 0).result.clone().expect("a value");
    assert!(value.text.len() <= 1024 * 1024 && value.json.is_none(), "{}", value.text.len());
    assert!(
        value.text.ends_with("... (value truncated)"),
        "{}",
        &value.text[value.text.len() - 40..]
    );
    let seen = session.get_variable("text").expect("a session").expect("a variable");
    assert!(seen.text.len() <= 1024 * 1024 && seen.json.is_none());
    let result = session.run("numbers = list(range(1_000_000))\nnumbers");
    let value = result.ended(Status::Ok, 0).result.clone().expect("a value");
    assert!(value.text.len() <= 1024 * 1024 && value.json.is_none());
    session.run("[len(text), len(numbers)]").gave(json!([20_000_000, 1_000_000]));
    let rich = "class R:\n  def _repr_html_(self): return '<p>' + 'x' * 20_000_000\n  __repr__ = lambda s: 'r'\nR()";
    let value = session.run(rich).ended(Status::Ok, 0).result.clone().expect("a value");
    assert_eq!(value.text, "r");
    assert!(value.mime.values().map(String::len).sum::<usize>() <= 32 * 1024 * 1024);
    session.run("10 ** 5000").ended(Status::Error, 1);
    session.run("'still here'").gave("still here");
}

#[test]
fn code_that_is_no_code() {
    let mut session = Jar::new().session();
    session.run("kept = 'kept'").kept(Status::Ok);
    for code in [
        "\0",
        "x = '\0'",
        "\u{feff}1",
        "(",
        "\t1\n 2",
        "é = 1\n\u{202e}",
        "\\",
        "lambda: (yield",
        "'''",
    ] {
        let result = session.run(code);
        assert!(matches!(result.status(), Status::Ok | Status::Error), "{code:?}: {result:#?}");
    }
    let result = session.run(&"(".repeat(100_000));
    assert!(!result.success());
    let result = session.run(&format!("x = {}1{}", "-".repeat(50_000), ""));
    assert!(
        matches!(result.status(), Status::Ok | Status::Error | Status::OutOfMemory),
        "{result:#?}"
    );
    assert!(session.execute(&"#".repeat(17 * 1024 * 1024)).is_err(), "over the cap");
    assert_works(&mut session, "code that is no code");
}

#[test]
fn contexts_of_every_size_and_shape() {
    let jar = Jar::new();
    let nested = |levels| (0..levels).fold(json!(1), |inner, _| json!({ "k": inner }));
    let deep = nested(60);
    for context in [json!(null), json!(""), json!("\0\u{1F600}"), json!([]), json!(-0.0), deep] {
        let mut session = jar.session_about(context.clone());
        let seen = session.get_variable("context").expect("a session").expect("a variable");
        assert_eq!(seen.json, Some(context));
    }
    // Deeper than anything may be that is told, and code has it all the same.
    let mut session = jar.session_about(nested(100));
    let seen = session.get_variable("context").expect("a session").expect("a variable");
    assert_eq!(seen.json, None);
    session
        .run("inner, n = context, 0\nwhile inner != 1: inner, n = inner['k'], n + 1\nn")
        .gave(100);
    let mut session = jar.session_about(json!("word ".repeat(2_000_000)));
    session.run("[len(context), len(chunk_text(context, 100_000))]").gave(json!([10_000_000, 100]));
    let small = Jar::new().with(|layer| layer.memory_bytes(48_000_000));
    let error = small.sandbox().initialize(json!("x".repeat(40_000_000))).expect_err("no room");
    let text = "the execution could not be completed: the context does not fit into the sandbox; \
                nothing was run";
    assert_eq!(error.to_string(), text);
    small.session().run("'fine'").gave("fine");
}
