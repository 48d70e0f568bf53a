//! A server of the protocol behind a socket, as the daemon's clients see one.

use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock};

use belljar_daemon::serve::{Offer, serve};
use tempfile::TempDir;

use crate::jar::home;

/// Serves in this process until it ends.
#[derive(Debug)]
pub struct Daemon {
    folder: TempDir,
    connections: Arc<Mutex<Vec<UnixStream>>>,
}

impl Daemon {
    /// One that serves nobody else.
    #[must_use]
    pub fn start() -> Self {
        let folder = tempfile::tempdir().expect("a directory");
        let connections: Arc<Mutex<Vec<UnixStream>>> = Arc::default();
        let daemon = Self { folder, connections: Arc::clone(&connections) };
        let listener = UnixListener::bind(daemon.socket()).expect("a socket");
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let (input, kept) = (client.try_clone(), client.try_clone());
                let (input, kept) = (input.expect("a descriptor"), kept.expect("a descriptor"));
                connections.lock().expect("a list").push(kept);
                std::thread::spawn(move || serve(input, client, Offer::new(home())));
            }
        });
        daemon
    }

    /// The one that most tests use.
    #[must_use]
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<Daemon> = OnceLock::new();
        SHARED.get_or_init(Self::start)
    }

    /// Where it listens.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        self.folder.path().join("daemon.sock")
    }

    /// Leaves everybody alone, as one that was killed does; whoever comes is served again.
    pub fn hang_up(&self) {
        for client in self.connections.lock().expect("a list").drain(..) {
            let _ = client.shutdown(Shutdown::Both);
        }
    }
}
