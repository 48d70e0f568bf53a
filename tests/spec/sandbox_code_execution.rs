//! Capability: Sandbox Code Execution.
//!
//! Every scenario goes through the tool an agent is given. "Local" is the native backend: a
//! subprocess, and a jail around it. `ExecutionResult` is `SandboxResult`; its `duration`, in
//! seconds, is a view of it.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use belljar::{RuntimeType, SandboxResult, Status};
use serde_json::Value;
use support::{Agent, Expect, containers, docker_settings, eventually, processes_of, skipped};

/// What starting an interpreter or a container and a busy machine may add.
const SLOWNESS_SECONDS: f64 = 20.0;

/// Agents with these variables: one on the native backend and, where there is an engine, one on
/// Docker.
fn agents(test: &str, variables: &[(&str, &str)]) -> Vec<Agent> {
    let mut agents = vec![Agent::new(variables)];
    match docker_settings() {
        Ok(engine) => {
            let variables = [variables, &[("SANDBOX_TYPE", "docker")]].concat();
            agents.push(Agent::new(&variables).with(|settings| settings.docker = engine));
        }
        Err(why) => skipped(&format!("{test} on docker"), &why),
    }
    agents
}

#[test]
fn scenario_1_local_execution() {
    let agent = Agent::new(&[]);
    let result = agent.result("print('Hello')");
    result.printed("Hello\n");
    assert_eq!(result.meta.runtime, "local", "nothing set, and no Docker needed");
    assert!(result.duration() > 0.0 && result.duration() < 1.0, "{} s", result.duration());
    assert_eq!(agent.says("print('Hello')"), "Hello\n");
    assert_eq!(agent.says("6 * 7"), "42");
    assert_eq!(agent.says("x = 1"), "(no output)");
}

#[test]
fn scenario_2_docker_execution() {
    let engine = match docker_settings() {
        Ok(settings) => settings,
        Err(why) => return skipped("scenario_2_docker_execution", &why),
    };
    let agent = Agent::new(&[("SANDBOX_TYPE", "docker")]).with(|settings| settings.docker = engine);
    let code = "import os; print(os.uname())";
    let said = agent.says(code);
    assert!(said.contains("nodename='belljar'"), "in a container: {said}");
    let result = agent.result(code);
    result.ended(Status::Ok, 0);
    assert_eq!(result.meta.runtime, "docker");
    for layer in ["docker", "no-network", "read-only-root", "no-capabilities", "cgroup"] {
        assert!(result.meta.isolation.iter().any(|held| held == layer), "{:?}", result.meta);
    }
    let network = agent.result(
        "import socket\nprint([name for _, name in socket.if_nameindex()])\n\
         socket.create_connection(('192.0.2.1', 80), 2)",
    );
    assert_eq!(network.stdout, "['lo']\n");
    assert_eq!(network.error.as_ref().map(|error| &*error.name), Some("OSError"));
    assert_eq!(fields(&result), fields(&Agent::new(&[]).result(code)), "the same structure");
    eventually("the containers are removed", || containers().is_empty());
}

#[test]
fn scenario_3_timeout_enforcement() {
    const CODE: &str = "while True:\n    pass";
    for agent in agents("scenario_3_timeout_enforcement", &[("SANDBOX_TIMEOUT_SEC", "5")]) {
        let result = agent.result(CODE);
        result.ended(Status::Timeout, -1);
        assert!(result.meta.timed_out);
        assert!(result.stderr.contains("Timeout: timed out after 5 s"), "{}", result.stderr);
        let duration = result.duration();
        assert!((5.0..5.0 + SLOWNESS_SECONDS).contains(&duration), "{duration} s");
        assert_eq!(processes_of(Path::new(&result.workspace_path)), Vec::<String>::new());
        let text = agent.tool().run_python_code(CODE, Some(1.0));
        assert!(text.starts_with("Error: timed out after 1 s\n"), "the argument wins: {text}");
        assert!(text.contains("\nSuggestion: look for a loop that does not end"), "{text}");
    }
}

#[test]
fn scenario_4_output_truncation() {
    const CODE: &str = "for i in range(100000):\n    print(f\"Line {i}: \" + \"X\" * 100)";
    for (variables, kib) in [(&[][..], 10), (&[("SANDBOX_MAX_OUTPUT_KB", "3")][..], 3)] {
        for agent in agents("scenario_4_output_truncation", variables) {
            let result = agent.result(CODE);
            result.ended(Status::Ok, 0);
            assert_eq!(result.stdout.len(), kib * 1024);
            let printed: String =
                (0..100).map(|line| format!("Line {line}: {}\n", "X".repeat(100))).collect();
            let kept = result.stdout.strip_suffix("... (output truncated)").expect("the mark");
            assert!(printed.starts_with(kept.trim_end()), "{kept}");
            assert!(result.meta.truncated);
            assert_eq!(agent.says(CODE), result.stdout);
            let loud = agent.result("import sys; sys.stderr.write('E' * 100_000)");
            assert_eq!((loud.stderr.len(), loud.meta.truncated), (kib * 1024, true));
        }
    }
}

#[test]
fn scenario_5_non_zero_exit_code() {
    for agent in agents("scenario_5_non_zero_exit_code", &[]) {
        let result = agent.result("raise ValueError(\"Something went wrong\")");
        result.raised("ValueError", "Something went wrong");
        let traceback = "Traceback (most recent call last):\n  File \"<sandbox>\", line 1, in <module>\n    \
                         raise ValueError(\"Something went wrong\")\nValueError: Something went wrong\n";
        assert_eq!((result.exit_code(), result.stderr.as_str()), (1, traceback));
        assert!(!result.success());
        assert_eq!(
            agent.says("print('so far')\nraise ValueError(\"Something went wrong\")"),
            "Error: ValueError: Something went wrong\n\
             Traceback (most recent call last):\n  File \"<sandbox>\", line 2, in <module>\n    \
             raise ValueError(\"Something went wrong\")\nValueError: Something went wrong\n\
             [stdout]\nso far\n\
             Suggestion: correct the code at the last line of the traceback and call again"
        );
        let exited = agent.result("import sys; sys.exit(3)");
        exited.ended(Status::Error, 3);
    }
}

#[test]
fn scenario_6_dangerous_import_blocking() {
    const CODE: &str = "import subprocess\nsubprocess.run([\"rm\", \"-rf\", \"/\"])";
    let agent = Agent::new(&[("SANDBOX_BLOCK_DANGEROUS_IMPORTS", "true")]);
    let result = agent.result(CODE);
    result.ended(Status::Blocked, 1).changed(&[], &[], &[]);
    assert_eq!(result.meta.blocked_imports, ["subprocess"]);
    let error = result.error.as_ref().expect("an error");
    assert_eq!(error.name, "BlockedImportError");
    assert!(error.message.contains("`subprocess` (line 1)"), "{}", error.message);
    assert!(result.stderr.contains(&error.message), "{}", result.stderr);
    let text = agent.says(CODE);
    assert!(text.starts_with("Error: blocked import: subprocess\n"), "{text}");
    assert!(text.contains("\nSuggestion: "), "{text}");
    assert!(agent.logged().contains("instead of subprocess, use "), "{}", agent.logged());
    for module in ["os", "shutil", "socket"] {
        let result = agent.result(&format!("print('ran')\nimport {module}"));
        assert_eq!(result.meta.blocked_imports, [module]);
        assert_eq!(result.stdout, "", "nothing of it runs");
    }
    assert_eq!(agent.says("import math; print(math.pi > 3)"), "True\n");
    let configured = Agent::new(&[("SANDBOX_BLOCK_IMPORTS", "math")]);
    assert_eq!(configured.result("import math").meta.blocked_imports, ["math"]);
    assert_eq!(configured.says("import os; print(os.sep)"), "/\n");
    assert_eq!(Agent::new(&[]).says("import subprocess; print('allowed')"), "allowed\n");
}

#[test]
fn scenario_7_missing_docker_daemon() {
    let without_daemon = |variables: &[(&str, &str)]| {
        Agent::new(variables).with(|settings| {
            settings.docker.socket = Some("unix:///nowhere/docker.sock".to_owned());
        })
    };
    let said = without_daemon(&[("SANDBOX_TYPE", "docker")]).says("print('Hello')");
    assert!(said.starts_with("Error: ") && said.contains("Docker daemon not available"), "{said}");
    let suggestion = "Suggestion: Set SANDBOX_TYPE=local or start Docker daemon";
    assert!(said.contains(suggestion), "{said}");
    // Only for those who have asked for it, and told.
    let agent = without_daemon(&[("SANDBOX_TYPE", "docker"), ("SANDBOX_FALLBACK", "local")]);
    let result = agent.result("print('Hello')");
    result.printed("Hello\n");
    assert_eq!(result.meta.runtime, "local");
    assert_eq!(result.meta.fallback_from.as_deref(), Some("docker"));
    let note = "Hello\n[note]\ndocker was not available, so this ran on local";
    assert_eq!(agent.says("print('Hello')").trim_end(), note);
}

#[test]
fn scenario_8_working_directory_isolation() {
    let agent = Agent::new(&[]);
    let code = "with open(\"test.txt\", \"w\") as f:\n    f.write(\"data\")\n\
                import os\nprint(os.getcwd(), open('test.txt').read())";
    let result = agent.result(code);
    result.printed("/app data\n").changed(&["test.txt"], &[], &[]);
    assert!(!Path::new("test.txt").exists(), "not in the project");
    assert!(!Path::new(&result.workspace_path).exists(), "cleaned up");
    assert_eq!(agent.says("import os; print(os.listdir())"), "[]\n", "every call is a new one");
    let inside = Path::new(env!("CARGO_MANIFEST_DIR")).join("test.txt");
    let escape = agent.result(&format!("open({:?}, 'w')", inside.display().to_string()));
    assert_eq!(escape.error.as_ref().map(|error| &*error.name), Some("FileNotFoundError"));
    assert!(!inside.exists() && !Path::new(&escape.workspace_path).exists());
}

#[test]
fn scenario_9_execution_artifact_storage() {
    let (good, bad) = ("print('fine')", "print('so far'); 1 / 0");
    for (policy, after_good, after_bad) in [("on_error", 0, 1), ("always", 1, 2), ("never", 0, 0)] {
        let agent = Agent::new(&[("SANDBOX_STORE_CODE", policy)]);
        assert_eq!(agent.says(good), "fine\n");
        assert_eq!(agent.kept().len(), after_good, "{policy}");
        let _ = agent.says(bad);
        assert_eq!(agent.kept().len(), after_bad, "{policy}");
        if policy == "never" {
            assert!(!agent.dir().join("artifacts").exists(), "nothing at all is written");
        }
    }
    assert_eq!(Agent::new(&[]).tool().settings().store_code, belljar::StoreCode::OnError);

    let agent = Agent::new(&[]);
    let _ = agent.says(bad);
    let [file] = &agent.kept()[..] else { panic!("one artifact: {:?}", agent.kept()) };
    let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let (timestamp, hash) = name.split_once('_').expect("<timestamp>_<hash>.json");
    assert!(timestamp.starts_with("20") && timestamp.ends_with('Z'), "{name}");
    assert!(hash.len() >= 12 + ".json".len() && hash.ends_with(".json"), "{name}");
    let mode = fs::metadata(file).expect("a file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let artifact: Value =
        serde_json::from_str(&fs::read_to_string(file).expect("a text")).expect("valid JSON");
    assert_eq!(artifact["code"], bad);
    assert_eq!(artifact["language"], "python");
    assert_eq!(artifact["backend"], "native");
    assert_eq!(artifact["result"]["exit_code"], 1);
    assert_eq!(artifact["result"]["stdout"], "so far\n");
    assert_eq!(artifact["result"]["error"]["name"], "ZeroDivisionError");
    assert_eq!(artifact["policy"]["timeout_seconds"], 30.0);
    assert!(artifact["timestamp"].as_str().is_some_and(|time| time.ends_with('Z')));
    let execution = &artifact["metadata"]["execution_id"];
    assert_eq!(*execution, artifact["result"]["meta"]["execution_id"]);
    // No credentials: tests/attacks/artifacts.rs has more of this.
    let agent = Agent::new(&[("SANDBOX_STORE_CODE", "always"), ("MY_API_KEY", "correct-horse")]);
    let _ = agent.says("key = 'correct-horse'; print(key)");
    let kept = fs::read_to_string(&agent.kept()[0]).expect("a text");
    assert!(!kept.contains("correct-horse") && kept.contains("[redacted]"), "{kept}");
}

#[test]
fn scenario_10_multi_language_support() {
    const CODE: &str = "console.log('Hi')";
    for backend in ["local", "wasm"] {
        let variables =
            [("SANDBOX_TYPE", backend), ("SANDBOX_SUPPORTED_LANGUAGES", "python,javascript")];
        let agent = Agent::new(&variables);
        assert_eq!(agent.tool().run_code(CODE, "javascript", None), "Hi\n");
        let result =
            agent.tool().execute(CODE, RuntimeType::Javascript, None).expect("the host is fine");
        result.printed("Hi\n");
        assert_eq!(result.meta.runtime, backend);
        assert_eq!(result.meta.language, RuntimeType::Javascript);
        assert_eq!(fields(&result), fields(&agent.result("print('Hi')")), "on {backend}");
        let failed = agent.tool().run_code("throw new TypeError('no')", "javascript", None);
        assert!(failed.starts_with("Error: TypeError: no\n"), "{failed}");
    }
    let python_only = Agent::new(&[("SANDBOX_SUPPORTED_LANGUAGES", "python")]);
    let refused = python_only.tool().run_code(CODE, "javascript", None);
    assert!(refused.contains("javascript is not among the languages that are offered"));
}

/// The names of everything in a result.
fn fields(result: &SandboxResult) -> BTreeSet<String> {
    fn walk(prefix: &str, value: &Value, names: &mut BTreeSet<String>) {
        let Value::Object(fields) = value else { return };
        for (name, value) in fields {
            let name = format!("{prefix}.{name}");
            walk(&name, value, names);
            names.insert(name);
        }
    }
    let mut names = BTreeSet::new();
    walk("", &serde_json::to_value(result).expect("JSON"), &mut names);
    names
}
