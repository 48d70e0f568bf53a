//! What confines a jail here, and what does not, found out by trying.

use std::fs::File;
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::OnceLock;

use serde::Serialize;

use crate::cgroup::Cgroup;
use crate::error::JailError;
use crate::plan::{JailPlan, Limits};
use crate::spawn::{Descriptors, Jailed};

/// One mechanism that confines a jail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Layer {
    /// An own user namespace: the program is nobody outside of it.
    Userns,
    /// An own tree of mounts with a new root.
    Mountns,
    /// Only its own processes exist for it, and they end together.
    Pidns,
    /// A network without any interface that is up.
    Netns,
    /// Own shared memory and semaphores.
    Ipcns,
    /// An own host name.
    Utsns,
    /// Rules about files, sockets and signals by a second part of the kernel.
    Landlock,
    /// A list of allowed system calls.
    Seccomp,
    /// No capabilities, and no way to get any.
    Nocaps,
    /// Limits of each process.
    Rlimits,
    /// Limits of the whole jail.
    Cgroup,
}

impl Layer {
    /// The short word that results carry.
    pub fn name(self) -> &'static str {
        match self {
            Self::Userns => "userns",
            Self::Mountns => "mountns",
            Self::Pidns => "pidns",
            Self::Netns => "netns",
            Self::Ipcns => "ipcns",
            Self::Utsns => "utsns",
            Self::Landlock => "landlock",
            Self::Seccomp => "seccomp",
            Self::Nocaps => "nocaps",
            Self::Rlimits => "rlimits",
            Self::Cgroup => "cgroup",
        }
    }

    /// All of a running jail. Without those that are not asked about here there is no jail at all.
    pub(crate) fn held(landlock: bool, cgroup: bool) -> Vec<Self> {
        let optional = |held: bool, layer: Self| held.then_some(layer);
        [Self::Userns, Self::Mountns, Self::Pidns, Self::Netns, Self::Ipcns, Self::Utsns]
            .into_iter()
            .chain(optional(landlock, Self::Landlock))
            .chain([Self::Seccomp, Self::Nocaps, Self::Rlimits])
            .chain(optional(cgroup, Self::Cgroup))
            .collect()
    }
}

/// What a jail would be made of on this system, for this user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Probe {
    /// What would confine it; empty when none can be had.
    pub layers: Vec<Layer>,
    /// What would not, or what a jail fails on, and why.
    pub missing: Vec<Missing>,
}

/// Something that does not work here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Missing {
    /// A layer's name, `proc` for `/proc` in the jail, or `jail` for all of it.
    pub what: &'static str,
    /// Why not.
    pub why: String,
    /// What can be done about it.
    pub hint: &'static str,
}

impl Probe {
    /// Whether jails can be had.
    pub fn usable(&self) -> bool {
        !self.layers.is_empty()
    }
}

/// Tries a jail around nothing in particular. The first call takes some milliseconds, and its
/// answer is kept.
pub fn probe() -> &'static Probe {
    static ANSWER: OnceLock<Probe> = OnceLock::new();
    ANSWER.get_or_init(try_a_jail)
}

fn try_a_jail() -> Probe {
    let mut missing = Vec::new();
    if let Err(why) = Cgroup::create(&Limits::default()) {
        let hint = "run as root, or let systemd delegate a group: \
                    systemd-run --user --scope -p Delegate=yes …";
        missing.push(Missing { what: Layer::Cgroup.name(), why, hint });
    }
    match start_nothing() {
        Ok(jail) => {
            if !jail.layers().contains(&Layer::Landlock) {
                let why = "the kernel does not have it, or it is not switched on".into();
                let hint = "Linux 5.13 or newer, with `landlock` in its lsm= list";
                missing.push(Missing { what: Layer::Landlock.name(), why, hint });
            }
            if !jail.has_proc() {
                let why = "this system hides parts of its own /proc".into();
                let hint = "in a container: run it with an unmasked /proc";
                missing.push(Missing { what: "proc", why, hint });
            }
            Probe { layers: jail.layers().to_vec(), missing }
        }
        Err(error) => {
            missing.push(Missing { what: "jail", why: error.to_string(), hint: hint_for(&error) });
            Probe { layers: Vec::new(), missing }
        }
    }
}

fn start_nothing() -> Result<Jailed, JailError> {
    const ANY_PROGRAM: [&str; 3] = ["/bin/true", "/usr/bin/true", "/bin/sh"];
    let what = "find a program to try";
    let program = ANY_PROGRAM
        .into_iter()
        .find(|path| std::fs::exists(path).unwrap_or(false))
        .ok_or_else(|| JailError::host(what)(ErrorKind::NotFound.into()))?;
    let mut plan = JailPlan::new(program);
    plan.with_system();
    plan.directory = "/".into();
    let null = || -> std::io::Result<OwnedFd> {
        Ok(File::options().read(true).write(true).open("/dev/null")?.into())
    };
    let descriptors = || -> std::io::Result<Descriptors> {
        let (ours, _) = UnixStream::pair()?;
        Ok(Descriptors {
            protocol_in: ours.try_clone()?.into(),
            protocol_out: ours.into(),
            user_stdout: null()?,
            user_stderr: null()?,
        })
    };
    Jailed::spawn(&plan, descriptors().map_err(JailError::host("open /dev/null"))?)
}

fn hint_for(error: &JailError) -> &'static str {
    match error {
        // Whatever step it is that is not permitted: the rights for it come with the namespace.
        JailError::Step { source, .. } if source.kind() == ErrorKind::PermissionDenied => {
            "allow unprivileged user namespaces: sysctl user.max_user_namespaces, \
             kernel.unprivileged_userns_clone=1, \
             kernel.apparmor_restrict_unprivileged_userns=0; in a container, a seccomp profile \
             that allows them"
        }
        JailError::Step { .. } => "Linux 5.12 or newer is needed",
        JailError::Unenforceable { .. } => "run as an ordinary user, or with control groups",
        _ => "use the wasm backend",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_says_yes_or_why_not() {
        let found = probe();
        assert_eq!(found.usable(), !found.missing.iter().any(|m| m.what == "jail"), "{found:?}");
    }

    #[test]
    fn names_are_those_of_results() {
        for layer in Layer::held(true, true) {
            assert_eq!(serde_json::to_value(layer).unwrap(), layer.name());
        }
    }
}
