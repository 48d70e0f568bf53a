//! Where an engine listens, and whether anybody does.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use belljar_core::SandboxError;

use super::engine::unavailable;
use crate::docker_settings::DockerSettings;
use crate::remote::local::connect;

/// An engine's socket by what a new one in its place does not share: the number of a file that was
/// removed may be given to the next.
pub(super) type Identity = (u64, u64, i64, i64);

pub(super) fn identity(socket: &Path) -> Option<Identity> {
    let found = std::fs::metadata(socket).ok()?;
    Some((found.dev(), found.ino(), found.ctime(), found.ctime_nsec()))
}

/// Says why nobody can be spoken to there.
pub(super) fn knock(socket: &Path, patience: Duration) -> Result<(), SandboxError> {
    connect(socket, patience).map(drop).map_err(|error| unreachable(socket, &error))
}

/// Where the engine listens.
pub(super) fn find_socket(settings: &DockerSettings) -> Result<PathBuf, SandboxError> {
    let from_environment = || std::env::var("DOCKER_HOST").ok().filter(|host| !host.is_empty());
    if let Some(address) = settings.socket.clone().or_else(from_environment) {
        return local_path(&address);
    }
    let places = usual_places();
    let there = places.iter().find(|place| place.exists());
    there.cloned().ok_or_else(|| {
        let places: Vec<String> = places.iter().map(|place| place.display().to_string()).collect();
        unavailable(&format!("there is no socket at {}", places.join(" or ")))
    })
}

/// A workspace can be mounted only by an engine that sees it.
fn local_path(address: &str) -> Result<PathBuf, SandboxError> {
    let path = address.strip_prefix("unix://").unwrap_or(address);
    if path.starts_with('/') {
        return Ok(path.into());
    }
    Err(unavailable(&format!(
        "{address:?} is no socket of this machine, and only an engine here can mount the workspace; \
         an address looks like unix:///var/run/docker.sock"
    )))
}

fn usual_places() -> Vec<PathBuf> {
    let mut places = vec![PathBuf::from("/var/run/docker.sock")];
    let below = |variable: &str, path: &str| {
        std::env::var_os(variable).map(|folder| PathBuf::from(folder).join(path))
    };
    places.extend(below("XDG_RUNTIME_DIR", "docker.sock"));
    places.extend(below("HOME", ".docker/run/docker.sock"));
    places
}

fn unreachable(socket: &Path, error: &io::Error) -> SandboxError {
    let shown = socket.display();
    match error.kind() {
        io::ErrorKind::NotFound => unavailable(&format!("there is no socket at {shown}")),
        io::ErrorKind::ConnectionRefused => unavailable(&format!("nobody listens at {shown}")),
        io::ErrorKind::PermissionDenied => unavailable(&format!(
            "this user may not use {shown}; members of the group `docker` usually may"
        )),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            unavailable(&format!("whoever listens at {shown} does not take connections"))
        }
        _ => unavailable(&format!("{shown}: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_socket_in_the_place_of_another_is_another() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let made = || {
            fs::write(&path, "").unwrap();
            let found = identity(&path).unwrap();
            assert_eq!(identity(&path), Some(found), "looking changes nothing");
            fs::remove_file(&path).unwrap();
            // Times are counted in ticks of the kernel's.
            std::thread::sleep(Duration::from_millis(50));
            found
        };
        assert_ne!(made(), made());
        assert_eq!(identity(&path), None);
    }
}
