//! Capability: Core Models.

use std::fs;
use std::path::{Path, PathBuf};

use belljar::{
    ExecutionPolicy, Meta, Outcome, PolicyLayer, PolicyValidationError, Preset, RuntimeType,
    SandboxError, SandboxExecutionError, SandboxResult, Survives, load_policy,
};
use serde_json::{Value, json};
use support::{Expect, Jar};

/// A `config/policy.toml` with this text, and the directory that holds it.
fn policy_file(text: &str) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("config/policy.toml");
    fs::create_dir(dir.path().join("config")).expect("a directory");
    fs::write(&path, text).expect("a policy file");
    (dir, path)
}

fn validation_error(error: &SandboxError) -> &PolicyValidationError {
    match error {
        SandboxError::PolicyValidation(error) => error,
        other => panic!("not a PolicyValidationError: {other:?}"),
    }
}

// ## Requirement: Execution Policy Model

#[test]
fn create_policy_with_default_values() {
    let policy = ExecutionPolicy::default();
    assert_eq!(policy.fuel_budget, 2_000_000_000);
    assert_eq!(policy.memory_bytes, 128_000_000);
    assert_eq!(policy.stdout_max_bytes, 2_000_000);
    assert_eq!(policy.stderr_max_bytes, 1_000_000);
    assert_eq!(policy.mount_host_dir, Path::new("workspace"));
    assert_eq!(policy.guest_mount_path, "/app");
    assert_eq!(policy.env["PYTHONUTF8"], "1");
    assert_eq!(policy.env["PYTHONIOENCODING"], "utf-8");
    assert_eq!(policy.env["LC_ALL"], "C.UTF-8");
}

#[test]
fn validate_positive_resource_limits() {
    let error = PolicyLayer::from_json(&json!({ "fuel_budget": -1000 })).unwrap_err();
    assert!(error.concerns("fuel_budget"));
    assert_eq!(
        error.to_string(),
        "the policy is not valid; nothing was run\n  \
         fuel_budget: must be greater than 0, but is -1000"
    );
    for field in ["fuel_budget", "memory_bytes", "stdout_max_bytes", "stderr_max_bytes"] {
        for value in [-1000, -1, 0] {
            let error =
                serde_json::from_value::<ExecutionPolicy>(json!({ field: value })).unwrap_err();
            let expected = format!("{field}: must be greater than 0");
            assert!(error.to_string().contains(&expected), "{error}");
        }
    }
}

#[test]
fn support_optional_data_mount() {
    let without = ExecutionPolicy::default();
    assert_eq!((&without.mount_data_dir, without.guest_data_path.as_str()), (&None, "/data"));
    let with = without.with(PolicyLayer::new().mount_data_dir("datasets")).expect("valid");
    assert_eq!(with.mount_data_dir.as_deref(), Some(Path::new("datasets")));
    assert_eq!(with.guest_data_path, "/data");

    let jar = Jar::new().with_data(&[("table.csv", "1,2")]);
    jar.run("print(open('/data/table.csv').read())").printed("1,2\n");
    let elsewhere =
        Jar::new().with_data(&[("t", "x")]).with(|layer| layer.guest_data_path("/other"));
    elsewhere.run("print(open('/other/t').read())").printed("x\n");
}

#[test]
fn merge_environment_variables() {
    let defaults = ExecutionPolicy::default();
    assert_eq!(defaults.env["PYTHONUTF8"], "1");
    let merged = defaults.with(PolicyLayer::new().env("CUSTOM_VAR", "value")).expect("valid");
    assert_eq!(merged.env["PYTHONUTF8"], "1");
    assert_eq!(merged.env["CUSTOM_VAR"], "value");
    assert_eq!(merged.env.len(), defaults.env.len() + 1);
}

// ## Requirement: Sandbox Result Model

#[test]
fn capture_successful_execution_result() {
    let result = Jar::with_default_policy().run("print('captured')");
    assert!(result.success());
    assert_eq!(result.stdout, "captured\n");
    assert_eq!(result.stderr, "");
    assert_eq!(result.exit_code(), 0);
    assert!(result.fuel_consumed.is_some_and(|fuel| fuel > 0));
    assert!(result.memory_used_bytes.is_some_and(|bytes| bytes > 0));
    assert!(result.duration_ms > 0.0);

    let warned = Jar::with_default_policy().run("import warnings; warnings.warn('careful')");
    assert!(warned.success());
    assert!(warned.stderr.contains("UserWarning: careful"), "{warned:#?}");
}

#[test]
fn capture_failed_execution_result() {
    let budget = 1_000_000;
    let result = Jar::new().with(|layer| layer.fuel_budget(budget)).run("while True: pass");
    assert!(!result.success());
    assert!(result.stderr.starts_with("OutOfFuel: "), "{result:#?}");
    assert!(result.fuel_consumed.is_some_and(|fuel| fuel >= budget), "{result:#?}");
}

#[test]
fn track_filesystem_changes() {
    let jar = Jar::new();
    jar.write("input.txt", "before");
    let code = "open('output.csv', 'w').write('a,b')\nopen('input.txt', 'a').write('after')";
    let result = jar.run(code);
    result.changed(&["output.csv"], &["input.txt"], &[]);
    for path in result.files_created.iter().chain(&result.files_modified) {
        assert!(Path::new(path).is_relative());
        assert!(jar.workspace().join(path).is_file());
    }
}

#[test]
fn include_workspace_path() {
    let jar = Jar::new();
    let result = jar.run("");
    assert_eq!(Path::new(&result.workspace_path), jar.workspace());
}

// ## Requirement: Runtime Type Enum

#[test]
fn support_python_runtime() {
    assert_eq!(RuntimeType::Python.as_str(), "python");
    assert_eq!("python".parse(), Ok(RuntimeType::Python));
}

#[test]
fn support_javascript_runtime_future() {
    assert_eq!(RuntimeType::Javascript.as_str(), "javascript");
    assert_eq!("javascript".parse(), Ok(RuntimeType::Javascript));
}

#[test]
fn enum_values_are_strings() {
    for runtime in RuntimeType::ALL {
        assert_eq!(serde_json::to_value(runtime).expect("JSON"), json!(runtime.as_str()));
        assert_eq!(runtime.to_string(), runtime.as_str());
    }
}

// ## Requirement: Policy Validation Error

#[test]
fn raise_validation_error_for_invalid_policy() {
    let (_dir, path) = policy_file("fuel_budget = -1\nstdout_max_bytes = 0\n");
    let loaded = load_policy(&path).unwrap_err();
    let issues = &validation_error(&loaded).issues;
    assert_eq!(
        issues.iter().map(|issue| issue.field.as_str()).collect::<Vec<_>>(),
        ["fuel_budget", "stdout_max_bytes"]
    );
    let message = loaded.to_string();
    assert!(message.contains("fuel_budget: must be greater than 0, but is -1"), "{message}");
    assert!(message.contains("stdout_max_bytes: must be greater than 0"), "{message}");
    assert!(message.contains("line 2"), "{message}");

    let layer = PolicyLayer::new().memory_bytes(0);
    let built = ExecutionPolicy::build(Preset::Strict, [layer]).unwrap_err();
    assert!(built.concerns("memory_bytes"));
    assert!(built.to_string().contains("memory_bytes: must be greater than 0"), "{built}");
}

#[test]
fn distinguish_from_execution_errors() {
    let policy = SandboxError::from(PolicyValidationError::single("fuel_budget", "wrong", None));
    let execution = SandboxError::from(SandboxExecutionError {
        problem: "the disk is full".to_owned(),
        survives: Survives::NothingWasRun,
        hint: None,
    });
    assert!(matches!(policy, SandboxError::PolicyValidation(_)));
    assert!(matches!(execution, SandboxError::Execution(_)));
    assert_ne!(policy, execution);
}

// ## Requirement: Policy Loading with Validation

#[test]
fn load_policy_from_toml_file() {
    let (_dir, path) = policy_file("fuel_budget=1000000000");
    let policy: ExecutionPolicy = load_policy(&path).expect("a valid file");
    assert_eq!(policy.fuel_budget, 1_000_000_000);
    assert_eq!(policy.memory_bytes, ExecutionPolicy::default().memory_bytes);
}

#[test]
fn load_default_policy_when_file_missing() {
    let dir = tempfile::tempdir().expect("a directory");
    let policy = load_policy(dir.path().join("config/policy.toml"));
    assert_eq!(policy, Ok(ExecutionPolicy::default()));
}

#[test]
fn validate_toml_fields_at_load_time() {
    let (_dir, path) = policy_file("memory_bytes=-1000");
    let error = load_policy(&path).unwrap_err();
    assert!(validation_error(&error).concerns("memory_bytes"));
    let expected = "memory_bytes: must be greater than 0, but is -1000";
    assert!(error.to_string().contains(expected), "{error}");
}

#[test]
fn deep_merge_environment_variables() {
    let (_dir, path) = policy_file("[env]\nCUSTOM = \"value\"\n");
    let policy = load_policy(&path).expect("a valid file");
    assert_eq!(policy.env["PYTHONUTF8"], "1");
    assert_eq!(policy.env["LC_ALL"], "C.UTF-8");
    assert_eq!(policy.env["CUSTOM"], "value");
}

// ## Requirement: SandboxResult JSON Serialization

#[test]
fn serialize_result_to_json() {
    let mut result = SandboxResult::new(Outcome::Finished, Meta::default());
    result.stdout = "Hello".to_owned();
    result.fuel_consumed = Some(1_000_000);
    let text = serde_json::to_string(&result).expect("JSON");
    let value: Value = serde_json::from_str(&text).expect("valid JSON");
    assert_eq!(value["stdout"], "Hello");
    assert_eq!(value["fuel_consumed"], 1_000_000);
    let mut fields: Vec<&str> =
        value.as_object().expect("an object").keys().map(|k| &**k).collect();
    fields.sort_unstable();
    assert_eq!(
        fields,
        [
            "duration_ms",
            "error",
            "exit_code",
            "files_created",
            "files_deleted",
            "files_modified",
            "fuel_consumed",
            "memory_used_bytes",
            "meta",
            "pending_calls",
            "result",
            "status",
            "stderr",
            "stdout",
            "success",
            "workspace_path",
        ]
    );
}

#[test]
fn deserialize_result_from_json() {
    for code in ["print('x')\n{'a': [1, None]}", "raise ValueError('é')", "while True: print(1)"] {
        let original = Jar::new().with(|layer| layer.fuel_budget(3_000_000)).run(code);
        let text = serde_json::to_string(&original).expect("JSON");
        let read: SandboxResult = serde_json::from_str(&text).expect("a result");
        assert_eq!(read, original);
    }
}
