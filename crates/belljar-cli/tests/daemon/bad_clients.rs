//! Clients that do not behave. Each time somebody else is served meanwhile.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::{Value, json};

use crate::harness::{Client, Daemon, wait_for};

/// Somebody else, who notices nothing.
fn served(daemon: &Daemon) {
    let mut client = daemon.client();
    let sandbox = client.create(json!({}));
    assert_eq!(client.prints(sandbox, "print('served')"), "served\n");
}

#[test]
fn nonsense_gets_an_error_and_the_connection_lives_on() {
    let daemon = Daemon::new(&[]);
    let mut client = daemon.client();
    let mut complained = |line: &str| {
        client.write(line);
        client.hear().unwrap()["error"]["code"].as_i64().unwrap()
    };
    assert_eq!(complained("{"), -32700);
    assert_eq!(complained("[]"), -32600);
    assert_eq!(complained("\u{0}\u{0}"), -32700);
    assert_eq!(complained(r#"{"jsonrpc":"2.0","id":1,"method":"nothing"}"#), -32601);
    assert_eq!(complained(r#"{"jsonrpc":"2.0","id":-1,"method":"hello"}"#), -32600);
    assert_eq!(complained(r#"{"jsonrpc":"2.0","id":{},"method":"hello"}"#), -32600);
    assert_eq!(complained(r#"{"jsonrpc":"2.0","id":1,"method":"execute","params":[1]}"#), -32602);
    assert_eq!(complained(r#"{"jsonrpc":"2.0","id":1,"method":"execute","params":{}}"#), -32602);
    assert_eq!(complained(r#"{"jsonrpc":"2.0","id":1,"method":"create","params":7}"#), -32602);
    assert_eq!(
        complained(r#"{"jsonrpc":"2.0","id":1,"method":"stop","params":{"now":1}}"#),
        -32602
    );
    client.write(r#"{"jsonrpc":"2.0","id":77,"result":1}"#);
    client.write(r#"{"jsonrpc":"2.0","id":"x","result":1}"#);
    client.write(r#"{"jsonrpc":"2.0","method":"stop"}"#);
    client.write(r#"{"jsonrpc":"2.0","method":"tool.drop","params":{"id":1}}"#);
    let sandbox = client.create(json!({}));
    assert_eq!(client.refused("execute", json!({"sandbox": sandbox})).0, -32602);
    assert_eq!(client.prints(sandbox, "print(1)"), "1\n");
}

#[test]
fn a_line_that_is_too_long_is_passed_over() {
    let daemon = Daemon::new(&[]);
    let mut client = daemon.client();
    let part = vec![b'x'; 1024 * 1024];
    for _ in 0..65 {
        client.output.write_all(&part).unwrap();
    }
    client.output.write_all(b"\n").unwrap();
    assert_eq!(client.hear().unwrap()["error"]["code"], -32600);
    served(&daemon);
    let sandbox = client.create(json!({}));
    assert_eq!(client.prints(sandbox, "print(1)"), "1\n");
}

#[test]
fn silence_and_half_a_line_are_not_waited_for() {
    let daemon = Daemon::new(&["--limit", "handshake_seconds=0.3", "--limit", "line_seconds=0.3"]);
    let mut silent = daemon.client();
    let mut half = daemon.client();
    half.output.write_all(b"{\"jsonrpc\":").unwrap();
    // The twin: whoever has said something may be silent.
    let mut patient = daemon.client();
    patient.ask("hello", Value::Null);
    for client in [&mut silent, &mut half] {
        assert_eq!(client.hear().unwrap()["error"]["code"], -32600);
        assert!(client.hear().is_none());
    }
    std::thread::sleep(Duration::from_millis(500));
    patient.ask("hello", Value::Null);
    patient.output.write_all(b"{\"jsonrpc\":").unwrap();
    assert_eq!(patient.hear().unwrap()["error"]["code"], -32600);
    assert!(patient.hear().is_none());
    assert_eq!(daemon.status()["counters"]["dropped_connections"], 3);
}

#[test]
fn five_hundred_connections_and_more_than_may_be() {
    let daemon = Daemon::new(&["--limit", "connections=500"]);
    let mut clients: Vec<Client> = (0..500).map(|_| daemon.client()).collect();
    for client in &mut clients {
        client.ask("hello", Value::Null);
    }
    let mut one_more = daemon.client();
    let refused = one_more.hear().unwrap();
    assert_eq!(refused["error"]["code"], -32001);
    assert!(one_more.hear().is_none());
    let sandbox = clients[499].create(json!({}));
    assert_eq!(clients[499].prints(sandbox, "print(1)"), "1\n");
    clients.clear();
    wait_for("room", || {
        UnixStream::connect(daemon.place.socket()).is_ok_and(|mut stream| {
            stream.write_all(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"hello\"}\n").is_ok()
                && stream.read(&mut [0; 64]).is_ok()
        })
    });
    wait_for("everybody's end", || daemon.status()["connections"] == 1);
}

#[test]
fn ten_thousand_connections_keep_nobody_from_being_served() {
    const MANY: u64 = 10_000;
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    if maximum.is_some_and(|most| most < MANY + 200) {
        eprintln!("skipped: this process may not have {MANY} descriptors");
        return;
    }
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).unwrap();
    let daemon = Daemon::new(&[]);
    let mut somebody = daemon.client();
    let sandbox = somebody.create(json!({}));
    let many: Vec<UnixStream> =
        (0..MANY).map(|_| UnixStream::connect(daemon.place.socket()).unwrap()).collect();
    assert_eq!(somebody.prints(sandbox, "print(1)"), "1\n");
    let status = somebody.ask("status", Value::Null);
    assert!(status["connections"].as_u64().unwrap() <= 1000, "{status}");
    assert!(status["counters"]["refused_connections"].as_u64().unwrap() > 0, "{status}");
    let supervisor = std::fs::read_to_string(format!("/proc/{}/statm", status["pid"])).unwrap();
    let resident: u64 = supervisor.split(' ').nth(1).unwrap().parse().unwrap();
    assert!(resident * 4 < 256 * 1024, "{resident} pages");
    drop(many);
    wait_for("room", || daemon.place.belljar(&["status"]).0 == 0);
    served(&daemon);
}

#[test]
fn a_client_that_never_reads_is_disconnected() {
    let daemon = Daemon::new(&["--limit", "outbound_bytes=1000000"]);
    let mut deaf = daemon.client();
    let sandbox = deaf.create(json!({"stream": true}));
    let code = "for _ in range(100):\n    print('x' * 50_000)";
    for _ in 0..4 {
        deaf.send("execute", json!({"sandbox": sandbox, "code": code}));
    }
    served(&daemon);
    wait_for("its end", || daemon.status()["counters"]["dropped_connections"] == 1);
    wait_for("the end of its sandboxes", || daemon.status()["sandboxes"] == 0);
    served(&daemon);
}

#[test]
fn a_client_that_vanishes_leaves_nothing_behind() {
    let daemon = Daemon::new(&[]);
    let mut client = daemon.client();
    let sandbox = client.create(json!({"tools": ["never"]}));
    let busy = client.create(json!({}));
    let named = client.session("stays");
    client.execute(named, "x = 5");
    client.send("execute", json!({"sandbox": sandbox, "code": "never()"}));
    client.send("execute", json!({"sandbox": busy, "code": "while True: pass"}));
    client.send("execute", json!({"sandbox": named, "code": "while True: pass"}));
    client.send("execute", json!({"sandbox": named, "code": "x = 6"}));
    wait_for("three executions", || daemon.status()["running"] == 3);
    drop(client);
    let took = wait_for("their end", || daemon.status()["sandboxes"] == 0);
    assert!(took < Duration::from_secs(10), "{took:?}");
    wait_for("the end in workers", || {
        let status = daemon.status();
        status["running"] == 0
            && status["workers"].as_array().unwrap().iter().all(|it| it["sandboxes"] == 0)
    });
    for worker in 0..2 {
        let tmp = daemon.place.home().join(format!("daemon/workers/{worker}/tmp"));
        let left = std::fs::read_dir(tmp).unwrap().flatten().filter(|entry| {
            // A worker keeps one for snapshots.
            std::fs::read_dir(entry.path()).is_ok_and(|inside| inside.count() > 0)
        });
        assert_eq!(left.count(), 0);
    }
    let mut client = daemon.client();
    let named = client.session("stays");
    assert_eq!(client.prints(named, "print(x)"), "5\n");
}

#[test]
fn a_tool_that_nobody_answers_ends_with_its_execution() {
    let daemon = Daemon::new(&[]);
    let mut client = daemon.client();
    let params = json!({"tools": ["never"], "policy": {"timeout_seconds": 0.3}});
    let sandbox = client.create(params);
    assert_eq!(client.execute(sandbox, "never()")["status"], "timeout");
    let call = client.told[0].clone();
    assert_eq!(call["method"], "tool.call");
    // That nobody waits for it any more is told a moment later.
    while client.told.last().unwrap()["method"] != "tool.drop" {
        let told = client.hear().unwrap();
        client.told.push(told);
    }
    assert_eq!(client.told.last().unwrap()["params"]["id"], call["id"]);
    // An answer that comes too late is nobody's.
    client.write(&json!({"jsonrpc": "2.0", "id": call["id"], "result": 1}).to_string());
    assert_eq!(client.prints(sandbox, "print(1)"), "1\n");
}

#[test]
fn an_input_that_nobody_answers_ends_with_its_execution() {
    let daemon = Daemon::new(&[]);
    let mut client = daemon.client();
    let sandbox = client.create(json!({"input": true, "policy": {"timeout_seconds": 0.3}}));
    assert_eq!(client.execute(sandbox, "input('?')")["status"], "timeout");
    let call = client.told[0].clone();
    assert_eq!(call["method"], "input");
    while client.told.last().unwrap()["method"] != "tool.drop" {
        let told = client.hear().unwrap();
        client.told.push(told);
    }
    assert_eq!(client.told.last().unwrap()["params"]["id"], call["id"]);
    // The twin: one that is answered.
    let id = client.send("execute", json!({"sandbox": sandbox, "code": "print(input())"}));
    let call = client.hear().unwrap();
    client.write(&json!({"jsonrpc": "2.0", "id": call["id"], "result": "line"}).to_string());
    assert_eq!(client.answer(id)["result"]["stdout"], "line\n");
}

#[test]
fn names_that_are_none_are_refused_before_anything_is_asked_of_a_worker() {
    let daemon = Daemon::new(&[]);
    let mut client = daemon.client();
    for name in ["", "-x", "a/b", &"x".repeat(1_000_000)] {
        let (code, message) = client.refused("create", json!({"session": name}));
        assert_eq!(code, -32000);
        assert!(message.len() < 1000 && message.contains("session"), "{message}");
    }
    client.session("name");
}

#[test]
fn half_a_line_of_one_client_leaves_room_for_the_others() {
    let daemon = Daemon::new(&["--limit", "buffered_bytes=4000000"]);
    let mut greedy = daemon.client();
    greedy.output.write_all(&vec![b'x'; 4_500_000]).unwrap();
    let mut client = daemon.client();
    let sandbox = client.create(json!({}));
    let code = |bytes: usize| format!("print(1) # {}", "x".repeat(bytes));
    wait_for("no room", || {
        let mut other = daemon.client();
        let line = json!({"sandbox": sandbox, "code": code(3_000_000)});
        // As our own clients write it, so that it is known which request was refused.
        let line = format!(r#"{{"jsonrpc":"2.0","id":7,"method":"validate","params":{line}}}"#);
        other.write(&line);
        let answer = other.answer(7);
        answer["error"]["code"] == -32001
    });
    // Those that were refused hold what they have sent until they are gone. Asking is a connection, too.
    let at_most =
        |count: u64| daemon.status()["connections"].as_u64().is_some_and(|now| now <= count);
    wait_for("the greedy one and ours", || at_most(3));
    assert_eq!(client.prints(sandbox, &code(500_000)), "1\n");
    drop(greedy);
    wait_for("ours alone", || at_most(2));
    assert_eq!(client.prints(sandbox, &code(3_000_000)), "1\n");
}

#[test]
fn snapshots_of_one_client_have_a_limit_of_bytes() {
    let daemon = Daemon::new(&["--workers", "1", "--limit", "snapshot_bytes_per_client=3000"]);
    let (mut one, mut two) = (daemon.client(), daemon.client());
    let data = "A".repeat(2000);
    let first = one.ask("snapshot.write", json!({"data": data}));
    assert_eq!(first["bytes"], 1500);
    let again = json!({"data": "A".repeat(2400)});
    assert_eq!(one.refused("snapshot.write", again.clone()).0, -32001);
    let more = json!({"snapshot": first["snapshot"], "data": "A".repeat(2400)});
    assert_eq!(one.refused("snapshot.write", more).0, -32001);
    two.ask("snapshot.write", again.clone());
    one.ask("snapshot.drop", json!({"snapshot": first["snapshot"]}));
    one.ask("snapshot.write", again);
}

#[test]
fn running_code_is_cancelled_and_its_session_lives() {
    let daemon = Daemon::new(&[]);
    let mut client = daemon.client();
    let sandbox = client.create(json!({}));
    client.ask("initialize", json!({"sandbox": sandbox}));
    client.execute(sandbox, "x = 1");
    for pause in [0, 1, 100] {
        let id = client.send("execute", json!({"sandbox": sandbox, "code": "while True: pass"}));
        std::thread::sleep(Duration::from_millis(pause));
        client.ask("cancel", json!({"sandbox": sandbox}));
        assert_eq!(client.answer(id)["result"]["status"], "cancelled", "after {pause} ms");
    }
    client.ask("cancel", json!({"sandbox": sandbox}));
    assert_eq!(client.prints(sandbox, "print(x)"), "1\n");
}

#[test]
fn executions_wait_for_their_turn_and_too_many_are_refused() {
    let daemon = Daemon::new(&["--limit", "running=1", "--limit", "waiting=1"]);
    let mut client = daemon.client();
    let sandboxes: Vec<u64> = (0..3).map(|_| client.create(json!({}))).collect();
    let sleep = "import time; time.sleep(0.5); print('slept')";
    let first = client.send("execute", json!({"sandbox": sandboxes[0], "code": sleep}));
    wait_for("the first", || daemon.status()["running"] == 1);
    let second = client.send("execute", json!({"sandbox": sandboxes[1], "code": sleep}));
    wait_for("the second", || daemon.status()["waiting"] == 1);
    let (code, message) =
        client.refused("execute", json!({"sandbox": sandboxes[2], "code": sleep}));
    assert_eq!(code, -32001);
    assert_eq!(message, "busy: too many executions wait for their turn; nothing was run");
    // Who waits can be cancelled.
    client.ask("cancel", json!({"sandbox": sandboxes[1]}));
    assert_eq!(client.answer(second)["result"]["status"], "cancelled");
    let third = client.send("execute", json!({"sandbox": sandboxes[2], "code": sleep}));
    let answer =
        |client: &mut Client, id| match client.told.iter().position(|told| told["id"] == json!(id))
        {
            Some(kept) => client.told.remove(kept),
            None => client.answer(id),
        };
    assert_eq!(answer(&mut client, first)["result"]["stdout"], "slept\n");
    assert_eq!(answer(&mut client, third)["result"]["stdout"], "slept\n");
}

#[test]
fn sandboxes_have_a_limit_each_and_together() {
    let daemon = Daemon::new(&["--limit", "sandboxes=3", "--limit", "sandboxes_per_client=2"]);
    let (mut one, mut two) = (daemon.client(), daemon.client());
    let first = one.create(json!({}));
    one.create(json!({}));
    assert_eq!(one.refused("create", json!({})).0, -32001);
    two.create(json!({}));
    assert_eq!(two.refused("create", json!({})).0, -32001);
    one.ask("initialize", json!({"sandbox": first}));
    assert_eq!(one.refused("fork", json!({"sandbox": first})).0, -32001);
    one.ask("destroy", json!({"sandbox": first}));
    wait_for("room", || daemon.status()["sandboxes"] == 2);
    two.create(json!({}));
}

#[test]
fn the_sandboxes_of_a_client_may_use_so_much_memory_together() {
    let daemon = Daemon::new(&["--limit", "memory_bytes_per_client=300000000"]);
    let (mut one, mut two) = (daemon.client(), daemon.client());
    let large = json!({"policy": {"memory_bytes": 200_000_000}});
    let first = one.create(large.clone());
    let (code, message) = one.refused("create", large.clone());
    assert_eq!(code, -32001);
    assert!(message.contains("may use 300000000 bytes of memory"), "{message}");
    one.ask("initialize", json!({"sandbox": first}));
    assert_eq!(one.refused("fork", json!({"sandbox": first})).0, -32001);
    // The twins: less, another client, and the same when the first is gone.
    one.create(json!({"policy": {"memory_bytes": 100_000_000}}));
    two.create(large.clone());
    one.ask("destroy", json!({"sandbox": first}));
    one.create(large);
}

#[test]
fn requests_that_wait_are_bounded() {
    let daemon = Daemon::new(&["--limit", "inbound_bytes=1000000"]);
    let mut client = daemon.client();
    let sandbox = client.create(json!({}));
    let code = format!("import time; time.sleep(0.5) # {}", "x".repeat(300_000));
    let ids: Vec<u64> =
        (0..5).map(|_| client.send("execute", json!({"sandbox": sandbox, "code": code}))).collect();
    let refused = client.hear().unwrap();
    assert_eq!(
        refused["error"]["message"],
        "busy: too many bytes of requests wait; nothing was run"
    );
    let begun = Instant::now();
    let mut finished = 0;
    while finished < 3 {
        finished += usize::from(client.hear().unwrap()["result"]["status"] == "ok");
        assert!(begun.elapsed() < Duration::from_secs(30) && ids.len() == 5);
    }
}

/// Connects, and exits with 0 when it is let in and hears something.
const CONNECT: &str = "
import socket, sys
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
try:
    s.sendall(b'{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"hello\"}\\n')
    sys.exit(0 if s.recv(10) else 3)
except OSError:
    sys.exit(3)
";

#[test]
fn another_user_is_not_let_in() {
    use std::os::unix::fs::PermissionsExt;
    const NOBODY: u32 = 65534;
    let daemon = Daemon::new(&[]);
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root can be somebody else");
        return;
    }
    // What keeps others away before is undone, so that only the look at the peer is left.
    let open = |path: &std::path::Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    open(daemon.place.path(), 0o755);
    open(&daemon.place.path().join("run"), 0o755);
    open(&daemon.place.socket(), 0o666);
    let connect = |user: u32| {
        let mut command = std::process::Command::new("python3");
        command.args(["-c", CONNECT]).arg(daemon.place.socket()).current_dir("/");
        command.uid(user).status()
    };
    let Ok(own) = connect(0) else {
        eprintln!("skipped: there is no python3 to connect with");
        return;
    };
    assert_eq!(own.code(), Some(0));
    assert_eq!(connect(NOBODY).unwrap().code(), Some(3));
    assert_eq!(daemon.status()["counters"]["refused_connections"], 1);
}
