//! One suite for every backend: code in, the shape of the result out.
//!
//! A backend that cannot be had here is shown as ignored, with the reason, never as passed.
#![expect(clippy::expect_used, clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

mod cases;
mod check;
mod file_cases;

use std::process::ExitCode;

use belljar::{Backend, RuntimeType, SandboxConfig, create_sandbox};
use libtest_mimic::{Arguments, Failed, Trial};
use support::Jar;

/// Each goes through the same cases. The first is what the others are compared with. (`auto` is
/// one of these under another name.)
const BACKENDS: [Backend; 6] = [
    check::REFERENCE,
    Backend::Native,
    Backend::Pyodide,
    Backend::Docker,
    Backend::E2b,
    Backend::Daemon,
];

fn main() -> ExitCode {
    if let Some(code) = support::other_role() {
        return code;
    }
    let mut trials = Vec::new();
    for backend in BACKENDS {
        match unavailable(backend) {
            None => trials.extend(suite(backend)),
            Some(reason) => {
                let name = format!("{backend}: not available here: {reason}");
                trials.push(Trial::test(name, || Ok(())).with_ignored_flag(true));
            }
        }
    }
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// Why a backend cannot run Python here, or nothing.
fn unavailable(backend: Backend) -> Option<String> {
    let missing = match backend {
        Backend::Docker => support::docker_settings().err(),
        Backend::E2b => support::e2b_settings().err(),
        _ => None,
    };
    if missing.is_some() {
        return missing;
    }
    let jar = Jar::new();
    let config = SandboxConfig { runtime: RuntimeType::Python, ..jar.config_on(backend) };
    match create_sandbox(&config).and_then(|mut sandbox| sandbox.execute("")) {
        Ok(_) => None,
        Err(error) => Some(error.to_string()),
    }
}

fn suite(backend: Backend) -> impl Iterator<Item = Trial> {
    cases::ALL.iter().map(move |(name, case)| {
        Trial::test(format!("{backend}::{name}"), move || {
            std::panic::catch_unwind(|| case(backend)).map_err(|panic| {
                let message = panic
                    .downcast_ref::<String>()
                    .map(String::as_str)
                    .or_else(|| panic.downcast_ref::<&str>().copied());
                Failed::from(message.unwrap_or("the case panicked"))
            })
        })
    })
}
