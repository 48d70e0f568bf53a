//! What is kept of an execution.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use belljar_core::limits::{
    MAX_ARTIFACT_BYTES, MAX_ARTIFACT_CODE_BYTES, MAX_ARTIFACT_FILES, MAX_ARTIFACT_TEXT_BYTES,
};
use belljar_core::units::format_bytes;
use belljar_core::{
    Backend, CappedText, CellValue, ExecutionPolicy, RuntimeType, SandboxResult, Status, resolve,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::name::Moment;
use super::redact::{REDACTED, Redactor};

/// The form of artifacts this Belljar writes and reads.
const VERSION: u32 = 1;

/// One execution as it is kept. Secrets are taken out of everything in it, and long texts are cut.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Artifact {
    /// The form of this file.
    pub version: u32,
    /// When the execution ended, in UTC.
    pub timestamp: String,
    /// The code.
    pub code: String,
    /// Its language.
    pub language: RuntimeType,
    /// What ran it.
    pub backend: Backend,
    /// The policy as that backend enforced it, the values of its environment taken out.
    pub policy: Value,
    /// What it gave.
    pub result: SandboxResult,
    /// Facts about this file.
    pub metadata: Metadata,
}

/// Facts about an artifact.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Metadata {
    /// The Belljar that wrote it.
    pub belljar_version: String,
    /// The execution, as it is called in logs.
    pub execution_id: String,
    /// The length of the code as it ran.
    pub code_bytes: usize,
    /// Whether secrets were taken out of the code.
    pub code_redacted: bool,
    /// What was too long to be kept whole.
    pub cut: Vec<String>,
}

/// An artifact in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// When the execution ended, in UTC.
    pub timestamp: String,
    /// The language of its code.
    pub language: RuntimeType,
    /// What ran it.
    pub backend: Backend,
    /// How it ended.
    pub status: Status,
    /// With which code.
    pub exit_code: i32,
}

impl Artifact {
    /// What is to be kept of an execution.
    pub(super) fn new(
        code: &str,
        policy: &ExecutionPolicy,
        result: &SandboxResult,
        redactor: &Redactor,
        now: SystemTime,
    ) -> Self {
        let redactor = redactor.and_policy(policy);
        let mut cut = Vec::new();
        // Secrets first: half of one would no longer be recognised.
        let shown = redactor.text(code);
        let code_redacted = shown != code;
        let mut kept = shown.into_owned();
        shorten(&mut kept, "code", MAX_ARTIFACT_CODE_BYTES, &mut cut);
        let backend = result.meta.runtime.parse().unwrap_or_default();
        Self {
            version: VERSION,
            timestamp: Moment::of(now.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO))
                .readable(),
            code: kept,
            language: result.meta.language,
            backend,
            policy: enforced(policy, backend, &redactor),
            result: kept_result(result, &redactor, &mut cut),
            metadata: Metadata {
                belljar_version: env!("CARGO_PKG_VERSION").to_owned(),
                execution_id: result.meta.execution_id.clone(),
                code_bytes: code.len(),
                code_redacted,
                cut,
            },
        }
    }

    /// The little a list shows.
    pub(super) fn summary(&self) -> Summary {
        Summary {
            timestamp: self.timestamp.clone(),
            language: self.language,
            backend: self.backend,
            status: self.result.status(),
            exit_code: self.result.exit_code(),
        }
    }

    /// Whether the code is there as a whole.
    #[must_use]
    pub fn has_whole_code(&self) -> bool {
        !self.metadata.cut.iter().any(|what| what == "code")
    }

    pub(super) fn to_json(&self) -> Result<Vec<u8>, String> {
        let mut json = serde_json::to_vec_pretty(self).map_err(|error| error.to_string())?;
        json.push(b'\n');
        if json.len() as u64 > MAX_ARTIFACT_BYTES {
            return Err(format!("it would be larger than {}", format_bytes(MAX_ARTIFACT_BYTES)));
        }
        Ok(json)
    }

    /// Reads an artifact. The error says what is wrong with the text.
    pub(super) fn from_json(json: &[u8]) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Versioned {
            version: u32,
        }
        // The version first: the rest may have changed with it.
        let Versioned { version } =
            serde_json::from_slice(json).map_err(|error| format!("it is no artifact: {error}"))?;
        if version != VERSION {
            return Err(format!(
                "it has version {version}, and this Belljar knows version {VERSION}"
            ));
        }
        serde_json::from_slice(json).map_err(|error| format!("it is damaged: {error}"))
    }
}

/// A result as it is kept, so that two can be compared.
pub(super) fn kept_result(
    result: &SandboxResult,
    redactor: &Redactor,
    cut: &mut Vec<String>,
) -> SandboxResult {
    let mut kept = result.clone();
    redactor.result(&mut kept);
    shorten(&mut kept.stdout, "stdout", MAX_ARTIFACT_TEXT_BYTES, cut);
    shorten(&mut kept.stderr, "stderr", MAX_ARTIFACT_TEXT_BYTES, cut);
    if let Some(error) = &mut kept.error {
        shorten(&mut error.message, "error.message", MAX_ARTIFACT_TEXT_BYTES, cut);
        shorten(&mut error.traceback, "error.traceback", MAX_ARTIFACT_TEXT_BYTES, cut);
    }
    if let Some(value) = &mut kept.result {
        shorten_value(value, cut);
    }
    let files = [
        ("files_created", &mut kept.files_created),
        ("files_modified", &mut kept.files_modified),
        ("files_deleted", &mut kept.files_deleted),
    ];
    for (what, names) in files {
        if names.len() > MAX_ARTIFACT_FILES {
            names.truncate(MAX_ARTIFACT_FILES);
            cut.push(what.to_owned());
        }
    }
    kept
}

/// The rich forms of a value are kept while they fit together.
fn shorten_value(value: &mut CellValue, cut: &mut Vec<String>) {
    shorten(&mut value.text, "result.text", MAX_ARTIFACT_TEXT_BYTES, cut);
    // What nests too deep could not be read again inside of an artifact.
    let fits = |json: String| {
        json.len() <= MAX_ARTIFACT_TEXT_BYTES
            && belljar_core::json::weight(json.as_bytes()).is_some()
    };
    if value.json.as_ref().is_some_and(|json| !fits(json.to_string())) {
        value.json = None;
        cut.push("result.json".to_owned());
    }
    let mut room = MAX_ARTIFACT_TEXT_BYTES;
    value.mime.retain(|kind, text| {
        let size = kind.len().saturating_add(text.len());
        let fits = size <= room;
        if fits {
            room -= size;
        } else if !cut.iter().any(|what| what == "result.mime") {
            cut.push("result.mime".to_owned());
        }
        fits
    });
}

fn shorten(text: &mut String, what: &str, cap: usize, cut: &mut Vec<String>) {
    if text.len() > cap {
        *text = CappedText::new(std::mem::take(text), cap).text;
        cut.push(what.to_owned());
    }
}

/// The rules that held, with the names of the environment only.
fn enforced(policy: &ExecutionPolicy, backend: Backend, redactor: &Redactor) -> Value {
    let resolved = resolve(policy, backend, backend.abilities().unwrap_or_default());
    let mut value =
        resolved.ok().and_then(|resolved| serde_json::to_value(resolved).ok()).unwrap_or_default();
    if let Some(fields) = value.as_object_mut() {
        // The workspace was a temporary one, which the result names.
        fields.remove("mount_host_dir");
    }
    let usual = belljar_core::PolicyValues::default().env;
    if let Some(env) = value.get_mut("env").and_then(Value::as_object_mut) {
        for (name, value) in env {
            if value.as_str() != usual.get(name).map(String::as_str) {
                *value = REDACTED.into();
            }
        }
    }
    redactor.texts_in(&mut value);
    value
}

#[cfg(test)]
mod tests {
    use belljar_core::{GuestError, Meta, Outcome, PolicyLayer, Preset};
    use proptest::prelude::*;

    use super::*;

    fn artifact(code: &str, stdout: &str) -> Artifact {
        let layer = PolicyLayer::new().env("CITY", "Samarkand").env("SHORT", "x");
        let policy = ExecutionPolicy::build(Preset::Agent, [layer]).unwrap();
        let error = GuestError {
            name: "ValueError".into(),
            message: "no".into(),
            traceback: "Traceback …\nValueError: no\n".into(),
        };
        let meta = Meta { runtime: "local".into(), execution_id: "e-1".into(), ..Meta::default() };
        let mut result = SandboxResult::new(Outcome::Raised(error), meta);
        result.stdout = stdout.to_owned();
        let now = UNIX_EPOCH + Duration::from_secs(1_767_946_530);
        Artifact::new(code, &policy, &result, &Redactor::default(), now)
    }

    #[test]
    fn an_artifact_says_what_ran_how_and_what_came_of_it() {
        let kept = artifact("print('Samarkand')", "Samarkand\n");
        insta::assert_snapshot!(
            String::from_utf8(kept.to_json().unwrap())
                .unwrap()
                .replace(env!("CARGO_PKG_VERSION"), "VERSION")
        );
    }

    #[test]
    fn what_is_too_long_is_cut_and_named() {
        let kept = artifact(&"#".repeat(MAX_ARTIFACT_CODE_BYTES + 1), &"\u{1}".repeat(1 << 20));
        assert_eq!(kept.metadata.cut, ["code", "stdout"]);
        assert_eq!(kept.code.len(), MAX_ARTIFACT_CODE_BYTES);
        assert_eq!(kept.metadata.code_bytes, MAX_ARTIFACT_CODE_BYTES + 1);
        assert!(!kept.has_whole_code());
        assert!(kept.to_json().is_ok());
    }

    #[test]
    fn a_value_that_nests_deep_can_be_read_again() {
        let mut result = artifact("", "").result;
        let deep = (0..120).fold(Value::Null, |inner, _| Value::Array(vec![inner]));
        result.result = Some(CellValue { json: Some(deep), ..CellValue::default() });
        let policy = ExecutionPolicy::default();
        let kept = Artifact::new("", &policy, &result, &Redactor::default(), UNIX_EPOCH);
        assert_eq!(kept.metadata.cut, ["result.json"]);
        assert_eq!(Artifact::from_json(&kept.to_json().unwrap()), Ok(kept));
    }

    #[test]
    fn damage_is_described() {
        let good = String::from_utf8(artifact("1", "").to_json().unwrap()).unwrap();
        let shown: Vec<String> = [
            String::new(),
            "[]".to_owned(),
            good[..good.floor_char_boundary(good.len() / 2)].to_owned(),
            good.replace("\"version\": 1", "\"version\": 9"),
            good.replace("\"language\": \"python\"", "\"language\": \"cobol\""),
            good.replace("\"success\": false", "\"success\": true"),
        ]
        .iter()
        .map(|text| Artifact::from_json(text.as_bytes()).unwrap_err())
        .collect();
        insta::assert_snapshot!(shown.join("\n"));
    }

    proptest! {
        #[test]
        fn any_execution_can_be_kept_and_read_again(code in any::<String>(), stdout in any::<String>()) {
            let kept = artifact(&code, &stdout);
            let json = kept.to_json().unwrap();
            prop_assert_eq!(Artifact::from_json(&json), Ok(kept));
        }

        #[test]
        fn no_file_panics(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = Artifact::from_json(&bytes);
        }
    }
}
