//! Every tool, called by the official clients in Python and TypeScript.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::http::HttpServer;
use crate::{TOKEN, artifacts, build_dir, done};

const PYTHON_PACKAGE: &str = "mcp==2.3.0";
const NPM_PACKAGE: &str = "@modelcontextprotocol/sdk@1.32.2";
/// Says that a test did not run, past the harness, which hides what passing tests print.
fn skipped(test: &str, reason: &str) {
    let line = format!("\nSKIPPED: {test}: {reason}\n");
    let _ = std::io::stderr().write_all(line.as_bytes());
}

/// The Python client, installed once per build directory; or why there is none.
fn python_client() -> Result<PathBuf, String> {
    static MADE: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let make = || {
        let venv = build_dir().join("test-venv-mcp");
        let python = venv.join("bin/python");
        let version = PYTHON_PACKAGE.rsplit('=').next().unwrap();
        let check =
            format!("import importlib.metadata as m; assert m.version('mcp') == '{version}'");
        if done(Command::new(&python).args(["-c", &check])).is_err() {
            done(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&venv))?;
            let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
            done(Command::new(&python).args(pip).arg(PYTHON_PACKAGE))?;
        }
        Ok(python)
    };
    MADE.get_or_init(make).clone()
}

/// The TypeScript SDK, likewise.
fn typescript_client() -> Result<PathBuf, String> {
    static MADE: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let make = || {
        let prefix = build_dir().join("test-npm-mcp");
        let sdk = prefix.join("node_modules/@modelcontextprotocol/sdk");
        if !sdk.join("dist/esm/client/index.js").is_file() {
            fs::create_dir_all(&prefix).map_err(|error| error.to_string())?;
            let npm = ["install", "--no-audit", "--no-fund", "--no-save", "--prefix"];
            done(Command::new("npm").args(npm).arg(&prefix).arg(NPM_PACKAGE))?;
        }
        Ok(sdk)
    };
    MADE.get_or_init(make).clone()
}

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/mcp").join(name)
}

/// Runs one of the scripts, which checks everything itself.
fn python(test: &str, args: &[&str]) {
    let python = match python_client() {
        Ok(python) => python,
        Err(reason) => return skipped(test, &reason),
    };
    let mut client = Command::new(python);
    client.arg(script("client.py")).args(args);
    run_client(client);
}

fn typescript(test: &str, args: &[&str]) {
    let sdk = match typescript_client() {
        Ok(sdk) => sdk,
        Err(reason) => return skipped(test, &reason),
    };
    let mut client = Command::new("node");
    client.arg(script("client.mjs")).arg(sdk).args(args);
    run_client(client);
}

fn run_client(mut client: Command) {
    client
        .env("BELLJAR_HOME", build_dir().join("test-home"))
        .env("SANDBOX_ARTIFACTS_DIR", artifacts());
    match done(&mut client) {
        Ok(said) => assert!(said.lines().count() >= 5, "{said}"),
        Err(problem) => panic!("{problem}"),
    }
}

#[test]
fn the_python_client_over_stdio() {
    let program = env!("CARGO_BIN_EXE_belljar");
    python("the_python_client_over_stdio", &["stdio", program, "auto"]);
}

#[test]
fn the_python_client_over_stdio_with_a_handshake() {
    let program = env!("CARGO_BIN_EXE_belljar");
    python("the_python_client_over_stdio_with_a_handshake", &["stdio", program, "legacy"]);
}

#[test]
fn the_python_client_over_http() {
    let server = HttpServer::start(&[]);
    python("the_python_client_over_http", &["http", &server.url, TOKEN]);
}

#[test]
fn the_typescript_client_over_stdio() {
    let program = env!("CARGO_BIN_EXE_belljar");
    typescript("the_typescript_client_over_stdio", &["stdio", program]);
}

#[test]
fn the_typescript_client_over_http() {
    let server = HttpServer::start(&[]);
    typescript("the_typescript_client_over_http", &["http", &server.url, TOKEN]);
}

#[test]
fn the_python_client_with_the_daemon() {
    let server = HttpServer::daemon();
    python("the_python_client_with_the_daemon", &["http", &server.url, TOKEN]);
}

#[test]
fn the_typescript_client_with_the_daemon() {
    let server = HttpServer::daemon();
    typescript("the_typescript_client_with_the_daemon", &["http", &server.url, TOKEN]);
}
