//! Output while the code runs.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use belljar::{LineSink, PythonSandbox, Sandbox, SandboxConfig, Status, Tools};
use serde_json::{Value, json};
use support::{Cells, Expect, Jar, Lines};

fn listening(jar: &Jar, on_stdout: Option<LineSink>, on_stderr: Option<LineSink>) -> PythonSandbox {
    let config = SandboxConfig { on_stdout, on_stderr, ..jar.config() };
    let mut session = PythonSandbox::from_config(&config).expect("a sandbox");
    session.initialize(Value::Null).expect("a session");
    session
}

#[test]
fn lines_come_while_the_code_runs() {
    let (lines, on_stdout) = Lines::listen();
    let heard = Arc::clone(&lines);
    let tools = Tools::new().with("heard", move |_| Ok(json!(heard.so_far())));
    let jar = Jar::new().with_tools(tools.expect("a good name"));
    let mut session = listening(&jar, Some(on_stdout), None);
    let code = "print('one')\nfirst = heard()\nprint('two', end='')\nsecond = heard()\n\
                print(' and a half')\nthird = heard()\nprint('rest', end='')\n[first, second, third]";
    let result = session.run(code);
    result.gave(json!([["one\n"], [], ["two and a half\n"]]));
    assert_eq!(lines.so_far(), ["rest"], "what has no end is told at the end");
    assert_eq!(result.stdout, "one\ntwo and a half\nrest");
}

#[test]
fn one_off_runs_stream_too() {
    let (lines, on_stdout) = Lines::listen();
    let jar = Jar::new();
    let config = SandboxConfig { on_stdout: Some(on_stdout), ..jar.config() };
    let mut sandbox = PythonSandbox::from_config(&config).expect("a sandbox");
    sandbox.run("print('a\\nb')").printed("a\nb\n");
    assert_eq!(lines.so_far(), ["a\n", "b\n"]);
}

#[test]
fn both_streams_come_in_order() {
    let told: Arc<Mutex<Vec<String>>> = Arc::default();
    let sink = |name: &'static str| -> LineSink {
        let told = Arc::clone(&told);
        Arc::new(move |line: &str| told.lock().expect("a list").push(format!("{name} {line}")))
    };
    let jar = Jar::new();
    let mut session = listening(&jar, Some(sink("out")), Some(sink("err")));
    let code = "import sys\nfor n in range(3):\n  print(n)\n  print(n, file=sys.stderr)\n1 / 0";
    session.run(code).raised("ZeroDivisionError", "division by zero");
    let told = told.lock().expect("a list");
    let start = ["out 0\n", "err 0\n", "out 1\n", "err 1\n", "out 2\n", "err 2\n"];
    assert_eq!(told[..6], start);
    assert_eq!(told[6], "err Traceback (most recent call last):\n");
    assert_eq!(told.last().map(String::as_str), Some("err ZeroDivisionError: division by zero\n"));
}

#[test]
fn no_more_is_told_than_is_kept() {
    let (lines, on_stdout) = Lines::listen();
    let jar = Jar::new().with(|layer| layer.stdout_max_bytes(100));
    let mut session = listening(&jar, Some(on_stdout), None);
    let result = session.run("for n in range(1000): print(f'line {n:03}')");
    assert!(result.ended(Status::Ok, 0).meta.truncated);
    let told = lines.so_far();
    let bytes: usize = told.iter().map(String::len).sum();
    assert!(bytes <= 100 + 32, "{bytes} bytes: {told:?}");
    assert_eq!(told[..2], ["line 000\n", "line 001\n"]);
    assert!(told[told.len() - 1].contains("(output truncated)"), "{told:?}");
    session.run("print('the next cell')").printed("the next cell\n");
    assert_eq!(lines.so_far(), ["the next cell\n"]);
}

#[test]
fn a_slow_listener_slows_the_code() {
    let told = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&told);
    let slow: LineSink = Arc::new(move |_: &str| {
        std::thread::sleep(Duration::from_millis(5));
        counter.fetch_add(1, Ordering::SeqCst);
    });
    let count = Arc::clone(&told);
    let tools = Tools::new().with("told", move |_| Ok(json!(count.load(Ordering::SeqCst))));
    let jar = Jar::new().with_tools(tools.expect("a good name"));
    let mut session = listening(&jar, Some(slow), None);
    // At no time has more been printed than told: nothing piles up between the two.
    let code = "behind = 0\nfor n in range(30):\n  print(n)\n  behind = max(behind, n + 1 - told())\nbehind";
    session.run(code).gave(0);
}

#[test]
fn a_listener_that_takes_too_long_costs_the_code_its_time() {
    let stuck: LineSink = Arc::new(|_: &str| std::thread::sleep(Duration::from_millis(600)));
    let jar = Jar::new().timeout(Duration::from_millis(300));
    let mut session = listening(&jar, Some(stuck), None);
    session.run("x = 1").kept(Status::Ok);
    let result = session.run("print('slow')\nwhile True: pass");
    result.ended(Status::Timeout, -1);
    session.run("x").gave(1);
}

#[test]
fn a_line_without_end_comes_in_pieces() {
    let (lines, on_stdout) = Lines::listen();
    let jar = Jar::new();
    let mut session = listening(&jar, Some(on_stdout), None);
    session.run("print('x' * 300_000)").ended(Status::Ok, 0);
    let told = lines.so_far();
    assert!(told.len() > 1 && told.iter().all(|piece| piece.len() <= 64 * 1024), "{}", told.len());
    assert_eq!(told.concat(), format!("{}\n", "x".repeat(300_000)));
}

#[test]
fn characters_are_not_cut() {
    let (lines, on_stdout) = Lines::listen();
    let jar = Jar::new();
    let mut session = listening(&jar, Some(on_stdout), None);
    let code = "import sys\nfor byte in 'é€😀\\n'.encode():\n  sys.stdout.buffer.write(bytes([byte]))\n  \
                sys.stdout.buffer.flush()\nsys.stdout.buffer.write(b'\\xff\\n'); sys.stdout.buffer.flush()";
    session.run(code).ended(Status::Ok, 0);
    assert_eq!(lines.so_far(), ["é€😀\n", "\u{FFFD}\n"]);
    session.run("print('-' + 'é' * 100_000, end='')").ended(Status::Ok, 0);
    let long = format!("-{}", "é".repeat(100_000));
    assert_eq!(lines.so_far().concat(), long, "nor where a long line is");
}

#[test]
fn what_a_lost_cell_printed_was_told() {
    let (lines, on_stdout) = Lines::listen();
    let jar = Jar::new();
    let mut session = listening(&jar, Some(on_stdout), None);
    let result =
        session.run("print('before')\nprint('rest', end='', flush=True)\nimport os; os.abort()");
    result.rolled_back(Status::Crashed);
    assert_eq!(lines.so_far(), ["before\n", "rest"]);
    assert_eq!(result.stdout, "before\nrest");
}

#[test]
fn what_a_waiting_cell_printed_is_told_before_it_waits() {
    let (lines, on_stdout) = Lines::listen();
    let jar = Jar::new().with_tools(Tools::new().deferred("ask").expect("a good name"));
    let mut session = listening(&jar, Some(on_stdout), None);
    session.run("print('asking')\nprint('name? ', end='')\nprint(await ask())").waits_for(&["ask"]);
    assert_eq!(lines.so_far(), ["asking\n", "name? "]);
    let id = session.waiting()[0];
    session.answer(vec![(id, Ok(json!("Ada")))]).printed("Ada\n");
    assert_eq!(lines.so_far(), ["Ada\n"]);
}

#[test]
fn forks_have_the_same_listener() {
    let (lines, on_stdout) = Lines::listen();
    let jar = Jar::new();
    let mut session = listening(&jar, Some(on_stdout), None);
    let mut fork = session.fork().expect("a fork");
    session.run("print('parent')").printed("parent\n");
    fork.run("print('fork')").printed("fork\n");
    assert_eq!(lines.so_far(), ["parent\n", "fork\n"]);
}
