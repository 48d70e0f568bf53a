//! Pyodide in Deno, which is preferred to Node where it is there. The test runs once more in a
//! process that finds it.

use std::process::Command;
use std::time::Duration;

use belljar::{Status, create_sandbox};
use support::{Cells, Expect, Jar, deno_from_npm, skipped};

/// Set in the process that finds Deno.
const WITH_DENO: &str = "BELLJAR_TEST_WITH_DENO";

const TEST: &str = "deno::pyodide_runs_in_deno_when_it_is_there";

#[test]
fn pyodide_runs_in_deno_when_it_is_there() {
    let jar = Jar::new().timeout(Duration::from_secs(5));
    let Some(config) = jar.pyodide(TEST) else { return };
    if std::env::var_os(WITH_DENO).is_none() {
        return again_with_deno();
    }
    let mut sandbox = create_sandbox(&config).expect("a sandbox");
    let engine = "from js import Object\nrun = lambda text: Object.constructor('return ' + text)()\nprint(run('typeof Deno'))\n6 * 7";
    let result = sandbox.execute(engine).expect("a result");
    result.printed("object\n");
    assert_eq!(result.result.and_then(|value| value.json), Some(42.into()));
    sandbox.initialize(serde_json::Value::Null).expect("a session");
    sandbox.run("x = 1").ended(Status::Ok, 0);
    sandbox.run("while True: pass").ended(Status::Timeout, -1);
    sandbox.run("print(x)").printed("1\n");
    let read = "from js import Object\nrun = lambda text: Object.constructor('return ' + text)()\ntry: print(run('Deno.readTextFileSync(\"/etc/shadow\")'))\nexcept Exception as e: print('refused')";
    sandbox.run(read).printed("refused\n");
}

fn again_with_deno() {
    let folder = match deno_from_npm() {
        Ok(folder) => folder,
        Err(why) => return skipped(TEST, &why),
    };
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths(std::iter::once(folder).chain(std::env::split_paths(&path)));
    let output = Command::new(std::env::current_exe().expect("the test's own path"))
        .args(["--exact", TEST, "--nocapture"])
        .env("PATH", path.expect("a search path"))
        .env(WITH_DENO, "1")
        .output()
        .expect("a process");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}\n{text}", String::from_utf8_lossy(&output.stdout));
}
