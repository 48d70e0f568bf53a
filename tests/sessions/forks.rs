//! A second session that goes on from where the first one is.

use std::collections::HashSet;
use std::fs;

use belljar::{Sandbox, Status};
use serde_json::json;
use support::{Cells, Expect, Jar};

#[test]
fn neither_sees_anything_of_the_other() {
    let jar = Jar::new();
    let mut parent = jar.session_about(json!("shared"));
    parent.run("items = [1]\nbig = bytearray(5_000_000)\nopen('f', 'w').write('parent')");
    let mut child = parent.fork().expect("a fork");
    child.run("items.append('child'); big[0] = 1; context = 'changed'").kept(Status::Ok);
    child
        .run("import os; open('f', 'w').write('child'); open('new', 'w').close(); os.listdir('.')");
    parent.run("items.append('parent'); big[4_999_999] = 2").kept(Status::Ok);
    let state = "[items, big[0], big[-1], context, open('f').read()]";
    parent.run(state).gave(json!([[1, "parent"], 0, 2, "shared", "parent"]));
    child.run(state).gave(json!([[1, "child"], 1, 0, "changed", "child"]));
    assert!(!jar.workspace().join("new").exists());
    assert_ne!(child.workspace(), jar.workspace());
}

#[test]
fn a_fork_outlives_its_parent() {
    let jar = Jar::new();
    let mut parent = jar.session();
    parent.run("x = [1, 2]\nopen('f', 'w').write('text')").kept(Status::Ok);
    let mut child = parent.fork().expect("a fork");
    parent.destroy().expect("nothing is in the way");
    drop(parent);
    drop(jar);
    child.run("x.append(3)\n[x, open('f').read()]").gave(json!([[1, 2, 3], "text"]));
}

#[test]
fn the_workspace_of_a_fork_goes_with_it() {
    let jar = Jar::new();
    let mut child = jar.session().fork().expect("a fork");
    let workspace = child.workspace().to_owned();
    assert!(workspace.is_dir());
    child.run("open('f', 'w').close()").changed(&["f"], &[], &[]);
    assert!(workspace.join("f").is_file());
    drop(child);
    assert!(!workspace.exists(), "{} is left behind", workspace.display());
    let mut child = jar.session().fork().expect("a fork");
    let workspace = child.workspace().to_owned();
    child.destroy().expect("nothing is in the way");
    assert!(!workspace.exists(), "{} is left behind", workspace.display());
    assert!(jar.workspace().is_dir(), "the parent's is not ours to remove");
}

#[test]
fn forks_of_forks() {
    let jar = Jar::new();
    let mut sessions: Vec<Box<dyn Sandbox>> = vec![Box::new(jar.session())];
    sessions[0].run("path = [0]\nopen('path', 'w').write('0')").kept(Status::Ok);
    for generation in 1..=20 {
        let mut child = sessions[generation - 1].fork().expect("a fork");
        let code = format!("path.append({generation})\nopen('path', 'a').write(',{generation}')");
        child.run(&code).kept(Status::Ok);
        sessions.push(child);
    }
    for (generation, session) in sessions.iter_mut().enumerate() {
        let path: Vec<usize> = (0..=generation).collect();
        let text = path.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
        session.run("[path, open('path').read()]").gave(json!([path, text]));
    }
}

#[test]
fn a_fork_tries_what_may_fail() {
    let jar = Jar::new();
    let mut parent = jar.session();
    parent.run("x = 1").kept(Status::Ok);
    let mut attempts: Vec<Box<dyn Sandbox>> =
        (0..3).map(|_| parent.fork().expect("a fork")).collect();
    attempts[0].run("x = 2\nimport os; os.abort()").rolled_back(Status::Crashed);
    attempts[1].run("del x\nraise ValueError").raised("ValueError", "");
    attempts[2].run("x = 5").kept(Status::Ok);
    attempts[0].run("x").gave(1);
    attempts[1].run("x").raised("NameError", "name 'x' is not defined");
    attempts[2].run("x").gave(5);
    parent.run("x").gave(1);
}

#[test]
fn cells_are_numbered_on() {
    let jar = Jar::new();
    let mut parent = jar.session();
    parent.run("def f(): 1 / 0").kept(Status::Ok);
    let mut child = parent.fork().expect("a fork");
    for session in [&mut parent as &mut dyn Sandbox, &mut *child] {
        let result = session.run("f()");
        assert!(result.stderr.contains("File \"<cell 2>\", line 1"), "{}", result.stderr);
        assert!(result.stderr.contains("File \"<cell 1>\", line 1, in f"), "{}", result.stderr);
    }
}

/// Numbers nobody should be able to guess from a sibling's.
const RANDOM: &str = "import random, uuid, secrets, os, tempfile, time
[random.random(), random.getrandbits(64), random.Random().random(), str(uuid.uuid4()), str(uuid.uuid1()),
 secrets.token_hex(8), os.urandom(8).hex(), tempfile.mktemp()]";

fn numbers(session: &mut dyn Sandbox) -> Vec<String> {
    let value = session.run(RANDOM).ended(Status::Ok, 0).result.clone().expect("a value");
    let numbers = value.json.expect("JSON");
    numbers.as_array().expect("a list").iter().map(ToString::to_string).collect()
}

#[test]
fn randomness_differs_between_forks() {
    let jar = Jar::new();
    let mut parent = jar.session();
    numbers(&mut parent);
    let mut forks: Vec<Box<dyn Sandbox>> = (0..5).map(|_| parent.fork().expect("a fork")).collect();
    let snapshot = parent.snapshot(belljar::Files::Without).expect("a snapshot");
    let mut restored = jar.sandbox();
    restored.restore(&snapshot).expect("a session");
    let mut seen = HashSet::new();
    let sessions = forks.iter_mut().map(|fork| &mut **fork as &mut dyn Sandbox);
    for session in sessions.chain([&mut parent as &mut dyn Sandbox, &mut restored]) {
        for number in numbers(session) {
            assert!(seen.insert(number.clone()), "{number} came twice");
        }
    }
    assert_eq!(seen.len(), 7 * 8);
}

#[test]
fn clocks_go_on_in_a_fork() {
    let jar = Jar::new();
    let mut parent = jar.session();
    let code = "import time\nthen = time.time(), time.monotonic(), time.perf_counter()";
    parent.run(code).kept(Status::Ok);
    let mut child = parent.fork().expect("a fork");
    std::thread::sleep(std::time::Duration::from_millis(30));
    // Real time has passed, and no clock has gone back.
    let code = "[time.time() - then[0] >= 0.03, time.monotonic() >= then[1], \
                time.perf_counter() >= then[2], time.time() - then[0] < 60]";
    child.run(code).gave(json!([true, true, true, true]));
}

#[test]
fn a_seeded_fork_repeats_itself() {
    let jar = Jar::new().with(|layer| layer.deterministic(true));
    let mut parent = jar.session();
    parent.run("import random, time, os, uuid").kept(Status::Ok);
    let mut forks: Vec<Box<dyn Sandbox>> = (0..3).map(|_| parent.fork().expect("a fork")).collect();
    let code = "[random.random(), os.urandom(8).hex(), str(uuid.uuid4()), time.time(), \
                random.Random().random(), time.monotonic()]";
    let first = parent.run(code).ended(Status::Ok, 0).result.clone();
    assert!(first.is_some());
    for fork in &mut forks {
        assert_eq!(fork.run(code).ended(Status::Ok, 0).result, first);
    }
    let second = parent.run(code).ended(Status::Ok, 0).result.clone();
    assert_ne!(second, first, "the sequence goes on");
    assert_eq!(forks[0].run(code).result, second);
}

#[test]
fn a_workspace_that_cannot_be_copied_is_no_fork() {
    let jar = Jar::new();
    let mut parent = jar.session();
    parent.run("x = 1").kept(Status::Ok);
    let moved = jar.workspace().with_extension("moved");
    fs::rename(jar.workspace(), &moved).expect("it can be moved");
    let error = parent.fork().map(drop).expect_err("nothing to copy");
    assert!(error.to_string().contains("No such file or directory"), "{error}");
    fs::rename(&moved, jar.workspace()).expect("it can be moved");
    parent.run("x").gave(1);
    assert!(parent.fork().is_ok());
}
