//! The command line as a person sees it: whole outputs and exit codes. Nothing here runs a guest.

#![expect(clippy::unwrap_used, reason = "a test stops where it fails")]

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// A directory to run in, with an empty home for Belljar.
struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        fs::write(self.path().join(name), content).unwrap();
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_belljar"));
        command
            .args(args)
            .current_dir(self.path())
            .env("BELLJAR_HOME", self.path().join("home"))
            .env_remove("SANDBOX_TYPE")
            .env_remove("SANDBOX_PRESET")
            .env_remove("E2B_API_KEY")
            .env_remove("COLUMNS")
            .stdin(Stdio::null());
        command
    }

    /// Exit code, standard output and standard error of a run.
    fn belljar(&self, args: &[&str]) -> String {
        self.shown(&mut self.command(args))
    }

    fn shown(&self, command: &mut Command) -> String {
        let output = command.output().unwrap();
        let real = fs::canonicalize(self.path()).unwrap();
        let mut text = format!("exit {}\n", output.status.code().unwrap());
        for (name, bytes) in [("stdout", &output.stdout), ("stderr", &output.stderr)] {
            if !bytes.is_empty() {
                text.push_str(&format!("--- {name}\n{}", String::from_utf8_lossy(bytes)));
            }
        }
        text.replace(&real.display().to_string(), "DIR")
            .replace(&self.path().display().to_string(), "DIR")
    }
}

#[test]
fn the_first_screen_of_help() {
    insta::assert_snapshot!(Place::new().belljar(&["--help"]));
}

#[test]
fn the_help_of_run() {
    insta::assert_snapshot!(Place::new().belljar(&["run", "--help"]));
}

#[test]
fn the_help_of_the_shell_and_of_sessions() {
    let place = Place::new();
    let shown: Vec<String> = [
        &["repl", "--help"][..],
        &["session", "--help"],
        &["session", "fork", "--help"],
        &["session", "restore", "--help"],
        &["session", "resume", "--help"],
        &["session", "prune", "--help"],
    ]
    .iter()
    .map(|args| place.belljar(args))
    .collect();
    insta::assert_snapshot!(shown.join("\n"));
}

#[test]
fn the_help_of_the_tool_and_of_artifacts() {
    let place = Place::new();
    let shown: Vec<String> = [
        &["tool", "--help"][..],
        &["tool", "run-python", "--help"],
        &["tool", "run-code", "--help"],
        &["artifacts", "--help"],
        &["artifacts", "replay", "--help"],
        &["artifacts", "prune", "--help"],
    ]
    .iter()
    .map(|args| place.belljar(args))
    .collect();
    insta::assert_snapshot!(shown.join("\n"));
}

#[test]
fn the_variables_of_the_tool() {
    insta::assert_snapshot!(Place::new().belljar(&["tool", "variables"]));
}

/// Whatever a variable is set to, the tool answers with text, and nothing runs.
#[test]
fn variables_that_are_wrong() {
    let place = Place::new();
    let list = place.command(&["tool", "variables", "--json"]).output().unwrap();
    let list: Vec<serde_json::Value> = serde_json::from_slice(&list.stdout).unwrap();
    assert_eq!(list.len(), 15);
    for variable in &list {
        let name = variable["name"].as_str().unwrap();
        for value in ["", " ", "\u{1f4a5} ?/.."] {
            let mut command = place.command(&["tool", "run-python", "-c", "print('ran')"]);
            let shown = place.shown(command.env(name, value));
            let begin =
                "exit 1\n--- stdout\nError: the environment is not valid; nothing was run\n";
            assert!(shown.starts_with(&format!("{begin}  {name}: is ")), "{shown}");
            assert!(shown.contains(variable["accepts"].as_str().unwrap()), "{shown}");
            assert!(
                shown.ends_with(
                    "`belljar tool variables` lists every variable and what it accepts\n"
                )
            );
        }
    }
    let mut several = place.command(&["tool", "run-python", "-c", "1"]);
    several.envs([
        ("SANDBOX_MAX_OUTPUT_KB", "-1"),
        ("DOCKER_CPU_LIMIT", "NaN"),
        ("SANDBOX_MEMORY", "1"),
    ]);
    insta::assert_snapshot!(place.shown(&mut several));
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0, "nothing was written");
}

#[test]
fn there_are_no_artifacts_yet() {
    let place = Place::new();
    insta::assert_snapshot!(place.belljar(&["artifacts", "list"]), @r"
    exit 0
    --- stdout
    no artifacts in artifacts/executions
    ");
    insta::assert_snapshot!(place.belljar(&["artifacts", "prune"]), @r"
    exit 0
    --- stdout
    nothing to remove
    ");
    assert!(place.belljar(&["artifacts", "list", "--json"]).ends_with("[]\n"));
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0, "asking must not write");
}

#[test]
fn there_are_no_sessions_yet() {
    let place = Place::new();
    insta::assert_snapshot!(place.belljar(&["session", "list"]), @r"
    exit 0
    --- stdout
    no sessions; `belljar run --session ID` makes one
    ");
    insta::assert_snapshot!(place.belljar(&["session", "prune"]), @r"
    exit 0
    --- stdout
    nothing to remove
    ");
    assert!(place.belljar(&["session", "list", "--json"]).ends_with("[]\n"));
    assert!(!place.path().join("home").exists(), "asking must not write");
}

#[test]
fn a_context_or_a_model_that_cannot_be_had() {
    let place = Place::new();
    place.write("broken.json", "[1,");
    let shown: Vec<String> = [
        &["repl", "--context", "gone.txt"][..],
        &["repl", "--context", "broken.json"],
        &["run", "--llm", "-c", "1"],
        &["repl", "--llm-command", ""],
    ]
    .iter()
    .map(|args| place.belljar(args))
    .collect();
    insta::assert_snapshot!(shown.join("\n"));
}

#[test]
fn usage_errors_exit_with_two() {
    let place = Place::new();
    for args in [
        &["run"][..],
        &["run", "x.py", "-c", "1"],
        &["run", "-c", "1", "--memory", "lots"],
        &["run", "-c", "1", "--timeout", "soon"],
        &["run", "-c", "1", "--fuel", "-1"],
        &["run", "-c", "1", "--env", "NOVALUE"],
        &["run", "-c", "1", "--backend", "magic"],
        &["run", "-c", "1", "--lang", "cobol"],
        &["run", "-c", "1", "--preset", "lax"],
        &["nonsense"],
    ] {
        let shown = place.belljar(args);
        assert!(shown.starts_with("exit 2\n--- stderr\nerror: "), "{args:?}: {shown}");
    }
}

#[test]
fn a_wrong_unit_is_explained() {
    insta::assert_snapshot!(Place::new().belljar(&["run", "-c", "1", "--memory", "64 potatoes"]), @r"
    exit 2
    --- stderr
    error: invalid value '64 potatoes' for '--memory <SIZE>': `64 potatoes` is not a size; write for example 64MiB or 1000000

    For more information, try '--help'.
    ");
}

#[test]
fn code_that_cannot_be_read() {
    let place = Place::new();
    place.write("latin1.py", b"print('caf\xe9')");
    fs::create_dir(place.path().join("dir")).unwrap();
    insta::assert_snapshot!(place.belljar(&["run", "gone.py"]), @r"
    exit 125
    --- stderr
    error: cannot read the code in gone.py: it does not exist; nothing was run
    hint: to run code given as text, use -c CODE
    ");
    insta::assert_snapshot!(place.belljar(&["run", "latin1.py"]), @r"
    exit 125
    --- stderr
    error: cannot read the code in latin1.py: it is not UTF-8 text (byte 10 is 0xe9); nothing was run
    hint: save the file as UTF-8
    ");
    insta::assert_snapshot!(place.belljar(&["check", "dir"]), @r"
    exit 125
    --- stderr
    error: cannot read the code in dir: it is a directory; nothing was run
    hint: name a file in it; the directory itself can be the --workspace
    ");
}

#[test]
fn workspaces_that_cannot_be_used() {
    let place = Place::new();
    place.write("file", "");
    fs::create_dir(place.path().join("real")).unwrap();
    std::os::unix::fs::symlink("real", place.path().join("link")).unwrap();
    let shown: Vec<String> = ["gone", "file", "link"]
        .map(|dir| place.belljar(&["run", "-c", "1", "--workspace", dir]))
        .to_vec();
    insta::assert_snapshot!(shown.join("\n"));
}

#[test]
fn a_policy_file_that_was_named_must_exist_and_be_valid() {
    let place = Place::new();
    place.write("bad.toml", "fuel_budget = -1\nmemory_bytez = 5\n");
    place.write("latin1.toml", b"# caf\xe9");
    fs::create_dir(place.path().join("dir.toml")).unwrap();
    let shown: Vec<String> = ["gone.toml", "bad.toml", "latin1.toml", "dir.toml"]
        .map(|file| place.belljar(&["run", "-c", "1", "--policy", file]))
        .to_vec();
    insta::assert_snapshot!(shown.join("\n"));
}

#[test]
fn explain_prints_the_plan_and_runs_nothing() {
    let place = Place::new();
    place.write("policy.toml", "timeout_seconds = 5\nenv.CUSTOM = \"a b\"\n");
    fs::create_dir(place.path().join("data")).unwrap();
    let args = ["run", "-c", "1", "--explain", "--policy", "policy.toml", "--data", "data"];
    let mut command = place.command(&args);
    command.args(["--memory", "64MiB"]).env("SANDBOX_MAX_PROCESSES", "3");
    insta::assert_snapshot!(place.shown(&mut command));
    assert!(!place.path().join("home").exists(), "asking must not write");
}

#[test]
fn explain_as_json_is_the_launch_plan() {
    let place = Place::new();
    let output =
        place.command(&["run", "-c", "1", "--explain", "--json", "--workspace", "."]).output();
    let plan: serde_json::Value = serde_json::from_slice(&output.unwrap().stdout).unwrap();
    assert_eq!(plan["backend"], "wasm");
    assert_eq!(plan["policy"]["fuel_budget"], 200_000_000_000_u64);
    assert_eq!(plan["mounts"][0]["guest"], "/app");
}

#[test]
fn a_rule_the_backend_cannot_enforce_is_refused() {
    insta::assert_snapshot!(
        Place::new().belljar(&["run", "-c", "1", "--backend", "local", "--fuel", "5"]), @r"
    exit 125
    --- stderr
    error: the native backend cannot enforce fuel_budget; nothing was run
    hint: leave fuel_budget away, or use the wasm backend, which enforces every rule
    ");
}

#[test]
fn a_backend_without_what_it_needs_says_so() {
    insta::assert_snapshot!(Place::new().belljar(&["run", "-c", "1", "--backend", "e2b"]), @r"
    exit 125
    --- stderr
    error: the e2b backend cannot be used: E2B_API_KEY is not set; nothing was run
    hint: set it to a key of E2B's, or to one of `belljar daemon key new`
    ");
}

#[test]
fn the_environment_chooses_the_backend_and_the_argument_wins() {
    let place = Place::new();
    let backend = |args: &[&str]| {
        let mut command = place.command(&["run", "-c", "1", "--explain", "--json"]);
        let output = command.args(args).env("SANDBOX_TYPE", "local").output().unwrap();
        let plan: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        plan["backend"].clone()
    };
    assert_eq!(backend(&[]), "native");
    assert_eq!(backend(&["--backend", "wasm"]), "wasm");
}

#[test]
fn policy_show_names_the_origin_of_every_value() {
    let place = Place::new();
    place.write("policy.toml", "\nmemory_bytes = 1000000\n");
    let mut command = place.command(&[
        "policy",
        "show",
        "--policy",
        "policy.toml",
        "--fuel",
        "3G",
        "--env",
        "A=b\"c",
    ]);
    insta::assert_snapshot!(place.shown(command.env("SANDBOX_TIMEOUT_SECONDS", "2")));
}

#[test]
fn what_policy_show_prints_is_a_valid_policy_file() {
    let place = Place::new();
    let output = place.command(&["policy", "show"]).output().unwrap();
    place.write("shown.toml", output.stdout);
    insta::assert_snapshot!(place.belljar(&["policy", "validate", "shown.toml"]), @r"
    exit 0
    --- stdout
    shown.toml is a valid policy
    ");
}

#[test]
fn policy_validate_reports_everything_at_once() {
    let place = Place::new();
    place.write("bad.toml", "fuel_budget = \"much\"\ntimeout_seconds = 0\nfule = 1\n");
    insta::assert_snapshot!(place.belljar(&["policy", "validate", "bad.toml"]), @r#"
    exit 1
    --- stderr
    error: bad.toml is not a valid policy
      fuel_budget: must be a whole number, but is the string "much"; write it without quotes (bad.toml, line 1)
      timeout_seconds: must be greater than 0, but is 0 (bad.toml, line 2)
      fule: unknown field; the fields are fuel_budget, memory_bytes, stdout_max_bytes, stderr_max_bytes, mount_host_dir, guest_mount_path, mount_data_dir, guest_data_path, argv, env, timeout_seconds, workspace_max_bytes, workspace_max_files, max_processes, max_tool_calls, max_tool_bytes, max_rlm_depth, idle_timeout_seconds, network, deterministic, block_imports, image (bad.toml, line 3)
    hint: `belljar policy schema` describes every field
    "#);
}

#[test]
fn the_policy_schema() {
    insta::assert_snapshot!(Place::new().belljar(&["policy", "schema"]));
}

#[test]
fn blocked_imports_stop_the_run_before_anything_starts() {
    let place = Place::new();
    let run = ["run", "--block-import", "os", "-c", "import os"];
    insta::assert_snapshot!(place.belljar(&run), @r"
    exit 125
    --- stderr
    BlockedImportError: the code was not run, because it imports `os` (line 1); instead of os, use pathlib for paths and files, platform for facts about the system
    error: the code was not run: it imports os
    hint: take the module off block_imports if it is wanted
    ");
    let mut command =
        place.command(&["run", "--block-import", "json", "-c", "x = 1\nimport socket"]);
    let command = command.env("SANDBOX_BLOCK_DANGEROUS_IMPORTS", "true");
    insta::assert_snapshot!(place.shown(command), @r"
    exit 125
    --- stderr
    BlockedImportError: the code was not run, because it imports `socket` (line 2); instead of socket, use a tool that the host offers
    error: the code was not run: it imports socket
    hint: take the module off block_imports if it is wanted
    ");
    let run = ["run", "--lang", "javascript", "--block-import", "fs", "-c", "1"];
    insta::assert_snapshot!(place.belljar(&run), @r"
    exit 125
    --- stderr
    error: the wasm backend cannot enforce block_imports; nothing was run
    hint: leave block_imports away: the import guard reads Python only
    ");
}

#[test]
fn wrong_variables_stop_the_run() {
    let place = Place::new();
    let mut command = place.command(&["run", "-c", "1"]);
    insta::assert_snapshot!(place.shown(command.env("SANDBOX_MEMORY_BYTE", "5")), @r"
    exit 125
    --- stderr
    error: the policy is not valid; nothing was run
      SANDBOX_MEMORY_BYTE: unknown variable; did you mean `SANDBOX_MEMORY_BYTES`? (environment variable SANDBOX_MEMORY_BYTE)
    hint: `belljar policy schema` describes every field
    ");
}

#[test]
fn packages_are_added_listed_and_removed() {
    let place = Place::new();
    let wheel = "demo_pkg-1.0-py3-none-any.whl";
    let mut zip = zip::ZipWriter::new(fs::File::create(place.path().join(wheel)).unwrap());
    let metadata = "Metadata-Version: 2.1\nName: demo-pkg\nVersion: 1.0\n";
    let tags = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n";
    for (name, content) in [
        ("demo/__init__.py", "x = 1\n"),
        ("demo_pkg-1.0.dist-info/METADATA", metadata),
        ("demo_pkg-1.0.dist-info/WHEEL", tags),
        ("demo_pkg-1.0.dist-info/RECORD", ""),
    ] {
        zip.start_file(name, zip::write::SimpleFileOptions::default()).unwrap();
        zip.write_all(content.as_bytes()).unwrap();
    }
    zip.finish().unwrap();
    insta::assert_snapshot!(place.belljar(&["packages", "add", wheel]), @r"
    exit 0
    --- stdout
    added demo-pkg 1.0
    ");
    insta::assert_snapshot!(place.belljar(&["packages", "list"]), @r"
    exit 0
    --- stdout
    demo-pkg  1.0
    ");
    let explained = place.belljar(&["run", "-c", "1", "--explain"]);
    assert!(explained.contains("/app/site-packages (read-only) is "), "{explained}");
    insta::assert_snapshot!(place.belljar(&["packages", "rm", "demo_pkg"]), @r"
    exit 0
    --- stdout
    removed demo-pkg 1.0
    ");
}

#[test]
fn packages_that_cannot_be_added() {
    let place = Place::new();
    place.write("numpy-2.0-cp313-cp313-linux_x86_64.whl", "");
    let shown: Vec<String> = [
        &["packages", "add", "numpy-2.0-cp313-cp313-linux_x86_64.whl"][..],
        &["packages", "add", "--", "--index-url=http://evil"],
        &["packages", "add", "git+https://example.org/x"],
        &["packages", "rm", "nothing"],
        &["packages", "list"],
    ]
    .iter()
    .map(|args| place.belljar(args))
    .collect();
    insta::assert_snapshot!(shown.join("\n"));
}

#[test]
fn completions_and_manual_pages_are_generated() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = place.belljar(&["completions", shell]);
        assert!(script.starts_with("exit 0\n") && script.contains("belljar"), "{shell}");
    }
    assert!(place.belljar(&["man"]).contains(".TH belljar 1"));
    assert!(place.belljar(&["man", "pages"]).starts_with("exit 0"));
    assert!(place.path().join("pages/belljar-run.1").is_file());
}
