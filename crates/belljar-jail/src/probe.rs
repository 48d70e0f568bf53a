//! What confines a jail here, and what does not.

use serde::Serialize;

use crate::plan::JailPlan;

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
    /// A network without any interface.
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

    pub(crate) fn held(_plan: &JailPlan, landlock: u32, _proc: bool, grouped: bool) -> Vec<Self> {
        let mut layers =
            vec![Self::Userns, Self::Mountns, Self::Pidns, Self::Netns, Self::Ipcns, Self::Utsns];
        if landlock > 0 {
            layers.push(Self::Landlock);
        }
        layers.extend([Self::Seccomp, Self::Nocaps, Self::Rlimits]);
        if grouped {
            layers.push(Self::Cgroup);
        }
        layers
    }
}
