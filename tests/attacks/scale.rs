//! Very many sandboxes.

use std::sync::Barrier;
use std::time::{Duration, Instant};

use belljar::Sandbox;
use support::{Expect, Jar, Usage, exclusive};

const GROWTH_BYTES: u64 = 16 * 1024 * 1024;

/// What a slot may keep between two tenants, and a thread's share of the allocator.
const KEPT_BYTES_PER_SANDBOX: u64 = 6 * 1024 * 1024;

#[test]
fn ten_thousand_one_after_another() {
    let _guard = exclusive();
    let jar = Jar::new();
    let mut sandbox = jar.sandbox();
    let mut run = |number: u32| {
        let result = sandbox.execute(&format!("x = [{number}] * 100\nprint(sum(x))"));
        result.expect("a result").printed(&format!("{}\n", number * 100));
    };
    (0..500).for_each(&mut run);
    let before = Usage::now();
    (500..10_500).for_each(&mut run);
    before.assert_no_growth(GROWTH_BYTES, "many sandboxes");
}

#[test]
fn sixty_four_at_the_same_time() {
    const COUNT: usize = 64;
    let _guard = exclusive();
    let wave = || {
        let start = Barrier::new(COUNT);
        let began = Instant::now();
        std::thread::scope(|scope| {
            for number in 0..COUNT {
                let start = &start;
                scope.spawn(move || {
                    let jar = Jar::new();
                    let mut sandbox = jar.sandbox();
                    start.wait();
                    let code = format!(
                        "import time\nopen('mine', 'w').write('{number}')\nx = bytearray(1_000_000)\n\
                         time.sleep(0.5)\nprint(open('mine').read(), len(x))"
                    );
                    let result = sandbox.execute(&code).expect("a result");
                    result.printed(&format!("{number} 1000000\n"));
                });
            }
        });
        began.elapsed()
    };
    // All of them sleep at once, or this would take half a minute.
    assert!(wave() < Duration::from_secs(15));
    let before = Usage::now();
    for _ in 0..3 {
        wave();
    }
    before.assert_no_growth(GROWTH_BYTES, "many sandboxes");
}

#[test]
fn hostile_and_peaceful_side_by_side() {
    let _guard = exclusive();
    let before = Usage::now();
    std::thread::scope(|scope| {
        for number in 0..16 {
            scope.spawn(move || {
                let hostile = Jar::new()
                    .timeout(Duration::from_millis(200))
                    .with(|layer| layer.memory_bytes(64_000_000));
                let peaceful = Jar::new();
                for round in 0..5 {
                    let code = match (number + round) % 4 {
                        0 => "while True: pass",
                        1 => "x = []\nwhile True: x.append(bytes(1000))",
                        2 => "import os; os.abort()",
                        _ => "while True: print('x' * 100_000)",
                    };
                    assert!(!hostile.run(code).success());
                    peaceful
                        .run(&format!("print({number} * {round})"))
                        .printed(&format!("{}\n", number * round));
                }
            });
        }
    });
    before.assert_no_growth(16 * KEPT_BYTES_PER_SANDBOX, "hostile sandboxes");
}
