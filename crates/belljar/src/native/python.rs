//! Finding a Python on this machine, by asking it.

use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use belljar_core::{Backend, SandboxError};
use rustix::process::{Pid, Signal, kill_process_group};
use serde::Deserialize;

/// Tried in this order when the caller names none.
const NAMES: [&str; 2] = ["python3", "python"];

/// The oldest that the driver runs on.
const OLDEST: (u32, u32) = (3, 8);

/// How long an interpreter may take to say what it is.
const PATIENCE: Duration = Duration::from_secs(5);

/// More than it has to say.
const MAX_ANSWER_BYTES: u64 = 64 * 1024;

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

impl Python {
    /// Compiles sources, so that starting does not have to. Failing costs time only.
    pub(crate) fn compile(&self, folder: &Path) {
        let _ = Command::new(&self.program)
            .args(["-I", "-m", "compileall", "-q"])
            .arg(folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
    }
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
    let answer = answer(program).map_err(|problem| format!("{shown}: {problem}"))?;
    let described: Description = serde_json::from_slice(&answer)
        .map_err(|_| format!("{shown}: it does not answer as Python does"))?;
    let (major, minor, _) = described.version;
    if (major, minor) < OLDEST {
        return Err(format!(
            "{shown} is Python {major}.{minor}, and at least {}.{} is needed",
            OLDEST.0, OLDEST.1
        ));
    }
    let mut directories = described.prefixes;
    directories.extend(described.executable.parent().map(Path::to_owned));
    Ok(Python { program: described.called, version: described.version, directories })
}

/// What it prints when it is asked, if it does so in time. Whatever it starts ends with it.
fn answer(program: &Path) -> Result<Vec<u8>, String> {
    let mut child = Command::new(program)
        .args(["-I", "-c", QUESTION])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .map_err(|error| error.to_string())?;
    let mut stdout = child.stdout.take().ok_or("it has no output")?.take(MAX_ANSWER_BYTES);
    let (tell, told) = mpsc::channel();
    // Left to itself when something that has hidden elsewhere still holds the pipe.
    std::thread::spawn(move || {
        let mut text = Vec::new();
        let read = stdout.read_to_end(&mut text).map(|_| text);
        let _ = tell.send(read);
    });
    let until = Instant::now() + PATIENCE;
    let ended = end_of(&mut child, until);
    let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    // Fails when nobody is left.
    let _ = group.map(|group| kill_process_group(group, Signal::KILL));
    let _ = child.wait();
    let late = || format!("it does not answer within {PATIENCE:?}");
    match ended {
        Err(error) => return Err(error.to_string()),
        Ok(None) => return Err(late()),
        Ok(Some(ended)) if !ended.success() => return Err(format!("it fails: {ended}")),
        Ok(Some(_)) => {}
    }
    let read = told.recv_timeout(until.saturating_duration_since(Instant::now()));
    read.map_err(|_| late())?.map_err(|_| "its answer cannot be read".to_owned())
}

/// How it ended, if it did so in time.
fn end_of(child: &mut Child, until: Instant) -> io::Result<Option<ExitStatus>> {
    loop {
        match child.try_wait()? {
            None if Instant::now() < until => std::thread::sleep(Duration::from_millis(2)),
            ended => return Ok(ended),
        }
    }
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
    fn a_python_that_hangs_is_given_up() {
        assert_eq!(problem("#!/bin/sh\nsleep 60\n"), "PYTHON: it does not answer within 5s");
    }
}
