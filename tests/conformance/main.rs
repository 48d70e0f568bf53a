//! One suite for every backend: code in, the shape of the result out.
//!
//! A backend that cannot be had here is shown as ignored, with the reason, never as passed.
#![expect(clippy::expect_used, clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

mod cases;
mod check;

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

fn main() {
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
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

/// Why a backend cannot run Python here, or nothing.
fn unavailable(backend: Backend) -> Option<String> {
    if backend == Backend::Docker
        && let Err(why) = support::docker_settings()
    {
        return Some(why);
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
