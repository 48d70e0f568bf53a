//! Several clients and what each of them has.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::harness::{Daemon, wait_for};

#[test]
fn sandboxes_are_spread_over_the_workers_and_keep_their_state() {
    let daemon = Daemon::new(&[]);
    let mut client = daemon.client();
    let sandboxes: Vec<u64> = (0..4).map(|_| client.create(json!({}))).collect();
    assert_eq!(sandboxes, [1, 2, 3, 4]);
    for sandbox in &sandboxes {
        client.ask("initialize", json!({"sandbox": sandbox, "context": sandbox}));
    }
    for sandbox in &sandboxes {
        assert_eq!(client.prints(*sandbox, "print(context)"), format!("{sandbox}\n"));
    }
    let workers = daemon.status()["workers"].clone();
    assert_eq!((&workers[0]["sandboxes"], &workers[1]["sandboxes"]), (&json!(2), &json!(2)));
    client.ask("destroy", json!({"sandbox": 1}));
    let (code, message) = client.refused("execute", json!({"sandbox": 1, "code": "1"}));
    assert_eq!((code, message.as_str()), (-32602, "there is no sandbox 1 in this connection"));
}

#[test]
fn a_client_cannot_reach_what_belongs_to_another() {
    let daemon = Daemon::new(&[]);
    let (mut one, mut two) = (daemon.client(), daemon.client());
    let sandbox = one.create(json!({"tools": ["secret"], "stream": true}));
    one.ask("initialize", json!({"sandbox": sandbox, "context": "mine"}));
    let snapshot = one.ask("snapshot", json!({"sandbox": sandbox}))["snapshot"].clone();
    let other = two.create(json!({}));
    assert_eq!(other, sandbox, "numbers are a client's own");
    for number in 0..20 {
        if number == other {
            continue;
        }
        for method in ["execute", "destroy", "cancel", "files.list", "fork"] {
            let params = match method {
                "execute" => json!({"sandbox": number, "code": "1"}),
                _ => json!({"sandbox": number}),
            };
            assert_eq!(two.refused(method, params).0, -32602, "{method} {number}");
        }
    }
    let read = json!({"snapshot": snapshot, "offset": 0, "length": 10});
    assert_eq!(two.refused("snapshot.read", read.clone()).0, -32602);
    assert_eq!(two.refused("restore", json!({"sandbox": other, "snapshot": snapshot})).0, -32602);
    // The twin: whose it is can have all that.
    assert_eq!(
        STANDARD.decode(one.ask("snapshot.read", read)["data"].as_str().unwrap()).unwrap().len(),
        10
    );
    one.ask("restore", json!({"sandbox": sandbox, "snapshot": snapshot}));
    assert_eq!(one.prints(sandbox, "print(context)"), "mine\n");
    assert!(two.told.is_empty(), "{:?}", two.told);
}

#[test]
fn an_answer_of_another_client_is_not_taken() {
    let daemon = Daemon::new(&[]);
    let (mut one, mut two) = (daemon.client(), daemon.client());
    let sandbox = one.create(json!({"tools": ["ask"]}));
    let id = one.send("execute", json!({"sandbox": sandbox, "code": "print(ask(1))"}));
    let call = one.hear().unwrap();
    assert_eq!(
        (&call["method"], &call["params"]["sandbox"]),
        (&json!("tool.call"), &json!(sandbox))
    );
    for forged in 0..10 {
        two.write(&json!({"jsonrpc": "2.0", "id": forged, "result": "forged"}).to_string());
    }
    two.ask("hello", Value::Null);
    one.write(&json!({"jsonrpc": "2.0", "id": call["id"], "result": "true"}).to_string());
    assert_eq!(one.answer(id)["result"]["stdout"], "true\n");
}

#[test]
fn lines_tools_and_input_reach_the_client_they_are_for() {
    let daemon = Daemon::new(&[]);
    let mut clients: Vec<_> = (0..4).map(|_| daemon.client()).collect();
    let mut ids = Vec::new();
    for (number, client) in clients.iter_mut().enumerate() {
        let sandbox = client.create(json!({"tools": ["who"], "input": true, "stream": true}));
        let code = "print(who())\nprint(input('? '))";
        ids.push((number, client.send("execute", json!({"sandbox": sandbox, "code": code}))));
    }
    for (number, id) in ids {
        let client = &mut clients[number];
        loop {
            let message = client.hear().unwrap();
            match message["method"].as_str() {
                Some("tool.call" | "input") => client.write(
                    &json!({"jsonrpc": "2.0", "id": message["id"], "result": format!("client {number}")})
                        .to_string(),
                ),
                Some(_) => client.told.push(message),
                None => {
                    assert_eq!(message["id"], id);
                    let expected = format!("client {number}\nclient {number}\n");
                    assert_eq!(message["result"]["stdout"], expected);
                    break;
                }
            }
        }
        let lines: Vec<_> = client.told.iter().map(|told| told["params"]["text"].clone()).collect();
        // The prompt is printed as well.
        assert!(lines.contains(&json!(format!("client {number}\n"))), "{lines:?}");
    }
}

#[test]
fn forks_and_snapshots_go_on_elsewhere() {
    let daemon = Daemon::new(&[]);
    let mut client = daemon.client();
    let parent = client.create(json!({}));
    client.ask("initialize", json!({"sandbox": parent}));
    client.execute(parent, "x = 1");
    let fork = client.ask("fork", json!({"sandbox": parent}))["sandbox"].as_u64().unwrap();
    client.execute(fork, "x += 10");
    assert_eq!(client.prints(parent, "print(x)"), "1\n");
    assert_eq!(client.prints(fork, "print(x)"), "11\n");
    let snapshot = client.ask("snapshot", json!({"sandbox": fork}))["snapshot"].clone();
    // One of these lives in the other worker.
    for _ in 0..4 {
        let sandbox = client.create(json!({}));
        client.ask("restore", json!({"sandbox": sandbox, "snapshot": snapshot}));
        assert_eq!(client.prints(sandbox, "print(x)"), "11\n");
    }
    client.ask("snapshot.drop", json!({"snapshot": snapshot}));
    assert_eq!(client.refused("snapshot.drop", json!({"snapshot": snapshot})).0, -32602);
}

#[test]
fn a_snapshot_is_brought_in_parts() {
    let daemon = Daemon::new(&[]);
    let (mut one, mut two) = (daemon.client(), daemon.client());
    let sandbox = one.create(json!({}));
    one.ask("initialize", json!({"sandbox": sandbox}));
    one.execute(sandbox, "x = list(range(1000))");
    let kept = one.ask("snapshot", json!({"sandbox": sandbox}));
    let bytes = kept["bytes"].as_u64().unwrap();
    let (mut offset, mut there) = (0, Value::Null);
    while offset < bytes {
        let wanted = json!({"snapshot": kept["snapshot"], "offset": offset, "length": 200_000});
        let part = one.ask("snapshot.read", wanted);
        let mut params = json!({"data": part["data"]});
        if !there.is_null() {
            params["snapshot"] = there.clone();
        }
        there = two.ask("snapshot.write", params)["snapshot"].clone();
        offset += STANDARD.decode(part["data"].as_str().unwrap()).unwrap().len() as u64;
    }
    let sandbox = two.create(json!({}));
    two.ask("restore", json!({"sandbox": sandbox, "snapshot": there}));
    assert_eq!(two.prints(sandbox, "print(sum(x))"), "499500\n");
}

#[test]
fn files_are_written_read_and_removed() {
    let daemon = Daemon::new(&[]);
    let mut client = daemon.client();
    let sandbox = client.create(json!({}));
    let data = STANDARD.encode("hello");
    client.ask("files.write", json!({"sandbox": sandbox, "path": "in/a.txt", "data": data}));
    let result = client.execute(sandbox, "open('b', 'w').write(open('in/a.txt').read().upper())");
    assert_eq!(result["files_created"], json!(["b"]));
    let part = client.ask("files.read", json!({"sandbox": sandbox, "path": "b"}));
    assert_eq!(STANDARD.decode(part["data"].as_str().unwrap()).unwrap(), b"HELLO");
    client.ask("files.remove", json!({"sandbox": sandbox, "path": "in"}));
    let listed = client.ask("files.list", json!({"sandbox": sandbox}));
    assert_eq!(listed, json!([{"path": "b", "kind": "file", "bytes": 5}]));
}

#[test]
fn a_session_has_one_user_at_a_time_and_outlives_all_of_them() {
    let daemon = Daemon::new(&[]);
    let mut one = daemon.client();
    let sandbox = one.session("shared");
    one.execute(sandbox, "x = 41");
    let mut two = daemon.client();
    assert!(two.refused("create", json!({"session": "shared"})).1.contains("in use"));
    assert!(two.refused("create", json!({"session": "../x"})).1.contains("session"));
    drop(one);
    wait_for("the first client's end", || daemon.status()["sandboxes"] == 0);
    let created = two.ask("create", json!({"session": "shared"}));
    assert_eq!(created["cells"], 1);
    assert_eq!(two.prints(created["sandbox"].as_u64().unwrap(), "print(x + 1)"), "42\n");
}

#[test]
fn an_idle_session_leaves_memory_and_comes_back_when_it_is_used() {
    let daemon = Daemon::new(&["--limit", "idle_seconds=0.2"]);
    let mut client = daemon.client();
    let named = client.session("sleepy");
    let unnamed = client.create(json!({}));
    client.ask("initialize", json!({"sandbox": unnamed}));
    for sandbox in [named, unnamed] {
        client.execute(sandbox, "x = 7");
    }
    let in_memory = |daemon: &Daemon| -> u64 {
        let status = daemon.status();
        let workers = status["workers"].as_array().unwrap();
        workers.iter().map(|it| it["sandboxes"].as_u64().unwrap()).sum()
    };
    wait_for("the named one to sleep", || in_memory(&daemon) == 1);
    for sandbox in [named, unnamed] {
        assert_eq!(client.prints(sandbox, "print(x)"), "7\n");
    }
    assert_eq!(daemon.status()["counters"]["revived"], 1);
}

#[test]
fn what_jailed_workers_cannot_do_is_refused() {
    let daemon = Daemon::new(&[]);
    let mut client = daemon.client();
    for params in [
        json!({"workspace": "/tmp"}),
        json!({"backend": "native"}),
        json!({"python": "/usr/bin/python3"}),
        json!({"index_url": ["/x"]}),
        json!({"policy": {"mount_host_dir": "/tmp"}}),
        json!({"policy": {"mount_data_dir": "/tmp"}}),
    ] {
        let (code, message) = client.refused("create", params.clone());
        assert_eq!(code, -32602, "{params}");
        assert!(message.contains("cannot be had in the daemon"), "{message}");
    }
    let (_, message) = client.refused("create", json!({"polciy": {}}));
    assert!(message.contains("polciy"), "{message}");
    let (_, message) = client.refused("create", json!({"policy": {"fuel_budget": 0}}));
    assert!(message.contains("fuel_budget: must be"), "{message}");
    client.create(json!({"backend": "wasm", "preset": "strict", "policy": {"fuel_budget": 5}}));
}
