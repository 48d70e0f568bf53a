//! One sandbox at the other end of a connection.

use std::sync::Arc;
use std::time::Duration;

use belljar_core::limits::MAX_BEGUN_CALLS;
use belljar_core::protocol::methods::{DESTROY, PENDING_CALLS, SandboxId, SandboxParams};
use belljar_core::{SandboxError, ToolCall};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::connection::Connection;
use super::errors::{self, Request};
use super::talk;

/// How long a daemon may take for what is no time of the guest's: its queue, its disk.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// Where a sandbox is.
pub(super) struct Place {
    pub(super) connection: Arc<Connection>,
    pub(super) sandbox: SandboxId,
}

impl Place {
    /// Asks for something that runs no code.
    pub(super) fn ask<T: DeserializeOwned>(
        &self,
        method: &str,
        params: &impl Serialize,
    ) -> Result<T, SandboxError> {
        ask(&self.connection, method, params)
    }

    /// The calls that a suspended execution waits for; none when nobody knows.
    pub(super) fn pending(&self) -> Vec<ToolCall> {
        let params = SandboxParams { sandbox: self.sandbox };
        let mut calls: Vec<ToolCall> = self.ask(PENDING_CALLS, &params).unwrap_or_default();
        calls.truncate(MAX_BEGUN_CALLS);
        calls
    }

    pub(super) fn tell(&self, method: &str, params: &impl Serialize) {
        self.connection.tell(method, params);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // When nobody else uses the connection, it ends now, and everything in it.
        if Arc::strong_count(&self.connection) > 1 {
            self.tell(DESTROY, &SandboxParams { sandbox: self.sandbox });
        }
    }
}

/// The same where there is no sandbox yet.
pub(super) fn ask<T: DeserializeOwned>(
    connection: &Connection,
    method: &str,
    params: &impl Serialize,
) -> Result<T, SandboxError> {
    let answer = talk::ask(connection, method, params, PATIENCE)
        .map_err(|failure| errors::error(failure, Request::Looks))?;
    serde_json::from_str(answer.get()).map_err(|_| errors::nonsense(method, Request::Looks))
}
