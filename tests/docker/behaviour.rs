//! What containers do that the suite for all backends does not look at.

use std::time::Duration;

use belljar::{RuntimeType, SandboxConfig, Status, create_sandbox};
use serde_json::Value;
use support::{Cells, Expect, Jar, Lines, cancelled, exclusive};

#[test]
fn a_session_keeps_its_state_and_survives_an_interrupt() {
    let jar = Jar::new().timeout(Duration::from_secs(3));
    let Some(config) = jar.docker("a_session_keeps_its_state_and_survives_an_interrupt") else {
        return;
    };
    let _alone = exclusive();
    let (lines, sink) = Lines::listen();
    let config = SandboxConfig { on_stdout: Some(sink), ..config };
    let mut session = create_sandbox(&config).expect("a sandbox");
    session.initialize(Value::from("the context")).expect("a session");
    session.run("x = context.upper()").ended(Status::Ok, 0);
    session.run("while True: pass").ended(Status::Timeout, -1);
    session.run("x").gave("THE CONTEXT");
    let cancelled = cancelled(&mut *session, &lines, "import time\nprint('now')\ntime.sleep(30)");
    cancelled.ended(Status::Cancelled, -1);
    session.run("x").gave("THE CONTEXT");
}

#[test]
fn javascript_runs_in_node() {
    let jar = Jar::new();
    let Some(config) = jar.docker("javascript_runs_in_node") else { return };
    let _alone = exclusive();
    let config = SandboxConfig { runtime: RuntimeType::Javascript, ..config };
    let mut sandbox = create_sandbox(&config).expect("a sandbox");
    match sandbox.execute("console.log('Hi'); require('fs').writeFileSync('f', 'x'); 6 * 7") {
        Err(error) if error.to_string().contains("has no node") => {
            support::skipped("javascript_runs_in_node", "the image has no Node");
        }
        result => {
            let result = result.expect("the host is fine");
            result.gave(42).changed(&["f"], &[], &[]);
            assert_eq!((result.stdout.as_str(), result.meta.runtime.as_str()), ("Hi\n", "docker"));
            sandbox.run("process.exit(3)").ended(Status::Error, 3);
        }
    }
}

#[test]
fn how_a_process_ends_is_told() {
    let jar = Jar::new();
    let Some(config) = jar.docker("how_a_process_ends_is_told") else { return };
    let _alone = exclusive();
    let mut sandbox = create_sandbox(&config).expect("a sandbox");
    sandbox.run("import os; os._exit(5)").ended(Status::Error, 5);
    let killed = sandbox.run("import os, signal; os.kill(os.getpid(), signal.SIGKILL)");
    killed.ended(Status::Crashed, -1);
    let memory = sandbox.run("b = bytearray(20 << 20)");
    assert!(memory.memory_used_bytes.is_some_and(|used| used > 20 << 20), "{memory:#?}");
}
