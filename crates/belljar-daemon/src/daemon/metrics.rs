//! The daemon's numbers as Prometheus reads them.

use std::fmt::Write as _;

use belljar_core::protocol::daemon::DaemonStatus;

pub(super) fn text(status: &DaemonStatus) -> String {
    let counters = &status.counters;
    let mut out = String::new();
    let mut metric = |kind: &str, name: &str, help: &str, value: &dyn std::fmt::Display| {
        // Writing to a string does not fail.
        let _ = writeln!(
            out,
            "# HELP belljar_{name} {help}\n# TYPE belljar_{name} {kind}\nbelljar_{name} {value}"
        );
    };
    metric("gauge", "uptime_seconds", "Since the daemon was started.", &status.uptime_seconds);
    metric("gauge", "connections", "Clients that are connected.", &status.connections);
    metric("gauge", "sandboxes", "Sandboxes that clients have.", &status.sandboxes);
    metric("gauge", "executions_running", "Executions that run.", &status.running);
    metric("gauge", "executions_waiting", "Executions that wait for their turn.", &status.waiting);
    let ready = status.workers.iter().filter(|worker| worker.pid.is_some()).count();
    metric("gauge", "workers_ready", "Workers that can be used.", &ready);
    let all: [(&str, &str, u64); 9] = [
        ("connections_total", "Clients that have connected.", counters.connections),
        (
            "connections_refused_total",
            "Connections that were refused.",
            counters.refused_connections,
        ),
        (
            "connections_dropped_total",
            "Clients that were silent or did not read.",
            counters.dropped_connections,
        ),
        ("sandboxes_total", "Sandboxes that were made.", counters.sandboxes),
        ("executions_total", "Executions that have ended.", counters.executions),
        ("executions_crashed_total", "Executions lost with their worker.", counters.crashed),
        ("busy_total", "Requests answered with busy.", counters.busy),
        ("sessions_revived_total", "Named sessions that were brought back.", counters.revived),
        ("worker_restarts_total", "Workers that were replaced.", counters.restarts),
    ];
    for (name, help, value) in all {
        metric("counter", name, help, &value);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_has_a_type_and_a_line() {
        let text = text(&DaemonStatus { running: 3, ..DaemonStatus::default() });
        assert!(
            text.contains(
                "# TYPE belljar_executions_running gauge\nbelljar_executions_running 3\n"
            )
        );
        assert_eq!(text.matches("# TYPE").count(), text.matches("# HELP").count());
        assert_eq!(text.lines().count(), 3 * text.matches("# TYPE").count());
    }
}
