//! The TypeScript package as its users get it: packed, installed into an empty directory, tested
//! there. The program it carries is the one that was built next to this one.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};

use crate::root;

/// Checks sources, packs, installs and runs tests and examples.
pub fn check() -> anyhow::Result<()> {
    if let Some(missing) = ["node", "npm"].into_iter().find(|program| !answers(program)) {
        println!("skipped: the TypeScript package: {missing} cannot be started");
        return Ok(());
    }
    let package = root().join("sdk/typescript");
    run("npm", &["ci", "--no-audit", "--no-fund", "--loglevel=error"], &package)?;
    run("npm", &["run", "--silent", "types"], &package)?;
    run("npm", &["run", "--silent", "lint"], &package)?;
    let program = program()?;
    // Beside the home that all tests share, where the interpreter is compiled already.
    let build = program.ancestors().nth(2).context("the program is in no build directory")?;
    let installed = build.join("typescript");
    let install = ["scripts/install.mjs".as_ref(), program.as_os_str(), installed.as_os_str()];
    run("node", &install, &package)?;
    run("node", &["scripts/test.mjs".as_ref(), installed.as_os_str()], &package)
}

/// `belljar`, built next to this program.
fn program() -> anyhow::Result<PathBuf> {
    let program = std::env::current_exe()?.with_file_name("belljar");
    ensure!(
        program.is_file(),
        "{} is not there.\nhint: run `cargo build --workspace` first",
        program.display()
    );
    Ok(program)
}

fn answers(program: &str) -> bool {
    let asked = Command::new(program).arg("--version").stdout(Stdio::null()).status();
    asked.is_ok_and(|status| status.success())
}

fn run(
    program: &str,
    arguments: &[impl AsRef<std::ffi::OsStr>],
    directory: &Path,
) -> anyhow::Result<()> {
    let status = Command::new(program)
        .args(arguments)
        .current_dir(directory)
        .status()
        .with_context(|| format!("{program} cannot be started"))?;
    let words: Vec<_> = arguments.iter().map(|word| word.as_ref().to_string_lossy()).collect();
    ensure!(status.success(), "`{program} {}` failed", words.join(" "));
    Ok(())
}
