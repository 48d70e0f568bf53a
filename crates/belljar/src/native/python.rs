//! Finding a Python on this machine, by asking it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use belljar_core::{Backend, SandboxError};
use serde::Deserialize;

use crate::process::asking;

/// Tried in this order when the caller names none.
const NAMES: [&str; 2] = ["python3", "python"];

/// The oldest that the driver runs on.
const OLDEST: (u32, u32) = (3, 8);

/// Isolated from the environment and the user's own packages, as it will be run.
const QUESTION: &str = "
import json, os, sys
print(json.dumps({
    'version': list(sys.version_info[:3]),
    'executable': os.path.realpath(sys.executable),
    'called': sys.executable,
    'prefixes': sorted({sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix}),
}))
";

/// An interpreter of this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Python {
    /// How it is called, which for a virtual environment is not where it is.
    pub(crate) program: PathBuf,
    /// Its version.
    pub(crate) version: (u32, u32, u32),
    /// Directories it needs.
    pub(crate) directories: Vec<PathBuf>,
}

#[derive(Deserialize)]
struct Description {
    version: (u32, u32, u32),
    executable: PathBuf,
    called: PathBuf,
    prefixes: Vec<PathBuf>,
}

impl Python {
    /// The one that was named, or the first on the search path that will do.
    pub(crate) fn find(named: Option<&Path>) -> Result<Self, SandboxError> {
        if let Some(program) = named {
            return ask(program).map_err(|problem| unusable(&problem));
        }
        let mut problems = Vec::new();
        for name in NAMES {
            match ask(Path::new(name)) {
                Ok(python) => return Ok(python),
                Err(problem) => problems.push(problem),
            }
        }
        Err(unusable(&problems.join("; ")))
    }
}

/// Compiles sources, so that starting does not have to. Failing costs time only.
pub(crate) fn compile(python: &Path, folder: &Path) {
    let _ = Command::new(python)
        .args(["-I", "-m", "compileall", "-q"])
        .arg(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
}

fn unusable(reason: &str) -> SandboxError {
    SandboxError::BackendUnavailable {
        backend: Backend::Native,
        reason: reason.to_owned(),
        hint: Some(format!(
            "install Python {}.{} or newer, name one with --python, or use the wasm backend",
            OLDEST.0, OLDEST.1
        )),
    }
}

fn ask(program: &Path) -> Result<Python, String> {
    let shown = program.display();
    if program.is_dir() {
        return Err(format!("{shown} is a directory: name the program, as in {shown}/bin/python3"));
    }
    let answer = asking::ask(program, &["-I", "-c", QUESTION])
        .map_err(|problem| format!("{shown}: {problem}"))?;
    let described: Description = serde_json::from_slice(&answer)
        .map_err(|_| format!("{shown}: it does not answer as Python does"))?;
    let (major, minor, _) = described.version;
    if (major, minor) < OLDEST {
        return Err(format!(
            "{shown} is Python {major}.{minor}, and at least {}.{} is needed",
            OLDEST.0, OLDEST.1
        ));
    }
    Ok(Python {
        directories: needed(&described, std::env::home_dir().as_deref()),
        program: described.called,
        version: described.version,
    })
}

/// What it has to see: its prefixes and its own file, with what lies beside it. Somebody's whole
/// home, or more, is no Python: of such a prefix only what belongs to Python is taken.
fn needed(python: &Description, home: Option<&Path>) -> Vec<PathBuf> {
    let too_much = |directory: &Path| {
        directory == Path::new("/") || home.is_some_and(|home| home.starts_with(directory))
    };
    let mut needed = Vec::new();
    for prefix in &python.prefixes {
        if too_much(prefix) {
            needed.extend(parts_of(prefix, python.version));
        } else {
            needed.push(prefix.clone());
        }
    }
    let beside = python.executable.parent().filter(|directory| !too_much(directory));
    needed.push(beside.unwrap_or(&python.executable).to_owned());
    needed
}

/// The standard library, and the shared library if there is one.
fn parts_of(prefix: &Path, (major, minor, _): (u32, u32, u32)) -> Vec<PathBuf> {
    let name = format!("python{major}.{minor}");
    let mut parts = Vec::new();
    for lib in ["lib", "lib64"].map(|lib| prefix.join(lib)) {
        parts.extend(Some(lib.join(&name)).filter(|modules| modules.is_dir()));
        let files = std::fs::read_dir(&lib).into_iter().flatten().flatten();
        let is_shared = |file: &std::fs::DirEntry| {
            file.file_name().to_str().is_some_and(|file| file.starts_with(&format!("lib{name}")))
        };
        parts.extend(files.filter(is_shared).map(|file| file.path()));
    }
    parts
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn script(text: &str) -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("python");
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        (dir, path)
    }

    fn problem(text: &str) -> String {
        let (_dir, path) = script(text);
        ask(&path).unwrap_err().replace(&path.display().to_string(), "PYTHON")
    }

    #[test]
    fn the_python_of_this_machine_is_found() {
        let python = Python::find(None).expect("a Python");
        assert!(python.program.is_absolute() && python.version.0 == 3, "{python:?}");
    }

    #[test]
    fn what_is_no_python_is_refused_with_its_reason() {
        assert_eq!(problem("#!/bin/sh\nexit 3\n"), "PYTHON: it fails: exit status: 3");
        assert_eq!(problem("#!/bin/sh\necho hello\n"), "PYTHON: it does not answer as Python does");
        assert_eq!(
            problem(
                "#!/bin/sh\necho '{\"version\": [3, 7, 1], \"executable\": \"/p\", \"called\": \"/p\", \"prefixes\": []}'\n"
            ),
            "PYTHON is Python 3.7, and at least 3.8 is needed"
        );
        assert!(ask(Path::new("/nowhere/python")).is_err());
    }

    #[test]
    fn of_a_home_that_holds_a_python_only_the_python_is_taken() {
        let home = tempfile::tempdir().unwrap();
        let at = |path: &str| home.path().join(path);
        for folder in ["bin", "lib/python3.11", "lib/secrets", "own/bin"] {
            std::fs::create_dir_all(at(folder)).unwrap();
        }
        std::fs::write(at("lib/libpython3.11.so.1.0"), "").unwrap();
        let described = |prefix: PathBuf| Description {
            version: (3, 11, 7),
            executable: prefix.join("bin/python3.11"),
            called: prefix.join("bin/python3"),
            prefixes: vec![prefix],
        };
        let of_home = needed(&described(home.path().to_owned()), Some(home.path()));
        assert_eq!(of_home, [at("lib/python3.11"), at("lib/libpython3.11.so.1.0"), at("bin")]);
        let of_all = needed(&described("/".into()), Some(home.path()));
        assert!(!of_all.contains(&"/".into()), "{of_all:?}");
        assert_eq!(needed(&described(at("own")), Some(home.path())), [at("own"), at("own/bin")]);
    }

    #[test]
    fn a_python_that_hangs_is_given_up() {
        assert_eq!(problem("#!/bin/sh\nsleep 60\n"), "PYTHON: it does not answer within 5s");
    }
}
