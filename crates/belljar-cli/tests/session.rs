//! `belljar run --session` and `belljar session` with real guests.

#![expect(clippy::unwrap_used, reason = "a test stops where it fails")]

mod support;

use std::fs;

use support::{Name, belljar, command, home, ok, shown};

/// Every language: code that remembers a number, and code that gives it back one larger.
const LANGUAGES: [(&str, &str, &str); 2] =
    [("python", "x = 41", "x + 1"), ("javascript", "let x = 41", "x + 1")];

/// A cell that asks twice and then answers.
fn asking(language: &str) -> &'static str {
    match language {
        "python" => {
            "import asyncio\nprint('asking')\n\
             a, b = await asyncio.gather(approve.aio('deploy', to='prod'), approve.aio('pay'))\n\
             print(a, b)\n(a, b)"
        }
        _ => {
            "console.log('asking');\n\
             const [a, b] = await Promise.all([approve('deploy', 'prod'), approve('pay')]);\n\
             console.log(a, b);\na"
        }
    }
}

#[test]
fn variables_live_from_one_run_to_the_next() {
    for (language, first, second) in LANGUAGES {
        let name = Name::new("test-variables");
        ok(&["run", "--session", name.0, "--lang", language, "-c", first]);
        assert_eq!(name.run(second), "42\n", "{language}");
    }
}

#[test]
fn files_live_in_the_sessions_own_workspace() {
    let name = Name::new("test-files");
    name.run("import os; os.mkdir('d'); open('d/a.txt', 'w').write('12345'); None");
    assert_eq!(ok(&["session", "files", name.0]), "   d/\n5  d/a.txt\n");
    assert_eq!(
        ok(&["session", "files", name.0, "--json"]),
        "[{\"path\":\"d/\",\"bytes\":0},{\"path\":\"d/a.txt\",\"bytes\":5}]\n"
    );
    assert_eq!(name.run("open('/app/d/a.txt').read()"), "'12345'\n");
}

#[test]
fn a_session_can_work_in_a_directory_of_the_callers_and_only_there() {
    let name = Name::new("test-workspace");
    let dir = tempfile::tempdir().unwrap();
    let other = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    ok(&["run", "--session", name.0, "--workspace", path, "-c", "open('f', 'w').write('1')"]);
    assert!(dir.path().join("f").is_file());
    assert_eq!(name.run("open('f').read()"), "'1'\n");
    let (code, _, stderr) = belljar(&[
        "run",
        "--session",
        name.0,
        "--workspace",
        other.path().to_str().unwrap(),
        "-c",
        "1",
    ]);
    assert_eq!(code, 125);
    assert!(stderr.contains("cannot be used: it works in "), "{stderr}");
    drop(name);
    assert!(dir.path().join("f").is_file(), "the caller's files stay");
}

#[test]
fn errors_and_exits_keep_the_session() {
    let name = Name::new("test-errors");
    name.run("x = 1");
    assert_eq!(belljar(&["run", "--session", name.0, "-c", "x = 2; 1/0"]).0, 1);
    assert_eq!(belljar(&["run", "--session", name.0, "-c", "import sys; sys.exit(3)"]).0, 3);
    assert_eq!(name.run("x"), "2\n");
}

#[test]
fn a_time_out_keeps_the_state_and_a_swallowed_one_rolls_it_back() {
    let name = Name::new("test-timeout");
    name.run("x = 1");
    let stopped =
        |code: &str| belljar(&["run", "--session", name.0, "--timeout", "300ms", "-c", code]);
    let (code, _, stderr) = stopped("x = 2\nwhile True: pass");
    assert_eq!(code, 124);
    assert!(!stderr.contains("as it was before"), "{stderr}");
    assert_eq!(name.run("x"), "2\n");
    let (code, _, stderr) =
        stopped("x = 3\nwhile True:\n  try:\n    while True: pass\n  except BaseException: pass");
    assert_eq!(code, 124);
    assert!(stderr.ends_with("the session is as it was before this cell\n"), "{stderr}");
    assert_eq!(name.run("x"), "2\n");
}

#[test]
fn a_cell_that_waits_is_saved_and_goes_on_in_another_process() {
    for (language, _, _) in LANGUAGES {
        let name = Name::new("test-suspend");
        let code = asking(language);
        let args =
            ["run", "--session", name.0, "--defer", "approve", "--lang", language, "-c", code];
        let (exit, stdout, stderr) = belljar(&args);
        assert_eq!((exit, stdout.as_str()), (123, "asking\n"), "{stderr}");
        assert!(
            stderr.starts_with("suspended: the code waits for answers:\n  1  approve("),
            "{stderr}"
        );
        let hint = "hint: answer with `belljar session resume test-suspend --answer 1=JSON`\n";
        assert!(stderr.ends_with(hint), "{stderr}");
        assert!(ok(&["session", "list"]).contains("test-suspend"), "{language}");
        // Nothing else can be done with it meanwhile.
        let (exit, _, stderr) = belljar(&["run", "--session", name.0, "-c", "1"]);
        assert_eq!(exit, 125);
        assert!(stderr.contains("waits for the answer to calls 1, 2;"), "{stderr}");
        // One answer is not enough.
        let (exit, stdout, _) = belljar(&["session", "resume", name.0, "--answer", "2=\"yes\""]);
        assert_eq!((exit, stdout.as_str()), (123, ""), "{language}");
        let shown = ok(&["session", "show", name.0]);
        assert!(shown.contains("\nstatus       suspended\n"), "{shown}");
        assert!(shown.contains("\nwaits for    1  approve(\"deploy\", "), "{shown}");
        let (exit, stdout, stderr) = belljar(&["session", "resume", name.0, "--answer", "1=true"]);
        assert_eq!(exit, 0, "{stderr}");
        let expected = match language {
            "python" => "True yes\n(True, 'yes')\n",
            _ => "true yes\ntrue\n",
        };
        assert_eq!(stdout, expected);
        assert_eq!(belljar(&["session", "resume", name.0, "--answer", "1=true"]).0, 125);
    }
}

#[test]
fn an_answer_can_be_a_failure_or_come_from_a_file() {
    let name = Name::new("test-answers");
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("answer.json");
    fs::write(&file, "{\"n\": 5}").unwrap();
    let begin = |code: &str| {
        let args = ["run", "--session", name.0, "--defer", "approve", "--json", "-c", code];
        let (exit, stdout, _) = belljar(&args);
        assert_eq!(exit, 123);
        let result: serde_json::Value = serde_json::from_str(&stdout).unwrap();
        assert_eq!(result["status"], "suspended");
        result["pending_calls"][0]["id"].as_u64().unwrap()
    };
    let call = begin("(await approve())['n']");
    let answer = format!("{call}=@{}", file.display());
    assert_eq!(ok(&["session", "resume", name.0, "--answer", &answer]), "5\n");
    let call = begin("try:\n  await approve()\nexcept RuntimeError as e: print(e)");
    let failure = format!("{call}=not today");
    assert_eq!(ok(&["session", "resume", name.0, "--fail", &failure]), "not today\n");
}

#[test]
fn answers_that_do_not_fit_change_nothing() {
    let name = Name::new("test-wrong");
    let args = ["run", "--session", name.0, "--defer", "approve", "-c", "await approve('x')"];
    assert_eq!(belljar(&args).0, 123);
    insta::assert_snapshot!(
        [
            shown(&["session", "resume", name.0, "--answer", "1=yes"]),
            shown(&["session", "resume", name.0, "--answer", "7=1"]),
            shown(&["session", "resume", name.0, "--answer", "one=1"]),
            shown(&["session", "resume", name.0, "--answer", "1=1", "--fail", "1=no"]),
            shown(&["session", "resume", "test-nobody", "--answer", "1=1"]),
        ]
        .join("\n")
    );
    assert!(ok(&["session", "show", name.0]).contains("suspended"));
}

#[test]
fn a_fork_leaves_its_parent_alone() {
    let (parent, fork) = (Name::new("test-parent"), Name::new("test-fork"));
    parent.run("x = 1; open('f', 'w').write('parent'); None");
    assert_eq!(ok(&["session", "fork", parent.0, fork.0]), "made test-fork\n");
    fork.run("x = 2; open('f', 'w').write('fork'); None");
    assert_eq!(parent.run("x, open('f').read()"), "(1, 'parent')\n");
    assert_eq!(fork.run("x, open('f').read()"), "(2, 'fork')\n");
    insta::assert_snapshot!(shown(&["session", "fork", parent.0, fork.0]), @r"
    exit 125
    --- stderr
    error: the session `test-fork` cannot be used: there is one of this name already; nothing was changed
    hint: choose another name, or remove it with `belljar session rm test-fork`
    ");
}

#[test]
fn a_waiting_session_can_be_forked_and_each_gets_its_own_answer() {
    let (parent, fork) = (Name::new("test-waiting"), Name::new("test-waiting-fork"));
    let args = ["run", "--session", parent.0, "--defer", "ask", "-c", "await ask()"];
    assert_eq!(belljar(&args).0, 123);
    ok(&["session", "fork", parent.0, fork.0]);
    assert_eq!(ok(&["session", "resume", fork.0, "--answer", "1=\"fork\""]), "'fork'\n");
    assert_eq!(ok(&["session", "resume", parent.0, "--answer", "1=\"parent\""]), "'parent'\n");
}

#[test]
fn a_snapshot_carries_state_and_files_to_another_name() {
    let (name, copy) = (Name::new("test-snapshot"), Name::new("test-restored"));
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("s.belljar");
    let path = file.to_str().unwrap();
    name.run("x = [1, 2]; open('f', 'w').write('file'); None");
    assert_eq!(ok(&["session", "snapshot", name.0, path]), format!("wrote {path}\n"));
    name.run("x.append(3); open('f', 'w').write('changed'); None");
    assert_eq!(ok(&["session", "restore", path, copy.0]), "made test-restored\n");
    assert_eq!(ok(&["session", "files", copy.0]), "4  f\n");
    assert_eq!(copy.run("x, open('f').read()"), "([1, 2], 'file')\n");
    assert_eq!(name.run("x, open('f').read()"), "([1, 2, 3], 'changed')\n");
}

#[test]
fn a_waiting_session_can_be_moved_in_a_snapshot() {
    let (name, copy) = (Name::new("test-moving"), Name::new("test-moved"));
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("s.belljar");
    let path = file.to_str().unwrap();
    let code = "first = await approve(1)\nsecond = await approve(2)\nfirst + second";
    assert_eq!(belljar(&["run", "--session", name.0, "--defer", "approve", "-c", code]).0, 123);
    ok(&["session", "snapshot", name.0, path]);
    ok(&["session", "restore", path, copy.0]);
    // The tool is known to the copy, so that the code can ask again.
    assert_eq!(belljar(&["session", "resume", copy.0, "--answer", "1=20"]).0, 123);
    assert_eq!(ok(&["session", "resume", copy.0, "--answer", "2=22"]), "42\n");
}

#[test]
fn damaged_and_foreign_snapshots_are_refused() {
    let name = Name::new("test-damaged");
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("s.belljar");
    let path = file.to_str().unwrap();
    name.run("x = 1");
    ok(&["session", "snapshot", name.0, path]);
    let good = fs::read(&file).unwrap();
    let refused = |bytes: &[u8]| {
        fs::write(&file, bytes).unwrap();
        shown(&["session", "restore", path, "test-never"])
            .replace(&dir.path().display().to_string(), "DIR")
    };
    let mut flipped = good.clone();
    let middle = flipped.len() / 2;
    flipped[middle] ^= 1;
    let mut other_version = good.clone();
    other_version[16] = 99;
    insta::assert_snapshot!(
        [
            refused(&good[..good.len() / 2]),
            refused(&flipped),
            refused(&other_version),
            refused(b"no snapshot at all, but something else"),
            refused(b""),
        ]
        .join("\n")
    );
    assert!(!ok(&["session", "list"]).contains("test-never"));
}

#[test]
fn a_damaged_state_stops_the_session_and_loses_nothing() {
    let name = Name::new("test-broken");
    name.run("open('precious', 'w').write('x'); None");
    let state = home().join("sessions").join(name.0).join("state.belljar");
    let good = fs::read(&state).unwrap();
    fs::write(&state, &good[..100]).unwrap();
    let (code, _, stderr) = belljar(&["run", "--session", name.0, "-c", "1"]);
    assert_eq!(code, 125);
    assert!(stderr.contains("cannot be used: it is cut short; no session was changed"), "{stderr}");
    assert_eq!(ok(&["session", "files", name.0]), "1  precious\n");
    fs::write(&state, good).unwrap();
    assert_eq!(name.run("open('precious').read()"), "'x'\n");
}

#[test]
fn a_session_that_is_in_use_is_not_touched() {
    let name = Name::new("test-busy");
    name.run("x = 0");
    let code = "print('on', flush=True)\nimport time; time.sleep(2); x += 1";
    let mut busy = command(&["run", "--session", name.0, "-c", code])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut stdout = std::io::BufReader::new(busy.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut stdout, &mut line).unwrap();
    assert_eq!(line, "on\n", "it has begun");
    let (code, _, stderr) = belljar(&["run", "--session", name.0, "-c", "x = 100"]);
    assert_eq!(code, 125);
    assert_eq!(
        stderr,
        "error: the session `test-busy` is in use by another process; nothing was changed\n\
         hint: try again when that process has ended\n"
    );
    assert!(ok(&["session", "list"]).contains("in use"));
    assert_eq!(belljar(&["session", "rm", name.0]).0, 125);
    assert!(busy.wait().unwrap().success());
    assert_eq!(name.run("x"), "1\n");
}

#[test]
fn a_process_that_is_killed_leaves_the_session_as_it_was() {
    let name = Name::new("test-killed");
    name.run("x = 1");
    let code = "x = 2\nprint('on', flush=True)\nimport time; time.sleep(60)";
    let mut child = command(&["run", "--session", name.0, "-c", code])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut stdout = std::io::BufReader::new(child.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut stdout, &mut line).unwrap();
    assert_eq!(line, "on\n", "output comes while the code runs");
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(name.run("x"), "1\n");
}

#[test]
fn names_languages_and_backends_that_do_not_fit() {
    let name = Name::new("test-python");
    name.run("1");
    insta::assert_snapshot!(
        [
            shown(&["run", "--session", "../../etc", "-c", "1"]),
            shown(&["run", "--session", "", "-c", "1"]),
            shown(&["run", "--session", name.0, "--lang", "js", "-c", "1"]),
            shown(&["run", "--session", "test-never", "--backend", "e2b", "-c", "1"]),
            shown(&["run", "--session", "test-never", "--defer", "not a name", "-c", "1"]),
            shown(&["run", "-c", "1", "--defer", "approve"]),
            shown(&["session", "show", "test-never"]),
            shown(&["session", "rm", "test-never"]),
        ]
        .join("\n")
    );
    assert!(!ok(&["session", "list"]).contains("test-never"), "nothing is left of what failed");
}

#[test]
fn sessions_are_listed_shown_and_pruned() {
    let name = Name::new("test-listed");
    name.run("x = 1");
    let listed = ok(&["session", "list"]);
    let line = listed.lines().find(|line| line.starts_with("test-listed ")).unwrap();
    let words: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(words, ["test-listed", "python", "idle", "1", "cell", "used", "just", "now"]);
    let json: serde_json::Value =
        serde_json::from_str(&ok(&["session", "show", name.0, "--json"])).unwrap();
    assert_eq!((json["cells_run"].as_u64(), json["status"].as_str()), (Some(1), Some("idle")));
    insta::assert_snapshot!(ok(&["session", "show", name.0]), @r"
    session      test-listed
    language     python
    status       idle
    cells run    1
    last used    just now
    idle limit   24 hours
    files        0 files, 0 bytes
    ");
}

#[test]
fn what_nobody_has_used_for_long_is_pruned() {
    let (old, waiting) = (Name::new("test-old"), Name::new("test-old-waiting"));
    old.run("x = 1");
    assert_eq!(
        belljar(&["run", "--session", waiting.0, "--defer", "ask", "-c", "await ask()"]).0,
        123
    );
    for name in [old.0, waiting.0] {
        let record = home().join("sessions").join(name).join("session.json");
        let mut json: serde_json::Value =
            serde_json::from_slice(&fs::read(&record).unwrap()).unwrap();
        json["last_used_unix"] = 1000.into();
        fs::write(record, json.to_string()).unwrap();
    }
    let pruned = ok(&["session", "prune"]);
    assert!(pruned.contains("removed test-old\n"), "{pruned}");
    assert!(pruned.contains("kept test-old-waiting: it waits for an answer"), "{pruned}");
    assert!(ok(&["session", "prune", "--suspended"]).contains("removed test-old-waiting\n"));
    assert_eq!(
        ok(&["session", "prune", "--idle", "300d", "--json"]),
        "{\"removed\":[],\"waiting\":[]}\n"
    );
}

#[test]
fn a_limit_of_the_policy_is_the_sessions_too() {
    let name = Name::new("test-limits");
    let (code, _, stderr) = belljar(&[
        "run",
        "--session",
        name.0,
        "--llm-command",
        "cat",
        "--max-tool-calls",
        "2",
        "-c",
        "[llm_query('x') for _ in range(3)]",
    ]);
    assert_eq!(code, 1);
    assert!(stderr.contains("ToolLimitError"), "{stderr}");
}
