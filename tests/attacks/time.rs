//! Never ending.

use std::time::Duration;

use belljar::{Sandbox, Status};
use support::{Expect, Jar, attack, permitted};

const TIMEOUT: Duration = Duration::from_millis(300);

/// What the deadline and the grace after it take together, with room for a busy machine.
const AT_MOST_MS: f64 = 3_000.0;

fn jar() -> Jar {
    Jar::new().timeout(TIMEOUT)
}

#[track_caller]
fn times_out(code: &str) {
    let result = attack(&jar(), code);
    result.ended(Status::Timeout, -1);
    assert!(result.meta.timed_out);
    assert!((300.0..AT_MOST_MS).contains(&result.duration_ms), "{} ms", result.duration_ms);
    let notice = "Timeout: timed out after 0.3 s; raise timeout_seconds to allow more\n";
    assert!(result.stderr.ends_with(notice), "{}", result.stderr);
}

#[test]
fn infinite_loop() {
    times_out("while True: pass");
    permitted(&jar(), "for i in range(1000): pass\nprint(i)").printed("999\n");
}

#[test]
fn infinite_loop_swallowing_every_exception() {
    times_out("while True:\n  try:\n    while True: pass\n  except BaseException: pass");
    let code = "try:\n  raise KeyboardInterrupt\nexcept BaseException: print('caught')";
    permitted(&jar(), code).printed("caught\n");
}

#[test]
fn infinite_loop_with_the_interrupt_ignored() {
    times_out("import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass");
    times_out("import signal\nsignal.signal(signal.SIGINT, lambda *a: None)\nwhile True: pass");
    let code = "import signal\nsignal.signal(signal.SIGINT, lambda *a: print('mine'))\n\
                signal.raise_signal(signal.SIGINT)";
    permitted(&jar(), code).printed("mine\n");
}

#[test]
fn infinite_loop_in_a_destructor_or_finally() {
    times_out("try:\n  while True: pass\nfinally:\n  while True: pass");
    times_out("class A:\n  def __del__(self):\n    while True: pass\na = A()\ndel a");
    let code = "try:\n  print('body')\nfinally:\n  print('end')";
    permitted(&jar(), code).printed("body\nend\n");
}

#[test]
fn infinite_loop_out_of_fuel() {
    let jar = Jar::new().with(|layer| layer.fuel_budget(50_000_000));
    let result = attack(&jar, "while True:\n  try:\n    while True: pass\n  except: pass");
    result.ended(Status::OutOfFuel, -1);
    assert_eq!(result.fuel_consumed, Some(50_000_000));
    permitted(&jar, "print(sum(range(1000)))").printed("499500\n");
}

#[test]
fn regular_expression_that_backtracks_forever() {
    times_out("import re; re.match(r'(a+)+$', 'a' * 40 + 'b')");
    permitted(&jar(), "import re; print(bool(re.match(r'(a+)+$', 'a' * 40)))").printed("True\n");
}

#[test]
fn endless_sum_in_c() {
    times_out("sum(range(10**12))");
    permitted(&jar(), "print(sum(range(10**4)))").printed("49995000\n");
}

#[test]
fn huge_power() {
    times_out("x = 10 ** 10 ** 8");
    permitted(&jar(), "print(10 ** 10)").printed("10000000000\n");
}

#[test]
fn huge_number_as_text() {
    // CPython's own limit on the digits of a number stops it at once.
    let result = attack(&jar(), "str(1 << 10_000_000)");
    result.ended(Status::Error, 1);
    times_out("import sys; sys.set_int_max_str_digits(0); str(1 << 10_000_000)");
    permitted(&jar(), "print(len(str(1 << 1000)))").printed("302\n");
}

#[test]
fn endless_sort_and_membership() {
    times_out("import itertools; 1 in itertools.repeat(0)");
    times_out("import itertools, collections; collections.deque(itertools.count(), maxlen=0)");
    permitted(&jar(), "import itertools; print(1 in itertools.chain([0], [1]))").printed("True\n");
}

#[test]
fn endless_query() {
    times_out(
        "import sqlite3\nsqlite3.connect(':memory:').execute('with recursive t(n) as (select 1 \
         union all select n + 1 from t) select count(*) from t').fetchall()",
    );
    let code = "import sqlite3\nprint(sqlite3.connect(':memory:').execute('with recursive t(n) as \
                (select 1 union all select n + 1 from t limit 10) select sum(n) from t').fetchone())";
    permitted(&jar(), code).printed("(55,)\n");
}

#[test]
fn sleep_forever() {
    times_out("import time; time.sleep(1e6)");
    times_out("while True:\n  import time\n  try: time.sleep(1e6)\n  except BaseException: pass");
    times_out("import select; select.poll().poll(10**8)");
    permitted(&jar(), "import time; time.sleep(0.01); print('slept')").printed("slept\n");
}

#[test]
fn sleep_forever_in_asyncio() {
    times_out("import asyncio; await asyncio.sleep(1e6)");
    permitted(&jar(), "import asyncio; print(await asyncio.sleep(0.01, 'v'))").printed("v\n");
}

#[test]
fn lock_that_is_never_released() {
    times_out("import threading\nlock = threading.Lock()\nlock.acquire()\nlock.acquire()");
    times_out("import threading\nthreading.Event().wait()");
    times_out("import queue\nqueue.Queue().get()");
    let code = "import threading\nlock = threading.Lock()\nwith lock: print(lock.locked())\n\
                print(lock.acquire(timeout=0.01), lock.acquire(timeout=0.01))";
    permitted(&jar(), code).printed("True\nTrue False\n");
}

#[test]
fn trace_function_that_never_returns() {
    times_out(
        "import sys\ndef trace(*a):\n  while True:\n    try:\n      while True: pass\n    \
         except BaseException: pass\nsys.settrace(trace)\ndef f(): pass\nf()",
    );
    let code = "import sys\nseen = []\nsys.settrace(lambda f, e, a: seen.append(e))\n\
                def f(): pass\nf()\nsys.settrace(None)\nprint(seen)";
    permitted(&jar(), code).printed("['call']\n");
}

#[test]
fn cancel_swallowed() {
    let _guard = support::exclusive();
    let jar = Jar::new();
    for code in [
        "while True: pass",
        "while True:\n  try:\n    while True: pass\n  except BaseException: pass",
        "import time; time.sleep(1e6)",
        "sum(range(10**12))",
    ] {
        let mut sandbox = jar.sandbox();
        let cancel = sandbox.cancel_handle();
        let result = std::thread::scope(|scope| {
            scope.spawn(move || {
                std::thread::sleep(Duration::from_millis(200));
                cancel.cancel();
            });
            sandbox.execute(code).expect("a result")
        });
        result.ended(Status::Cancelled, -1);
        assert!(result.duration_ms < AT_MOST_MS, "{} ms", result.duration_ms);
        sandbox.execute("print('again')").expect("a result").printed("again\n");
    }
}
