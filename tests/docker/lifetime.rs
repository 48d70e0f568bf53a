//! When containers come, and that they go.

use std::time::{Duration, Instant};

use belljar::{Status, create_sandbox};
use serde_json::Value;
use support::{Cells, Expect, Jar, containers, docker_settings, engine, eventually, exclusive};

#[test]
fn nothing_is_left_when_a_sandbox_is_gone() {
    let jar = Jar::new();
    let Some(config) = jar.docker("nothing_is_left_when_a_sandbox_is_gone") else { return };
    let _alone = exclusive();
    let mut sandbox = create_sandbox(&config).expect("a sandbox");
    sandbox.run("print(1)").printed("1\n");
    sandbox.run("import time; time.sleep(0.1); print(2)").printed("2\n");
    let mut session = create_sandbox(&config).expect("a sandbox");
    session.initialize(Value::Null).expect("a session");
    session.run("x = 1").ended(Status::Ok, 0);
    assert!(!containers().is_empty(), "a session is a container");
    drop((sandbox, session));
    assert_eq!(containers(), Vec::<String>::new());
}

#[test]
fn a_second_run_finds_a_container_ready_and_shares_nothing_with_the_first() {
    let test = "a_second_run_finds_a_container_ready_and_shares_nothing_with_the_first";
    let jar = Jar::new();
    let Some(config) = jar.docker(test) else { return };
    let _alone = exclusive();
    let mut sandbox = create_sandbox(&config).expect("a sandbox");
    let first = Instant::now();
    sandbox.run("import builtins; builtins.left = 1; open('/tmp/left', 'w').close()").printed("");
    let first = first.elapsed();
    eventually("one is in reserve", || {
        engine(&[
            "ps",
            "--quiet",
            "--filter",
            &format!("label=dev.belljar.pid={}", std::process::id()),
        ])
        .lines()
        .count()
            == 1
    });
    // Until its driver has loaded.
    std::thread::sleep(Duration::from_secs(1));
    let second = Instant::now();
    let code =
        "import builtins, os; print(hasattr(builtins, 'left'), os.listdir('/tmp'), os.listdir())";
    sandbox.run(code).printed("False [] []\n");
    let second = second.elapsed();
    assert!(second < first, "{second:?} after {first:?}");
}

#[test]
fn a_reserve_for_a_workspace_that_was_replaced_is_not_used() {
    let jar = Jar::new();
    let Some(config) = jar.docker("a_reserve_for_a_workspace_that_was_replaced_is_not_used") else {
        return;
    };
    let _alone = exclusive();
    let parent = tempfile::tempdir().expect("a directory");
    let workspace = parent.path().join("w");
    let make = || {
        std::fs::create_dir(&workspace).expect("a directory");
        support::belongs_to_nobody(&workspace);
    };
    make();
    let config = belljar::SandboxConfig { workspace: Some(workspace.clone()), ..config };
    let mut sandbox = create_sandbox(&config).expect("a sandbox");
    sandbox.run("open('old', 'w').close()").printed("");
    std::thread::sleep(Duration::from_millis(500));
    std::fs::rename(&workspace, parent.path().join("moved")).expect("another name");
    make();
    sandbox.run("import os; print(os.listdir()); open('new', 'w').close()").printed("[]\n");
    assert!(workspace.join("new").is_file());
}

#[test]
fn a_container_that_is_killed_from_outside() {
    let jar = Jar::new();
    let Some(config) = jar.docker("a_container_that_is_killed_from_outside") else { return };
    let _alone = exclusive();
    let mut session = create_sandbox(&config).expect("a sandbox");
    session.initialize(Value::Null).expect("a session");
    session.run("x = 1").ended(Status::Ok, 0);
    let running = containers();
    let killer = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(500));
        for id in running {
            let _ = engine(&["kill", &id]);
        }
    });
    let result = session.run("import time\ntime.sleep(30)");
    killer.join().expect("the killer");
    result.ended(Status::Crashed, -1);
    // The next cell has a new one.
    session.run("'x' in globals()").gave(false);
    let running = containers();
    for id in running {
        let _ = engine(&["rm", "--force", &id]);
    }
    session.run("1 + 1");
    session.run("1 + 1").gave(2);
}

#[test]
fn orphans_of_a_crashed_belljar_are_collected_and_others_are_not() {
    let test = "orphans_of_a_crashed_belljar_are_collected_and_others_are_not";
    let Ok(settings) = docker_settings() else {
        support::skipped(test, "no engine");
        return;
    };
    let _alone = exclusive();
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("an id");
    let view = std::fs::read_link("/proc/self/ns/pid").expect("a namespace");
    let container = |pid: u32, started: &str| {
        let labels = [
            format!("dev.belljar.pid={pid}"),
            format!("dev.belljar.started={started}"),
            format!("dev.belljar.boot={}", boot.trim()),
            format!("dev.belljar.pid-namespace={}", view.display()),
        ];
        let mut arguments = vec!["run", "--detach", "--network", "none"];
        arguments.extend(labels.iter().flat_map(|label| ["--label", label]));
        arguments.extend([settings.image.as_str(), "sleep", "600"]);
        engine(&arguments)
    };
    let mut gone = std::process::Command::new("true").spawn().expect("a process");
    gone.wait().expect("its end");
    let orphan = container(gone.id(), "5");
    // The test's own pid, with another time: what had it before is gone.
    let former = container(std::process::id(), "5");
    let stat = std::fs::read_to_string("/proc/1/stat").expect("a process");
    let started = stat.rsplit(") ").next().and_then(|rest| rest.split(' ').nth(19));
    let of_the_living = container(1, started.expect("a time"));
    let foreign =
        engine(&["run", "--detach", "--network", "none", &settings.image, "sleep", "600"]);
    assert_eq!(belljar::docker::prune(&settings).expect("an engine"), 2);
    let left = engine(&["ps", "--all", "--quiet", "--no-trunc"]);
    assert!(!left.contains(&orphan) && !left.contains(&former), "{left}");
    assert!(left.contains(&of_the_living) && left.contains(&foreign), "{left}");
    let _ = engine(&["rm", "--force", &of_the_living, &foreign]);
}
