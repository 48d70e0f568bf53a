//! Runs one piece of code on a backend.

use belljar::{Backend, SandboxConfig, SandboxError, SandboxResult, create_sandbox};
use support::Jar;

/// The result of code in an empty workspace.
pub fn run(backend: Backend, code: &str) -> SandboxResult {
    run_in(backend, &Jar::new(), code)
}

/// The result of code in a workspace with these files, each holding `content`.
pub fn run_with(backend: Backend, files: &[&str], code: &str) -> SandboxResult {
    let jar = Jar::new();
    for file in files {
        jar.write(file, "content");
    }
    run_in(backend, &jar, code)
}

/// The result of code in a jar.
pub fn run_in(backend: Backend, jar: &Jar, code: &str) -> SandboxResult {
    try_run(backend, jar, code).expect("the host is fine")
}

/// The same, when the host may refuse.
pub fn try_run(backend: Backend, jar: &Jar, code: &str) -> Result<SandboxResult, SandboxError> {
    create_sandbox(&SandboxConfig { backend, ..jar.config() })?.execute(code)
}
