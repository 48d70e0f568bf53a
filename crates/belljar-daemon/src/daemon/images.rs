//! The data image, which is compiled when somebody first needs it. Workers cannot: their cache is
//! read-only, and compiling takes more memory than they have.

use belljar::{GuestImage, Home, RuntimeType};
use belljar_core::protocol::{FAILED, RpcError};
use tokio::sync::Mutex;
use tokio::task::spawn_blocking;

use super::errors::mistaken;

/// What a worker's refusal is called when the image is not there.
const MISSING: &str = "image_missing";

pub(super) struct Images {
    home: Home,
    /// Held while one is compiled: whoever comes later waits and finds it.
    compiling: Mutex<()>,
}

impl Images {
    pub(super) fn new(home: Home) -> Self {
        Self { home, compiling: Mutex::default() }
    }

    /// Sees to it that workers find the image. Costs little where it is there.
    pub(super) async fn prepare(&self) -> Result<(), RpcError> {
        let _alone = self.compiling.lock().await;
        let home = self.home.clone();
        let compile = move || belljar::wasm::prepare(RuntimeType::Python, GuestImage::Data, &home);
        match spawn_blocking(compile).await {
            Ok(prepared) => prepared.map_err(|error| mistaken(&error)),
            Err(error) => {
                let problem = format!("the data image was not compiled: {error}; nothing was run");
                Err(RpcError::new(FAILED, problem))
            }
        }
    }
}

/// Whether a worker lacks the image. It has run nothing then, and may be asked again.
pub(super) fn is_missing(error: &RpcError) -> bool {
    super::errors::kind(error) == Some(MISSING)
}
