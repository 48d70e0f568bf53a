//! Runs one piece of code on a backend, and on the one that all are compared with.

use std::fs;
use std::path::Path;

use belljar::{Backend, SandboxConfig, SandboxError, SandboxResult, create_sandbox};
use support::Jar;

/// What every backend has to agree with.
pub const REFERENCE: Backend = Backend::Wasm;

/// Whether it is the reference that runs, at whatever place.
pub fn is_reference(backend: Backend) -> bool {
    matches!(backend, REFERENCE | Backend::Daemon | Backend::E2b)
}

/// Where a case expects that backends differ, each time with its reason beside it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Differs {
    /// Everything is the same.
    Nowhere,
    /// Versions of Python mark the lines of a traceback differently.
    InTracebacks,
    /// It ends in another way. Nothing is compared.
    InAll,
}

/// The result of code in an empty workspace.
pub fn run(backend: Backend, code: &str) -> SandboxResult {
    run_in(backend, &Jar::new(), code)
}

/// The same where backends differ.
pub fn run_differing(backend: Backend, differs: Differs, code: &str) -> SandboxResult {
    compared(backend, &Jar::new(), differs, code)
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
    compared(backend, jar, Differs::Nowhere, code)
}

/// The same, when the host may refuse.
pub fn try_run(backend: Backend, jar: &Jar, code: &str) -> Result<SandboxResult, SandboxError> {
    create_sandbox(&jar.config_on(backend))?.execute(code)
}

fn compared(backend: Backend, jar: &Jar, differs: Differs, code: &str) -> SandboxResult {
    if backend == REFERENCE || differs == Differs::InAll {
        return try_run(backend, jar, code).expect("the host is fine");
    }
    let copy = tempfile::tempdir().expect("a workspace");
    copy_files(jar.workspace(), copy.path());
    let config = SandboxConfig {
        backend: REFERENCE,
        workspace: Some(copy.path().to_owned()),
        ..jar.config()
    };
    let expected = create_sandbox(&config).and_then(|mut sandbox| sandbox.execute(code));
    let expected = expected.expect("the host is fine");
    let result = try_run(backend, jar, code).expect("the host is fine");
    assert_same(&result, &expected, differs);
    assert_eq!(files(jar.workspace()), files(copy.path()), "what is left in the workspace");
    result
}

/// Field by field. What is left out is about the backend and not about the code: how long it took,
/// how much memory an interpreter needs, fuel that only wasm counts, and names.
#[track_caller]
fn assert_same(result: &SandboxResult, expected: &SandboxResult, differs: Differs) {
    let ends = |result: &SandboxResult| (result.status(), result.exit_code(), result.success());
    assert_eq!(ends(result), ends(expected), "how it ended: {result:#?}");
    assert_eq!(result.stdout, expected.stdout, "stdout");
    assert_eq!(result.result, expected.result, "the value");
    assert_eq!(result.pending_calls, expected.pending_calls, "calls that wait");
    let changes = |result: &SandboxResult| {
        [&result.files_created, &result.files_modified, &result.files_deleted].map(Vec::clone)
    };
    assert_eq!(changes(result), changes(expected), "files created, modified, deleted");
    let error = |result: &SandboxResult| {
        result.error.clone().map(|mut error| {
            if differs != Differs::Nowhere {
                error.traceback.clear();
            }
            error
        })
    };
    assert_eq!(error(result), error(expected), "the error");
    if differs == Differs::Nowhere {
        assert_eq!(result.stderr, expected.stderr, "stderr");
    }
    let meta = |result: &SandboxResult| {
        let meta = &result.meta;
        let flags = (meta.truncated, meta.timed_out, meta.state);
        (meta.language, flags, meta.tools, meta.blocked_imports.clone())
    };
    assert_eq!(meta(result), meta(expected), "meta");
    if !result.meta.isolation.iter().any(|layer| layer == "fuel") {
        assert_eq!(result.fuel_consumed, None, "fuel that nobody counts");
    }
}

fn copy_files(from: &Path, to: &Path) {
    for (path, _) in files(from) {
        let target = to.join(&path);
        fs::create_dir_all(target.parent().expect("a parent")).expect("a directory");
        fs::copy(from.join(&path), target).expect("a copy");
    }
}

/// The files below a directory, in order, with what is in them.
fn files(dir: &Path) -> Vec<(String, Option<Vec<u8>>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).expect("a directory").flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let kind = entry.file_type().expect("a type");
        if kind.is_dir() {
            let below = files(&entry.path()).into_iter();
            found.extend(below.map(|(path, contents)| (format!("{name}/{path}"), contents)));
        } else {
            // A link is only a name here; where it leads is none of the host's business.
            let contents = kind.is_file().then(|| fs::read(entry.path()).expect("a file"));
            found.push((name, contents));
        }
    }
    found.sort();
    found
}
