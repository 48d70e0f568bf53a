//! Running a kept execution again, and what came out differently.

use belljar_core::{ExecutionPolicy, PolicyLayer, Preset, SandboxError, SandboxResult};
use serde::Serialize;
use serde_json::{Value, json};

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

/// Runs the same code under the same policy on the same backend. Keeps nothing.
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
    let policy = policy(id, artifact, settings, &mut notes)?;
    let settings = AgentSettings { backend: artifact.backend, ..settings.clone() };
    let result = crate::agent::run_once(&settings, &policy, &artifact.code, artifact.language)?;
    let redactor = settings.redactor.and_policy(&policy);
    let result = kept_result(&result, &redactor, &mut Vec::new());
    Ok(Replay { differences: differences(&artifact.result, &result), result, notes })
}

/// The policy that was enforced. Values of the environment were not kept; those the settings have
/// now take their place.
fn policy(
    id: &str,
    artifact: &Artifact,
    settings: &AgentSettings,
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
    let layer = PolicyLayer::from_json(&Value::Object(fields))
        .map_err(|error| damaged(error.to_string()))?;
    ExecutionPolicy::build(Preset::Agent, [layer]).map_err(|error| damaged(error.to_string()))
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
