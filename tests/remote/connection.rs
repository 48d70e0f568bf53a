//! What becomes of a sandbox whose daemon does not answer.

use std::os::unix::net::UnixListener;
use std::time::Duration;

use belljar::{Backend, SandboxConfig, SandboxError, Status, Survives, create_sandbox};
use serde_json::Value;
use support::{Cells, Daemon, Expect, Jar, Lines};

use crate::{config, open_with};

#[test]
fn a_lost_connection_says_whether_the_code_may_have_run() {
    let daemon = Daemon::start();
    let (lines, on_stdout) = Lines::listen();
    let jar = Jar::new();
    let config =
        SandboxConfig { socket: Some(daemon.socket()), on_stdout: Some(on_stdout), ..config(&jar) };
    let mut session = open_with(&config);
    session.initialize(Value::Null).expect("a session");
    session.run("x = 1").ended(Status::Ok, 0);
    let lost = std::thread::scope(|scope| {
        scope.spawn(|| {
            let _ = lines.next();
            daemon.hang_up();
        });
        session.execute("print('running')\nwhile True: pass").expect_err("nobody answers")
    });
    insta::assert_snapshot!(
        lost,
        @"the connection to the daemon was lost: the daemon has closed it; the code may have run, and this sandbox is gone"
    );
    // A session is not replaced by something that knows nothing.
    for again in [
        session.execute("x").map(drop),
        session.get_variable("x").map(drop),
        session.fork().map(drop),
    ] {
        let Err(SandboxError::ConnectionLost { survives, .. }) = again else { panic!("{again:?}") };
        assert_eq!(survives, Survives::NothingWasRun);
    }
    assert!(session.pending_calls().is_empty());
    session.initialize(Value::Null).expect("a new session");
    session.run("'x' in globals()").gave(false);
    session.destroy().expect("nothing is in the way");
    // Without a session there is nothing to be lost.
    daemon.hang_up();
    session.run("1").gave(1);
}

#[test]
fn a_daemon_that_is_not_there_is_told_from_one_that_has_ended() {
    let folder = tempfile::tempdir().expect("a directory");
    let jar = Jar::new();
    let refused = |name: &str| {
        let socket = Some(folder.path().join(name));
        let error = create_sandbox(&SandboxConfig { socket, ..config(&jar) }).map(drop);
        let error = error.expect_err("nobody is there");
        assert!(error.hint().is_some_and(|hint| hint.contains("belljar daemon start")));
        error.to_string().replace(&folder.path().display().to_string(), "DIR")
    };
    insta::assert_snapshot!(
        refused("missing"),
        @"the daemon backend cannot be used: none runs: there is no DIR/missing; nothing was run"
    );
    drop(UnixListener::bind(folder.path().join("stale")).expect("a socket"));
    insta::assert_snapshot!(
        refused("stale"),
        @"the daemon backend cannot be used: nobody listens at DIR/stale; the daemon that did has ended; nothing was run"
    );
}

#[test]
fn auto_does_not_wait_long_for_a_daemon_that_hangs() {
    let folder = tempfile::tempdir().expect("a directory");
    let socket = folder.path().join("hangs");
    let _listener = UnixListener::bind(&socket).expect("a socket");
    let jar = Jar::new().with(|layer| layer.fuel_budget(5_000_000_000));
    let start = std::time::Instant::now();
    let config = SandboxConfig { backend: Backend::Auto, socket: Some(socket), ..config(&jar) };
    // Only wasm counts fuel here.
    assert_eq!(open_with(&config).run("1").meta.runtime, "wasm");
    assert!(start.elapsed() < Duration::from_secs(10));
}
