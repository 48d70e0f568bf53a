//! Capability: Sandbox Code Execution.
//!
//! "Local" is the native backend: a subprocess, and a jail around it. `duration` is
//! `SandboxResult::duration`, in seconds.

use std::path::Path;
use std::time::Duration;

use belljar::{Backend, DockerSettings, SandboxConfig, SandboxResult, Status, create_sandbox};
use serde_json::Value;
use support::{Cells, Expect, Jar, containers, eventually, processes_of};

/// What starting an interpreter and a busy machine may add.
const SLOWNESS_SECONDS: f64 = 2.0;

#[test]
fn scenario_1_local_execution() {
    let result = Jar::native().open().run("print('Hello')");
    result.printed("Hello\n");
    assert_eq!(result.meta.runtime, "local");
    assert!(result.duration() > 0.0 && result.duration() < 1.0, "{} s", result.duration());
}

#[test]
fn scenario_2_docker_execution() {
    let jar = Jar::new();
    let Some(config) = jar.docker("scenario_2_docker_execution") else { return };
    let code = "import os; print(os.uname())";
    let result = create_sandbox(&config).expect("a sandbox").run(code);
    result.ended(Status::Ok, 0);
    assert!(result.stdout.contains("nodename='belljar'"), "in a container: {}", result.stdout);
    assert_eq!(result.meta.runtime, "docker");
    for layer in ["docker", "no-network", "read-only-root", "no-capabilities", "cgroup"] {
        assert!(result.meta.isolation.iter().any(|held| held == layer), "{:?}", result.meta);
    }
    let network = create_sandbox(&config).expect("a sandbox").run(
        "import socket\nprint([name for _, name in socket.if_nameindex()])\n\
         socket.create_connection(('192.0.2.1', 80), 2)",
    );
    assert_eq!(network.stdout, "['lo']\n");
    assert_eq!(network.error.as_ref().map(|error| &*error.name), Some("OSError"));
    let local = Jar::native().open().run(code);
    assert_eq!(shape(&result), shape(&local), "the same structure");
    eventually("the containers are removed", || containers().is_empty());
}

/// The names of everything in a result, however deep.
fn shape(result: &SandboxResult) -> Vec<String> {
    fn add(value: &Value, name: &str, names: &mut Vec<String>) {
        names.push(name.to_owned());
        for (key, value) in value.as_object().into_iter().flatten() {
            add(value, &format!("{name}.{key}"), names);
        }
    }
    let mut names = Vec::new();
    add(&serde_json::to_value(result).expect("JSON"), "result", &mut names);
    names
}

#[test]
fn scenario_3_timeout_enforcement() {
    let jar = Jar::native().timeout(Duration::from_secs(5));
    let result = jar.open().run("while True:\n    pass");
    result.ended(Status::Timeout, -1);
    assert!(result.meta.timed_out);
    assert!(result.stderr.contains("Timeout: timed out after 5 s"), "{}", result.stderr);
    let duration = result.duration();
    assert!((5.0..5.0 + SLOWNESS_SECONDS).contains(&duration), "{duration} s");
    assert_eq!(processes_of(jar.workspace()), Vec::<String>::new());
}

#[test]
fn scenario_4_output_truncation() {
    let jar = Jar::native().with(|layer| layer.stdout_max_bytes(10 * 1024));
    let result = jar.open().run("for i in range(100000):\n    print(f'Line {i}: ' + 'X' * 100)");
    result.ended(Status::Ok, 0);
    assert_eq!(result.stdout.len(), 10 * 1024);
    assert!(result.stdout.starts_with("Line 0: XXX"));
    assert!(result.stdout.ends_with("... (output truncated)"));
    assert!(result.meta.truncated);
}

#[test]
fn scenario_5_non_zero_exit_code() {
    let result = Jar::native().open().run("raise ValueError(\"Something went wrong\")");
    result.raised("ValueError", "Something went wrong");
    let traceback = "Traceback (most recent call last):\n  File \"<sandbox>\", line 1, in <module>\n    \
                     raise ValueError(\"Something went wrong\")\nValueError: Something went wrong\n";
    assert_eq!((result.exit_code(), result.stderr.as_str()), (1, traceback));
    assert!(!result.success());
}

// Scenario 6, Dangerous Import Blocking: not yet

#[test]
fn scenario_7_missing_docker_daemon() {
    let jar = Jar::new();
    let docker = |fallback: bool| {
        let socket = Some("unix:///nowhere/docker.sock".to_owned());
        let docker = DockerSettings { socket, fallback, ..DockerSettings::default() };
        SandboxConfig { backend: Backend::Docker, docker, ..jar.config() }
    };
    let Err(error) = create_sandbox(&docker(false)) else { panic!("there is no daemon") };
    assert!(error.to_string().contains("Docker daemon not available"), "{error}");
    let hint = "Set SANDBOX_TYPE=local or start Docker daemon";
    assert_eq!(error.hint().as_deref(), Some(hint));
    // Only for those who have asked for it, and told in the result.
    let result = create_sandbox(&docker(true)).expect("the local backend").run("print('Hello')");
    result.printed("Hello\n");
    assert_eq!(result.meta.runtime, "local");
    assert_eq!(result.meta.fallback_from.as_deref(), Some("docker"));
}

/// Who removes a workspace is who made it: here the test's jar. Only `run_python_code` makes one
/// itself: not yet.
#[test]
fn scenario_8_working_directory_isolation() {
    let jar = Jar::native();
    let code = "with open(\"test.txt\", \"w\") as f:\n    f.write(\"data\")\n\
                import os\nprint(os.getcwd())";
    let result = jar.open().run(code);
    result.printed("/app\n").changed(&["test.txt"], &[], &[]);
    assert_eq!(jar.read("test.txt"), "data");
    assert!(!Path::new("test.txt").exists(), "not in the project");
    let escape = jar.open().run(&format!(
        "open({:?}, 'w')",
        Path::new(env!("CARGO_MANIFEST_DIR")).join("test.txt").display().to_string()
    ));
    assert_eq!(escape.error.as_ref().map(|error| &*error.name), Some("FileNotFoundError"));
    let workspace = jar.workspace().to_owned();
    drop(jar);
    assert!(!workspace.exists(), "nothing holds it");
}

// Scenario 9, Execution Artifact Storage: not yet
// Scenario 10, Multi-Language Support: not yet
