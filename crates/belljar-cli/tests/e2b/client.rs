//! The backend e2b as a library: what it says while code runs, what it keeps, and what it does when a
//! service does not do what it should.

use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};

use belljar::{
    Backend, E2bSettings, ExecutionPolicy, Home, PolicyLayer, Preset, RuntimeType, Sandbox,
    SandboxConfig, SandboxError, StateAfter, Status, create_sandbox,
};
use serde_json::{Value, json};

use crate::proxy::{Fate, Proxy};
use crate::{KEY, Server, build_dir, wait_for};

fn config(url: &str) -> SandboxConfig {
    let layer = PolicyLayer::new().timeout_seconds(60.0);
    SandboxConfig {
        backend: Backend::E2b,
        policy: ExecutionPolicy::build(Preset::Agent, [layer]).unwrap(),
        home: Some(Home::at(build_dir().join("test-home"))),
        e2b: Some(E2bSettings {
            api_key: KEY.to_owned(),
            api_url: Some(url.to_owned()),
            sandbox_url: Some(url.to_owned()),
            domain: "nowhere.invalid".to_owned(),
            template: "base".to_owned(),
        }),
        ..SandboxConfig::default()
    }
}

fn opened(url: &str) -> Box<dyn Sandbox> {
    create_sandbox(&config(url)).unwrap()
}

/// The sandboxes there: each with its id and token.
fn there(server: &Server) -> Vec<(String, String)> {
    let key = [("X-API-KEY", KEY)];
    let listed = server.ask("GET /v2/sandboxes", &key, b"").1;
    let listed: Value = serde_json::from_str(&listed).unwrap();
    let ids = listed.as_array().unwrap().iter().map(|it| it["sandboxID"].as_str().unwrap());
    let token = |id: &str| match server.ask(&format!("GET /sandboxes/{id}"), &key, b"") {
        // It has ended since.
        (404, _) => None,
        (_, shown) => {
            let shown: Value = serde_json::from_str(&shown).unwrap();
            Some(shown["envdAccessToken"].as_str().unwrap().to_owned())
        }
    };
    ids.filter_map(|id| Some((id.to_owned(), token(id)?))).collect()
}

fn kill_all(server: &Server) {
    for (id, _) in there(server) {
        let line = format!("DELETE /sandboxes/{id}");
        assert_eq!(server.ask(&line, &[("X-API-KEY", KEY)], b"").0, 204);
    }
}

#[test]
fn lines_are_told_while_code_runs() {
    let server = Server::new(&[]);
    let (told, heard) = channel::<String>();
    let errors: Arc<Mutex<Vec<String>>> = Arc::default();
    let noted = Arc::clone(&errors);
    let config = SandboxConfig {
        on_stdout: Some(Arc::new(move |line: &str| told.send(line.to_owned()).unwrap())),
        on_stderr: Some(Arc::new(move |line: &str| noted.lock().unwrap().push(line.to_owned()))),
        ..config(&server.url())
    };
    let mut sandbox = create_sandbox(&config).unwrap();
    let running = std::thread::spawn(move || {
        // It ends only after somebody has heard its first line.
        let code = "import os, sys, time\nprint('first ř')\nprint('e', file=sys.stderr)\n\
                    while not os.path.exists('go'): time.sleep(0.01)\nprint('second')";
        sandbox.execute(code)
    });
    assert_eq!(heard.recv().unwrap(), "first ř\n");
    let (id, token) = there(&server).remove(0);
    let headers = [
        ("E2b-Sandbox-Id", &*id),
        ("X-Access-Token", &*token),
        ("Content-Type", "application/octet-stream"),
    ];
    assert_eq!(server.ask("POST /files?path=go", &headers, b"").0, 200);
    let result = running.join().unwrap().unwrap();
    assert_eq!((result.status(), &*result.stdout), (Status::Ok, "first ř\nsecond\n"));
    assert_eq!(heard.recv().unwrap(), "second\n");
    assert_eq!(*errors.lock().unwrap(), ["e\n"]);
}

#[test]
fn what_is_cancelled_ends_and_a_session_goes_on() {
    let server = Server::new(&[]);
    let (told, heard) = channel::<String>();
    let config = SandboxConfig {
        on_stdout: Some(Arc::new(move |line: &str| told.send(line.to_owned()).unwrap())),
        ..config(&server.url())
    };
    let mut sandbox = create_sandbox(&config).unwrap();
    sandbox.initialize(Value::Null).unwrap();
    assert_eq!(sandbox.execute("x = 41").unwrap().status(), Status::Ok);
    let cancel = sandbox.cancel_handle();
    let running = std::thread::spawn(move || {
        let result = sandbox.execute("print('begun')\nwhile True: pass");
        (sandbox, result)
    });
    assert_eq!(heard.recv().unwrap(), "begun\n");
    cancel.cancel();
    let (mut sandbox, result) = running.join().unwrap();
    let result = result.unwrap();
    assert_eq!((result.status(), result.exit_code()), (Status::Cancelled, -1), "{result:#?}");
    let value = sandbox.execute("x + 1").unwrap().result.unwrap();
    assert_eq!(value.json, Some(json!(42)));
}

#[test]
fn a_session_keeps_its_state_and_shows_it() {
    let server = Server::new(&[]);
    let mut sandbox = opened(&server.url());
    assert!(matches!(sandbox.get_variable("x"), Err(SandboxError::NotInSession { .. })));
    sandbox.initialize(json!({ "name": "ř" })).unwrap();
    let first = sandbox.execute("x = [context['name'], 1]\nx").unwrap();
    assert_eq!(first.meta.state, Some(StateAfter::Kept));
    assert_eq!(first.result.unwrap().json, Some(json!(["ř", 1])));
    let failed = sandbox.execute("def f():\n    return 1 / 0\nf()").unwrap();
    let error = failed.error.unwrap();
    assert!(error.traceback.contains("File \"<cell 2>\", line 2, in f\n"), "{}", error.traceback);
    let variable = sandbox.get_variable("x").unwrap().unwrap();
    assert_eq!((&*variable.type_name, variable.json), ("list", Some(json!(["ř", 1]))));
    assert_eq!(sandbox.get_variable("nothing").unwrap(), None);
    // Awaited things go on in the same session.
    let code = "import asyncio\ny = await asyncio.sleep(0, 7)\nx.append(y)\nlen(x)";
    assert_eq!(sandbox.execute(code).unwrap().result.unwrap().json, Some(json!(3)));
    let broken = sandbox.check_code("x = ").unwrap().unwrap();
    assert_eq!(
        (&*broken.name, &*broken.message),
        ("SyntaxError", "invalid syntax (<sandbox>, line 1)")
    );
    // Another one begins with nothing.
    sandbox.initialize(Value::Null).unwrap();
    assert_eq!(sandbox.execute("x").unwrap().error.unwrap().name, "NameError");
    drop(sandbox);
    assert!(there(&server).is_empty());
}

#[test]
fn javascript_has_sessions_too() {
    let server = Server::new(&[]);
    let config = SandboxConfig { runtime: RuntimeType::Javascript, ..config(&server.url()) };
    let mut sandbox = create_sandbox(&config).unwrap();
    sandbox.initialize(json!([1, 2])).unwrap();
    assert_eq!(sandbox.execute("let y = context.length").unwrap().status(), Status::Ok);
    assert_eq!(sandbox.execute("y + 1").unwrap().result.unwrap().text, "3");
    let failed = sandbox.execute("console.error('so'); throw new TypeError('no')").unwrap();
    let error = failed.error.unwrap();
    assert_eq!(error.name, "TypeError");
    assert_eq!(failed.stderr, format!("so\n{}", error.traceback));
}

#[test]
fn a_service_that_is_busy_is_asked_again_and_makes_one_sandbox() {
    let server = Server::new(&[]);
    // One whose answer was lost would be found again by its key; see the server's own tests.
    let proxy = Proxy::new(&server.address, |line, before| match (line, before) {
        ("POST /v2/sandboxes HTTP/1.1", 0) => Fate::Answered("502 Bad Gateway"),
        ("POST /v2/sandboxes HTTP/1.1", 1) => Fate::Answered("503 Busy"),
        ("POST /v2/sandboxes HTTP/1.1", 2) => Fate::Answered("429 Too Many"),
        _ => Fate::Passed,
    });
    let mut sandbox = opened(&proxy.url());
    assert_eq!(proxy.count("POST /v2/sandboxes "), 4);
    let result = sandbox.execute("6 * 7").unwrap();
    assert_eq!(result.result.unwrap().json, Some(json!(42)));
    assert_eq!((proxy.count("POST /execute"), there(&server).len()), (1, 1));
    drop(sandbox);
    assert!(there(&server).is_empty());
}

#[test]
fn a_refusal_is_not_tried_again_and_neither_is_a_service_that_stays_busy_for_ever() {
    let server = Server::new(&[]);
    let proxy = Proxy::new(&server.address, |_, _| Fate::Answered("400 Bad"));
    let error = create_sandbox(&config(&proxy.url())).err().unwrap();
    assert!(matches!(&error, SandboxError::Remote { kind, .. } if kind == "refused"), "{error}");
    assert_eq!(proxy.count("POST /v2/sandboxes "), 1);
    let proxy = Proxy::new(&server.address, |_, _| Fate::Answered("503 Busy"));
    let error = create_sandbox(&config(&proxy.url())).err().unwrap();
    assert!(matches!(&error, SandboxError::Remote { kind, .. } if kind == "busy"), "{error}");
    assert_eq!(proxy.count("POST /v2/sandboxes "), 4);
}

#[test]
fn code_is_never_sent_twice() {
    let server = Server::new(&[]);
    type Fated = fn() -> Fate;
    let fates: [(Fated, &str); 3] = [
        (|| Fate::Dropped, "the code may have run"),
        (|| Fate::CutAfter(200), "the code may have run"),
        (|| Fate::Answered("503 Busy"), "nothing was run"),
    ];
    for (fate, survives) in fates {
        let proxy = Proxy::new(&server.address, move |line, _| {
            if line.starts_with("POST /execute") { fate() } else { Fate::Passed }
        });
        let mut sandbox = opened(&proxy.url());
        let error = sandbox.execute("open('ran', 'a').write('x')").unwrap_err();
        assert!(error.to_string().contains(survives), "{error}");
        assert_eq!(proxy.count("POST /execute"), 1, "{error}");
    }
    assert!(there(&server).is_empty());
}

#[test]
fn a_sandbox_that_is_gone_is_replaced_unless_it_held_a_session() {
    let server = Server::new(&[]);
    let mut sandbox = opened(&server.url());
    assert_eq!(sandbox.execute("1").unwrap().status(), Status::Ok);
    kill_all(&server);
    assert_eq!(sandbox.execute("2").unwrap().result.unwrap().json, Some(json!(2)));
    sandbox.initialize(Value::Null).unwrap();
    // Its time is over.
    let (id, _) = there(&server).remove(0);
    let headers = [("X-API-KEY", KEY), ("Content-Type", "application/json")];
    let line = format!("POST /sandboxes/{id}/timeout");
    assert_eq!(server.ask(&line, &headers, br#"{"timeout":0}"#).0, 204);
    wait_for("it ends", || there(&server).is_empty());
    let error = sandbox.execute("3").unwrap_err();
    assert!(error.to_string().contains("the service has ended the sandbox"), "{error}");
    assert!(matches!(error, SandboxError::ConnectionLost { .. }));
    sandbox.destroy().unwrap();
    assert_eq!(sandbox.execute("4").unwrap().result.unwrap().json, Some(json!(4)));
}

#[test]
fn a_client_that_was_killed_leaves_a_sandbox_that_ends_by_the_services_clock() {
    let server = Server::new(&[]);
    let mut child = Command::new(env!("CARGO_BIN_EXE_belljar"))
        .args(["run", "--backend", "e2b", "--timeout", "30", "-c"])
        .arg("import time\nprint('begun', flush=True)\ntime.sleep(1000)")
        .env("BELLJAR_HOME", build_dir().join("test-home"))
        .env("E2B_API_URL", server.url())
        .env("E2B_SANDBOX_URL", server.url())
        .env("E2B_API_KEY", KEY)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    wait_for("it runs", || there(&server).len() == 1);
    child.kill().unwrap();
    child.wait().unwrap();
    let key = [("X-API-KEY", KEY), ("Content-Type", "application/json")];
    let (id, _) = there(&server).remove(0);
    let line = format!("GET /sandboxes/{id}");
    let shown: Value = serde_json::from_str(&server.ask(&line, &key, b"").1).unwrap();
    assert_eq!(shown["lifecycle"]["onTimeout"], "kill");
    // Five minutes and what the code may take: no clock of a test goes that fast.
    let ends = |name: &str| shown[name].as_str().unwrap().to_owned();
    assert!(ends("endAt") > ends("startedAt"));
    let line = format!("POST /sandboxes/{id}/timeout");
    assert_eq!(server.ask(&line, &key, br#"{"timeout":1}"#).0, 204);
    wait_for("its time is over", || there(&server).is_empty());
}

#[test]
fn templates_are_chosen_and_unknown_ones_refused() {
    let python = Command::new("python3").args(["-c", "import sys; print(sys.executable)"]).output();
    let python = String::from_utf8(python.unwrap().stdout).unwrap();
    let server = Server::new(&["--e2b-template", &format!("machine={}", python.trim())]);
    let of = |template: &str| {
        let mut config = config(&server.url());
        template.clone_into(&mut config.e2b.as_mut().unwrap().template);
        create_sandbox(&config)
    };
    let version = |mut sandbox: Box<dyn Sandbox>| {
        let result = sandbox.execute("__import__('sys').platform").unwrap();
        (result.result.unwrap().json.unwrap(), result.meta.language_version.unwrap())
    };
    let (wasm, shipped) = version(of("code-interpreter-v1").unwrap());
    assert_eq!((wasm, &shipped[..4]), (json!("wasi"), "3.13"));
    // What goes along with code works in any Python.
    assert_eq!(version(of("machine").unwrap()).0, json!("linux"));
    let error = of("none").err().unwrap().to_string();
    assert!(error.contains("template none was not found"), "{error}");
}
