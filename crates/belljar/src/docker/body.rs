//! From a plan to the engine's words, and back: whether the container that was made is the one that
//! was asked for.

use std::collections::HashMap;

use bollard::models::{
    ContainerCreateBody, ContainerInspectResponse, HealthConfig, HostConfig,
    HostConfigCgroupnsModeEnum, HostConfigLogConfig, Mount, MountBindOptions,
    MountBindOptionsPropagationEnum, MountTypeEnum, ResourcesUlimits, RestartPolicy,
    RestartPolicyNameEnum,
};

use super::channel::{self, BOOT};
use super::engine::Facts;
use super::orphans;
use super::plan::ContainerPlan;

/// The name of every container's machine.
const HOSTNAME: &str = "belljar";

const NO_NEW_PRIVILEGES: &str = "no-new-privileges";

/// The engine's first process in a container, which forwards signals and buries the dead.
const OWN_PROCESSES: u64 = 1;

/// What the engine is asked to make. `pipes` is the folder on the host that holds the pipes.
pub(super) fn body(plan: &ContainerPlan, user: &str, pipes: &str) -> ContainerCreateBody {
    let limit = plan
        .process_memory_bytes
        .map_or("unlimited".to_owned(), |bytes| (bytes / 1024).to_string());
    let entrypoint = ["/bin/sh", "-c", BOOT, HOSTNAME, &limit].map(str::to_owned).to_vec();
    ContainerCreateBody {
        image: Some(plan.image.clone()),
        entrypoint: Some(entrypoint),
        cmd: Some(plan.command.clone()),
        user: Some(user.to_owned()),
        hostname: Some(HOSTNAME.to_owned()),
        working_dir: Some("/".to_owned()),
        env: Some(plan.env.iter().map(|(name, value)| format!("{name}={value}")).collect()),
        labels: Some(orphans::labels()),
        // What the image wants done regularly is not ours to run.
        healthcheck: Some(HealthConfig {
            test: Some(vec!["NONE".to_owned()]),
            ..HealthConfig::default()
        }),
        host_config: Some(host_config(plan, pipes)),
        ..ContainerCreateBody::default()
    }
}

fn host_config(plan: &ContainerPlan, pipes: &str) -> HostConfig {
    let text = |text: &str| Some(text.to_owned());
    let mut mounts: Vec<Mount> = plan
        .mounts
        .iter()
        .map(|mount| bind(&mount.host.to_string_lossy(), &mount.guest, mount.writable))
        .collect();
    mounts.push(bind(pipes, channel::INSIDE, false));
    let tmpfs = format!("rw,nosuid,nodev,mode=1777,size={}", plan.tmp_bytes);
    HostConfig {
        network_mode: text(network_mode(plan)),
        cap_drop: Some(vec!["ALL".to_owned()]),
        security_opt: Some(vec![NO_NEW_PRIVILEGES.to_owned()]),
        readonly_rootfs: Some(plan.read_only_root),
        mounts: Some(mounts),
        tmpfs: Some(HashMap::from([("/tmp".to_owned(), tmpfs)])),
        shm_size: Some(signed(plan.tmp_bytes)),
        memory: Some(signed(plan.memory_bytes)),
        memory_swap: Some(signed(plan.memory_bytes)),
        nano_cpus: Some(nano_cpus(plan)),
        pids_limit: Some(pids(plan)),
        ulimits: Some(vec![
            ulimit("nofile", plan.max_open_files),
            ulimit("core", 0),
            ulimit("fsize", plan.max_file_bytes),
        ]),
        init: Some(true),
        ipc_mode: text("private"),
        cgroupns_mode: Some(HostConfigCgroupnsModeEnum::PRIVATE),
        log_config: Some(HostConfigLogConfig { typ: text("none"), config: None }),
        restart_policy: Some(RestartPolicy {
            name: Some(RestartPolicyNameEnum::NO),
            maximum_retry_count: None,
        }),
        // How it ended is asked when it has ended, so it is removed by us and not by itself.
        auto_remove: Some(false),
        privileged: Some(false),
        ..HostConfig::default()
    }
}

const fn network_mode(plan: &ContainerPlan) -> &'static str {
    if plan.network { "bridge" } else { "none" }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "a float that is too large becomes the largest"
)]
fn nano_cpus(plan: &ContainerPlan) -> i64 {
    (plan.cpus * 1e9).round() as i64
}

fn pids(plan: &ContainerPlan) -> i64 {
    signed(plan.max_processes.saturating_add(OWN_PROCESSES))
}

/// A directory of the host. Others mounted in it are not shown, nor those that come later.
fn bind(host: &str, guest: &str, writable: bool) -> Mount {
    Mount {
        typ: Some(MountTypeEnum::BIND),
        source: Some(host.to_owned()),
        target: Some(guest.to_owned()),
        read_only: Some(!writable),
        bind_options: Some(MountBindOptions {
            propagation: Some(MountBindOptionsPropagationEnum::PRIVATE),
            non_recursive: Some(true),
            ..MountBindOptions::default()
        }),
        ..Mount::default()
    }
}

fn ulimit(name: &str, most: u64) -> ResourcesUlimits {
    let most = Some(signed(most));
    ResourcesUlimits { name: Some(name.to_owned()), soft: most, hard: most }
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// The layers of isolation around a container that was made, by what the engine says of it. An
/// error names what is missing.
pub(super) fn layers(
    found: &ContainerInspectResponse,
    plan: &ContainerPlan,
    facts: Facts,
) -> Result<Vec<String>, String> {
    let nothing = HostConfig::default();
    let host = found.host_config.as_ref().unwrap_or(&nothing);
    let ours = |mode: &Option<String>| mode.as_deref().is_none_or(|mode| !mode.starts_with("host"));
    let has = |list: &Option<Vec<String>>, wanted: &str| {
        list.iter().flatten().any(|item| item.eq_ignore_ascii_case(wanted))
    };
    let options = || host.security_opt.iter().flatten();
    let private = [&host.pid_mode, &host.ipc_mode, &host.uts_mode, &host.userns_mode];
    let memory = Some(signed(plan.memory_bytes));
    // An engine that knows no such limit is used only where there is no swap.
    let no_swap = host.memory_swap == memory || !facts.swap_limit;
    let limits = host.memory == memory
        && no_swap
        && host.pids_limit == Some(pids(plan))
        && host.nano_cpus == Some(nano_cpus(plan));
    let user = found.config.as_ref().and_then(|config| config.user.as_deref());
    if user.is_none() || user != plan.user.as_deref() {
        return Err("the engine has made a container for another user".to_owned());
    }
    let needed = [
        (private.into_iter().all(ours), "namespaces"),
        (host.network_mode.as_deref() == Some(network_mode(plan)), "no-network"),
        (host.readonly_rootfs == Some(true), "read-only-root"),
        (
            has(&host.cap_drop, "ALL")
                && host.cap_add.as_ref().is_none_or(Vec::is_empty)
                && host.privileged != Some(true),
            "no-capabilities",
        ),
        (options().any(|option| option.starts_with(NO_NEW_PRIVILEGES)), "no-new-privileges"),
        (limits, "cgroup"),
    ];
    let mut layers = vec!["docker".to_owned()];
    for (holds, name) in needed {
        if !holds {
            return Err(format!("the engine has made a container without {name}"));
        }
        if name != "no-network" || !plan.network {
            layers.push(name.to_owned());
        }
    }
    if facts.seccomp && !options().any(|option| option.contains("seccomp=unconfined")) {
        layers.push("seccomp".to_owned());
    }
    let profile = found.app_armor_profile.as_deref().unwrap_or_default();
    if !profile.is_empty() && profile != "unconfined" {
        layers.push("apparmor".to_owned());
    }
    Ok(layers)
}

#[cfg(test)]
mod tests {
    use bollard::models::ContainerConfig;

    use super::super::fake_engine::plan;
    use super::*;

    const ABLE: Facts = Facts { seccomp: true, swap_limit: true };

    fn found(user: Option<&str>, change: impl FnOnce(&mut HostConfig)) -> ContainerInspectResponse {
        let mut host = host_config(&plan(), "/pipes");
        change(&mut host);
        let user = user.map(str::to_owned);
        ContainerInspectResponse {
            host_config: Some(host),
            config: Some(ContainerConfig { user, ..ContainerConfig::default() }),
            ..ContainerInspectResponse::default()
        }
    }

    fn told(change: impl FnOnce(&mut HostConfig)) -> Result<Vec<String>, String> {
        layers(&found(Some("65534:65534"), change), &plan(), ABLE)
    }

    #[test]
    fn layers_are_those_that_the_engine_says_it_has_made() {
        let expected = "docker namespaces no-network read-only-root no-capabilities \
                        no-new-privileges cgroup seccomp";
        assert_eq!(told(|_| {}).unwrap().join(" "), expected);
        let unconfined = |host: &mut HostConfig| {
            host.security_opt.as_mut().unwrap().push("seccomp=unconfined".to_owned());
        };
        assert!(!told(unconfined).unwrap().contains(&"seccomp".to_owned()));
    }

    #[test]
    fn a_container_that_is_weaker_than_its_plan_is_refused() {
        let weaker: [fn(&mut HostConfig); 11] = [
            |host| host.network_mode = Some("bridge".to_owned()),
            |host| host.memory = Some(0),
            |host| host.memory_swap = Some(-1),
            |host| host.memory_swap = None,
            |host| host.pids_limit = None,
            |host| host.nano_cpus = Some(0),
            |host| host.readonly_rootfs = Some(false),
            |host| host.cap_drop = None,
            |host| host.cap_add = Some(vec!["SYS_ADMIN".to_owned()]),
            |host| host.security_opt = None,
            |host| host.pid_mode = Some("host".to_owned()),
        ];
        for change in weaker {
            told(change).unwrap_err();
        }
        for user in [None, Some(""), Some("0"), Some("root"), Some("65534:0")] {
            layers(&found(user, |_| {}), &plan(), ABLE).unwrap_err();
        }
        let swapless = Facts { swap_limit: false, ..ABLE };
        let unlimited = found(Some("65534:65534"), |host| host.memory_swap = Some(-1));
        layers(&unlimited, &plan(), swapless).unwrap();
    }

    #[test]
    fn no_limit_is_absent() {
        let body = body(&plan(), "65534:65534", "/pipes");
        let host = body.host_config.unwrap();
        assert_eq!(host.memory, host.memory_swap, "no swap");
        assert_eq!(host.pids_limit, Some(65));
        assert_eq!(host.ulimits.unwrap().len(), 3);
        assert!(host.binds.is_none() && host.devices.is_none());
        assert!(host.mounts.unwrap().iter().all(|mount| mount.read_only == Some(true)));
    }
}
