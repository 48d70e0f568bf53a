//! `belljar repl` with real guests: from a pipe, and on a terminal.

#![expect(clippy::unwrap_used, reason = "a test stops where it fails")]

mod support;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;
use std::time::{Duration, Instant};

use support::{Name, command, outcome, start};

fn repl(args: &[&str], input: &str) -> (i32, String, String) {
    let args = [&["repl"][..], args].concat();
    outcome(&start(&mut command(&args), input.as_bytes()).wait_with_output().unwrap())
}

/// Standard output of a shell in which nothing failed.
fn good(args: &[&str], input: &str) -> String {
    let (code, stdout, stderr) = repl(args, input);
    assert_eq!((code, stderr.as_str()), (0, ""), "{stdout}");
    stdout
}

#[test]
fn values_are_shown_and_state_lives_on() {
    let input = "x = 20\nx + 1\ndef f(n):\n    return n * 2\n\nf(x)\nprint('out')\nNone\n'é'\n";
    assert_eq!(good(&[], input), "21\n40\nout\n'é'\n");
}

#[test]
fn javascript_behaves_alike() {
    let input = "let x = 20;\nx + 1\nfunction f(n) {\n  return n * 2\n}\nf(x)\nlet x = 5;\n\
                 await Promise.resolve(x)\nconsole.log('out')\n";
    assert_eq!(good(&["--lang", "js"], input), "21\n40\n5\nout\n");
}

#[test]
fn the_last_failure_decides_the_exit_code() {
    let (code, stdout, stderr) = repl(&[], "1/0\n2\n");
    assert_eq!((code, stdout.as_str()), (1, "2\n"));
    assert!(stderr.ends_with("ZeroDivisionError: division by zero\n"), "{stderr}");
    let (code, _, stderr) = repl(&[], "1/0\nimport sys\nsys.exit(7)\n'on'\n");
    assert_eq!(code, 7);
    assert!(stderr.ends_with("exit code 7; the session lives on\n"), "{stderr}");
    assert_eq!(repl(&["--timeout", "200ms"], "while True: pass\n\n1\n").0, 124);
    assert_eq!(repl(&[], "x = (1,\n").0, 1);
}

#[test]
fn output_comes_while_the_code_runs() {
    let mut child = command(&["repl"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"import time\nprint('first'); time.sleep(60)\n").unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "first\n");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn ctrl_c_ends_the_cell_and_not_the_shell() {
    let mut child = command(&["repl"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"x = 7\nprint('on', flush=True)\nwhile True: pass\n\nx\n").unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    assert_eq!(line, "on\n");
    let started = Instant::now();
    std::thread::sleep(Duration::from_millis(300));
    let interrupted = std::process::Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status()
        .unwrap();
    assert!(interrupted.success());
    line.clear();
    stdout.read_line(&mut line).unwrap();
    assert_eq!(line, "7\n");
    assert!(started.elapsed() < Duration::from_secs(10));
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    assert!(String::from_utf8_lossy(&output.stderr).contains("KeyboardInterrupt"));
    assert_eq!(output.status.code(), Some(124));
}

#[test]
fn forks_are_independent() {
    let input = "x = 1\n%fork\nx = 2\n%fork second\nx += 1\n%switch main\nx\n%switch fork-1\nx\n\
                 %switch second\nx\n%sessions\n";
    assert_eq!(
        good(&[], input),
        "in fork-1\nin second\nin main\n1\nin fork-1\n2\nin second\n3\n  main  \n  fork-1  \n* second  \n"
    );
}

#[test]
fn snapshots_are_written_and_restored() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("s.belljar");
    let input = format!(
        "x = 1\nopen('f', 'w').write('a')\n%snapshot {0}\nx = 2\nopen('f', 'w').write('bb')\n\
         %restore {0}\nx, open('f').read()\n",
        file.display()
    );
    assert_eq!(good(&[], &input), format!("1\nwrote {}\n2\n(1, 'a')\n", file.display()));
    let (code, _, stderr) = repl(&["--lang", "js"], &format!("%restore {}\n", file.display()));
    assert_eq!(code, 125);
    assert!(stderr.contains("it is of a python session, and this is javascript"), "{stderr}");
}

#[test]
fn reset_and_context_begin_again() {
    let dir = tempfile::tempdir().unwrap();
    let book = dir.path().join("book.txt");
    fs::write(&book, "one two").unwrap();
    let data = dir.path().join("data.json");
    fs::write(&data, "{\"a\": [1]}").unwrap();
    let input = format!(
        "context\nx = 1\n%reset\n'x' in globals()\ncontext\n%context {}\ncontext['a']\n",
        data.display()
    );
    assert_eq!(
        good(&["--context", book.to_str().unwrap()], &input),
        "'one two'\nFalse\n'one two'\n[1]\n"
    );
}

#[test]
fn commands_say_what_they_do() {
    let (code, stdout, stderr) = repl(
        &[],
        "%help\n%tools\nx = [1]\n%var x\n%var nothing\n%nonsense\n%switch nowhere\n%fork a b\n%answer 1=2\n",
    );
    assert_eq!(code, 125);
    insta::assert_snapshot!(format!("{stdout}---\n{stderr}"));
    let (code, stdout, _) = repl(&[], "%time sum(range(10))\n%exit\n1/0\n");
    assert_eq!(code, 0);
    let mut lines = stdout.lines();
    assert_eq!(lines.next(), Some("45"));
    assert!(lines.next().unwrap().contains(" ms, "), "{stdout}");
}

#[test]
fn nobody_answers_input_in_a_pipe() {
    let (code, _, stderr) = repl(&[], "input('name? ')\n");
    assert_eq!(code, 1);
    assert!(stderr.contains("EOFError"), "{stderr}");
}

#[test]
fn a_model_answers_and_works_on_tasks_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let book = dir.path().join("book.txt");
    fs::write(&book, "to be or not to be").unwrap();
    // Looks at its data first, and ends with a variable.
    let model = "p=$(cat); case \"$p\" in \
        *'### assistant'*) echo 'FINAL_VAR: n';; \
        *'### user'*) printf 'Counting.\\n```python\\nn = len(context.split())\\n```\\n';; \
        *) echo \"you said $p\";; esac";
    let args = ["--context", book.to_str().unwrap(), "--llm-command", model];
    let input = "llm_query('hi')\nrlm_query('count the words')\nrlm_query('count', 'a b')\n\
                 llm_query_batched(['x', 'y'])\nawait llm_query('z')\n%tools\n";
    assert_eq!(
        good(&args, input),
        "'you said hi'\n6\n2\n['you said x', 'you said y']\n'you said z'\nllm_query\nrlm_query\n"
    );
}

#[test]
fn a_model_that_fails_is_an_exception_and_the_session_lives_on() {
    let input = "try:\n  llm_query('x')\nexcept RuntimeError as e:\n  print(type(e).__name__, e)\n\nx = 1\nx\n";
    assert_eq!(
        good(&["--llm-command", "echo no credit >&2; exit 4"], input),
        "ToolError the model's command failed (exit status: 4): no credit\n1\n"
    );
}

#[test]
fn the_model_comes_from_the_environment_or_the_configuration() {
    let child = |name: &str, value: &str, args: &[&str]| {
        let mut command = command(args);
        let output =
            start(command.env(name, value), b"llm_query('x')\n").wait_with_output().unwrap();
        outcome(&output)
    };
    assert_eq!(child("BELLJAR_LLM_COMMAND", "echo variable", &["repl"]).1, "'variable'\n");
    let args = ["repl", "--llm-command", "echo argument"];
    assert_eq!(child("BELLJAR_LLM_COMMAND", "echo variable", &args).1, "'argument'\n");
    // Code that nobody has read does not get a model by itself.
    let run = ["run", "-c", "print('llm_query' in globals())"];
    assert_eq!(child("BELLJAR_LLM_COMMAND", "echo variable", &run).1, "False\n");
    let run = ["run", "--llm", "-c", "print(llm_query('x'))"];
    assert_eq!(child("BELLJAR_LLM_COMMAND", "echo variable", &run).1, "variable\n");
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("config.toml"), "[llm]\ncommand = 5\n").unwrap();
    let (code, _, stderr) = child("BELLJAR_HOME", dir.path().to_str().unwrap(), &["repl"]);
    assert_eq!(code, 125);
    assert!(stderr.contains("cannot read configuration file"), "{stderr}");
}

#[test]
fn a_session_lives_on_from_shell_to_shell_and_to_run() {
    let name = Name::new("test-shell");
    let args = ["--session", name.0];
    assert_eq!(good(&args, "x = 1\n%fork aside\nx = 99\n"), "in aside\n");
    assert_eq!(good(&args, "x += 1\nx\n"), "2\n");
    assert_eq!(name.run("x"), "2\n");
    let (code, _, stderr) = repl(&["--session", name.0, "--context", "Cargo.toml"], "1\n");
    assert_eq!(code, 125);
    assert!(stderr.contains("it has a context of its own"), "{stderr}");
}

#[test]
fn a_waiting_session_is_answered_in_the_shell() {
    let name = Name::new("test-shell-waits");
    let args =
        ["run", "--session", name.0, "--defer", "ask", "-c", "n = await ask('how many?')\nn"];
    assert_eq!(support::belljar(&args).0, 123);
    let (code, stdout, stderr) = repl(&["--session", name.0], "1\n%answer 1=5\nn + 1\n");
    assert_eq!((code, stdout.as_str()), (125, "5\n6\n"));
    assert!(
        stderr.starts_with(
            "suspended: the session waits for:\n  1  ask(\"how many?\")\nhint: answer with %answer 1=JSON\n"
        ),
        "{stderr}"
    );
}

#[test]
fn a_session_in_which_nothing_was_done_is_not_kept() {
    let name = Name::new("test-shell-empty");
    good(&["--session", name.0], "");
    assert!(!support::ok(&["session", "list"]).contains(name.0));
}
