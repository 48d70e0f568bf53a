//! Running a kept execution again, and what came out differently.

use belljar_core::{
    Backend, ExecutionPolicy, Field, PolicyLayer, Preset, SandboxError, SandboxResult,
};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::Artifact;
use super::record::kept_result;
use super::redact::REDACTED;
use crate::agent::AgentSettings;

/// What a second execution gave.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Replay {
    /// The second result, treated as it would be kept: without secrets, long texts cut.
    pub result: SandboxResult,
    /// What is different. How long it took is not looked at.
    pub differences: Vec<Difference>,
    /// Why it might be different although nothing is wrong.
    pub notes: Vec<String>,
}

impl Replay {
    /// Whether the second result is the same as the first.
    #[must_use]
    pub fn is_same(&self) -> bool {
        self.differences.is_empty()
    }
}

/// A part of a result that is not what it was.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Difference {
    /// Which.
    pub what: String,
    /// What it was.
    pub before: Value,
    /// What it is now.
    pub after: Value,
}

/// Runs the same code under the same policy on the same backend, as far as the settings allow: an
/// artifact is a file that somebody may have written, so nothing in it makes a run weaker than
/// they are. Notes say what is different for that. Keeps nothing.
///
/// # Errors
/// When the code was not kept whole, or cannot be run here.
pub fn replay(
    id: &str,
    artifact: &Artifact,
    settings: &AgentSettings,
) -> Result<Replay, SandboxError> {
    if !artifact.has_whole_code() {
        return Err(SandboxError::Artifact {
            id: id.to_owned(),
            problem: "its code was too long to be kept whole".to_owned(),
            hint: Some("run the code from where it came from".to_owned()),
        });
    }
    let mut notes = Vec::new();
    if artifact.metadata.code_redacted {
        notes.push(format!("secrets in the code were replaced by {REDACTED}"));
    }
    let backend = backend(artifact.backend, settings.backend, &mut notes);
    let policy = policy(id, artifact, settings, backend, &mut notes)?;
    let settings = AgentSettings { backend, ..settings.clone() };
    let result = crate::agent::run_once(&settings, &policy, &artifact.code, artifact.language)?;
    let redactor = settings.redactor.and_policy(&policy);
    let result = kept_result(&result, &redactor, &mut Vec::new());
    Ok(Replay { differences: differences(&artifact.result, &result), result, notes })
}

/// The artifact's own, if it holds as much as the one the settings name: that one itself, or wasm,
/// which enforces every rule.
fn backend(kept: Backend, now: Backend, notes: &mut Vec<String>) -> Backend {
    if kept == now || kept == Backend::Wasm {
        return kept;
    }
    notes.push(format!("it ran on {kept}; SANDBOX_TYPE names {now}, so it runs there"));
    now
}

/// The policy that was enforced, made as strict as the settings are. Values of the environment
/// were not kept; those the settings have now take their place.
fn policy(
    id: &str,
    artifact: &Artifact,
    settings: &AgentSettings,
    backend: Backend,
    notes: &mut Vec<String>,
) -> Result<ExecutionPolicy, SandboxError> {
    let damaged = |problem: String| SandboxError::Artifact {
        id: id.to_owned(),
        problem: format!("its policy cannot be used: {problem}"),
        hint: None,
    };
    let Value::Object(mut fields) = artifact.policy.clone() else {
        return Err(damaged("it is missing".to_owned()));
    };
    // What the backend could not enforce is null; the workspace is always a temporary one.
    fields.retain(|name, value| {
        !value.is_null() && !matches!(name.as_str(), "backend" | "mount_host_dir")
    });
    // An artifact is a file that somebody may have written; it opens no directory by itself.
    let data = settings.policy.mount_data_dir.as_ref().map(|path| path.display().to_string());
    if let Some(named) = fields.get("mount_data_dir").and_then(Value::as_str)
        && data.as_deref() != Some(named)
    {
        notes.push(format!("the data directory was {named}; SANDBOX_MOUNT_DATA_DIR gives it"));
        fields.remove("mount_data_dir");
    }
    if let Some(env) = fields.get_mut("env").and_then(Value::as_object_mut) {
        env.retain(|name, value| {
            if value != REDACTED {
                return true;
            }
            match settings.policy.env.get(name) {
                Some(known) => *value = known.clone().into(),
                None => notes.push(format!("the value of the variable {name} was not kept")),
            }
            value != REDACTED
        });
    }
    let built = |fields: Map<String, Value>| {
        PolicyLayer::from_json(&Value::Object(fields))
            .and_then(|layer| ExecutionPolicy::build(Preset::Agent, [layer]))
            .map_err(|error| damaged(error.to_string()))
    };
    // Whether it is a policy at all, before anything in it is replaced.
    built(fields.clone())?;
    if backend != artifact.backend {
        // What nobody asked for there, this backend need not be able to enforce.
        let usual = serde_json::to_value(Preset::Agent.values()).unwrap_or_default();
        fields.retain(|name, value| usual.get(name.as_str()) != Some(value));
    }
    tighten(&mut fields, &settings.policy, notes);
    built(fields)
}

/// The fields that are limits: what is less is stricter.
const LIMITS: [Field; 12] = [
    Field::FuelBudget,
    Field::MemoryBytes,
    Field::StdoutMaxBytes,
    Field::StderrMaxBytes,
    Field::TimeoutSeconds,
    Field::WorkspaceMaxBytes,
    Field::WorkspaceMaxFiles,
    Field::MaxProcesses,
    Field::MaxToolCalls,
    Field::MaxToolBytes,
    Field::MaxRlmDepth,
    Field::IdleTimeoutSeconds,
];

/// Lowers limits to those of the settings, and blocks what the settings block.
fn tighten(fields: &mut Map<String, Value>, now: &ExecutionPolicy, notes: &mut Vec<String>) {
    let values = serde_json::to_value(now.values()).unwrap_or_default();
    for field in LIMITS {
        let Some(allowed) = values.get(field.name()) else { continue };
        let kept = fields.get(field.name());
        let is_more = match kept {
            Some(kept) => kept.as_f64() > allowed.as_f64(),
            // It was not enforced then; whoever asks for it now gets it, or a refusal.
            None => now.is_explicit(field),
        };
        if is_more {
            if let Some(kept) = kept {
                notes.push(format!("{field} was {kept}; the settings allow {allowed}"));
            }
            fields.insert(field.name().to_owned(), allowed.clone());
        }
    }
    let blocked = fields.entry(Field::BlockImports.name()).or_insert_with(|| json!([]));
    let Value::Array(blocked) = blocked else { return };
    let added: Vec<&String> = now
        .block_imports
        .iter()
        .filter(|module| !blocked.iter().any(|known| known.as_str() == Some(module.as_str())))
        .collect();
    if !added.is_empty() {
        let names: Vec<&str> = added.iter().map(|module| module.as_str()).collect();
        notes.push(format!("the settings also block imports of {}", names.join(", ")));
        blocked.extend(added.into_iter().map(|module| Value::from(module.as_str())));
    }
    if blocked.is_empty() {
        fields.remove(Field::BlockImports.name());
    }
}

fn differences(before: &SandboxResult, after: &SandboxResult) -> Vec<Difference> {
    let parts = |result: &SandboxResult| {
        let error = result.error.as_ref();
        let value = result.result.as_ref();
        [
            ("status", json!(result.status())),
            ("exit_code", json!(result.exit_code())),
            ("stdout", json!(result.stdout)),
            ("stderr", json!(result.stderr)),
            ("error", json!(error.map(|error| format!("{}: {}", error.name, error.message)))),
            ("result", json!(value.map(|value| &value.text))),
        ]
    };
    let pairs = parts(before).into_iter().zip(parts(after));
    pairs
        .filter(|((_, before), (_, after))| before != after)
        .map(|((what, before), (_, after))| Difference { what: what.to_owned(), before, after })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now(layer: PolicyLayer) -> ExecutionPolicy {
        ExecutionPolicy::build(Preset::Agent, [layer]).unwrap()
    }

    fn tightened(fields: Value, now: &ExecutionPolicy) -> (Value, Vec<String>) {
        let Value::Object(mut fields) = fields else { panic!("no fields") };
        let mut notes = Vec::new();
        tighten(&mut fields, now, &mut notes);
        (Value::Object(fields), notes)
    }

    #[test]
    fn nothing_is_weaker_than_the_settings() {
        let strict = now(PolicyLayer::new()
            .memory_bytes(64_000_000)
            .timeout_seconds(2.0)
            .block_imports(["os", "socket"]));
        let kept = json!({
            "memory_bytes": 512_000_000,
            "timeout_seconds": 60.0,
            "stdout_max_bytes": 10,
            "block_imports": ["ctypes", "os"],
        });
        let (fields, notes) = tightened(kept, &strict);
        assert_eq!(
            fields,
            json!({
                "memory_bytes": 64_000_000,
                "timeout_seconds": 2.0,
                "stdout_max_bytes": 10,
                "block_imports": ["ctypes", "os", "socket"],
            })
        );
        insta::assert_snapshot!(notes.join("\n"), @r"
        memory_bytes was 512000000; the settings allow 64000000
        timeout_seconds was 60.0; the settings allow 2.0
        the settings also block imports of socket
        ");
    }

    /// What is as strict already stays as it is, without a word; what was not enforced is not
    /// asked for, unless somebody does now.
    #[test]
    fn what_is_stricter_stays() {
        let usual = now(PolicyLayer::new());
        let kept = json!({ "memory_bytes": 1000, "timeout_seconds": 1.0 });
        assert_eq!(tightened(kept.clone(), &usual), (kept, Vec::new()));
        let asked = now(PolicyLayer::new().max_processes(3));
        let (fields, notes) = tightened(json!({}), &asked);
        assert_eq!((fields, notes), (json!({ "max_processes": 3 }), Vec::new()));
    }

    #[test]
    fn a_weaker_backend_is_not_used() {
        let chosen = |kept, now| {
            let mut notes = Vec::new();
            (backend(kept, now, &mut notes), notes.join(""))
        };
        assert_eq!(chosen(Backend::Wasm, Backend::Native), (Backend::Wasm, String::new()));
        assert_eq!(chosen(Backend::Native, Backend::Native), (Backend::Native, String::new()));
        let (used, note) = chosen(Backend::Native, Backend::Wasm);
        assert_eq!(used, Backend::Wasm);
        insta::assert_snapshot!(note, @"it ran on native; SANDBOX_TYPE names wasm, so it runs there");
    }
}
