//! From what a caller allows to what a backend promises to hold.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde::{Serialize, Serializer};

use crate::backend::{Abilities, Backend, Rule};
use crate::error::SandboxError;
use crate::image::ImageChoice;
use crate::policy::{ExecutionPolicy, Field, PolicyValues};
use crate::result::ResourceLimits;
use crate::tools::ToolLimits;

/// A policy that was checked against a backend's abilities. Backends accept nothing else, and only
/// [`resolve`] makes one.
///
/// Limits the backend cannot enforce and nobody asked for are `None`.
#[derive(Debug, Clone, PartialEq)]
pub struct ResolvedPolicy {
    backend: Backend,
    limits: ResourceLimits,
    values: PolicyValues,
}

/// Checks a policy against what a backend can enforce.
///
/// A rule that somebody set explicitly and the backend cannot enforce is refused, never dropped.
///
/// # Errors
/// [`SandboxError::Unenforceable`] for the first such rule; [`SandboxError::BackendUnavailable`]
/// for `auto`, which has to be settled to a real backend first.
pub fn resolve(
    policy: &ExecutionPolicy,
    backend: Backend,
    abilities: Abilities,
) -> Result<ResolvedPolicy, SandboxError> {
    if backend == Backend::Auto {
        return Err(SandboxError::BackendUnavailable {
            backend,
            reason: "it stands for another backend and none was chosen".to_owned(),
            hint: Some("choose a backend, for example wasm".to_owned()),
        });
    }
    for rule in Rule::ALL {
        if !abilities.can(rule) && is_required(policy, rule) {
            return Err(SandboxError::Unenforceable { rule, backend });
        }
    }
    Ok(ResolvedPolicy {
        backend,
        limits: enforced_limits(policy, abilities),
        values: policy.values().clone(),
    })
}

/// Whether the policy insists on a rule: time and output limits always hold, the others when
/// somebody asked for them.
fn is_required(policy: &ExecutionPolicy, rule: Rule) -> bool {
    match rule {
        Rule::Time | Rule::Output => true,
        Rule::Memory => policy.is_explicit(Field::MemoryBytes),
        Rule::Fuel => policy.is_explicit(Field::FuelBudget),
        Rule::WorkspaceBytes => policy.is_explicit(Field::WorkspaceMaxBytes),
        Rule::WorkspaceFiles => policy.is_explicit(Field::WorkspaceMaxFiles),
        Rule::Processes => policy.is_explicit(Field::MaxProcesses),
        Rule::Tools => [Field::MaxToolCalls, Field::MaxToolBytes, Field::MaxRlmDepth]
            .into_iter()
            .any(|field| policy.is_explicit(field)),
        Rule::Network => policy.is_explicit(Field::Network),
        Rule::Deterministic => policy.deterministic,
        Rule::Imports => !policy.block_imports.is_empty(),
        // What the plain image has, every interpreter has.
        Rule::Image => policy.image == ImageChoice::Data,
    }
}

fn enforced_limits(policy: &PolicyValues, abilities: Abilities) -> ResourceLimits {
    let when = |rule: Rule, value: u64| abilities.can(rule).then_some(value);
    ResourceLimits {
        fuel_budget: when(Rule::Fuel, policy.fuel_budget),
        memory_bytes: when(Rule::Memory, policy.memory_bytes),
        timeout_seconds: policy.timeout_seconds,
        stdout_max_bytes: policy.stdout_max_bytes,
        stderr_max_bytes: policy.stderr_max_bytes,
        workspace_max_bytes: when(Rule::WorkspaceBytes, policy.workspace_max_bytes),
        workspace_max_files: when(Rule::WorkspaceFiles, policy.workspace_max_files),
        max_processes: when(Rule::Processes, policy.max_processes),
        max_tool_calls: when(Rule::Tools, policy.max_tool_calls),
        max_tool_bytes: when(Rule::Tools, policy.max_tool_bytes),
        max_rlm_depth: when(Rule::Tools, policy.max_rlm_depth),
        network: abilities.can(Rule::Network).then_some(policy.network),
    }
}

impl ResolvedPolicy {
    /// The backend it was resolved for.
    #[must_use]
    pub const fn backend(&self) -> Backend {
        self.backend
    }

    /// The limits that really hold, as they stand in `meta.resource_limits` of a result.
    #[must_use]
    pub fn resource_limits(&self) -> ResourceLimits {
        self.limits.clone()
    }

    /// Fuel, where the backend counts it.
    #[must_use]
    pub const fn fuel_budget(&self) -> Option<u64> {
        self.limits.fuel_budget
    }

    /// Memory in bytes, where the backend limits it.
    #[must_use]
    pub const fn memory_bytes(&self) -> Option<u64> {
        self.limits.memory_bytes
    }

    /// Wall-clock time one execution may take.
    #[must_use]
    pub fn timeout(&self) -> Duration {
        Duration::from_secs_f64(self.values.timeout_seconds)
    }

    /// Bytes of standard output that are kept.
    #[must_use]
    pub fn stdout_max_bytes(&self) -> usize {
        usize::try_from(self.values.stdout_max_bytes).unwrap_or(usize::MAX)
    }

    /// Bytes of standard error that are kept.
    #[must_use]
    pub fn stderr_max_bytes(&self) -> usize {
        usize::try_from(self.values.stderr_max_bytes).unwrap_or(usize::MAX)
    }

    /// Bytes the workspace may hold, where the backend limits it.
    #[must_use]
    pub const fn workspace_max_bytes(&self) -> Option<u64> {
        self.limits.workspace_max_bytes
    }

    /// Files the workspace may hold, where the backend limits it.
    #[must_use]
    pub const fn workspace_max_files(&self) -> Option<u64> {
        self.limits.workspace_max_files
    }

    /// Processes the guest may have, where the backend limits them.
    #[must_use]
    pub const fn max_processes(&self) -> Option<u64> {
        self.limits.max_processes
    }

    /// What one execution may use of its tools. The host counts, so they hold wherever there are
    /// tools at all.
    #[must_use]
    pub const fn tool_limits(&self) -> ToolLimits {
        ToolLimits { calls: self.values.max_tool_calls, bytes: self.values.max_tool_bytes }
    }

    /// How deep `rlm_query` may be nested: the outermost sandbox is at depth 0, and one at this
    /// depth may not ask any more.
    #[must_use]
    pub const fn max_rlm_depth(&self) -> u64 {
        self.values.max_rlm_depth
    }

    /// After how long a session that nobody used may be removed.
    #[must_use]
    pub fn idle_timeout(&self) -> Duration {
        Duration::from_secs_f64(self.values.idle_timeout_seconds)
    }

    /// Whether clock and randomness are fixed.
    #[must_use]
    pub const fn deterministic(&self) -> bool {
        self.values.deterministic
    }

    /// The host directory that is the guest's workspace.
    #[must_use]
    pub fn mount_host_dir(&self) -> &Path {
        &self.values.mount_host_dir
    }

    /// Where the guest sees its workspace.
    #[must_use]
    pub fn guest_mount_path(&self) -> &str {
        &self.values.guest_mount_path
    }

    /// The read-only mount: host directory and where the guest sees it.
    #[must_use]
    pub fn data_mount(&self) -> Option<(&Path, &str)> {
        let host = self.values.mount_data_dir.as_deref()?;
        Some((host, &self.values.guest_data_path))
    }

    /// The guest's arguments.
    #[must_use]
    pub fn argv(&self) -> &[String] {
        &self.values.argv
    }

    /// The guest's whole environment.
    #[must_use]
    pub const fn env(&self) -> &BTreeMap<String, String> {
        &self.values.env
    }

    /// Modules whose import is refused before the code runs.
    #[must_use]
    pub fn block_imports(&self) -> &[String] {
        &self.values.block_imports
    }

    /// The image the guest shall have.
    #[must_use]
    pub const fn image(&self) -> ImageChoice {
        self.values.image
    }
}

/// What `--explain` prints: the limits that hold, then the rest of the policy.
impl Serialize for ResolvedPolicy {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Explained<'a> {
            backend: Backend,
            #[serde(flatten)]
            limits: &'a ResourceLimits,
            idle_timeout_seconds: f64,
            deterministic: bool,
            mount_host_dir: Cow<'a, str>,
            guest_mount_path: &'a str,
            mount_data_dir: Option<Cow<'a, str>>,
            guest_data_path: Option<&'a str>,
            argv: &'a [String],
            env: &'a BTreeMap<String, String>,
            block_imports: &'a [String],
            image: ImageChoice,
        }
        let data = self.data_mount();
        Explained {
            backend: self.backend,
            limits: &self.limits,
            idle_timeout_seconds: self.values.idle_timeout_seconds,
            deterministic: self.deterministic(),
            mount_host_dir: self.mount_host_dir().to_string_lossy(),
            guest_mount_path: self.guest_mount_path(),
            mount_data_dir: data.map(|(host, _)| host.to_string_lossy()),
            guest_data_path: data.map(|(_, guest)| guest),
            argv: self.argv(),
            env: self.env(),
            block_imports: self.block_imports(),
            image: self.image(),
        }
        .serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::policy::{PolicyLayer, Preset};

    fn policy(layer: PolicyLayer) -> ExecutionPolicy {
        ExecutionPolicy::build(Preset::Strict, [layer]).unwrap()
    }

    fn resolve_for(layer: PolicyLayer, backend: Backend) -> Result<ResolvedPolicy, String> {
        resolve(&policy(layer), backend, backend.abilities().unwrap())
            .map_err(|error| error.to_string())
    }

    #[test]
    fn wasm_enforces_every_rule() {
        let resolved = resolve_for(PolicyLayer::new().deterministic(true), Backend::Wasm).unwrap();
        assert_eq!(resolved.fuel_budget(), Some(2_000_000_000));
        assert_eq!(resolved.memory_bytes(), Some(128_000_000));
        assert_eq!(resolved.timeout(), Duration::from_secs(30));
        insta::assert_json_snapshot!(resolved);
    }

    #[test]
    fn a_default_the_backend_cannot_count_is_simply_absent() {
        let resolved = resolve_for(PolicyLayer::new(), Backend::Native).unwrap();
        assert_eq!(resolved.fuel_budget(), None);
        assert_eq!(resolved.memory_bytes(), Some(128_000_000));
    }

    #[test]
    fn fuel_set_explicitly_with_native_is_refused() {
        insta::assert_snapshot!(
            resolve_for(PolicyLayer::new().fuel_budget(5), Backend::Native).unwrap_err(),
            @"the native backend cannot enforce fuel_budget; nothing was run"
        );
    }

    #[test]
    fn tools_are_counted_by_the_host_and_refused_where_nobody_counts() {
        let layer = || PolicyLayer::new().max_tool_calls(7).max_rlm_depth(2);
        for backend in [Backend::Wasm, Backend::Native, Backend::Pyodide, Backend::Docker] {
            let resolved = resolve_for(layer(), backend).unwrap();
            assert_eq!(resolved.tool_limits(), ToolLimits { calls: 7, bytes: 64 << 20 });
            assert_eq!(resolved.max_rlm_depth(), 2);
            assert_eq!(resolved.resource_limits().max_tool_calls, Some(7));
            assert_eq!(resolved.idle_timeout(), Duration::from_secs(86_400));
        }
        insta::assert_snapshot!(
            resolve_for(layer(), Backend::E2b).unwrap_err(),
            @"the e2b backend cannot enforce max_tool_calls/max_tool_bytes/max_rlm_depth; nothing was run"
        );
        let unasked = resolve_for(PolicyLayer::new(), Backend::E2b).unwrap();
        assert_eq!(unasked.resource_limits().max_tool_calls, None);
    }

    #[test]
    fn determinism_is_refused_where_it_cannot_be_had() {
        assert!(resolve_for(PolicyLayer::new().deterministic(true), Backend::Docker).is_err());
        assert!(resolve_for(PolicyLayer::new().deterministic(false), Backend::Docker).is_ok());
    }

    #[test]
    fn the_data_image_is_refused_where_it_is_not() {
        let wanting = |image| PolicyLayer::new().image(image);
        for backend in [Backend::Wasm, Backend::Daemon] {
            let resolved = resolve_for(wanting(ImageChoice::Data), backend).unwrap();
            assert_eq!(resolved.image(), ImageChoice::Data);
        }
        insta::assert_snapshot!(
            resolve_for(wanting(ImageChoice::Data), Backend::Native).unwrap_err(),
            @"the native backend cannot enforce image; nothing was run"
        );
        for choice in [ImageChoice::Auto, ImageChoice::Plain] {
            assert!(resolve_for(wanting(choice), Backend::Docker).is_ok());
        }
    }

    #[test]
    fn auto_must_be_settled_first() {
        let error = resolve(&ExecutionPolicy::default(), Backend::Auto, Abilities::all());
        assert!(matches!(error, Err(SandboxError::BackendUnavailable { .. })));
    }

    #[test]
    fn a_backend_without_a_clock_is_never_accepted() {
        let abilities = Abilities::all().without(Rule::Time);
        let error = resolve(&ExecutionPolicy::default(), Backend::Docker, abilities).unwrap_err();
        assert!(matches!(error, SandboxError::Unenforceable { rule: Rule::Time, .. }));
    }

    proptest! {
        /// Whatever is resolved holds exactly the rules the backend can enforce, and nothing that
        /// was asked for is missing.
        #[test]
        fn nothing_asked_for_is_dropped(
            bits in prop::collection::vec(any::<bool>(), Rule::ALL.len()),
            fuel in prop::option::of(1u64..1_000_000),
            memory in prop::option::of(1u64..1_000_000),
            processes in prop::option::of(1u64..64),
            deterministic: bool,
        ) {
            let rules: Vec<Rule> =
                Rule::ALL.into_iter().zip(&bits).filter(|(_, on)| **on).map(|(rule, _)| rule).collect();
            let mut layer = PolicyLayer::new().deterministic(deterministic);
            if let Some(fuel) = fuel { layer = layer.fuel_budget(fuel); }
            if let Some(memory) = memory { layer = layer.memory_bytes(memory); }
            if let Some(processes) = processes { layer = layer.max_processes(processes); }
            let policy = policy(layer);
            match resolve(&policy, Backend::Docker, Abilities::of(&rules)) {
                Ok(resolved) => {
                    prop_assert!(rules.contains(&Rule::Time) && rules.contains(&Rule::Output));
                    prop_assert_eq!(resolved.fuel_budget().is_some(), rules.contains(&Rule::Fuel));
                    if fuel.is_some() { prop_assert_eq!(resolved.fuel_budget(), fuel); }
                    if memory.is_some() { prop_assert_eq!(resolved.memory_bytes(), memory); }
                    if processes.is_some() { prop_assert_eq!(resolved.max_processes(), processes); }
                    prop_assert!(!deterministic || rules.contains(&Rule::Deterministic));
                }
                Err(SandboxError::Unenforceable { rule, .. }) => {
                    prop_assert!(!rules.contains(&rule));
                }
                Err(other) => prop_assert!(false, "{other}"),
            }
        }
    }
}
