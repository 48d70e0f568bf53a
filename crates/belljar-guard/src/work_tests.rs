//! Code that wants to make looking at it long. Each has a twin of ordinary size, which is answered.
//! The bound on time is far above what is needed, and far below what the work would take if it
//! grew with the square of the code.

use std::time::{Duration, Instant};

use super::*;

const PATIENCE: Duration = Duration::from_secs(60);

fn find(code: &str) -> Findings {
    let started = Instant::now();
    let found = find_imports(code, &["os".to_owned()]);
    assert!(started.elapsed() < PATIENCE, "{:?} for {code:.100}", started.elapsed());
    found
}

#[track_caller]
fn is_found(code: &str) {
    let found = find(code);
    assert_eq!(
        (found.modules().join(" "), found.unexamined),
        ("os".to_owned(), None),
        "{code:.100}"
    );
}

#[track_caller]
fn is_too_much(code: &str) {
    assert_eq!(find(code).unexamined, Some(Unexamined::TooMuch), "{code:.100}");
}

#[test]
fn stripping_a_long_text_of_many_characters() {
    for method in ["strip", "lstrip", "rstrip"] {
        let code = |length: usize| {
            format!("s = 'é' * {length} + 'x'\n__import__(('x' * {length}).{method}(s) + 'os')")
        };
        is_found(&code(10));
        is_found(&code(500_000));
    }
}

#[test]
fn many_fields_with_many_names() {
    let code = |count: usize| {
        let fields: String = (0..count).map(|n| format!("{{a{n}}}")).collect();
        let values: String = (0..count).map(|n| format!("a{n}='',")).collect();
        format!("__import__('{fields}os'.format({values}))")
    };
    is_found(&code(10));
    is_found(&code(50_000));
}

#[test]
fn many_modules_with_everything_in_them() {
    let code = |stars: usize, uses: usize| {
        let stars: String = (0..stars).map(|n| format!("from a{n} import *\n")).collect();
        format!("{stars}{}import os", "x()\n".repeat(uses))
    };
    is_found(&code(10, 10));
    is_too_much(&code(30_000, 60_000));
}

#[test]
fn the_same_module_with_everything_in_it_many_times() {
    let code = "from importlib import *\n".repeat(20_000) + &"x()\n".repeat(60_000);
    is_found(&(code + "import_module('os')"));
}

#[test]
fn a_module_whose_name_is_long() {
    let code = |length: usize, uses: usize| {
        format!("from {} import *\n{}import os", "a".repeat(length), "x()\n".repeat(uses))
    };
    is_found(&code(10, 10));
    is_found(&code(500_000, 100_000));
}

#[test]
fn many_names_for_many_things() {
    let code = |names: usize| {
        let module = "a".repeat(190);
        let things: String = (0..32).map(|n| format!("from {module} import b{n} as x\n")).collect();
        let names: String = (0..names).map(|n| format!("c{n}=x\n")).collect();
        format!("{things}{names}import os")
    };
    is_found(&code(10));
    is_too_much(&code(90_000));
}

#[test]
fn a_long_text_that_is_picked_from_many_times() {
    let code = |length: usize, picks: usize| {
        let picks = vec!["x[0]"; picks].join("+");
        format!("__import__(''.join({picks} for x in ['x' * {length}]))\nimport os")
    };
    is_found(&code(10, 10));
    is_too_much(&code(1_000_000, 10_000));
}

#[test]
fn many_texts_in_code_with_many_names() {
    let code = |names: usize, texts: usize| {
        let names: String = (0..names).map(|n| format!("a{n}=chr\n")).collect();
        let texts: String = (0..texts).map(|n| format!("exec('{n}')\n")).collect();
        format!("{names}{texts}import os")
    };
    is_found(&code(10, 10));
    is_too_much(&code(20_000, 20_000));
}

#[test]
fn texts_that_run_each_other() {
    let code = |count: usize| {
        let runs: String = (0..count).map(|n| format!("exec(t{n});")).collect();
        let texts: String = (0..count).map(|n| format!("t{n} = '{runs}#{n}'\n")).collect();
        format!("{texts}exec(t0)")
    };
    is_too_much(&code(2));
    is_too_much(&code(100));
}

#[test]
fn a_long_list_of_blocked_modules_and_a_name_of_many_parts() {
    let blocked: Vec<String> = (0..1000).map(|n| format!("module{n}.part")).collect();
    let started = Instant::now();
    let code = format!(
        "{}import {}\nimport module7.part.x",
        "a.b\n".repeat(100_000),
        vec!["a"; 20_000].join(".")
    );
    let found = find_imports(&code, &blocked);
    assert_eq!((found.modules(), found.unexamined), (vec!["module7.part.x".to_owned()], None));
    assert!(started.elapsed() < PATIENCE);
}

#[test]
fn long_texts_that_are_run_many_times() {
    let code = |length: usize, texts: usize| {
        let texts: String = (0..texts).map(|n| format!("exec(a + '{n}')\n")).collect();
        format!("a = '1;' * {length}\n{texts}import os")
    };
    is_found(&code(10, 10));
    is_too_much(&code(500_000, 50_000));
}

/// Longer code is not looked at; as long as this, it is.
#[test]
fn code_that_is_too_long() {
    let code = |length: usize| format!("import os{}", "#".repeat(length - "import os".len()));
    is_found(&code(MAX_GUARD_SOURCE_BYTES));
    let found = find(&code(MAX_GUARD_SOURCE_BYTES + 1));
    assert_eq!((found.modules().len(), found.unexamined), (0, Some(Unexamined::TooLong)));
    insta::assert_snapshot!(Unexamined::TooLong, @"it is longer than 1 MiB");
}
