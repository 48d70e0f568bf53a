//! The Python package: built as a wheel, installed into an environment that has nothing else,
//! looked at by linters and type checker, tested there.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail, ensure};

use crate::{docker, root, test};

/// Builds wheels. Not in the environment of the tests, which has to do without it.
const BUILDER: &[&str] = &["maturin>=1.7,<2"];

/// What the tests themselves want.
const TESTING: &[&str] = &["mypy>=1.11", "pytest>=8", "pytest-xdist>=3", "ruff>=0.8"];

/// What the adapters are for. Tests that miss one of them say so.
const ADAPTED: &[&str] = &["anthropic", "langchain-core", "openai", "smolagents"];

/// Builds, installs, checks and tests it.
pub fn check() -> anyhow::Result<()> {
    let python = std::env::var("PYTHON").unwrap_or_else(|_| "python3".to_owned());
    if let Err(error) = Command::new(&python).arg("--version").output() {
        println!("skipped: the Python package: {python} cannot be started: {error}");
        return Ok(());
    }
    let target = target()?;
    let place = Place { dir: target.join("python"), target, python };
    let wheel = place.wheel()?;
    place.install(&wheel)?;
    place.lint()?;
    place.test()
}

/// Where all of it lies, below the target directory.
struct Place {
    target: PathBuf,
    dir: PathBuf,
    python: String,
}

impl Place {
    /// A wheel with the binary of this profile. Its build is that of the tests, so that little is
    /// compiled anew; a release is built with `maturin build --release`.
    fn wheel(&self) -> anyhow::Result<PathBuf> {
        let builder = self.environment("builder", BUILDER)?;
        let wheels = self.dir.join("wheels");
        if wheels.exists() {
            fs::remove_dir_all(&wheels).context("old wheels cannot be removed")?;
        }
        let mut build = Command::new(builder.join("maturin"));
        build
            .args(["build", "--quiet", "--profile", "dev", "--auditwheel", "skip", "--out"])
            .arg(&wheels)
            .env("CARGO_TARGET_DIR", &self.target)
            .current_dir(package());
        test::forget_this_package(&mut build);
        run(&mut build)?;
        let built: Vec<PathBuf> =
            fs::read_dir(&wheels)?.map(|entry| Ok(entry?.path())).collect::<anyhow::Result<_>>()?;
        match &built[..] {
            [wheel] => Ok(wheel.clone()),
            other => bail!("one wheel was to be built, not {}", other.len()),
        }
    }

    /// Puts the wheel, and what it says it needs, where nothing else of ours is.
    fn install(&self, wheel: &Path) -> anyhow::Result<()> {
        let bin = self.environment("venv", TESTING)?;
        let adapted = Command::new(bin.join("pip"))
            .args(["install", "--quiet", "--disable-pip-version-check"])
            .args(ADAPTED)
            .status()?;
        if !adapted.success() {
            println!("skipped: adapters with {}: pip cannot fetch them", ADAPTED.join(", "));
        }
        for arguments in [&["--force-reinstall", "--no-deps"][..], &[]] {
            let mut pip = Command::new(bin.join("pip"));
            pip.args(["install", "--quiet", "--disable-pip-version-check"]);
            run(pip.args(arguments).arg(wheel))?;
        }
        Ok(())
    }

    fn lint(&self) -> anyhow::Result<()> {
        let examples = root().join("examples/python");
        run(self.program("ruff").args(["check", "--quiet", "."]))?;
        // Examples print, and one starts what its user has named.
        let ruff = ["check", "--quiet", "--extend-ignore", "S,T20"];
        run(self.program("ruff").args(ruff).arg(&examples))?;
        run(self.program("ruff").args(["format", "--quiet", "--check", "."]).arg(&examples))?;
        run(&mut self.program("mypy"))
    }

    /// With an engine for what runs in containers, where one can be started.
    fn test(&self) -> anyhow::Result<()> {
        let mut tests = self.program("pytest");
        tests.args(["--quiet", "-n", "2", "-p", "no:cacheprovider"]);
        let engine = test::engine();
        match &engine {
            Ok(Some(engine)) => drop(tests.env(docker::VARIABLE, engine.address())),
            Ok(None) => {}
            Err(why) => println!("skipped: the Python package in containers: {why:#}"),
        }
        run(&mut tests)
    }

    /// A program of the environment in which the package is, at the package's sources.
    fn program(&self, name: &str) -> Command {
        let mut program = Command::new(self.dir.join("venv/bin").join(name));
        program
            .current_dir(package())
            // Where `cargo test` has its compiled interpreters.
            .env("BELLJAR_HOME", self.target.join("test-home"))
            .env("MYPY_CACHE_DIR", self.dir.join("mypy"))
            .env("RUFF_CACHE_DIR", self.dir.join("ruff"))
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env_remove("PYTHONPATH")
            .env_remove("BELLJAR_BIN");
        program
    }

    /// An environment with these packages; made once. Gives where its programs are.
    fn environment(&self, name: &str, packages: &[&str]) -> anyhow::Result<PathBuf> {
        let dir = self.dir.join(name);
        let (bin, list) = (dir.join("bin"), dir.join("packages"));
        let wanted = packages.join("\n");
        if fs::read_to_string(&list).is_ok_and(|made| made == wanted) {
            return Ok(bin);
        }
        run(Command::new(&self.python).args(["-m", "venv", "--clear"]).arg(&dir))?;
        let mut pip = Command::new(bin.join("pip"));
        pip.args(["install", "--quiet", "--disable-pip-version-check"]).args(packages);
        run(&mut pip)?;
        fs::write(list, wanted)?;
        Ok(bin)
    }
}

fn package() -> PathBuf {
    root().join("sdk/python")
}

fn target() -> anyhow::Result<PathBuf> {
    let named =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    std::path::absolute(named).context("the target directory has no absolute path")
}

fn run(command: &mut Command) -> anyhow::Result<()> {
    let status = command
        .status()
        .with_context(|| format!("{} cannot be started", command.get_program().display()))?;
    ensure!(status.success(), "{command:?} failed");
    Ok(())
}
