//! What only the daemon answers, beside the [methods](super::methods) of every server.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How the daemon is: no parameters → [`DaemonStatus`].
pub const STATUS: &str = "status";
/// Its numbers as Prometheus reads them: no parameters → text.
pub const METRICS: &str = "metrics";
/// Ends the daemon once what runs has finished: [`StopParams`] → null, at once.
pub const STOP: &str = "stop";

/// How long to wait.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct StopParams {
    /// Seconds after which what still runs is cancelled; the daemon's own limit when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub patience_seconds: Option<f64>,
}

/// How a daemon is.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct DaemonStatus {
    /// Its version.
    pub belljar: String,
    /// The supervisor's process.
    pub pid: u32,
    /// How long it has run.
    pub uptime_seconds: f64,
    /// Whether it ends as soon as what runs has finished.
    pub stopping: bool,
    /// Whether its workers are in jails. `false` only when somebody asked for it.
    pub confined: bool,
    /// What confines them.
    pub layers: Vec<String>,
    /// Where it is served over HTTP, if it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http: Option<String>,
    /// Clients that are connected now.
    pub connections: u64,
    /// Sandboxes they have.
    pub sandboxes: u64,
    /// Executions that run.
    pub running: u64,
    /// Executions that wait for their turn.
    pub waiting: u64,
    /// Its workers.
    pub workers: Vec<WorkerStatus>,
    /// What has happened since it was started.
    pub counters: DaemonCounters,
}

/// How a worker is.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct WorkerStatus {
    /// Which.
    pub number: u64,
    /// Its process; null while it is being replaced.
    pub pid: Option<u32>,
    /// How long this process has run.
    pub uptime_seconds: f64,
    /// Sandboxes that live in it.
    pub sandboxes: u64,
    /// Executions that run in it.
    pub running: u64,
    /// How often it was replaced.
    pub restarts: u64,
}

/// What has happened since a daemon was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct DaemonCounters {
    /// Clients that have connected.
    pub connections: u64,
    /// Connections that were refused: too many, or of another user.
    pub refused_connections: u64,
    /// Clients that were disconnected for being silent or not reading.
    pub dropped_connections: u64,
    /// Sandboxes that were made.
    pub sandboxes: u64,
    /// Executions that have ended.
    pub executions: u64,
    /// Executions that were lost with their worker.
    pub crashed: u64,
    /// Requests that were answered with "busy".
    pub busy: u64,
    /// Named sessions that were brought back, after a worker was lost or after being idle.
    pub revived: u64,
    /// Workers that were replaced.
    pub restarts: u64,
}
