//! The whole test run: what a person types before a commit, and what CI runs.

use std::fs;
use std::process::{Command, Stdio};

use anyhow::{Context, bail, ensure};

use crate::{binary, codegen, docker, guest, python_package, root, typescript_package};

/// Package indexes and download hosts: a build uses whatever its machine is set up with, so the
/// repository names none. Written in two halves, so that this file passes its own check.
const HOSTS: [&str; 8] = [
    concat!("py", "pi.org"),
    concat!("python", "hosted.org"),
    concat!("npm", "js.org"),
    concat!("npm", "js.com"),
    concat!("static.", "crates.io"),
    concat!("index.", "crates.io"),
    concat!("deb.", "debian.org"),
    concat!("snapshot.", "debian.org"),
];

/// Directories of somebody's machine. `/tmp` is everybody's.
const MACHINE_PATHS: [&str; 2] = [concat!("/ro", "ot/"), concat!("/wo", "rk/")];

/// Written by cargo and not by us.
const NOT_OURS: &str = "Cargo.lock";

struct Step {
    what: &'static str,
    run: fn() -> anyhow::Result<()>,
}

const STEPS: [Step; 11] = [
    Step { what: "formatting", run: || cargo(&["fmt", "--all", "--check"]) },
    Step { what: "lints", run: lints },
    Step { what: "the built guests fit their recipes", run: guest::check_all },
    Step { what: "no host names or machine paths", run: no_places },
    Step { what: "licences, bans and sources of dependencies", run: dependencies },
    Step { what: "generated files are up to date", run: || codegen::run(codegen::Mode::Check) },
    Step { what: "drivers that run in processes", run: drivers },
    Step { what: "tests", run: tests },
    Step { what: "the binary by itself", run: binary::check },
    Step { what: "the Python package", run: python_package::check },
    Step { what: "the TypeScript package", run: typescript_package::check },
];

/// Runs every step in order and stops at the first that fails.
///
/// What the tests need from elsewhere (a package by pip, an interpreter by npm) they fetch
/// themselves, once per target directory.
pub fn run() -> anyhow::Result<()> {
    for (index, Step { what, run }) in STEPS.iter().enumerate() {
        println!("[{}/{}] {what}", index + 1, STEPS.len());
        run().with_context(|| format!("step {} failed: {what}", index + 1))?;
    }
    println!("all {} steps passed", STEPS.len());
    Ok(())
}

fn lints() -> anyhow::Result<()> {
    // With what builds the guests, which nothing else here does.
    let all = ["clippy", "--workspace", "--all-targets", "--features", "xtask/bake"];
    cargo(&[&all[..], &["--", "-D", "warnings"]].concat())
}

/// With an engine for the docker backend, where one can be started: what it needs is fetched while
/// the tests are built.
fn tests() -> anyhow::Result<()> {
    let (engine, built) = std::thread::scope(|scope| {
        let built = scope.spawn(|| cargo(&["test", "--workspace", "--no-run"]));
        // In this thread: the engine ends with the thread that has started it.
        (engine(), built.join())
    });
    built.unwrap_or_else(|_| bail!("the tests were not built"))?;
    let mut tests = command(&["test", "--workspace"]);
    match &engine {
        Ok(Some(engine)) => drop(tests.env(docker::VARIABLE, engine.address())),
        Ok(None) => {}
        Err(why) => println!("skipped: tests in containers: {why:#}"),
    }
    let status = tests.status().context("cargo cannot be started")?;
    ensure!(status.success(), "`cargo test --workspace` failed");
    Ok(())
}

/// An engine of our own, unless somebody has named one.
pub fn engine() -> anyhow::Result<Option<docker::Engine>> {
    if std::env::var_os(docker::VARIABLE).is_some() {
        return Ok(None);
    }
    docker::Engine::start().map(Some)
}

/// In their own languages, by the interpreters of this machine. What runs them in jails, Pyodide
/// included, is tested with everything else.
fn drivers() -> anyhow::Result<()> {
    let suites: [(&str, &[&str]); 2] = [
        ("python3", &["-m", "unittest", "discover", "-s", "guests/python/native/tests"]),
        ("node", &["--test", "guests/javascript/node/tests/"]),
    ];
    for (program, arguments) in suites {
        match Command::new(program).args(arguments).current_dir(root()).status() {
            Err(error) => println!("skipped: {program} cannot be started: {error}"),
            Ok(status) => ensure!(status.success(), "{program} {} failed", arguments.join(" ")),
        }
    }
    Ok(())
}

fn dependencies() -> anyhow::Result<()> {
    let installed = command(&["deny", "--version"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    if installed {
        cargo(&["deny", "check", "licenses", "bans", "sources"])
    } else {
        println!("skipped: cargo-deny is not installed");
        Ok(())
    }
}

/// Looks through every tracked text file.
fn no_places() -> anyhow::Result<()> {
    let listed = Command::new("git")
        .args(["ls-files", "-z"])
        .current_dir(root())
        .output()
        .context("git cannot be started")?;
    ensure!(listed.status.success(), "git ls-files failed: is this a git checkout?");
    let mut found = Vec::new();
    for name in String::from_utf8(listed.stdout)?.split_terminator('\0') {
        // A tracked file may be deleted and not committed yet; binary files are not ours to read.
        let text = fs::read(root().join(name)).ok().and_then(|bytes| String::from_utf8(bytes).ok());
        if let Some(text) = text.filter(|_| name != NOT_OURS) {
            found.extend(places_in(&text).map(|(line, place)| format!("{name}:{line}: {place}")));
        }
    }
    if !found.is_empty() {
        bail!("these must go:\n  {}", found.join("\n  "));
    }
    Ok(())
}

/// The lines, counted from one, that name a host or a machine's path.
fn places_in(text: &str) -> impl Iterator<Item = (usize, &'static str)> {
    text.lines().enumerate().flat_map(|(index, line)| {
        HOSTS
            .iter()
            .chain(&MACHINE_PATHS)
            .filter(|place| names(line, place))
            .map(move |place| (index + 1, *place))
    })
}

/// A path counts where it begins, not as a part of another.
fn names(line: &str, place: &str) -> bool {
    let is_path = place.starts_with('/');
    line.match_indices(place)
        .any(|(at, _)| !(is_path && line[..at].ends_with(|before: char| before.is_alphanumeric())))
}

/// Runs cargo and passes on what it prints.
pub fn cargo(arguments: &[&str]) -> anyhow::Result<()> {
    let status = command(arguments).status().context("cargo cannot be started")?;
    ensure!(status.success(), "`cargo {}` failed", arguments.join(" "));
    Ok(())
}

/// Cargo, in the repository.
pub fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments).current_dir(root());
    forget_this_package(&mut command);
    command
}

/// What cargo says of the package it runs, it says of xtask here. Build scripts that look at it
/// (ring's does) would run again, and with them everything above them be built once more.
pub fn forget_this_package(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        let told = |prefix| name.to_str().is_some_and(|name| name.starts_with(prefix));
        if told("CARGO_PKG_") || told("CARGO_MANIFEST_") {
            command.env_remove(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_and_paths_are_found_with_their_lines() {
        let text = format!("fine\nfrom {} and {}x\n/tmp/x", HOSTS[0], MACHINE_PATHS[0]);
        assert_eq!(places_in(&text).collect::<Vec<_>>(), [(2, HOSTS[0]), (2, MACHINE_PATHS[0])]);
        assert_eq!(places_in(&format!("/proc/self{}x", MACHINE_PATHS[0])).count(), 0);
    }
}
