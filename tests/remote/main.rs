//! The daemon backend, against a real server of the protocol.

#![expect(clippy::expect_used, reason = "a test that cannot go on has failed")]

mod connection;
mod sessions;
mod tools;
mod workspace;

use belljar::{Backend, Sandbox, SandboxConfig, create_sandbox};
use serde_json::Value;
use support::Jar;

/// A sandbox in the shared daemon.
fn open(jar: &Jar) -> Box<dyn Sandbox> {
    open_with(&config(jar))
}

fn open_with(config: &SandboxConfig) -> Box<dyn Sandbox> {
    create_sandbox(config).expect("a sandbox")
}

/// A session in the shared daemon.
fn session(jar: &Jar) -> Box<dyn Sandbox> {
    let mut sandbox = open(jar);
    sandbox.initialize(Value::Null).expect("a session");
    sandbox
}

fn config(jar: &Jar) -> SandboxConfig {
    jar.config_on(Backend::Daemon)
}
