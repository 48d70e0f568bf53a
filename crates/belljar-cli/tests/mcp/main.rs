//! `belljar mcp` with clients nobody here wrote, and with clients that mean no good.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test stops where it fails")]

mod http;
mod official_clients;
mod stdio;

use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use serde_json::json;

const TOKEN: &str = "a-token-for-these-tests";

/// Nothing here should take longer, even on a busy machine.
const LONG: Duration = Duration::from_secs(60);

fn build_dir() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap().to_owned()
}

/// Where code that failed is kept.
fn artifacts() -> PathBuf {
    build_dir().join("test-artifacts-mcp")
}

fn belljar(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_belljar"));
    command.args(args).env("BELLJAR_HOME", build_dir().join("test-home"));
    command.env("SANDBOX_ARTIFACTS_DIR", artifacts());
    for name in ["SANDBOX_TYPE", "SANDBOX_PRESET", "SANDBOX_STORE_CODE", "BELLJAR_HTTP_TOKEN"] {
        command.env_remove(name);
    }
    command
}

fn done(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (said, complaint) = (text(&output.stdout), text(&output.stderr));
    if output.status.success() { Ok(said) } else { Err(format!("{command:?}: {said}{complaint}")) }
}

fn initialize() -> String {
    let params = json!({
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    });
    json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}).to_string()
}

fn wait(child: &mut Child) -> i32 {
    let begun = Instant::now();
    while begun.elapsed() < LONG {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code().unwrap_or(-1);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("it does not end")
}
