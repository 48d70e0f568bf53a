//! Backends, and which rules of a policy each can enforce.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What isolates the guest.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Default,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Backend {
    /// WebAssembly memory safety, WASI capabilities and fuel.
    #[default]
    Wasm,
    /// A native interpreter in a Linux jail. Also called `local`.
    #[serde(alias = "local")]
    Native,
    /// Pyodide in Deno or Node, inside the jail.
    Pyodide,
    /// A container.
    Docker,
    /// A remote service that speaks the E2B interface.
    E2b,
    /// A running Belljar daemon.
    Daemon,
    /// The first of daemon, native, pyodide and wasm that works here.
    Auto,
}

impl Backend {
    /// Every backend, in the order they are listed to people.
    pub const ALL: [Self; 7] = [
        Self::Wasm,
        Self::Native,
        Self::Pyodide,
        Self::Docker,
        Self::E2b,
        Self::Daemon,
        Self::Auto,
    ];

    /// The name used on the command line, in configuration and in messages.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Wasm => "wasm",
            Self::Native => "native",
            Self::Pyodide => "pyodide",
            Self::Docker => "docker",
            Self::E2b => "e2b",
            Self::Daemon => "daemon",
            Self::Auto => "auto",
        }
    }

    /// The name that stands in `meta.runtime` of a result, where `native` is called `local`.
    #[must_use]
    pub const fn runtime_name(self) -> &'static str {
        match self {
            Self::Native => "local",
            Self::Wasm | Self::Pyodide | Self::Docker | Self::E2b | Self::Daemon | Self::Auto => {
                self.as_str()
            }
        }
    }

    /// The rules this backend can enforce, or `None` where that depends on what it turns out to be
    /// (`auto`). A daemon is asked for wasm, and enforces what that does.
    #[must_use]
    pub fn abilities(self) -> Option<Abilities> {
        use Rule::{
            Imports, Memory, Network, Output, Processes, Time, Tools, WorkspaceBytes,
            WorkspaceFiles,
        };
        match self {
            Self::Wasm | Self::Daemon => Some(Abilities::all()),
            Self::Native | Self::Pyodide | Self::Docker => Some(Abilities::of(&[
                Time,
                Memory,
                Processes,
                WorkspaceBytes,
                WorkspaceFiles,
                Output,
                Network,
                Tools,
                Imports,
            ])),
            Self::E2b => Some(Abilities::of(&[Time, Output, Imports])),
            Self::Auto => None,
        }
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A backend name nobody knows.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown backend `{0}`; the backends are wasm, native (or local), pyodide, docker, e2b, daemon and auto"
)]
pub struct UnknownBackend(String);

impl FromStr for Backend {
    type Err = UnknownBackend;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let lower = name.to_ascii_lowercase();
        if lower == "local" {
            return Ok(Self::Native);
        }
        Self::ALL
            .into_iter()
            .find(|backend| backend.as_str() == lower)
            .ok_or_else(|| UnknownBackend(name.to_owned()))
    }
}

/// One thing a policy can ask a backend to enforce.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Rule {
    /// `timeout_seconds`.
    Time,
    /// `stdout_max_bytes` and `stderr_max_bytes`.
    Output,
    /// `memory_bytes`.
    Memory,
    /// `fuel_budget`.
    Fuel,
    /// `workspace_max_bytes`.
    WorkspaceBytes,
    /// `workspace_max_files`.
    WorkspaceFiles,
    /// `max_processes`.
    Processes,
    /// `max_tool_calls`, `max_tool_bytes` and `max_rlm_depth`.
    Tools,
    /// `network = "denied"`.
    Network,
    /// `deterministic = true`.
    Deterministic,
    /// `block_imports`. The host reads the code, so every backend can; it reads Python only.
    Imports,
    /// `image = "data"`. It is an image of the embedded Python.
    Image,
}

impl Rule {
    /// Every rule.
    pub const ALL: [Self; 12] = [
        Self::Time,
        Self::Output,
        Self::Memory,
        Self::Fuel,
        Self::WorkspaceBytes,
        Self::WorkspaceFiles,
        Self::Processes,
        Self::Tools,
        Self::Network,
        Self::Deterministic,
        Self::Imports,
        Self::Image,
    ];

    /// The policy field that sets this rule, as people write it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Time => "timeout_seconds",
            Self::Output => "stdout_max_bytes/stderr_max_bytes",
            Self::Memory => "memory_bytes",
            Self::Fuel => "fuel_budget",
            Self::WorkspaceBytes => "workspace_max_bytes",
            Self::WorkspaceFiles => "workspace_max_files",
            Self::Processes => "max_processes",
            Self::Tools => "max_tool_calls/max_tool_bytes/max_rlm_depth",
            Self::Network => "network",
            Self::Deterministic => "deterministic",
            Self::Imports => "block_imports",
            Self::Image => "image",
        }
    }

    const fn bit(self) -> u16 {
        1 << (self as u16)
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The set of rules a backend can enforce.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Abilities(u16);

impl Abilities {
    /// Every rule there is.
    #[must_use]
    pub fn all() -> Self {
        Self::of(&Rule::ALL)
    }

    /// Exactly these rules.
    #[must_use]
    pub fn of(rules: &[Rule]) -> Self {
        Self(rules.iter().fold(0, |bits, rule| bits | rule.bit()))
    }

    /// These rules without one of them.
    #[must_use]
    pub const fn without(self, rule: Rule) -> Self {
        Self(self.0 & !rule.bit())
    }

    /// Whether the rule can be enforced.
    #[must_use]
    pub const fn can(self, rule: Rule) -> bool {
        self.0 & rule.bit() != 0
    }

    /// The rules in the set, in order.
    pub fn rules(self) -> impl Iterator<Item = Rule> {
        Rule::ALL.into_iter().filter(move |rule| self.can(*rule))
    }
}

impl fmt::Debug for Abilities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.rules()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip_and_local_is_native() {
        for backend in Backend::ALL {
            assert_eq!(backend.as_str().parse(), Ok(backend));
            let json = serde_json::to_string(&backend).unwrap();
            assert_eq!(serde_json::from_str::<Backend>(&json).unwrap(), backend);
        }
        assert_eq!("local".parse(), Ok(Backend::Native));
        assert_eq!(serde_json::from_str::<Backend>("\"local\"").unwrap(), Backend::Native);
        assert_eq!(Backend::Native.runtime_name(), "local");
    }

    #[test]
    fn every_backend_enforces_time_and_output() {
        for abilities in Backend::ALL.into_iter().filter_map(Backend::abilities) {
            assert!(abilities.can(Rule::Time) && abilities.can(Rule::Output), "{abilities:?}");
        }
    }

    #[test]
    fn a_set_of_rules_holds_what_was_put_in() {
        let set = Abilities::of(&[Rule::Time, Rule::Fuel]);
        assert_eq!(set.rules().collect::<Vec<_>>(), [Rule::Time, Rule::Fuel]);
        assert!(!set.without(Rule::Fuel).can(Rule::Fuel));
        assert_eq!(Abilities::all().rules().count(), Rule::ALL.len());
    }
}
