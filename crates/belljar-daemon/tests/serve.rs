//! A client's view of one connection.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::thread::JoinHandle;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use belljar::{Home, SessionStore};
use belljar_daemon::serve::{Offer, serve};
use serde_json::{Value, json};

/// Where all tests of the workspace keep their compiled guests.
fn home() -> Home {
    let program = std::env::current_exe().unwrap();
    Home::at(program.ancestors().nth(3).unwrap().join("test-home"))
}

/// A session of that name, removed at the end.
struct Named(String);

impl Named {
    fn new(test: &str) -> Self {
        Self(format!("serve-{test}-{}", std::process::id()))
    }
}

impl Drop for Named {
    fn drop(&mut self) {
        let _ = SessionStore::open(&home()).remove(&self.0);
    }
}

struct Client {
    input: BufReader<UnixStream>,
    output: Option<UnixStream>,
    last: u64,
    told: Vec<Value>,
    server: Option<JoinHandle<()>>,
}

impl Client {
    fn new() -> Self {
        Self::with(Offer::new(home()))
    }

    fn with(offer: Offer) -> Self {
        let (ours, theirs) = UnixStream::pair().unwrap();
        ours.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let server = std::thread::spawn(move || {
            serve(theirs.try_clone().unwrap(), theirs, offer).unwrap();
        });
        let input = BufReader::new(ours.try_clone().unwrap());
        Self { input, output: Some(ours), last: 0, told: Vec::new(), server: Some(server) }
    }

    fn write(&mut self, line: &str) {
        writeln!(self.output.as_ref().unwrap(), "{line}").unwrap();
    }

    fn send(&mut self, method: &str, params: Value) -> u64 {
        self.last += 1;
        let id = self.last;
        self.write(
            &json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string(),
        );
        id
    }

    fn hear(&mut self) -> Value {
        let mut line = String::new();
        assert!(self.input.read_line(&mut line).unwrap() > 0, "the server is gone");
        serde_json::from_str(&line).unwrap()
    }

    /// The answer to a request; everything else that comes before is kept.
    fn answer(&mut self, id: u64) -> Value {
        loop {
            let message = self.hear();
            if message.get("method").is_none() && message["id"] == json!(id) {
                return message;
            }
            self.told.push(message);
        }
    }

    fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params);
        let answer = self.answer(id);
        assert!(answer.get("error").is_none(), "{answer}");
        answer["result"].clone()
    }

    fn refused(&mut self, method: &str, params: Value) -> (i64, String) {
        let id = self.send(method, params);
        let answer = self.answer(id);
        let error = answer.get("error").unwrap_or_else(|| panic!("{answer}"));
        (error["code"].as_i64().unwrap(), error["message"].as_str().unwrap().to_owned())
    }

    fn create(&mut self, params: Value) -> u64 {
        self.ask("create", params)["sandbox"].as_u64().unwrap()
    }

    fn execute(&mut self, sandbox: u64, code: &str) -> Value {
        self.ask("execute", json!({"sandbox": sandbox, "code": code}))
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.output.take().unwrap().shutdown(std::net::Shutdown::Both);
        if let Some(server) = self.server.take().filter(|_| !std::thread::panicking()) {
            server.join().unwrap();
        }
    }
}

#[test]
fn code_runs_and_its_result_is_the_one_shape() {
    let mut client = Client::new();
    assert_eq!(client.ask("hello", Value::Null)["protocol"], 1);
    let sandbox = client.create(json!({}));
    let result = client.execute(sandbox, "print('hello')\n6 * 7");
    assert_eq!(result["stdout"], "hello\n");
    assert_eq!(result["result"]["json"], 42);
    assert_eq!(result["meta"]["runtime"], "wasm");
    let failed = client.execute(sandbox, "1 / 0");
    assert_eq!(
        (&failed["success"], &failed["error"]["name"]),
        (&json!(false), &json!("ZeroDivisionError"))
    );
    let syntax = client.ask("validate", json!({"sandbox": sandbox, "code": "x ="}));
    assert_eq!(syntax["error"]["name"], "SyntaxError");
    let script = client.create(json!({"language": "javascript"}));
    assert_eq!(client.execute(script, "console.log([1, 2].length)")["stdout"], "2\n");
}

#[test]
fn what_a_fork_prints_is_told_as_its_own() {
    let mut client = Client::new();
    let sandbox = client.create(json!({"stream": true}));
    client.ask("initialize", json!({"sandbox": sandbox}));
    let fork = client.ask("fork", json!({"sandbox": sandbox}))["sandbox"].as_u64().unwrap();
    client.execute(fork, "print('fork')");
    client.execute(sandbox, "print('parent')");
    let told: Vec<Value> = client.told.iter().map(|told| told["params"].clone()).collect();
    let line = |sandbox: u64, text: &str| json!({"sandbox": sandbox, "text": text});
    assert_eq!(told, [line(fork, "fork\n"), line(sandbox, "parent\n")]);
}

#[test]
fn a_session_keeps_state_and_can_be_forked() {
    let mut client = Client::new();
    let sandbox = client.create(json!({}));
    client.ask("initialize", json!({"sandbox": sandbox, "context": {"a": [1, 2]}}));
    client.execute(sandbox, "x = len(context['a'])");
    let fork = client.ask("fork", json!({"sandbox": sandbox}))["sandbox"].as_u64().unwrap();
    client.execute(fork, "x += 10");
    let look = |client: &mut Client, sandbox: u64, name: &str| {
        client.ask("get_variable", json!({"sandbox": sandbox, "name": name}))["variable"].clone()
    };
    assert_eq!(look(&mut client, sandbox, "x")["json"], 2);
    assert_eq!(look(&mut client, fork, "x")["json"], 12);
    assert_eq!(look(&mut client, fork, "y"), Value::Null);
    let completed = client.ask("complete", json!({"sandbox": fork, "code": "contex", "cursor": 6}));
    assert_eq!(completed["matches"], json!(["context"]));
    client.ask("destroy", json!({"sandbox": fork}));
    let (code, message) = client.refused("execute", json!({"sandbox": fork, "code": "1"}));
    assert_eq!((code, message.as_str()), (-32602, "there is no sandbox 2 in this connection"));
}

#[test]
fn a_fork_asks_and_tells_in_its_own_name() {
    let mut client = Client::new();
    let sandbox = client.create(json!({"tools": ["add"], "stream": true}));
    client.ask("initialize", json!({"sandbox": sandbox}));
    let fork = client.ask("fork", json!({"sandbox": sandbox}))["sandbox"].as_u64().unwrap();
    let id = client.send("execute", json!({"sandbox": fork, "code": "print('x')\nadd(1)"}));
    assert_eq!(client.hear()["params"], json!({"sandbox": fork, "text": "x\n"}));
    let asked = client.hear();
    assert_eq!(
        (&asked["method"], &asked["params"]["sandbox"]),
        (&json!("tool.call"), &json!(fork))
    );
    client.write(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": 1}).to_string());
    assert_eq!(client.answer(id)["result"]["status"], "ok");
}

#[test]
fn lines_are_told_while_code_runs() {
    let mut client = Client::new();
    let sandbox = client.create(json!({"stream": true}));
    client.execute(
        sandbox,
        "import sys\nprint('a')\nprint('b', file=sys.stderr)\nprint('c', end='')",
    );
    let told: Vec<(&str, &str)> = client
        .told
        .iter()
        .map(|told| (told["method"].as_str().unwrap(), told["params"]["text"].as_str().unwrap()))
        .collect();
    assert_eq!(told, [("stdout", "a\n"), ("stderr", "b\n"), ("stdout", "c")]);
}

#[test]
fn tools_and_input_are_asked_of_the_client() {
    let mut client = Client::new();
    let sandbox = client.create(json!({"tools": ["add", "fail"], "input": true}));
    let code = "print(add(1, b=2))\nprint(input('name? '))\ntry: fail()\nexcept Exception as e: print(type(e).__name__, e)";
    let id = client.send("execute", json!({"sandbox": sandbox, "code": code}));
    for _ in 0..3 {
        let asked = client.hear();
        let answer = match asked["method"].as_str().unwrap() {
            "input" => json!({"result": "Ada"}),
            _ if asked["params"]["name"] == "add" => {
                assert_eq!(asked["params"]["kwargs"], json!({"b": 2}));
                json!({"result": 3})
            }
            _ => json!({"error": {"code": -32000, "message": "no such luck"}}),
        };
        let mut answer = answer;
        answer["jsonrpc"] = json!("2.0");
        answer["id"] = asked["id"].clone();
        client.write(&answer.to_string());
    }
    assert_eq!(client.answer(id)["result"]["stdout"], "3\nAda\nToolError no such luck\n");
}

#[test]
fn running_code_is_cancelled_and_its_session_lives() {
    let mut client = Client::new();
    let sandbox = client.create(json!({}));
    client.ask("initialize", json!({"sandbox": sandbox}));
    client.execute(sandbox, "x = 1");
    let id = client.send("execute", json!({"sandbox": sandbox, "code": "while True: pass"}));
    std::thread::sleep(Duration::from_millis(100));
    client.ask("cancel", json!({"sandbox": sandbox}));
    assert_eq!(client.answer(id)["result"]["status"], "cancelled");
    assert_eq!(client.execute(sandbox, "print(x)")["stdout"], "1\n");
}

#[test]
fn a_tool_that_nobody_answers_ends_with_its_execution() {
    let mut client = Client::new();
    let sandbox = client.create(json!({"tools": ["never"], "policy": {"timeout_seconds": 0.3}}));
    let result = client.execute(sandbox, "never()");
    assert_eq!(result["status"], "timeout");
    let methods: Vec<&Value> = client.told.iter().map(|told| &told["method"]).collect();
    assert_eq!(methods[0], "tool.call");
    assert_eq!(client.execute(sandbox, "print(1)")["stdout"], "1\n");
}

#[test]
fn a_snapshot_goes_to_another_connection() {
    let mut client = Client::new();
    let sandbox = client.create(json!({}));
    client.ask("initialize", json!({"sandbox": sandbox}));
    client.execute(sandbox, "x = list(range(1000))\nopen('f', 'w').write('data')");
    let kept = client.ask("snapshot", json!({"sandbox": sandbox, "files": true}));
    let (number, bytes) = (kept["snapshot"].clone(), kept["bytes"].as_u64().unwrap());
    let mut other = Client::new();
    let (mut offset, mut there) = (0, Value::Null);
    while offset < bytes {
        let part = client
            .ask("snapshot.read", json!({"snapshot": number, "offset": offset, "length": 100_000}));
        let mut params = json!({"data": part["data"]});
        if !there.is_null() {
            params["snapshot"] = there.clone();
        }
        there = other.ask("snapshot.write", params)["snapshot"].clone();
        offset += STANDARD.decode(part["data"].as_str().unwrap()).unwrap().len() as u64;
    }
    client.ask("snapshot.drop", json!({"snapshot": number}));
    assert_eq!(client.refused("snapshot.drop", json!({"snapshot": number})).0, -32602);
    let sandbox = other.create(json!({}));
    other.ask("restore", json!({"sandbox": sandbox, "snapshot": there}));
    assert_eq!(
        other.execute(sandbox, "print(sum(x), open('f').read())")["stdout"],
        "499500 data\n"
    );
}

#[test]
fn files_are_written_read_and_removed() {
    let mut client = Client::new();
    let sandbox = client.create(json!({}));
    let on = |path: &str| json!({"sandbox": sandbox, "path": path});
    let mut write = on("in/a.txt");
    write["data"] = json!(STANDARD.encode("hello"));
    client.ask("files.write", write);
    let result =
        client.execute(sandbox, "open('out.txt', 'w').write(open('in/a.txt').read().upper())");
    assert_eq!(result["files_created"], json!(["out.txt"]));
    let part = client.ask("files.read", on("out.txt"));
    assert_eq!(STANDARD.decode(part["data"].as_str().unwrap()).unwrap(), b"HELLO");
    let mut link = on("in/up");
    link["link"] = json!("../out.txt");
    client.ask("files.write", link.clone());
    assert_eq!(client.ask("files.read", on("in/up"))["link"], "../out.txt");
    link["link"] = json!("../../etc");
    assert!(client.refused("files.write", link).1.contains("leads outside"));
    let mut folder = on("in/folder/below");
    folder["directory"] = json!(true);
    client.ask("files.write", folder);
    let below = client.execute(sandbox, "import os; print(os.listdir('in/folder'))");
    assert_eq!(below["stdout"], "['below']\n");
    client.ask("files.remove", on("in"));
    let listed = client.ask("files.list", json!({"sandbox": sandbox}));
    assert_eq!(listed, json!([{"path": "out.txt", "kind": "file", "bytes": 5}]));
    let (_, message) = client.refused("files.read", on("../../etc/passwd"));
    assert!(message.contains("leads outside"), "{message}");
}

#[test]
fn a_named_session_outlives_its_connection() {
    let name = Named::new("outlives");
    let mut client = Client::new();
    let sandbox = client.create(json!({"session": name.0}));
    client.execute(sandbox, "x = 41");
    assert!(client.refused("create", json!({"session": name.0})).1.contains("in use"));
    drop(client);
    let mut client = Client::new();
    let created = client.ask("create", json!({"session": name.0}));
    assert_eq!(created["cells"], 1);
    let sandbox = created["sandbox"].as_u64().unwrap();
    assert_eq!(client.execute(sandbox, "print(x + 1)")["stdout"], "42\n");
    let (_, message) = client.refused("create", json!({"session": "../x"}));
    assert!(message.contains("session"), "{message}");
}

#[test]
fn tools_are_described_or_what_is_said_is_refused() {
    let mut client = Client::new();
    let about = json!({"doc": "In cents.", "signature": "(article: str) -> int"});
    let sandbox = client
        .create(json!({"tools": ["price"], "deferred_tools": ["ask"], "tool_docs": {
            "price": about, "ask": {"doc": "Asks."}}}));
    let look = "import inspect; print(price.__doc__, inspect.signature(price), ask.__doc__)";
    let seen = "In cents. (article: str) -> int Asks.\n";
    assert_eq!(client.execute(sandbox, look)["stdout"], seen);
    client.ask("initialize", json!({"sandbox": sandbox}));
    assert_eq!(client.execute(sandbox, look)["stdout"], seen);
    let fork = client.ask("fork", json!({"sandbox": sandbox}))["sandbox"].as_u64().unwrap();
    assert_eq!(client.execute(fork, look)["stdout"], seen);

    let mut refused = |name: &str, about: Value| {
        let docs = json!({name: about});
        client.refused("create", json!({"tools": ["price"], "tool_docs": docs})).1
    };
    insta::assert_snapshot!(refused("prise", about), @r#"the tool "prise" cannot be offered: it is documented, and no tool has that name; nothing was run"#);
    insta::assert_snapshot!(refused("price", json!({"doc": "x".repeat(16 * 1024 + 1)})), @r#"the tool "price" cannot be offered: its documentation is 16 385 bytes long, and 16 KiB is the most; nothing was run"#);
    insta::assert_snapshot!(refused("price", json!({"doc": "a\u{0}b"})), @r#"the tool "price" cannot be offered: its documentation holds the control character U+0000; nothing was run"#);
    insta::assert_snapshot!(refused("price", json!({"signature": "(a,\nb)"})), @r#"the tool "price" cannot be offered: its signature holds the control character U+000A; nothing was run"#);
    for nonsense in [json!("text"), json!({"doc": 3}), json!({"docs": "x"}), json!(3)] {
        refused("price", nonsense);
    }
}

#[test]
fn a_suspended_session_is_resumed_over_another_connection() {
    let name = Named::new("suspended");
    let mut client = Client::new();
    let sandbox = client.create(json!({"session": name.0, "deferred_tools": ["approve"]}));
    let waiting = client.execute(sandbox, "print('yes' if await approve('?') else 'no')");
    assert_eq!(waiting["status"], "suspended");
    drop(client);
    let mut client = Client::new();
    let sandbox = client.create(json!({"session": name.0}));
    let pending = client.ask("pending_calls", json!({"sandbox": sandbox}));
    let answers = json!([{"call": pending[0]["id"], "result": true}]);
    let result = client.ask("resume", json!({"sandbox": sandbox, "answers": answers}));
    assert_eq!(result["stdout"], "yes\n");
}

#[test]
fn nonsense_gets_an_error_and_the_connection_lives_on() {
    let mut client = Client::with(Offer { max_sandboxes: 1, ..Offer::new(home()) });
    let mut complained = |line: &str| {
        client.write(line);
        client.hear()["error"]["code"].as_i64().unwrap()
    };
    assert_eq!(complained("{"), -32700);
    assert_eq!(complained("[]"), -32600);
    assert_eq!(complained("\u{0}\u{0}"), -32700);
    assert_eq!(complained(r#"{"jsonrpc":"2.0","id":1,"method":"nothing"}"#), -32601);
    assert_eq!(complained(r#"{"jsonrpc":"2.0","id":1,"method":"execute","params":[1]}"#), -32602);
    client.write(r#"{"jsonrpc":"2.0","id":77,"result":1}"#);
    client.write(r#"{"jsonrpc":"2.0","method":"whatever"}"#);
    let (_, unknown) = client.refused("create", json!({"polciy": {}}));
    assert!(unknown.contains("polciy"), "{unknown}");
    let (_, invalid) = client.refused("create", json!({"policy": {"fuel_budget": 0}}));
    assert!(invalid.contains("fuel_budget: must be"), "{invalid}");
    let sandbox = client.create(json!({}));
    assert_eq!(
        client.refused("create", json!({})),
        (-32001, "busy: there are 1 sandboxes, and no more may be; nothing was run".to_owned())
    );
    assert_eq!(client.execute(sandbox, "print(1)")["stdout"], "1\n");
}

#[test]
fn a_request_that_nests_too_deeply_is_refused_under_its_id_and_one_that_does_not_is_served() {
    let mut client = Client::new();
    let sandbox = client.create(json!({}));
    let initialize = |id: u64, levels: usize| {
        let context = "[".repeat(levels) + &"]".repeat(levels);
        let params = format!(r#"{{"sandbox":{sandbox},"context":{context}}}"#);
        format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"initialize","params":{params}}}"#)
    };
    client.write(&initialize(501, 99));
    let refused = client.hear();
    assert_eq!((&refused["id"], &refused["error"]["code"]), (&json!(501), &json!(-32600)));
    client.write(&initialize(502, 30));
    let served = client.hear();
    assert_eq!((&served["id"], served.get("error")), (&json!(502), None));
}

#[test]
fn a_workspace_is_gone_when_its_sandbox_is_said_to_have_ended() {
    let mut client = Client::new();
    let created = client.ask("create", json!({}));
    let workspace = std::path::Path::new(created["workspace"].as_str().unwrap());
    assert!(workspace.is_dir());
    client.ask("destroy", json!({"sandbox": created["sandbox"]}));
    assert!(!workspace.exists());
}

#[test]
fn code_can_do_without_the_workspace_on_its_search_path() {
    let mut client = Client::new();
    let sandbox = client.create(json!({}));
    let write = "open('beside.py', 'w').write('x = 1')";
    assert_eq!(client.execute(sandbox, write)["status"], "ok");
    let import = "import beside\nprint(beside.x)";
    assert_eq!(client.execute(sandbox, import)["stdout"], "1\n");
    let without = json!({"sandbox": sandbox, "code": import, "inject_setup": false});
    assert_eq!(client.ask("execute", without)["error"]["name"], "ModuleNotFoundError");
}

#[test]
fn a_client_that_vanishes_leaves_nothing_behind() {
    let mut client = Client::new();
    let created = client.ask("create", json!({"tools": ["never"]}));
    let (sandbox, workspace) = (&created["sandbox"], created["workspace"].as_str().unwrap());
    for code in ["never()", "while True: pass", "print(1)"] {
        client.send("execute", json!({"sandbox": sandbox, "code": code}));
    }
    std::thread::sleep(Duration::from_millis(100));
    assert!(std::path::Path::new(workspace).is_dir());
    let workspace = workspace.to_owned();
    drop(client);
    assert!(!std::path::Path::new(&workspace).exists());
}

#[test]
fn what_was_about_to_begin_does_not_outlive_its_client() {
    for pause in 0..20 {
        let mut client = Client::new();
        let params = json!({"policy": {"timeout_seconds": 600}});
        let sandbox = client.create(params);
        client.send("execute", json!({"sandbox": sandbox, "code": "while True: pass"}));
        std::thread::sleep(Duration::from_micros(100 * pause));
        let begun = std::time::Instant::now();
        drop(client);
        assert!(begun.elapsed() < Duration::from_secs(60), "after {pause}");
    }
}

#[test]
fn an_input_that_nobody_answers_ends_with_its_execution() {
    let mut client = Client::new();
    let sandbox = client.create(json!({"input": true, "policy": {"timeout_seconds": 0.3}}));
    assert_eq!(client.execute(sandbox, "input()")["status"], "timeout");
    while client.told.last().unwrap()["method"] != "tool.drop" {
        let told = client.hear();
        client.told.push(told);
    }
    assert_eq!(client.told[0]["method"], "input");
}
