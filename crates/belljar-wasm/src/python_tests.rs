use std::path::PathBuf;
use std::sync::OnceLock;

use proptest::prelude::*;

use super::*;

/// The guest, compiled once into the directory that all tests of the repository share.
fn guest() -> &'static PythonGuest {
    static GUEST: OnceLock<PythonGuest> = OnceLock::new();
    GUEST.get_or_init(|| PythonGuest::load(&cache_dir(), &|_| {}).unwrap())
}

fn cache_dir() -> PathBuf {
    let program = std::env::current_exe().unwrap();
    program.ancestors().nth(3).unwrap().join("test-home/cache")
}

fn instance() -> PythonInstance {
    guest().instance(Grant::default(), 200 << 20, &CancelHandle::default()).unwrap()
}

fn run(instance: &mut PythonInstance, code: &str) -> String {
    let cell = Cell { code, filename: "<test>", value: true, surroundings: None };
    let limits = Limits { fuel: 20_000_000_000, timeout: Duration::from_secs(20) };
    let _ = instance.execute(cell, limits).unwrap();
    String::from_utf8_lossy(instance.take_traces().stdout.kept()).into_owned()
}

/// Programs that use memory in different ways; `N` is replaced by a number.
const WORKLOADS: [&str; 9] = [
    "x = [bytes(1000) for _ in range(N)]",
    "x = bytearray(N * 1000); x[::4096] = b'z' * len(x[::4096])",
    "def f(n): return f(n + 1)\ntry: f(0)\nexcept RecursionError: pass",
    "import json, re, sqlite3, decimal\nc = sqlite3.connect(':memory:')\nc.execute('create table t(a)')",
    "import xml.dom.minidom, email, http.client, unittest",
    "import gc\ngc.unfreeze(); gc.collect()\nl = [object() for _ in range(N)]",
    "'s' * (N * 1000)",
    "while True: pass",
    "import sys\nsys.setrecursionlimit(10**6)\ndef g(n): return n and g(n - 1)\ng(N)",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn memory_given_back_holds_nothing_of_its_last_user(
        programs in prop::collection::vec((0..WORKLOADS.len(), 1..40_000u32), 1..4)
    ) {
        for (workload, size) in programs {
            let mut instance = instance();
            let code = WORKLOADS[workload].replace('N', &size.to_string());
            let cell = Cell { code: &code, filename: "<test>", value: true, surroundings: None };
            let limits = Limits { fuel: 300_000_000, timeout: Duration::from_secs(20) };
            instance.execute(cell, limits).unwrap();
        }
        prop_assert!(guest().ready.slots.idle_slots_are_pristine());
    }
}

#[test]
fn a_secret_is_never_found_by_the_next_sandbox_under_concurrency() {
    const LOOK: &str = "import gc\nprint(sum(isinstance(o, bytes) and b'secret-' in o for o in gc.get_objects()), \
                        'leak' in globals())";
    std::thread::scope(|scope| {
        for thread in 0..4 {
            scope.spawn(move || {
                for round in 0..25 {
                    let mut instance = instance();
                    assert_eq!(run(&mut instance, LOOK), "0 False\n");
                    run(
                        &mut instance,
                        &format!("leak = [b'secret-{thread}-{round}' * 500 for _ in range(200)]"),
                    );
                }
            });
        }
    });
}

#[test]
fn an_interrupt_that_came_too_late_does_not_hit_the_next_call() {
    let mut instance = instance();
    let cell = |code| Cell { code, filename: "<test>", value: true, surroundings: None };
    let limits = Limits { fuel: 1 << 40, timeout: Duration::from_millis(30) };
    let (called, _) = instance.execute(cell("while True: pass"), limits).unwrap();
    assert!(called.stop.is_some());
    assert_eq!(run(&mut instance, "print('alive')"), "alive\n");
}

#[test]
fn two_sandboxes_have_different_random_numbers() {
    let look = || run(&mut instance(), "import random, uuid\nprint(random.random(), uuid.uuid4())");
    assert_ne!(look(), look());
}
