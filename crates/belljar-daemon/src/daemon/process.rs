//! What a worker does in its own process.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use belljar::{Durability, Home, RuntimeType, SandboxConfig, create_sandbox};

use super::errors::DaemonError;
use crate::serve::{Offer, serve};

/// Snapshots of all clients of one worker. The supervisor counts those of each.
const MAX_SNAPSHOTS: usize = 4096;

/// How a worker is started.
#[derive(Debug, Clone)]
pub struct WorkerSettings {
    /// Its own directory.
    pub home: PathBuf,
    /// Compiled guests.
    pub cache: PathBuf,
    /// Whether it is in no jail; then its standard input is the socket to the supervisor.
    pub unconfined: bool,
}

/// Serves the supervisor until it closes the connection.
///
/// # Errors
/// When the worker cannot be confined, or its guests cannot be loaded.
pub fn work(settings: WorkerSettings) -> Result<(), DaemonError> {
    let (input, output) = if settings.unconfined { standard_input() } else { jailed() }
        .map_err(DaemonError::system("take over the supervisor's socket"))?;
    let home = Home::at(settings.home).with_cache(settings.cache);
    prepare(&home)?;
    // The supervisor compiles it, for all workers, when one of them needs it.
    belljar::wasm::leave_data_image_to_others();
    let offer = Offer {
        max_sandboxes: usize::MAX,
        max_snapshots: MAX_SNAPSHOTS,
        // Whoever pulls the plug loses what the system had not written yet; a worker that is killed
        // loses nothing.
        durability: Durability::System,
        ..Offer::new(home)
    };
    serve(input, output, offer).map_err(DaemonError::system("read from the supervisor"))
}

/// Loads the interpreter of each language, compiling it if need be, so that the first who asks need
/// not wait. The data image is not for everybody, and loaded when somebody needs it.
///
/// # Errors
/// When one does not work.
pub fn prepare(home: &Home) -> Result<(), DaemonError> {
    let place = tempfile::tempdir().map_err(DaemonError::system("make a temporary directory"))?;
    for runtime in [RuntimeType::Python, RuntimeType::Javascript] {
        let config = SandboxConfig {
            runtime,
            workspace: Some(place.path().to_owned()),
            home: Some(home.clone()),
            ..SandboxConfig::default()
        };
        create_sandbox(&config)?.execute("")?;
    }
    Ok(())
}

#[cfg(target_os = "linux")]
fn jailed() -> io::Result<(UnixStream, UnixStream)> {
    let (input, output) = belljar_jail::inside::protocol()?;
    belljar_jail::inside::seal().map_err(io::Error::other)?;
    Ok((UnixStream::from(input), UnixStream::from(output)))
}

#[cfg(not(target_os = "linux"))]
fn jailed() -> io::Result<(UnixStream, UnixStream)> {
    Err(io::Error::other("there are no jails on this system"))
}

fn standard_input() -> io::Result<(UnixStream, UnixStream)> {
    use std::os::fd::AsFd;
    let socket: OwnedFd = io::stdin().as_fd().try_clone_to_owned()?;
    let stream = UnixStream::from(socket);
    Ok((stream.try_clone()?, stream))
}
