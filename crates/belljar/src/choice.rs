//! What `auto` stands for here.

use belljar_core::Backend;

use crate::factory::SandboxConfig;
use crate::plan::LaunchPlan;

/// What `auto` tries, in this order; the last one always works.
const PREFERRED: [Backend; 3] = [Backend::Daemon, Backend::Native, Backend::Pyodide];

/// The backend a configuration names, or the first of the preferred ones that can run here.
pub(crate) fn settle(config: &SandboxConfig) -> Backend {
    if config.backend != Backend::Auto {
        return config.backend;
    }
    PREFERRED.into_iter().find(|backend| can_run(*backend, config)).unwrap_or(Backend::Wasm)
}

/// Whether there is nothing in the policy against it, and it can be had: an interpreter with a jail
/// to put it in, or a daemon that answers.
fn can_run(backend: Backend, config: &SandboxConfig) -> bool {
    let config = SandboxConfig { backend, ..config.clone() };
    // What costs least is asked first.
    let allowed = || LaunchPlan::new(&config).is_ok();
    match backend {
        Backend::Daemon => allowed() && daemon_answers(&config),
        _ => jail_works() && allowed(),
    }
}

#[cfg(unix)]
fn daemon_answers(config: &SandboxConfig) -> bool {
    config.socket().is_ok_and(|socket| crate::remote::available(&socket).is_ok())
}

#[cfg(not(unix))]
fn daemon_answers(_: &SandboxConfig) -> bool {
    false
}

/// Whether processes can be jailed here, with which layers or why not, and what to do about it.
#[cfg(target_os = "linux")]
#[must_use]
pub fn jail_report() -> (bool, String, Option<String>) {
    let probe = belljar_jail::probe();
    let layers = probe.layers.iter().map(|layer| layer.name()).collect::<Vec<_>>().join(", ");
    let missing =
        probe.missing.iter().map(|missing| format!("no {}: {}", missing.what, missing.why));
    let missing = missing.collect::<Vec<_>>().join("; ");
    let hint =
        probe.missing.iter().map(|missing| missing.hint.to_owned()).find(|hint| !hint.is_empty());
    let parts: Vec<String> =
        [layers, missing].into_iter().filter(|part| !part.is_empty()).collect();
    (probe.usable(), parts.join("; "), hint)
}

/// Whether processes can be jailed here, with which layers or why not, and what to do about it.
#[cfg(not(target_os = "linux"))]
#[must_use]
pub fn jail_report() -> (bool, String, Option<String>) {
    (false, "there are jails on Linux only".to_owned(), None)
}

#[cfg(target_os = "linux")]
fn jail_works() -> bool {
    belljar_jail::probe().usable()
}

#[cfg(not(target_os = "linux"))]
fn jail_works() -> bool {
    false
}
