//! The packages of a virtual environment, in the jail.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use belljar::{SandboxConfig, create_sandbox};
use support::{Cells, Expect, Jar, build_dir, skipped};

/// Enough for numpy's threads and tables.
const MEMORY_BYTES: u64 = 1 << 30;

/// A virtual environment with numpy, made once per build directory, or why there is none.
fn with_numpy() -> Result<PathBuf, String> {
    static MADE: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    MADE.get_or_init(|| {
        let venv = build_dir().join("test-venv");
        let python = venv.join("bin/python");
        if !has_numpy(&python) {
            run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&venv))?;
            let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "numpy"];
            run(Command::new(&python).args(pip))?;
        }
        Ok(python)
    })
    .clone()
}

fn has_numpy(python: &Path) -> bool {
    let asked = Command::new(python).args(["-c", "import numpy"]).output();
    asked.is_ok_and(|output| output.status.success())
}

fn run(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    let last = complaint.lines().last().unwrap_or_default();
    if output.status.success() { Ok(()) } else { Err(format!("{command:?}: {last}")) }
}

#[test]
fn numpy_works_in_the_jail() {
    let python = match with_numpy() {
        Ok(python) => python,
        Err(reason) => return skipped("numpy_works_in_the_jail", &reason),
    };
    let jar = Jar::native().with(|layer| layer.memory_bytes(MEMORY_BYTES));
    let config = SandboxConfig { python: Some(python), ..jar.config() };
    let mut sandbox = create_sandbox(&config).expect("a sandbox");
    let code = "import numpy as np\na = np.arange(12).reshape(3, 4)\n\
                print((a @ a.T).trace(), np.linalg.det(np.eye(3)))\n\
                np.save('a.npy', a)\nint(np.load('a.npy').sum())";
    let result = sandbox.run(code);
    result.printed("506 1.0\n").gave(66).changed(&["a.npy"], &[], &[]);
    // The environment is there to be read.
    let code = "import numpy, os\ntry: open(os.path.join(os.path.dirname(numpy.__file__), 'x'), 'w')\n\
                except OSError: print('refused')";
    sandbox.run(code).printed("refused\n");
}

#[test]
fn packages_of_another_environment_are_not_there() {
    if let Err(reason) = with_numpy() {
        return skipped("packages_of_another_environment_are_not_there", &reason);
    }
    let empty = tempfile::tempdir().expect("a directory");
    let made = run(Command::new("python3").args(["-m", "venv", "--without-pip"]).arg(empty.path()));
    made.expect("a virtual environment");
    let jar = Jar::native();
    let config = SandboxConfig { python: Some(empty.path().join("bin/python")), ..jar.config() };
    let mut sandbox = create_sandbox(&config).expect("a sandbox");
    sandbox.run("import numpy").raised("ModuleNotFoundError", "No module named 'numpy'");
    let code = "import sys; print(sys.prefix != sys.base_prefix, sys.prefix == sys.exec_prefix)";
    sandbox.run(code).printed("True True\n");
}
