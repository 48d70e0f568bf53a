//! `belljar docker` and `belljar run --backend docker`, with the engine of the tests if there is
//! one.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test stops where it fails")]

mod support;

use std::io::Write;
use std::process::Command;

use support::{command, home, outcome};

/// The engine that `cargo xtask test` has started, and the image in it.
fn engine(test: &str) -> Option<String> {
    let found = std::env::var("BELLJAR_TEST_DOCKER").ok();
    if found.is_none() {
        // Past the harness, which shows nothing of tests that pass.
        let line = format!("\nSKIPPED: {test}: BELLJAR_TEST_DOCKER names no engine\n");
        std::io::stderr().write_all(line.as_bytes()).unwrap();
    }
    found
}

const IMAGE: &str = "belljar-test:latest";

/// Exit code, standard output and standard error, as one text.
fn told(engine: &str, arguments: &[&str]) -> String {
    let output = command(arguments).env("DOCKER_HOST", engine).output().unwrap();
    let (code, stdout, stderr) = outcome(&output);
    format!("exit {code}\n{stdout}{stderr}").replace(&home().display().to_string(), "HOME")
}

fn docker(engine: &str, arguments: &[&str]) {
    let done = Command::new("docker").args(["--host", engine]).args(arguments).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

#[test]
fn a_missing_engine_is_told_with_a_way_out() {
    let nowhere = "unix:///nowhere/docker.sock";
    insta::assert_snapshot!(told(nowhere, &["run", "--backend", "docker", "-c", "1"]), @r"
    exit 125
    error: the docker backend cannot be used: Docker daemon not available: there is no socket at /nowhere/docker.sock; nothing was run
    hint: Set SANDBOX_TYPE=local or start Docker daemon
    ");
    insta::assert_snapshot!(told("ssh://host", &["docker", "prune"]), @r#"
    exit 125
    error: the docker backend cannot be used: Docker daemon not available: "ssh://host" is no socket of this machine, and only an engine here can mount the workspace; an address looks like unix:///var/run/docker.sock; nothing was run
    hint: Set SANDBOX_TYPE=local or start Docker daemon
    "#);
    let output = command(&["doctor"]).env("DOCKER_HOST", nowhere).output().unwrap();
    let (_, found, _) = outcome(&output);
    let row = found.lines().find(|line| line.contains("docker backend")).unwrap();
    assert!(row.starts_with("no ") && row.contains("Docker daemon not available"), "{row}");
}

#[test]
fn a_plan_is_explained_without_an_engine() {
    let explained = told(
        "unix:///nowhere/docker.sock",
        &["run", "--backend", "docker", "--image", "some:image", "--explain", "-c", "1"],
    );
    for part in ["image some:image", "container network    none", "container CPUs       0.5"] {
        assert!(explained.contains(part), "{explained}");
    }
}

#[test]
fn code_runs_in_a_container() {
    let Some(engine) = engine("code_runs_in_a_container") else { return };
    let code = "import os, sys; print(os.uname().nodename); sys.exit(3)";
    let run = ["run", "--backend", "docker", "--image", IMAGE, "-c", code];
    assert_eq!(told(&engine, &run), "exit 3\nbelljar\n");
    let output = command(&["doctor"])
        .env("DOCKER_HOST", &engine)
        .env("DOCKER_IMAGE", IMAGE)
        .output()
        .unwrap();
    let (_, found, _) = outcome(&output);
    let row = found.lines().find(|line| line.contains("docker backend")).unwrap();
    assert!(row.starts_with("yes") && row.contains("no-network"), "{row}");
}

#[test]
fn an_image_is_made_from_another_and_tried() {
    let Some(engine) = engine("an_image_is_made_from_another_and_tried") else { return };
    let name = "belljar-test-made:1";
    let made = told(&engine, &["docker", "image", "--base", IMAGE, "--name", name]);
    assert!(made.starts_with(&format!("exit 0\nmade {name} with Python 3.")), "{made}");
    let run = ["run", "--backend", "docker", "--image", name, "-c", "print(6 * 7)"];
    assert_eq!(told(&engine, &run), "exit 0\n42\n");
    docker(&engine, &["image", "rm", name]);
}

#[test]
fn images_that_cannot_be_made() {
    let Some(engine) = engine("images_that_cannot_be_made") else { return };
    insta::assert_snapshot!(told(&engine, &["docker", "image", "--rootfs", "/no/such.tar"]), @r"
    exit 125
    error: cannot read the root file system /no/such.tar: No such file or directory (os error 2); nothing was run
    hint: give a tar file, as `debootstrap` and `docker export` make them
    ");
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("empty"), "").unwrap();
    let tar = dir.path().join("empty.tar").display().to_string();
    let packed =
        Command::new("tar").arg("-C").arg(dir.path()).args(["-cf", &tar, "empty"]).status();
    assert!(packed.unwrap().success());
    let name = "belljar-test-bare:1";
    let made = told(&engine, &["docker", "image", "--rootfs", &tar, "--name", name]);
    assert!(made.starts_with("exit 125\n") && made.contains("has no python3"), "{made}");
    docker(&engine, &["image", "rm", name]);
    let wrong = told(&engine, &["docker", "image", "--base", "Not A Name"]);
    assert!(wrong.starts_with("exit 125\nerror: "), "{wrong}");
}

#[test]
fn nothing_to_prune_is_said() {
    let Some(engine) = engine("nothing_to_prune_is_said") else { return };
    let pruned = told(&engine, &["docker", "prune"]);
    assert!(pruned.starts_with("exit 0\nremoved ") && pruned.contains(" container"), "{pruned}");
}
