use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::frozen::Frozen;
use crate::live::{Cell, Limits};

/// The guest, compiled once into the directory that all tests of the repository share.
fn guest() -> &'static Arc<Interpreter> {
    static GUEST: OnceLock<Arc<Interpreter>> = OnceLock::new();
    GUEST.get_or_init(|| {
        let missing = Missing::Compile(&|_| {});
        let plain = GuestImage::Plain;
        Arc::new(Interpreter::load(RuntimeType::Python, plain, &cache_dir(), missing).unwrap())
    })
}

fn cache_dir() -> PathBuf {
    let program = std::env::current_exe().unwrap();
    program.ancestors().nth(3).unwrap().join("test-home/cache")
}

fn setup() -> Setup {
    Setup {
        grant: Grant::default(),
        host: None,
        tool_limits: ToolLimits { calls: 0, bytes: 0 },
        memory_bytes: 200 << 20,
        cancel: CancelHandle::default(),
    }
}

fn instance() -> Live {
    guest().live(setup()).unwrap()
}

fn cell(code: &str) -> Cell<'_> {
    Cell { code, filename: "<test>", value: true, drain: false, surroundings: None }
}

fn run(instance: &mut Live, code: &str) -> String {
    let limits = Limits { fuel: 20_000_000_000, timeout: Duration::from_secs(20) };
    let _ = instance.execute(cell(code), limits).unwrap();
    String::from_utf8_lossy(instance.take_traces().unwrap().stdout.kept()).into_owned()
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
            let limits = Limits { fuel: 300_000_000, timeout: Duration::from_secs(20) };
            instance.execute(cell(&code), limits).unwrap();
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
    let limits = Limits { fuel: 1 << 40, timeout: Duration::from_millis(30) };
    let ran = instance.execute(cell("while True: pass"), limits).unwrap();
    assert!(ran.called.stop.is_some());
    assert_eq!(run(&mut instance, "print('alive')"), "alive\n");
}

#[test]
fn two_sandboxes_have_different_random_numbers() {
    let look = || run(&mut instance(), "import random, uuid\nprint(random.random(), uuid.uuid4())");
    assert_ne!(look(), look());
}

#[test]
fn a_fork_goes_on_from_its_parent_and_disturbs_nothing() {
    let mut parent = instance();
    run(&mut parent, "x = [1]\nbig = bytearray(30_000_000)");
    let frozen = parent.freeze().unwrap();
    let mut forks: Vec<Live> = (0..3).map(|_| frozen.thaw(setup()).unwrap()).collect();
    for (index, fork) in forks.iter_mut().enumerate() {
        let code = format!("x.append({index})\nbig[{index}] = 7\nprint(x, sum(big[:9]), len(big))");
        assert_eq!(run(fork, &code), format!("[1, {index}] 7 30000000\n"));
    }
    let mut grandchild = forks[1].freeze().unwrap().thaw(setup()).unwrap();
    assert_eq!(run(&mut grandchild, "print(x, big[1])"), "[1, 1] 7\n");
    assert_eq!(run(&mut parent, "print(x, sum(big[:9]))"), "[1] 0\n");
    drop((parent, forks, grandchild, frozen));
    assert!(guest().ready.slots.idle_slots_are_pristine());
}

#[test]
fn forks_have_different_random_numbers() {
    let mut parent = instance();
    run(&mut parent, "import random\nrandom.random()");
    let frozen = parent.freeze().unwrap();
    let look = |live: &mut Live| run(live, "print(random.random())");
    let (mut one, mut two) = (frozen.thaw(setup()).unwrap(), frozen.thaw(setup()).unwrap());
    assert_ne!(look(&mut one), look(&mut two));
}

#[test]
fn a_cell_can_be_undone_whatever_it_did() {
    let mut live = instance();
    run(&mut live, "x = 1");
    for (code, fuel) in [
        ("x = 2\nwhile True: pass", 50_000_000),
        ("x = 3\nl = []\nwhile True: l.append(bytearray(10**6))", 1 << 40),
        ("x = 4", 1 << 40),
    ] {
        let point = live.point().unwrap();
        let limits = Limits { fuel, timeout: Duration::from_secs(20) };
        live.execute(cell(code), limits).unwrap();
        live.take_traces().unwrap();
        live.put_back(point).unwrap();
        assert_eq!(run(&mut live, "print(x)"), "1\n", "{code}");
    }
}

#[test]
fn what_a_file_holds_comes_back_to_life() {
    let mut live = instance();
    run(
        &mut live,
        "def f(n):\n    yield n\n    yield n + 1\ng = f(5)\nnext(g)\nbig = list(range(100_000))",
    );
    let frozen = live.freeze().unwrap();
    let (mut numbers, mut pages) = (Vec::new(), Vec::new());
    frozen
        .for_each_page(|at, page| {
            numbers.push(u32::try_from(at / crate::PAGE_BYTES as u64).unwrap());
            pages.extend_from_slice(page);
            Ok(())
        })
        .unwrap();
    let host = serde_json::to_string(frozen.host()).unwrap();
    let host = serde_json::from_str(&host).unwrap();
    let restored = Frozen::from_parts(guest(), host, &numbers, pages).unwrap();
    let mut again = restored.thaw(setup()).unwrap();
    assert_eq!(run(&mut again, "print(next(g), sum(big))"), "6 4999950000\n");
}
