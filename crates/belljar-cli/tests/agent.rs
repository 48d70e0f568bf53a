//! The agent's tool and what it keeps, on the command line, with real guests.

#![expect(clippy::unwrap_used, reason = "a test stops where it fails")]

use std::fs;
use std::path::Path;

mod support;

/// A directory to run in, where artifacts are kept as well.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn run(&self, variables: &[(&str, &str)], args: &[&str]) -> (i32, String, String) {
        let mut command = support::command(args);
        command.current_dir(self.0.path()).envs(variables.iter().copied());
        support::outcome(&command.output().unwrap())
    }

    /// Code in the sandbox that starts fastest; everything is kept.
    fn keep(&self, code: &str) -> (i32, String, String) {
        let variables = [("SANDBOX_TYPE", "wasm"), ("SANDBOX_STORE_CODE", "always")];
        self.run(&variables, &["tool", "run-python", "-c", code])
    }

    fn artifacts(&self, args: &[&str]) -> (i32, String, String) {
        self.run(&[], &[&["artifacts"], args].concat())
    }

    fn executions(&self) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.0.path().join("artifacts/executions")) else {
            return Vec::new();
        };
        let mut names: Vec<String> =
            entries.flatten().map(|entry| entry.file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

fn lines(text: &[&str]) -> String {
    text.iter().map(|line| format!("{line}\n")).collect()
}

#[test]
fn python_from_an_argument_a_file_and_standard_input() {
    let place = Place::new();
    fs::write(place.0.path().join("x.py"), "print('file')").unwrap();
    for (args, text) in [
        (&["-c", "print('argument')"][..], "argument\n"),
        (&["x.py"], "file\n"),
        (&["-c", "6 * 7"], "42\n"),
        (&["-c", "x = 1"], "(no output)\n"),
    ] {
        let (code, stdout, stderr) = place.run(&[], &[&["tool", "run-python"], args].concat());
        assert_eq!((code, stdout.as_str(), stderr.as_str()), (0, text, ""));
    }
    let mut command = support::command(&["tool", "run-python", "-"]);
    let child = support::start(command.current_dir(place.0.path()), b"print('piped')");
    let (code, stdout, _) = support::outcome(&child.wait_with_output().unwrap());
    assert_eq!((code, stdout.as_str()), (0, "piped\n"));
    assert_eq!(place.executions(), Vec::<String>::new(), "only failures are kept");
}

#[test]
fn what_goes_wrong_is_text_on_standard_output() {
    let place = Place::new();
    let (code, stdout, stderr) = place.run(&[], &["tool", "run-python", "-c", "1 / 0"]);
    let text = lines(&[
        "Error: ZeroDivisionError: division by zero",
        "Traceback (most recent call last):",
        "  File \"<sandbox>\", line 1, in <module>",
        "    1 / 0",
    ]);
    assert_eq!((code, stderr.as_str()), (1, ""));
    assert!(stdout.starts_with(&text), "{stdout}");
    assert_eq!(place.executions().len(), 1);
    let loop_forever = ["tool", "run-python", "-c", "while True: pass", "--timeout", "500ms"];
    let (code, stdout, _) = place.run(&[], &loop_forever);
    assert!(code == 1 && stdout.starts_with("Error: timed out after 0.5 s\n"), "{stdout}");
    let (code, stdout, stderr) = place.run(&[], &["tool", "run-python", "missing.py"]);
    assert_eq!((code, stderr.as_str()), (1, ""));
    assert!(stdout.starts_with("Error: cannot read the code in missing.py"), "{stdout}");
}

#[test]
fn code_in_another_language() {
    let place = Place::new();
    let args = ["tool", "run-code", "--language", "javascript", "-c", "console.log('Hi')"];
    for backend in ["local", "wasm"] {
        let (code, stdout, _) = place.run(&[("SANDBOX_TYPE", backend)], &args);
        assert_eq!((code, stdout.as_str()), (0, "Hi\n"), "{backend}");
    }
    let (code, stdout, _) = place.run(&[("SANDBOX_SUPPORTED_LANGUAGES", "python")], &args);
    assert!(code == 1 && stdout.contains("javascript is not among the languages"), "{stdout}");
}

#[test]
fn artifacts_are_listed_shown_replayed_and_removed() {
    let place = Place::new();
    assert_eq!(place.keep("print('hello')\n1 / 0").0, 1);
    let name = place.executions()[0].replace(".json", "");
    fs::write(place.0.path().join("artifacts/executions/notes"), "mine").unwrap();
    let (_, listed, _) = place.artifacts(&["list"]);
    let line = listed.lines().next().unwrap();
    assert!(line.starts_with(&format!("{name}  error          python      wasm")), "{listed}");
    assert!(listed.contains("notes  unreadable  it is no artifact's file"), "{listed}");
    let (_, json, _) = place.artifacts(&["list", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json[0]["id"], &json[0]["status"]), (&name.as_str().into(), &"error".into()));
    let (_, shown, _) = place.artifacts(&["show", &name[..20]]);
    let rest = shown.split("--- code\n").nth(1).unwrap();
    assert!(rest.starts_with("print('hello')\n1 / 0\n--- stdout\nhello\n--- stderr\nTraceback"));
    let (_, json, _) = place.artifacts(&["show", &name, "--json"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["code"], "print('hello')\n1 / 0");
    let (code, same, _) = place.artifacts(&["replay", &name]);
    assert_eq!((code, same.as_str()), (0, "the same: error, exit code 1\n"));
    assert_eq!(place.executions().len(), 2, "replaying keeps nothing");
    let (code, pruned, _) = place.artifacts(&["prune", "--all"]);
    assert!(code == 0 && pruned.starts_with(&format!("removed {name}\n")), "{pruned}");
    assert_eq!(place.executions(), ["notes"], "what is not ours stays");
    let (_, pruned, _) = place.artifacts(&["prune", "--older-than", "1s", "--json"]);
    assert_eq!(pruned, "{\"bytes\":0,\"removed\":[]}\n");
}

#[test]
fn a_replay_that_differs_says_how() {
    let place = Place::new();
    assert_eq!(place.keep("import time\nprint('first')\nprint(time.time_ns())").0, 0);
    let name = place.executions()[0].replace(".json", "");
    let (code, stdout, _) = place.artifacts(&["replay", &name]);
    assert_eq!(code, 1);
    assert!(stdout.starts_with("stdout is different\n  - 1"), "{stdout}");
    assert!(stdout.contains("\n  + 1") && !stdout.contains("first"), "{stdout}");
    let (code, json, _) = place.artifacts(&["replay", &name, "--json"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((code, &json["same"]), (1, &false.into()));
    assert_eq!(json["differences"][0]["what"], "stdout");
}

#[test]
fn names_that_are_paths_are_refused() {
    let place = Place::new();
    assert_eq!(place.keep("1").0, 0);
    for id in ["../x", "/etc/passwd", "", "*"] {
        for command in ["show", "replay"] {
            let (code, stdout, stderr) = place.artifacts(&[command, id]);
            assert_eq!((code, stdout.as_str()), (125, ""), "{id}");
            assert!(stderr.starts_with("error: the artifact `"), "{stderr}");
        }
    }
    let (code, _, stderr) = place.artifacts(&["show", "1999"]);
    assert!(code == 125 && stderr.contains("there is none in artifacts/executions"), "{stderr}");
    let elsewhere = tempfile::tempdir().unwrap();
    let (code, stdout, _) = place.artifacts(&["list", "--dir", elsewhere.path().to_str().unwrap()]);
    assert_eq!((code, stdout.starts_with("no artifacts in ")), (0, true));
    assert!(!Path::new(elsewhere.path()).join("executions").exists());
}
