//! What listens at the socket, and how it talks.

use std::io::{BufRead, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use belljar_core::limits::MAX_MESSAGE_BYTES;
use belljar_core::{Backend, ExecutionPolicy, PolicyLayer, Preset, resolve};
use belljar_host::{CancelHandle, LineSink};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Server, shown};
use crate::remote::connection::Connection;
use crate::remote::socket::available;
use crate::remote::talk::{self, Call, Failure, Listener};
use crate::tools::Tools;
use crate::wasm::Links;

const SOON: Duration = Duration::from_millis(100);
const PATIENT: Duration = Duration::from_secs(20);

fn connected(script: impl FnOnce(Server) + Send + 'static) -> (Connection, JoinHandle<()>) {
    let (near, far) = UnixStream::pair().unwrap();
    let server = std::thread::spawn(move || script(Server::new(far)));
    (over(near), server)
}

fn over(stream: UnixStream) -> Connection {
    let stream = interprocess::os::unix::uds_local_socket::Stream::from(stream);
    Connection::over(stream.into()).unwrap()
}

/// What comes of a request to such a server.
fn asked(script: impl FnOnce(Server) + Send + 'static) -> Result<String, Failure> {
    let (connection, server) = connected(script);
    let answer = talk::ask(&connection, "look", &json!({}), PATIENT);
    drop(connection);
    server.join().unwrap();
    answer.map(|answer| answer.get().to_owned())
}

fn lost(script: impl FnOnce(Server) + Send + 'static) -> String {
    match asked(script) {
        Err(Failure::Lost(why)) => why,
        other => panic!("{other:?}"),
    }
}

/// Who is there, according to a socket behind which such a server listens.
fn refused(script: impl FnOnce(Server) + Send + 'static) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    let listener = UnixListener::bind(&path).unwrap();
    let server = std::thread::spawn(move || script(Server::new(listener.accept().unwrap().0)));
    let error = available(&path).unwrap_err();
    server.join().unwrap();
    shown(&error.to_string(), folder.path())
}

#[test]
fn something_else_listens() {
    let http = |mut server: Server| {
        server.hear();
        server.output.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
        let _ = server.input.fill_buf();
    };
    insta::assert_snapshot!(
        refused(http),
        @"the daemon backend cannot be used: whoever listens at DIR/s is no daemon: it says what is no message of the protocol; nothing was run"
    );
    let odd = |mut server: Server| {
        let id = server.hear()["id"].clone();
        server.answer(&id, &json!({"hello": "there"}));
        let _ = server.input.fill_buf();
    };
    insta::assert_snapshot!(
        refused(odd),
        @"the daemon backend cannot be used: whoever listens at DIR/s does not say who it is; nothing was run"
    );
}

#[test]
fn another_version_names_both() {
    let newer = |mut server: Server| {
        let id = server.hear()["id"].clone();
        server.answer(&id, &json!({"belljar": "9.0.0", "protocol": 9, "pid": 1}));
        let _ = server.input.fill_buf();
    };
    insta::assert_snapshot!(
        refused(newer),
        @"the daemon backend cannot be used: the daemon speaks version 9 of the protocol, and this Belljar speaks version 1; nothing was run"
    );
}

#[test]
fn one_that_hangs_is_given_up() {
    let start = Instant::now();
    let hangs = |mut server: Server| {
        server.hear();
        // Until nobody is there any more.
        let _ = std::io::copy(&mut server.input, &mut std::io::sink());
    };
    insta::assert_snapshot!(
        refused(hangs),
        @"the daemon backend cannot be used: whoever listens at DIR/s is no daemon: no answer has come within 2 s; nothing was run"
    );
    assert!(start.elapsed() < PATIENT);
    let (connection, server) = connected(hangs);
    let first = talk::ask(&connection, "look", &json!({}), SOON);
    assert!(matches!(first, Err(Failure::Lost(why)) if why == "no answer has come within 0.1 s"));
    // It was asked whether it is there at all; from then on nothing is sent any more.
    let second = talk::ask(&connection, "look", &json!({}), SOON);
    assert!(matches!(second, Err(Failure::Unsent(why)) if why == "no answer has come within 5 s"));
    server.join().unwrap();
}

#[test]
fn one_that_goes_away_is_noticed() {
    let closes = |mut server: Server| {
        server.hear();
    };
    assert_eq!(lost(closes), "the daemon has closed it");
    let in_the_middle = |mut server: Server| {
        server.hear();
        server.output.write_all(br#"{"jsonrpc": "2.0", "id": 1, "res"#).unwrap();
    };
    assert_eq!(lost(in_the_middle), "it ended in the middle of a message");
    let (connection, server) = connected(drop);
    server.join().unwrap();
    // Whoever is gone before the request is sent whole has not served it.
    let line = "x".repeat(1_000_000);
    let unsent = talk::ask(&connection, "look", &json!({ "data": line }), PATIENT);
    assert!(matches!(unsent, Err(Failure::Unsent(_))), "{unsent:?}");
}

#[test]
fn one_that_does_not_read_does_not_hold_us() {
    let (near, far) = UnixStream::pair().unwrap();
    near.set_write_timeout(Some(SOON)).unwrap();
    let connection = over(near);
    let line = "x".repeat(8_000_000);
    let unsent = talk::ask(&connection, "look", &json!({ "data": line }), PATIENT);
    let Err(Failure::Unsent(why)) = unsent else { panic!("{unsent:?}") };
    assert_eq!(why, "it does not read what is sent to it");
    drop(far);
}

#[test]
fn a_message_without_end_is_not_kept() {
    let written = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&written);
    let endless = move |mut server: Server| {
        server.hear();
        let chunk = vec![b'x'; 1 << 20];
        for _ in 0..1024 {
            if server.output.write_all(&chunk).is_err() {
                break;
            }
            count.fetch_add(chunk.len(), Ordering::Relaxed);
        }
    };
    assert_eq!(lost(endless), "its message has no end");
    assert!(written.load(Ordering::Relaxed) < 2 * MAX_MESSAGE_BYTES);
}

#[test]
fn nonsense_ends_the_connection() {
    let long = "x".repeat(1 << 20);
    let line = format!(
        r#"{{"jsonrpc":"2.0","method":"stdout","params":{{"sandbox":1,"text":"{long}"}}}}"#
    );
    for text in ["{", "[]", "\u{0}", "null", &line] {
        let text = text.to_owned();
        let says = move |mut server: Server| {
            server.hear();
            writeln!(server.output, "{text}").unwrap();
            let _ = server.input.fill_buf();
        };
        assert_eq!(lost(says), "it says what is no message of the protocol");
    }
}

const BUSY: &str = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"busy: full"}}"#;

#[test]
fn a_refusal_without_a_number_is_told_and_the_connection_lives_on() {
    let (connection, server) = connected(|mut server| {
        server.hear();
        writeln!(server.output, "{BUSY}").unwrap();
        let id = server.hear()["id"].clone();
        server.answer(&id, &json!("ours"));
        let _ = server.input.fill_buf();
    });
    let refused = talk::ask(&connection, "look", &json!({}), PATIENT);
    assert!(matches!(refused, Err(Failure::Refused(error)) if error.message == "busy: full"));
    let answer = talk::ask(&connection, "look", &json!({}), PATIENT).unwrap();
    assert_eq!(answer.get(), "\"ours\"");
    drop(connection);
    server.join().unwrap();
}

#[test]
fn whoever_is_not_let_in_learns_why() {
    for reads in [true, false] {
        let full = move |mut server: Server| {
            if reads {
                server.hear();
            }
            writeln!(server.output, "{BUSY}").unwrap();
        };
        assert_eq!(refused(full), "busy: full", "{reads}");
    }
}

#[test]
fn an_answer_that_is_too_deep_fails_its_request_alone() {
    let (connection, server) = connected(|mut server| {
        let id = server.hear()["id"].clone();
        let deep = "[".repeat(500) + &"]".repeat(500);
        writeln!(server.output, r#"{{"jsonrpc":"2.0","id":{id},"result":{deep}}}"#).unwrap();
        let id = server.hear()["id"].clone();
        server.answer(&id, &json!(1));
        let _ = server.input.fill_buf();
    });
    assert!(matches!(
        talk::ask(&connection, "look", &json!({}), PATIENT),
        Err(Failure::Refused(_))
    ));
    assert!(talk::ask(&connection, "look", &json!({}), PATIENT).is_ok());
    drop(connection);
    server.join().unwrap();
}

#[test]
fn one_that_is_busy_costs_the_call_and_not_the_connection() {
    let (connection, server) = connected(|mut server| {
        let late = server.hear()["id"].clone();
        let hello = server.hear();
        assert_eq!(hello["method"], "hello");
        server.answer(&hello["id"], &json!({"belljar": "0", "protocol": 1, "pid": 1}));
        let next = server.hear()["id"].clone();
        server.answer(&late, &json!("late"));
        server.answer(&next, &json!("next"));
        let _ = server.input.fill_buf();
    });
    let first = talk::ask(&connection, "look", &json!({}), SOON);
    assert!(matches!(first, Err(Failure::Unanswered(_))), "{first:?}");
    let second = talk::ask(&connection, "look", &json!({}), PATIENT).unwrap();
    assert_eq!(second.get(), "\"next\"");
    drop(connection);
    server.join().unwrap();
}

#[test]
fn whoever_waits_reads_for_the_others_and_the_next_one_goes_on() {
    for order in [[0, 1, 2], [2, 1, 0], [1, 0, 2]] {
        let (connection, server) = connected(move |mut server| {
            let asked: Vec<Value> = (0..3).map(|_| server.hear()).collect();
            for number in order {
                // So that whoever was answered before has stopped reading.
                std::thread::sleep(Duration::from_millis(20));
                server.answer(&asked[number]["id"], &asked[number]["method"]);
            }
            let _ = server.input.fill_buf();
        });
        let start = Instant::now();
        std::thread::scope(|scope| {
            for method in ["a", "b", "c"] {
                let connection = &connection;
                scope.spawn(move || {
                    let answer = talk::ask(connection, method, &json!({}), PATIENT).unwrap();
                    assert_eq!(answer.get(), format!("{method:?}"));
                });
            }
        });
        assert!(start.elapsed() < PATIENT, "somebody was not woken");
        drop(connection);
        server.join().unwrap();
    }
}

#[test]
fn an_end_that_comes_while_nobody_waits_is_seen_before_the_next_request() {
    let (connection, server) = connected(drop);
    server.join().unwrap();
    assert_eq!(connection.lost().as_deref(), Some("the daemon has closed it"));
    // The twin: one that is there has not ended.
    let (connection, server) = connected(|mut server| drop(server.input.fill_buf()));
    assert_eq!(connection.lost(), None);
    drop(connection);
    server.join().unwrap();
}

#[test]
fn what_is_for_somebody_else_is_passed_over() {
    let talks = |mut server: Server| {
        let id = server.hear()["id"].clone();
        server.answer(&json!(999), &json!("foreign"));
        server.answer(&json!("text"), &json!("foreign"));
        server.say(&json!({"jsonrpc": "2.0", "method": "news", "params": [1]}));
        server.say(&json!({"jsonrpc": "2.0", "method": "tool.drop", "params": {"id": 7}}));
        for _ in 0..5000 {
            let line = json!({"sandbox": 77, "text": "not ours\n"});
            server.say(&json!({"jsonrpc": "2.0", "method": "stdout", "params": line}));
        }
        let asks = json!({"sandbox": 77, "name": "t"});
        server.say(&json!({"jsonrpc": "2.0", "id": 1, "method": "tool.call", "params": asks}));
        server.answer(&id, &json!("ours"));
        // Whoever has its answer may have gone by now.
        let again = json!({"jsonrpc": "2.0", "id": id, "result": "again"});
        let _ = writeln!(server.output, "{again}");
        let _ = server.input.fill_buf();
    };
    assert_eq!(asked(talks).unwrap(), "\"ours\"");
}

/// Runs code at a server that asks for these, and gives what it was answered.
fn served(tools: Tools, questions: Vec<Value>) -> Vec<Value> {
    let answers = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&answers);
    let (connection, server) = connected(move |mut server| {
        let id = server.hear()["id"].clone();
        for question in &questions {
            server.say(question);
            heard.lock().unwrap().push(server.hear());
        }
        server.answer(&id, &json!(null));
        let _ = server.input.fill_buf();
    });
    let links = Links { tools, ..Links::default() };
    run(&connection, &links).unwrap();
    drop(connection);
    server.join().unwrap();
    let answers = answers.lock().unwrap();
    answers.clone()
}

fn run(connection: &Connection, links: &Links) -> Result<(), Failure> {
    let layer = PolicyLayer::new().max_tool_calls(2).stdout_max_bytes(10);
    let policy = ExecutionPolicy::build(Preset::Strict, [layer]).unwrap();
    let abilities = Backend::Daemon.abilities().unwrap();
    let policy = resolve(&policy, Backend::Daemon, abilities).unwrap();
    let mut listener = Listener::new(links, &policy);
    let cancel = CancelHandle::default();
    let call = Call { connection, sandbox: Some(1), patience: PATIENT, cancel: &cancel };
    call.run("execute", &json!({}), Some(&mut listener)).map(drop)
}

fn question(id: u64, method: &str, params: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

#[test]
fn a_server_may_ask_for_no_more_than_a_guest() {
    let called = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&called);
    let tools = Tools::new()
        .with("t", move |_| {
            count.fetch_add(1, Ordering::Relaxed);
            Ok(json!("done"))
        })
        .unwrap();
    let call =
        |id: u64, name: &str| question(id, "tool.call", &json!({"sandbox": 1, "name": name}));
    let answers = served(
        tools,
        vec![
            call(1, "t"),
            call(2, "u"),
            call(3, "t"),
            question(4, "tool.call", &json!({"sandbox": 1, "name": 5})),
            question(5, "wishful", &json!({"sandbox": 1})),
            question(6, "input", &json!({"sandbox": 1, "prompt": "?"})),
            json!({"jsonrpc": "2.0", "id": "x", "method": "tool.call", "params": {"sandbox": 1}}),
        ],
    );
    let told: Vec<String> = answers
        .iter()
        .map(|answer| match answer.get("error") {
            Some(error) => format!("{}: {} {}", answer["id"], error["code"], error["message"]),
            None => format!("{}: {}", answer["id"], answer["result"]),
        })
        .collect();
    insta::assert_snapshot!(told.join("\n"), @r#"
    1: "done"
    2: -32000 "there is no tool \"u\" here"
    3: -32000 "at most 2 calls are allowed; raise max_tool_calls to allow more"
    4: -32602 "invalid type: integer `5`, expected a string at line 1 column 9"
    5: -32601 "the client has no such method"
    6: -32000 "at most 2 calls are allowed; raise max_tool_calls to allow more"
    "x": -32602 "an id is a number here"
    "#);
    assert_eq!(called.load(Ordering::Relaxed), 1);
}

#[test]
fn a_listener_is_told_no_more_than_is_kept() {
    let (connection, server) = connected(|mut server| {
        let id = server.hear()["id"].clone();
        for _ in 0..10_000 {
            let line = json!({"sandbox": 1, "text": "0123456789\n"});
            server.say(&json!({"jsonrpc": "2.0", "method": "stdout", "params": line}));
        }
        server.answer(&id, &json!(null));
        let _ = server.input.fill_buf();
    });
    let bytes = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&bytes);
    let sink: LineSink = Arc::new(move |line| {
        count.fetch_add(line.len(), Ordering::Relaxed);
    });
    run(&connection, &Links { on_stdout: Some(sink), ..Links::default() }).unwrap();
    assert!((11..200).contains(&bytes.load(Ordering::Relaxed)));
    drop(connection);
    server.join().unwrap();
}

#[test]
fn only_a_socket_of_this_user_in_a_closed_directory_is_used() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    let refused = |path: &Path| shown(&available(path).unwrap_err().to_string(), folder.path());
    std::fs::write(&path, "").unwrap();
    insta::assert_snapshot!(
        refused(&path),
        @"the daemon backend cannot be used: DIR/s is no socket; nothing was run"
    );
    std::fs::remove_file(&path).unwrap();
    let _listener = UnixListener::bind(&path).unwrap();
    let linked = folder.path().join("l");
    std::os::unix::fs::symlink(&path, &linked).unwrap();
    insta::assert_snapshot!(
        refused(&linked),
        @"the daemon backend cannot be used: DIR/l is no socket; nothing was run"
    );
    let open = std::fs::Permissions::from_mode(0o777);
    std::fs::set_permissions(folder.path(), open).unwrap();
    insta::assert_snapshot!(
        refused(&path),
        @"the daemon backend cannot be used: others may write to DIR; nothing was run"
    );
}

/// Needs the right to give files away.
#[test]
fn the_socket_of_another_user_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    let _listener = UnixListener::bind(&path).unwrap();
    if let Err(error) = std::os::unix::fs::chown(&path, Some(65_534), None) {
        let line = format!("\nSKIPPED: the_socket_of_another_user_is_refused: {error}\n");
        std::io::stderr().write_all(line.as_bytes()).unwrap();
        return;
    }
    insta::assert_snapshot!(
        shown(&available(&path).unwrap_err().to_string(), folder.path()),
        @"the daemon backend cannot be used: DIR/s, or the directory it is in, belongs to another user; nothing was run"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn no_bytes_are_too_strange(bytes in any::<Vec<u8>>(), json in "\\PC{0,60}") {
        let mut text = bytes;
        text.extend(format!("\n{{\"jsonrpc\":\"2.0\",{json}}}\n").into_bytes());
        let _ = asked(move |mut server| {
            server.hear();
            let _ = server.output.write_all(&text);
        });
    }
}
