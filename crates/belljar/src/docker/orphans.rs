//! Containers that a Belljar has left behind: found by their labels, removed when the process that
//! made them is gone.

use std::collections::HashMap;
use std::fs;

use bollard::models::{ContainerSummary, ContainerSummaryStateEnum};
use bollard::query_parameters::{ListContainersOptionsBuilder, RemoveContainerOptionsBuilder};

use super::engine::{Engine, PATIENCE, Refused};

/// The process that made a container, by what nobody else on any machine has at once.
const PID: &str = "dev.belljar.pid";
const STARTED: &str = "dev.belljar.started";
const BOOT: &str = "dev.belljar.boot";
const PID_NAMESPACE: &str = "dev.belljar.pid-namespace";

/// What a container of this process is marked with.
pub(super) fn labels() -> HashMap<String, String> {
    let pid = std::process::id();
    let labels = [
        (PID, pid.to_string()),
        (STARTED, started(pid).unwrap_or_default()),
        (BOOT, boot()),
        (PID_NAMESPACE, pid_namespace()),
    ];
    labels.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Removes what nobody owns any more; says how much that was.
pub(super) fn collect(engine: &Engine) -> Result<usize, Refused> {
    let ours = HashMap::from([("label", vec![PID])]);
    let options = ListContainersOptionsBuilder::default().all(true).filters(&ours).build();
    let found = engine
        .ask(PATIENCE, |docker| async move { docker.list_containers(Some(options)).await })?;
    let mut removed = 0;
    for id in found.into_iter().filter(is_orphan).filter_map(|container| container.id) {
        let options = RemoveContainerOptionsBuilder::default().force(true).v(true).build();
        let gone = engine.ask(PATIENCE, |docker| async move {
            docker.remove_container(&id, Some(options)).await
        });
        match gone {
            Ok(()) => removed += 1,
            // Somebody else is removing it, or has.
            Err(Refused { status: Some(404 | 409), .. }) => {}
            Err(refused) => return Err(refused),
        }
    }
    Ok(removed)
}

/// Whether its maker is certainly gone. One that cannot be looked at, in another pid namespace for
/// example, is left alone.
fn is_orphan(container: &ContainerSummary) -> bool {
    let label = |name: &str| {
        let labels = container.labels.as_ref();
        labels.and_then(|labels| labels.get(name)).map(String::as_str).unwrap_or_default()
    };
    if label(BOOT) != boot() {
        // Of before the last start of this machine, or of another one that may still want it.
        return container.state != Some(ContainerSummaryStateEnum::RUNNING);
    }
    let pid = label(PID).parse::<u32>().ok();
    let same_view = !label(PID_NAMESPACE).is_empty() && label(PID_NAMESPACE) == pid_namespace();
    same_view && pid.is_some_and(|pid| started(pid).as_deref() != Some(label(STARTED)))
}

/// When a process began, in the system's own count; `None` when there is no such process.
fn started(pid: u32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may hold anything; the time is the twentieth field after it.
    let fields = stat.rsplit(") ").next()?;
    fields.split(' ').nth(19).map(str::to_owned)
}

fn boot() -> String {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    id.trim().to_owned()
}

fn pid_namespace() -> String {
    let link = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    link.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn container(change: &[(&str, &str)], state: ContainerSummaryStateEnum) -> ContainerSummary {
        let mut labels = labels();
        for (name, value) in change {
            labels.insert((*name).to_owned(), (*value).to_owned());
        }
        let labels = Some(labels);
        ContainerSummary { labels, state: Some(state), ..ContainerSummary::default() }
    }

    #[test]
    fn only_what_certainly_has_no_owner_is_an_orphan() {
        use ContainerSummaryStateEnum::{EXITED, RUNNING};
        let orphan = |change: &[(&str, &str)], state| is_orphan(&container(change, state));
        assert!(!orphan(&[], RUNNING) && !orphan(&[], EXITED), "its owner is this test");
        assert!(orphan(&[(STARTED, "1")], RUNNING), "another process has that number now");
        assert!(orphan(&[(PID, "4294967294")], RUNNING), "there is no such process");
        assert!(!orphan(&[(PID, "x")], RUNNING), "that is no process at all");
        assert!(!orphan(&[(STARTED, "1"), (PID_NAMESPACE, "pid:[1]")], RUNNING));
        assert!(!orphan(&[(BOOT, "elsewhere")], RUNNING));
        assert!(orphan(&[(BOOT, "elsewhere")], EXITED));
        assert!(!is_orphan(&ContainerSummary {
            state: Some(RUNNING),
            ..ContainerSummary::default()
        }));
    }
}
