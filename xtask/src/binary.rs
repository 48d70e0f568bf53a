//! The binary as the README's first command builds it. Tests are built together, and what one
//! crate asks of a dependency all others then have; a feature that is missing shows only here.

use std::fs;
use std::path::Path;

use anyhow::{Context, ensure};

use crate::test::command;

/// Code that fails, so that it is kept, and prints something a secret could be in.
const CODE: &str = "print('token = \"none-of-yours\"')\n1 / 0";

/// How the answer to it begins.
const ANSWER: &str = "Error: ZeroDivisionError: division by zero\n";

/// Runs the agent's tool on code that fails, in directories of its own.
pub fn check() -> anyhow::Result<()> {
    let dir = std::env::temp_dir().join(format!("belljar-xtask-{}", std::process::id()));
    fs::create_dir(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
    let checked = check_in(&dir);
    fs::remove_dir_all(&dir).with_context(|| format!("cannot remove {}", dir.display()))?;
    checked
}

fn check_in(dir: &Path) -> anyhow::Result<()> {
    // `cargo run` and nothing else: with `--workspace` or `-p` it might be another build.
    let answered = command(&["run", "--quiet", "--", "tool", "run-python", "--code", CODE])
        .env("BELLJAR_HOME", dir.join("home"))
        .env("SANDBOX_ARTIFACTS_DIR", dir.join("artifacts"))
        .env("SANDBOX_STORE_CODE", "on_error")
        // The backend that every machine has.
        .env("SANDBOX_TYPE", "wasm")
        .output()
        .context("cargo cannot be started")?;
    let text = String::from_utf8_lossy(&answered.stdout);
    let why = String::from_utf8_lossy(&answered.stderr);
    ensure!(text.starts_with(ANSWER), "the tool says\n{text}\n{why}");
    ensure!(!text.contains("[note]"), "the execution was not kept:\n{text}");
    let kept = fs::read_dir(dir.join("artifacts/executions")).context("nothing was kept")?.count();
    ensure!(kept == 1, "{kept} artifacts instead of one");
    Ok(())
}
