//! Every item of E2B's interface that there is, by E2B's own packages in Python and TypeScript.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::{KEY, OTHER_KEY, Server, build_dir};

const PYTHON_PACKAGES: [&str; 2] = ["e2b-code-interpreter==2.11.5", "e2b==2.63.0"];
const NPM_PACKAGES: [&str; 2] = ["@e2b/code-interpreter@2.8.0", "e2b@2.51.0"];

/// Says that a test did not run, past the harness, which hides what passing tests print.
fn skipped(test: &str, reason: &str) {
    let line = format!("\nSKIPPED: {test}: {reason}\n");
    let _ = std::io::stderr().write_all(line.as_bytes());
}

fn done(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (said, complaint) = (text(&output.stdout), text(&output.stderr));
    match output.status.success() {
        true => Ok(said),
        false => Err(format!("{command:?}: {}\n{said}{complaint}", output.status)),
    }
}

/// Python with E2B's packages, installed once per build directory; or why there is none.
fn python_packages() -> Result<PathBuf, String> {
    static MADE: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let make = || {
        let venv = build_dir().join("test-venv-e2b");
        let python = venv.join("bin/python");
        let wanted = PYTHON_PACKAGES.map(|package| {
            let (name, version) = package.split_once("==").unwrap();
            format!("assert m.version('{name}') == '{version}'")
        });
        let check = format!("import importlib.metadata as m; {}", wanted.join("; "));
        if done(Command::new(&python).args(["-c", &check])).is_err() {
            done(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&venv))?;
            let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
            done(Command::new(&python).args(pip).args(PYTHON_PACKAGES))?;
        }
        Ok(python)
    };
    MADE.get_or_init(make).clone()
}

/// The TypeScript packages, likewise.
fn npm_packages() -> Result<PathBuf, String> {
    static MADE: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let make = || {
        let prefix = build_dir().join("test-npm-e2b");
        let modules = prefix.join("node_modules");
        if !modules.join("@e2b/code-interpreter/dist/index.mjs").is_file() {
            fs::create_dir_all(&prefix).map_err(|error| error.to_string())?;
            let npm = ["install", "--no-audit", "--no-fund", "--no-save", "--prefix"];
            done(Command::new("npm").args(npm).arg(&prefix).args(NPM_PACKAGES))?;
        }
        Ok(modules)
    };
    MADE.get_or_init(make).clone()
}

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/e2b").join(name)
}

/// Runs one of the scripts, which checks everything itself.
fn run(test: &str, mut client: Command, server: &Server, key: &str, parts: &[&str]) {
    client.args([&server.url(), key, OTHER_KEY]).args(parts);
    for name in ["E2B_API_KEY", "E2B_API_URL", "E2B_SANDBOX_URL", "E2B_DOMAIN", "E2B_DEBUG"] {
        client.env_remove(name);
    }
    match done(&mut client) {
        Ok(said) => assert!(said.lines().count() >= parts.len().max(1), "{test}: {said}"),
        Err(problem) => panic!("{problem}"),
    }
}

fn python(test: &str, server: &Server, parts: &[&str]) {
    python_with(test, server, KEY, parts);
}

fn python_with(test: &str, server: &Server, key: &str, parts: &[&str]) {
    match python_packages() {
        Ok(python) => {
            let mut client = Command::new(python);
            client.arg(script("client.py"));
            run(test, client, server, key, parts);
        }
        Err(reason) => skipped(test, &reason),
    }
}

fn typescript(test: &str, server: &Server, parts: &[&str]) {
    match npm_packages() {
        Ok(modules) => {
            let mut client = Command::new("node");
            client.arg(script("client.mjs")).arg(modules);
            run(test, client, server, KEY, parts);
        }
        Err(reason) => skipped(test, &reason),
    }
}

#[test]
fn the_python_packages() {
    let server = Server::new(&[]);
    python("the_python_packages", &server, &[]);
}

#[test]
fn the_typescript_packages() {
    let server = Server::new(&[]);
    typescript("the_typescript_packages", &server, &[]);
}

/// A Python with packages that have native code, likewise.
fn data_packages() -> Result<PathBuf, String> {
    let venv = build_dir().join("test-venv-data");
    let python = venv.join("bin/python");
    if done(Command::new(&python).args(["-c", "import numpy, pandas, matplotlib"])).is_err() {
        done(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&venv))?;
        let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
        let packages = ["numpy", "pandas", "matplotlib"];
        done(Command::new(&python).args(pip).args(packages))?;
    }
    Ok(python)
}

#[test]
fn a_template_with_a_python_of_the_machine() {
    let test = "a_template_with_a_python_of_the_machine";
    match data_packages() {
        Ok(data) => {
            let server = Server::new(&["--e2b-template", &format!("data={}", data.display())]);
            python(test, &server, &["template", "template_state"]);
        }
        Err(reason) => skipped(test, &reason),
    }
}

#[test]
fn a_key_of_the_file_lets_in_until_it_is_revoked() {
    let test = "a_key_of_the_file_lets_in_until_it_is_revoked";
    let server = Server::new(&[]);
    let key = server.belljar(&["key", "new", "mine"]);
    python_with(test, &server, key.trim(), &["a_key"]);
    let listed = server.belljar(&["key", "list"]);
    server.belljar(&["key", "revoke", listed.split(' ').next().unwrap()]);
    python_with(test, &server, key.trim(), &["a_revoked_key"]);
}

#[test]
fn sandboxes_outlive_the_daemon() {
    let server = Server::new(&[]);
    python("sandboxes_outlive_the_daemon", &server, &["leave_one_behind"]);
    let server = server.restarted();
    python("sandboxes_outlive_the_daemon", &server, &["find_it_again"]);
}
