//! Every limit of the daemon, with its name and its default.

use std::time::Duration;

use belljar_core::limits::MAX_KEPT_SNAPSHOT_BYTES;
use serde::{Deserialize, Serialize};

/// How much the daemon does for how many. Times are in seconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Clients at the same time. All of them are the same user's: others are not let in.
    pub connections: usize,
    /// Sandboxes of all clients.
    pub sandboxes: usize,
    /// Sandboxes of one client.
    pub sandboxes_per_client: usize,
    /// What the policies of one client's sandboxes allow them together.
    pub memory_bytes_per_client: u64,
    /// Executions that run at the same time. Those that wait for a tool of their client count.
    pub running: usize,
    /// The same of one client.
    pub running_per_client: usize,
    /// Executions that wait for their turn; more are refused.
    pub waiting: usize,
    /// Snapshots one client keeps.
    pub snapshots_per_client: usize,
    /// Bytes of them.
    pub snapshot_bytes_per_client: u64,
    /// Calls of tools that one client has not answered.
    pub calls_per_client: usize,
    /// Bytes of one client's requests that wait.
    pub inbound_bytes: usize,
    /// Bytes towards one client that it has not read; then it is disconnected.
    pub outbound_bytes: usize,
    /// Bytes of all clients together that wait, in both directions.
    pub buffered_bytes: usize,
    /// Until a client has sent its first whole line.
    pub handshake_seconds: f64,
    /// From a line's first byte to its last.
    pub line_seconds: f64,
    /// How often a worker is asked whether it lives.
    pub ping_seconds: f64,
    /// How long it may take to say so.
    pub hang_seconds: f64,
    /// How long a request waits for a worker that is being replaced.
    pub worker_seconds: f64,
    /// How long a named session stays in memory unused. Its state is on disk.
    pub idle_seconds: f64,
    /// How long `stop` waits for what runs.
    pub drain_seconds: f64,
    /// Connections over HTTP at the same time; more wait.
    pub http_connections: usize,
    /// The body of one request over HTTP.
    pub http_body_bytes: usize,
    /// Requests over HTTP that one client may make a second, and at once.
    pub http_requests_per_second: f64,
    /// Until the headers of a request over HTTP are there.
    pub http_header_seconds: f64,
    /// Until its body is.
    pub http_body_seconds: f64,
    /// How long a client over HTTP may take nothing of what it is told; then it is disconnected.
    pub http_stall_seconds: f64,
    /// Sandboxes of one key of E2B's clients, paused ones too.
    pub e2b_sandboxes: usize,
    /// Memory of one context of such a sandbox.
    pub e2b_code_memory_bytes: u64,
    /// Memory of all commands of such a sandbox.
    pub e2b_command_memory_bytes: u64,
    /// Processes of its commands.
    pub e2b_processes: u32,
    /// What its files may take.
    pub e2b_disk_bytes: u64,
    /// Memory of all workers together; three quarters of the machine's when zero.
    pub memory_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        const MIB: usize = 1024 * 1024;
        Self {
            connections: 1000,
            sandboxes: 2000,
            sandboxes_per_client: 256,
            // Half a gibibyte for each: few use what they are allowed.
            memory_bytes_per_client: 128 * 1024 * 1024 * 1024,
            running: 256,
            running_per_client: 64,
            waiting: 1024,
            snapshots_per_client: 16,
            // A quarter of what a worker keeps for all.
            snapshot_bytes_per_client: MAX_KEPT_SNAPSHOT_BYTES / 4,
            calls_per_client: 4096,
            // Two of the longest messages.
            inbound_bytes: 128 * MIB,
            outbound_bytes: 128 * MIB,
            buffered_bytes: 1024 * MIB,
            handshake_seconds: 10.0,
            line_seconds: 30.0,
            ping_seconds: 1.0,
            hang_seconds: 5.0,
            worker_seconds: 10.0,
            idle_seconds: 600.0,
            drain_seconds: 30.0,
            http_connections: 256,
            // The longest code that is accepted, if most of it is plain text.
            http_body_bytes: 24 * MIB,
            http_requests_per_second: 1000.0,
            http_header_seconds: 10.0,
            http_body_seconds: 60.0,
            http_stall_seconds: 60.0,
            e2b_sandboxes: 10_000,
            e2b_code_memory_bytes: 512 * 1024 * 1024,
            e2b_command_memory_bytes: 1024 * 1024 * 1024,
            e2b_processes: 128,
            e2b_disk_bytes: 1024 * 1024 * 1024,
            memory_bytes: 0,
        }
    }
}

impl Limits {
    /// The defaults with some values changed, each written as `name=value`.
    ///
    /// # Errors
    /// What is wrong with which.
    pub fn with(changes: &[String]) -> Result<Self, String> {
        let mut limits =
            serde_json::to_value(Self::default()).map_err(|error| error.to_string())?;
        for change in changes {
            let wrong = |why: &str| format!("{change:?}: {why}");
            let (name, value) = change.split_once('=').ok_or_else(|| wrong("write NAME=VALUE"))?;
            let known = limits.get_mut(name).ok_or_else(|| wrong("there is no such limit"))?;
            *known = value.parse::<serde_json::Number>().map_err(|_| wrong("no number"))?.into();
        }
        let limits: Self = serde_json::from_value(limits).map_err(|error| error.to_string())?;
        limits.check()?;
        Ok(limits)
    }

    fn check(&self) -> Result<(), String> {
        let times = [
            self.handshake_seconds,
            self.line_seconds,
            self.ping_seconds,
            self.hang_seconds,
            self.worker_seconds,
            self.idle_seconds,
            self.drain_seconds,
            self.http_header_seconds,
            self.http_body_seconds,
            self.http_stall_seconds,
        ];
        if times.iter().any(|time| Duration::try_from_secs_f64(*time).is_err()) {
            return Err("a time has to be a number of seconds that is not negative".to_owned());
        }
        if !(self.http_requests_per_second > 0.0 && self.http_requests_per_second.is_finite()) {
            return Err("http_requests_per_second has to be more than 0".to_owned());
        }
        if self.running == 0 || self.running_per_client == 0 {
            return Err("running and running_per_client have to be more than 0".to_owned());
        }
        Ok(())
    }
}

/// Checked when the limits were made.
pub(super) fn seconds(limit: f64) -> Duration {
    Duration::try_from_secs_f64(limit).unwrap_or(Duration::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_changed_by_its_name_and_nonsense_is_refused() {
        let changed = |text: &str| Limits::with(&[text.to_owned()]);
        assert_eq!(changed("running=3").unwrap().running, 3);
        assert_eq!(changed("idle_seconds=0.5").unwrap().idle_seconds, 0.5);
        let shown: Vec<String> =
            ["runing=3", "running", "running=x", "running=-1", "running=0", "line_seconds=-1"]
                .map(|text| changed(text).unwrap_err())
                .into();
        insta::assert_snapshot!(shown.join("\n"), @r#"
        "runing=3": there is no such limit
        "running": write NAME=VALUE
        "running=x": no number
        invalid value: integer `-1`, expected usize
        running and running_per_client have to be more than 0
        a time has to be a number of seconds that is not negative
        "#);
    }
}
