//! A cell behaves like a notebook's.

use std::sync::{Arc, Mutex};

use belljar::{InputRequest, PythonSandbox, Sandbox, SandboxConfig, Status};
use serde_json::json;
use support::{Cells, Expect, Jar};

#[test]
fn state_lives_from_cell_to_cell() {
    let mut session = Jar::new().session();
    session.run("import math\nx = 20\ndef twice(n): return 2 * n").kept(Status::Ok);
    session.run("class Point:\n  def __init__(self, x): self.x = x\np = Point(twice(x) + 1)");
    session.run("x = math.floor(3.7)\nwith_default = lambda n=x: n").kept(Status::Ok);
    session.run("[p.x, x, with_default(), type(p).__name__]").gave(json!([41, 3, 3, "Point"]));
    session.run("del x").ended(Status::Ok, 0);
    session.run("x").raised("NameError", "name 'x' is not defined");
}

#[test]
fn without_a_session_nothing_lives() {
    let jar = Jar::new();
    let mut sandbox = jar.sandbox();
    let result = sandbox.run("x = 1");
    assert_eq!(result.ended(Status::Ok, 0).meta.state, None);
    sandbox.run("x").raised("NameError", "name 'x' is not defined");
    sandbox.initialize(json!(null)).expect("a session");
    sandbox.run("x = 1").kept(Status::Ok);
    sandbox.run("x").gave(1);
    sandbox.destroy().expect("nothing is in the way");
    assert_eq!(sandbox.run("1").meta.state, None, "as before the session");
    sandbox.run("x").raised("NameError", "name 'x' is not defined");
}

#[test]
fn a_new_session_knows_nothing_of_the_last() {
    let jar = Jar::new();
    let mut sandbox = jar.session();
    sandbox.run("x = 1\nimport sys; sys.planted = 1").kept(Status::Ok);
    sandbox.initialize(json!("new")).expect("a session");
    sandbox
        .run("import sys; ['x' in globals(), hasattr(sys, 'planted'), context]")
        .gave(json!([false, false, "new"]));
}

#[test]
fn what_an_error_left_behind_is_kept() {
    let mut session = Jar::new().session();
    let result = session.run("a = 1\nb = [2]\nb.append(3)\nraise ValueError('halfway')");
    result.raised("ValueError", "halfway").kept(Status::Error);
    session.run("[a, b]").gave(json!([1, [2, 3]]));
}

#[test]
fn the_last_expression_is_the_value() {
    let mut session = Jar::new().session();
    let result = session.run("x = 1\n{'a': (x, 2.5, None, True), 'ü': 'é'}");
    result.gave(json!({"a": [1, 2.5, null, true], "ü": "é"}));
    let value = result.result.expect("a value");
    assert_eq!(value.text, "{'a': (1, 2.5, None, True), 'ü': 'é'}");
    assert!(value.mime.is_empty());
    for none in ["x = 5", "None", "print(1)", "", "5;6; pass", "# only a comment"] {
        assert_eq!(session.run(none).ended(Status::Ok, 0).result, None, "{none}");
    }
    session.run("5;").gave(5);
}

#[test]
fn values_json_cannot_carry_come_as_text() {
    let mut session = Jar::new().session();
    for (code, text) in [
        ("{1}", "{1}"),
        ("float('nan')", "nan"),
        ("1j", "1j"),
        ("b'x'", "b'x'"),
        ("object", "<class 'object'>"),
        ("{(1, 2): 3}", "{(1, 2): 3}"),
        ("range(3)", "range(0, 3)"),
        ("[{1}]", "[{1}]"),
    ] {
        let value = session.run(code).ended(Status::Ok, 0).result.clone().expect("a value");
        assert_eq!((value.text.as_str(), value.json), (text, None), "{code}");
    }
    session.run("2**70").gave(json!(2f64.powi(70)));
}

#[test]
fn rich_values() {
    let mut session = Jar::new().session();
    let code = "class Rich:
  def __repr__(self): return 'plain'
  def _repr_html_(self): return '<b>rich</b>'
  def _repr_png_(self): return b'\\x89PNG\\r\\n'
  def _repr_markdown_(self): return '**rich**'
  def _repr_svg_(self): raise ValueError
  def _repr_latex_(self): return None
Rich()";
    let value = session.run(code).ended(Status::Ok, 0).result.clone().expect("a value");
    assert_eq!(value.text, "plain");
    let forms: Vec<(&str, &str)> =
        value.mime.iter().map(|(mime, form)| (mime.as_str(), form.as_str())).collect();
    assert_eq!(
        forms,
        [("image/png", "iVBORw0K"), ("text/html", "<b>rich</b>"), ("text/markdown", "**rich**"),]
    );
    let code = "class Bundle:
  def _repr_mimebundle_(self, include=None, exclude=None):
    return {'text/plain': 'p', 'application/json': {'a': 1}}
Bundle()";
    let value = session.run(code).ended(Status::Ok, 0).result.clone().expect("a value");
    assert_eq!(value.mime.get("application/json").map(String::as_str), Some("{\"a\":1}"));
    let class = session.run("Rich").ended(Status::Ok, 0).result.clone().expect("a value");
    assert!(class.mime.is_empty(), "a class does not show itself as its instances");
}

#[test]
fn top_level_await() {
    let mut session = Jar::new().session();
    session.run("import asyncio\nasync def later(v): await asyncio.sleep(0.001); return v");
    session.run("await later(1)").gave(1);
    session.run("x = await later(2)\n[await later(n) for n in range(x)]").gave(json!([0, 1]));
    session.run("await asyncio.gather(later(1), later(2))").gave(json!([1, 2]));
    let code =
        "async with asyncio.timeout(5): y = await later(3)\nasync for n in numbers(): y += n";
    session.run("async def numbers():\n  yield 1\n  yield 2").kept(Status::Ok);
    session.run(code).kept(Status::Ok);
    session.run("y").gave(6);
    session.run("asyncio.run(later('own loop'))").gave("own loop");
}

#[test]
fn background_tasks_go_on_while_later_cells_await() {
    let mut session = Jar::new().session();
    let code = "import asyncio\nseen = []\nasync def work():\n  for n in range(3):\n    \
                seen.append(n)\n    await asyncio.sleep(0.001)\ntask = asyncio.create_task(work())";
    session.run(code).kept(Status::Ok);
    session.run("seen").gave(json!([]));
    session.run("await task\nseen").gave(json!([0, 1, 2]));
}

#[test]
fn tracebacks_show_the_users_lines_also_of_earlier_cells() {
    let mut session = Jar::new().session();
    session.run("def outer(n):\n    return inner(n)").kept(Status::Ok);
    session.run("def inner(n):\n    # a comment\n    return 1 / n").kept(Status::Ok);
    let result = session.run("x = 0\nouter(x)");
    let expected = "Traceback (most recent call last):
  File \"<cell 3>\", line 2, in <module>
    outer(x)
    ~~~~~^^^
  File \"<cell 1>\", line 2, in outer
    return inner(n)
  File \"<cell 2>\", line 3, in inner
    return 1 / n
           ~~^~~
ZeroDivisionError: division by zero
";
    result.raised("ZeroDivisionError", "division by zero");
    let error = result.error.as_ref().expect("an error");
    assert_eq!((error.traceback.as_str(), result.stderr.as_str()), (expected, expected));
    let result = session.run("import asyncio\nawait asyncio.sleep(0)\nawait asyncio.gather(f())\n");
    result.raised("NameError", "name 'f' is not defined");
    let expected = "Traceback (most recent call last):
  File \"<cell 4>\", line 3, in <module>
    await asyncio.gather(f())
                         ^
NameError: name 'f' is not defined
";
    assert_eq!(result.error.expect("an error").traceback, expected);
}

#[test]
fn a_name_for_the_code_is_used_in_tracebacks() {
    let jar = Jar::new();
    let config = SandboxConfig { code_name: Some("notes.py".to_owned()), ..jar.config() };
    let mut session = PythonSandbox::from_config(&config).expect("a sandbox");
    session.initialize(json!(null)).expect("a session");
    let result = session.run("1 / 0");
    assert!(result.stderr.contains("File \"notes.py\", line 1"), "{}", result.stderr);
}

#[test]
fn exit_keeps_the_session() {
    let mut session = Jar::new().session();
    let result = session.run("x = 1\nimport sys\nsys.exit(3)\nx = 2");
    result.ended(Status::Error, 3).kept(Status::Error);
    assert_eq!(result.error, None);
    session.run("x").gave(1);
    session.run("raise SystemExit").ended(Status::Ok, 0).kept(Status::Ok);
    let result = session.run("exit('a message')");
    assert_eq!(result.ended(Status::Error, 1).stderr, "a message\n");
    session.run("import asyncio\nawait asyncio.sleep(0)\nsys.exit(4)").ended(Status::Error, 4);
    session.run("x").gave(1);
}

/// A sandbox whose questions are kept and answered from a list.
fn answering(jar: &Jar, answers: &[&str]) -> (PythonSandbox, Arc<Mutex<Vec<String>>>) {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let left =
        Mutex::new(answers.iter().rev().map(|&answer| answer.to_owned()).collect::<Vec<_>>());
    let record = Arc::clone(&asked);
    let on_input = move |request: &InputRequest| {
        record.lock().expect("a list").push(request.prompt.clone());
        left.lock().expect("a list").pop()
    };
    let config = SandboxConfig { on_input: Some(Arc::new(on_input)), ..jar.config() };
    let mut session = PythonSandbox::from_config(&config).expect("a sandbox");
    session.initialize(json!(null)).expect("a session");
    (session, asked)
}

#[test]
fn input_is_answered_by_the_host() {
    let jar = Jar::new();
    let (mut session, asked) = answering(&jar, &["Ada", "zwölf", ""]);
    session.run("name = input('name? ')").printed("");
    session.run("[name, input(), input(5)]").gave(json!(["Ada", "zwölf", ""]));
    assert_eq!(*asked.lock().expect("a list"), ["name? ", "", "5"]);
    // The end of input.
    session.run("input()").raised("EOFError", "the input has ended");
    session.run("name").gave("Ada");
}

#[test]
fn input_without_anybody_is_refused_clearly() {
    let message = "the Belljar sandbox does not offer input: nobody is there to answer";
    let mut session = Jar::new().session();
    session.run("x = 1\ninput('? ')").raised("EOFError", message).kept(Status::Error);
    session.run("x").gave(1);
    Jar::new().run("input()").raised("EOFError", message);
}

#[test]
fn a_session_has_a_name_if_it_is_given_one() {
    let jar = Jar::new();
    let config = SandboxConfig { session_id: Some("mine".to_owned()), ..jar.config() };
    let mut session = PythonSandbox::from_config(&config).expect("a sandbox");
    session.initialize(json!(null)).expect("a session");
    assert_eq!(session.run("1").meta.session_id.as_deref(), Some("mine"));
    let mut other = jar.session();
    assert_eq!((other.run("1").meta.session_id, other.session_id()), (None, None));
}

#[test]
fn each_cell_has_limits_and_counts_of_its_own() {
    let jar = Jar::new().with(|layer| layer.fuel_budget(300_000_000));
    let mut session = jar.session();
    for _ in 0..5 {
        let result = session.run("for _ in range(500_000): pass\nopen('f', 'w').write('x')");
        let fuel = result.kept(Status::Ok).fuel_consumed.expect("fuel is counted");
        assert!((100_000_000..300_000_000).contains(&fuel), "{fuel}: five times that is too much");
    }
    session.run("1").changed(&[], &[], &[]);
    session.run("open('g', 'w').close()").changed(&["g"], &[], &[]);
}

#[test]
fn syntax_is_checked_without_touching_the_session() {
    let mut session = Jar::new().session();
    session.run("x = 1").kept(Status::Ok);
    assert_eq!(session.validate_code("x = 2\nundefined()"), Ok(true));
    assert_eq!(session.validate_code("x ="), Ok(false));
    session.run("x").gave(1);
}

#[test]
fn completions_come_from_the_live_session() {
    let mut session = Jar::new().session();
    session.run("import os.path\nnumbers = {'first': 1}\nünique = 1").kept(Status::Ok);
    let mut complete = |code: &str| {
        let found = session.complete(code, code.chars().count()).expect("a session");
        (found.start, found.matches)
    };
    assert_eq!(complete("x = numb"), (4, vec!["numbers".to_owned()]));
    assert_eq!(complete("os.path.joi"), (8, vec!["join".to_owned()]));
    assert_eq!(complete("numbers['f"), (9, vec!["first".to_owned()]));
    assert_eq!(complete("é + üni"), (4, vec!["ünique".to_owned()]));
    assert_eq!(complete("nothing.at.all").1, Vec::<String>::new());
    assert!(complete("").1.len() <= 200);
    let past = session.complete("ab", 99).expect("a session");
    assert_eq!(past.matches, ["abs"]);
}

#[test]
fn variables_of_any_name_and_type_can_be_looked_at() {
    let mut session = Jar::new().session();
    session.run(
        "n = 0\nclass Counts:\n  def __repr__(self):\n    global n\n    n += 1\n    return 'c'",
    );
    session.run("c = Counts()").kept(Status::Ok);
    let seen = session.get_variable("c").expect("a session").expect("a variable");
    assert_eq!((seen.type_name.as_str(), seen.text.as_str(), seen.json), ("Counts", "c", None));
    for missing in ["a.b", "if", "", "c.__class__", "0", "n\0", "\u{1F600}", &"x".repeat(100_000)] {
        assert_eq!(session.get_variable(missing), Ok(None), "{missing:.20}");
    }
    session.run("globals()['if'] = globals()['two words'] = 5").kept(Status::Ok);
    for named in ["if", "two words"] {
        let found = session.get_variable(named).expect("a session").expect("a variable");
        assert_eq!(found.json, Some(json!(5)), "{named}");
    }
}
