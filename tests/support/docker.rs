//! The engine that tests may use, which is never the machine's own: `cargo xtask test` starts one.

use std::fs;
use std::os::unix::fs::{MetadataExt, lchown};
use std::path::Path;
use std::process::Command;

use belljar::DockerSettings;

/// Names the engine's socket, as a `unix://` address.
const ENGINE: &str = "BELLJAR_TEST_DOCKER";

/// The image that `cargo xtask test` makes there.
const IMAGE: &str = "belljar-test:latest";

/// Who owns what is a container's when the tests run as root.
const NOBODY: u32 = 65534;

/// Settings for the tests' engine, or why there is none.
///
/// # Errors
/// When nobody has started one.
pub fn docker_settings() -> Result<DockerSettings, String> {
    let socket = std::env::var(ENGINE)
        .map_err(|_| format!("{ENGINE} names no engine; `cargo xtask test` starts one"))?;
    Ok(DockerSettings {
        image: IMAGE.to_owned(),
        socket: Some(socket),
        // Tests are about what holds and not about how long it takes.
        cpus: 1.0,
        ..DockerSettings::default()
    })
}

/// Gives a directory of root's to the user that containers run as.
pub fn belongs_to_nobody(path: &Path) {
    let Ok(found) = path.symlink_metadata() else { return };
    if found.uid() == 0 {
        lchown(path, Some(NOBODY), Some(NOBODY)).expect("another owner");
    }
    if found.is_dir() {
        for entry in fs::read_dir(path).expect("a directory").flatten() {
            belongs_to_nobody(&entry.path());
        }
    }
}

/// What the engine's own client says.
#[must_use]
pub fn engine(arguments: &[&str]) -> String {
    let socket = docker_settings().expect("an engine").socket.expect("a socket");
    let said = Command::new("docker")
        .args(["--host", &socket])
        .args(arguments)
        .output()
        .expect("the engine's client");
    assert!(
        said.status.success(),
        "docker {arguments:?}: {}",
        String::from_utf8_lossy(&said.stderr)
    );
    String::from_utf8_lossy(&said.stdout).trim().to_owned()
}

/// The containers of this process, whatever state they are in.
#[must_use]
pub fn containers() -> Vec<String> {
    let own = format!("label=dev.belljar.pid={}", std::process::id());
    engine(&["ps", "--all", "--quiet", "--filter", &own]).lines().map(str::to_owned).collect()
}
