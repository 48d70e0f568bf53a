//! No session is ever left half-changed.

use std::time::Duration;

use belljar::{PythonSandbox, Sandbox, SandboxConfig, SandboxResult, StateAfter, Status};
use serde_json::json;
use support::{Cells, Expect, Jar, Lines, cancelled};

/// Sets up state that a cell could damage in many ways.
const STATE: &str = "import os, random
kept, items, text = 'kept', [1, 2, 3], 'x' * 1_000_000
class Thing: pass
thing = Thing(); thing.items = items
def counter():
  n = 0
  while True:
    n += 1
    yield n
numbers = counter(); next(numbers)
file = open('f', 'w+'); file.write('0123456789'); file.flush(); file.seek(3)";

/// Damages all of it, before the end comes.
const DAMAGE: &str = "kept = 'changed'; items.clear(); del text; thing.items = None; new = 1
next(numbers); Thing.__repr__ = None; file.read(4); second = open('f'); os.environ['NEW'] = '1'
import sys; sys.path.append('new'); big = bytearray(5_000_000)
";

/// Checks that nothing of it is left.
#[track_caller]
fn assert_as_before(session: &mut PythonSandbox) {
    let code = "import sys\n[kept, items, len(text), thing.items is items, 'new' in globals(), \
                'NEW' in os.environ, 'new' in sys.path, 'second' in globals(), file.tell()]";
    session.run(code).gave(json!([
        "kept",
        [1, 2, 3],
        1_000_000,
        true,
        false,
        false,
        false,
        false,
        3
    ]));
    session.run("[next(numbers), file.read(), repr(thing)[:16]]").gave(json!([
        2,
        "3456789",
        "<__main__.Thing "
    ]));
}

/// Runs the damage and then `end` in a session with the state, and checks that it is as before.
#[track_caller]
fn undone(jar: &Jar, end: &str, status: Status) -> SandboxResult {
    let mut session = jar.session();
    session.run(STATE).kept(Status::Ok);
    let result = session.run(&format!("{DAMAGE}{end}"));
    result.rolled_back(status);
    assert_as_before(&mut session);
    result
}

fn short() -> Jar {
    Jar::new().timeout(Duration::from_millis(400))
}

#[test]
fn time_out_swallowed() {
    let result = undone(
        &short(),
        "while True:\n  try:\n    while True: pass\n  except BaseException: pass",
        Status::Timeout,
    );
    assert!(result.meta.timed_out && result.duration_ms < 3_000.0, "{result:#?}");
}

#[test]
fn time_out_in_a_loop_in_c() {
    undone(&short(), "sum(range(10**12))", Status::Timeout);
    undone(&short(), "import itertools; 1 in itertools.repeat(0)", Status::Timeout);
}

#[test]
fn out_of_fuel() {
    let jar = Jar::new().with(|layer| layer.fuel_budget(400_000_000));
    undone(&jar, "while True: pass", Status::OutOfFuel);
}

#[test]
fn memory_limit() {
    let jar = Jar::new().with(|layer| layer.memory_bytes(64_000_000));
    undone(&jar, "more = []\nwhile True: more.append(bytearray(1_000_000))", Status::OutOfMemory);
    undone(&jar, "'a' * 100_000_000", Status::OutOfMemory);
}

#[test]
fn memory_error_that_was_caught_is_no_end() {
    let jar = Jar::new().with(|layer| layer.memory_bytes(64_000_000));
    let mut session = jar.session();
    session
        .run("x = 1\ntry: y = bytearray(100_000_000)\nexcept MemoryError: x = 2")
        .kept(Status::Ok);
    session.run("x").gave(2);
}

#[test]
fn crash() {
    undone(&Jar::new(), "os.abort()", Status::Crashed);
    let breaks_the_driver = "from belljar_guest import cells, driver\n\
                             cells._conclude = driver.encode_own = None";
    undone(&Jar::new(), breaks_the_driver, Status::Crashed);
}

#[test]
fn hard_exit() {
    let jar = Jar::new();
    let mut session = jar.session();
    session.run(STATE).kept(Status::Ok);
    for (code, status) in [(0, Status::Ok), (3, Status::Error)] {
        let result = session.run(&format!("{DAMAGE}os._exit({code})"));
        result.ended(status, code);
        assert_eq!(result.meta.state, Some(StateAfter::RolledBack), "no interpreter was left");
    }
    assert_as_before(&mut session);
}

#[test]
fn output_flood() {
    let jar = Jar::new().with(|layer| layer.stdout_max_bytes(1000));
    let result = undone(&jar, "while True: print('x' * 100_000)", Status::OutputLimit);
    assert!(result.meta.truncated);
    assert!(result.stdout.len() <= 1000);
}

#[test]
fn cancel_swallowed() {
    let (lines, on_stdout) = Lines::listen();
    let jar = Jar::new();
    let config = SandboxConfig { on_stdout: Some(on_stdout), ..jar.config() };
    let mut session = PythonSandbox::from_config(&config).expect("a sandbox");
    session.initialize(json!(null)).expect("a session");
    session.run(STATE).kept(Status::Ok);
    for end in [
        "while True:\n  try:\n    while True: pass\n  except BaseException: pass",
        "sum(range(10**12))",
        "import time, signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: time.sleep(1)",
    ] {
        let code = format!("{DAMAGE}print('running')\n{end}");
        cancelled(&mut session, &lines, &code).rolled_back(Status::Cancelled);
        let before = "[kept, items, file.tell(), 'new' in globals()]";
        session.run(before).gave(json!(["kept", [1, 2, 3], 3, false]));
    }
    assert_as_before(&mut session);
}

#[test]
fn interrupt_that_is_honoured_keeps_the_state() {
    let mut session = short().session();
    for (number, end) in [
        "while True: pass",
        "import time; time.sleep(100)",
        "import asyncio; await asyncio.sleep(100)",
        "import threading; threading.Event().wait()",
        "import asyncio\nasync def spin():\n  while True: await asyncio.sleep(0)\nawait spin()",
    ]
    .iter()
    .enumerate()
    {
        let result = session.run(&format!("done = {number}\n{end}"));
        result.ended(Status::Timeout, -1).kept(Status::Timeout);
        let name = result.error.as_ref().map(|error| error.name.as_str());
        assert_eq!(name, Some("KeyboardInterrupt"), "{end}");
        session.run("done").gave(number);
    }
    session.run("import asyncio\nawait asyncio.sleep(0, 'the loop works')").gave("the loop works");
}

#[test]
fn cleaning_up_after_an_interrupt_is_kept_too() {
    let mut session = short().session();
    let code = "try:\n  while True: pass\nexcept KeyboardInterrupt:\n  caught = True\nfinally:\n  \
                cleaned = True";
    session.run(code).kept(Status::Timeout);
    session.run("[caught, cleaned]").gave(json!([true, true]));
}

#[test]
fn a_session_survives_one_disaster_after_another() {
    let jar = short().with(|layer| layer.memory_bytes(64_000_000));
    let mut session = jar.session();
    session.run("n = 0").kept(Status::Ok);
    for round in 1..=3 {
        for (end, status) in [
            ("sum(range(10**12))", Status::Timeout),
            ("import os; os.abort()", Status::Crashed),
            ("'a' * 100_000_000", Status::OutOfMemory),
        ] {
            session.run(&format!("n = -1\n{end}")).rolled_back(status);
        }
        session.run("n += 1\nn").gave(round).kept(Status::Ok);
    }
}

#[test]
fn files_of_a_rolled_back_cell_stay_and_are_told() {
    let jar = short();
    let mut session = jar.session();
    session.run("x = 1").kept(Status::Ok);
    let result = session.run("open('made', 'w').write('by the lost cell')\nsum(range(10**12))");
    result.rolled_back(Status::Timeout).changed(&["made"], &[], &[]);
    assert_eq!(jar.read("made"), "by the lost cell");
    session.run("open('made').read()").gave("by the lost cell").changed(&[], &[], &[]);
}

#[test]
fn a_rolled_back_first_cell_is_told_its_surroundings_again() {
    let jar = short().with(|layer| layer.env("GIVEN", "by the policy"));
    let mut session = jar.session_about(json!("the context"));
    session.run("x = 1\nsum(range(10**12))").rolled_back(Status::Timeout);
    let code = "import os, sys\n[os.environ['GIVEN'], os.getcwd(), '/app' in sys.path, context]";
    session.run(code).gave(json!(["by the policy", "/app", true, "the context"]));
}

#[test]
fn a_variable_that_never_shows_itself_changes_nothing() {
    let mut session = short().session();
    session.run("n = 1\nclass Evil:\n  def __repr__(self):\n    global n\n    n = 2\n    sum(range(10**12))");
    session.run("evil = Evil()").kept(Status::Ok);
    let refused = session.get_variable("evil").expect_err("no text");
    assert_eq!(
        refused.to_string(),
        "the execution could not be completed: the variable \"evil\" cannot be shown within the \
         limits; the sandbox is as it was before this execution"
    );
    session.run("n").gave(1);
}
