//! Containers that a Belljar has left behind: found by their labels, removed when the process that
//! made them is gone.

use std::collections::HashMap;
use std::fs;

use bollard::models::{ContainerSummary, ContainerSummaryStateEnum};
use bollard::query_parameters::{ListContainersOptionsBuilder, RemoveContainerOptionsBuilder};
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

use super::engine::{Engine, PATIENCE, Refused};
use super::removals::is_going;

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
            Err(refused) if is_going(&refused) => {}
            Err(refused) => return Err(refused),
        }
    }
    Ok(removed)
}

/// Whether its maker is certainly gone. One that cannot be looked at, in another pid namespace for
/// example, is left alone, and so is one that does not say whose it is.
fn is_orphan(container: &ContainerSummary) -> bool {
    use ContainerSummaryStateEnum::{DEAD, EXITED};
    let label = |name: &str| {
        let labels = container.labels.as_ref();
        labels.and_then(|labels| labels.get(name)).filter(|value| !value.is_empty())
    };
    let (Some(pid), Some(started)) = (label(PID), label(STARTED)) else { return false };
    let (Some(made_in), Some(seen_by)) = (label(BOOT), label(PID_NAMESPACE)) else { return false };
    let now = boot();
    if *made_in != now {
        // Of before the last start of this machine, or of another one that may still want it.
        return !now.is_empty() && matches!(container.state, Some(EXITED | DEAD));
    }
    *seen_by == pid_namespace() && pid.parse().is_ok_and(|pid| is_gone(pid, started))
}

/// Whether a process that began at this time is certainly gone. Where `/proc` hides the processes of
/// other users, only a number that nobody has is proof.
fn is_gone(pid: u32, began: &str) -> bool {
    match started(pid) {
        Some(time) => time != began,
        None => {
            let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
            pid.is_some_and(|pid| test_kill_process(pid) == Err(Errno::SRCH))
        }
    }
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
        use ContainerSummaryStateEnum::{CREATED, DEAD, EXITED, PAUSED, RUNNING};
        let orphan = |change: &[(&str, &str)], state| is_orphan(&container(change, state));
        assert!(!orphan(&[], RUNNING) && !orphan(&[], EXITED), "its owner is this test");
        assert!(orphan(&[(STARTED, "1")], RUNNING), "another process has that number now");
        // More than any system gives out.
        assert!(orphan(&[(PID, "2147483647")], RUNNING), "there is no such process");
        for none in ["x", "0", "-1", "4294967294"] {
            assert!(!orphan(&[(PID, none)], RUNNING), "{none} is no process at all");
        }
        assert!(!orphan(&[(STARTED, "1"), (PID_NAMESPACE, "pid:[1]")], RUNNING));
        for state in [RUNNING, PAUSED, CREATED] {
            assert!(!orphan(&[(BOOT, "elsewhere")], state), "{state}");
        }
        assert!(orphan(&[(BOOT, "elsewhere")], EXITED) && orphan(&[(BOOT, "elsewhere")], DEAD));
    }

    #[test]
    fn one_that_does_not_say_whose_it_is_is_nobodys_to_remove() {
        use ContainerSummaryStateEnum::{EXITED, RUNNING};
        for state in [RUNNING, EXITED] {
            for name in [PID, STARTED, BOOT, PID_NAMESPACE] {
                let mut container = container(&[(PID, "2147483647"), (name, "")], state);
                assert!(!is_orphan(&container), "{name} is empty");
                container.labels.as_mut().unwrap().remove(name);
                assert!(!is_orphan(&container), "{name} is missing");
            }
            let state = Some(state);
            assert!(!is_orphan(&ContainerSummary { state, ..ContainerSummary::default() }));
        }
    }

    #[test]
    fn a_process_that_only_hides_is_not_gone() {
        // The first process lives, whether or not this user may look at it.
        assert!(!is_gone(1, &started(1).unwrap_or_default()));
        assert!(is_gone(1, "never") == started(1).is_some());
    }
}
