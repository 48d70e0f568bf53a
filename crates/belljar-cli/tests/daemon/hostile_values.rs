//! Values of guests that are deep, heavy or long: they cost their JSON form, and nobody a worker.

use serde_json::{Value, json};

use crate::harness::{Client, Daemon};

/// A list in a list, so deep.
fn nested(depth: usize) -> String {
    format!("x = 1\nfor _ in range({depth}): x = [x]\n")
}

/// Another client's sandbox in the only worker, with a state that would be lost with it.
struct Bystander {
    client: Client,
    sandbox: u64,
}

impl Bystander {
    fn new(daemon: &Daemon) -> Self {
        let mut client = daemon.client();
        let sandbox = client.create(json!({}));
        client.ask("initialize", json!({"sandbox": sandbox, "context": "here"}));
        Self { client, sandbox }
    }

    fn notices_nothing(mut self, daemon: &Daemon) {
        assert_eq!(self.client.prints(self.sandbox, "print(context)"), "here\n");
        assert_eq!(daemon.status()["counters"]["restarts"], 0);
    }
}

#[test]
fn a_value_that_is_too_deep_or_too_heavy_has_no_json_and_its_worker_lives() {
    let daemon = Daemon::new(&["--workers", "1"]);
    let bystander = Bystander::new(&daemon);
    let mut client = daemon.client();
    let sandbox = client.create(json!({}));
    client.ask("initialize", json!({"sandbox": sandbox}));
    for depth in [61, 62, 63, 64, 100, 500] {
        let result = client.execute(sandbox, &(nested(depth) + "x"));
        assert_eq!((&result["status"], &result["result"]["json"]), (&json!("ok"), &Value::Null));
        let text = result["result"]["text"].as_str().unwrap();
        assert!(text.starts_with("[[["), "{depth}: {text}");
        let found = client.ask("get_variable", json!({"sandbox": sandbox, "name": "x"}));
        assert_eq!(found["variable"]["has_json"], false, "{depth}: {found}");
    }
    for value in ["[{}] * 300_000", "[{'a': {}}] * 150_000"] {
        let result = client.execute(sandbox, value);
        assert_eq!((&result["status"], &result["result"]["json"]), (&json!("ok"), &Value::Null));
    }
    // The twin: what is neither has its form.
    assert!(client.execute(sandbox, &(nested(50) + "x"))["result"]["json"].is_array());
    let rows = client.execute(sandbox, "[{'a': n} for n in range(20_000)]");
    assert_eq!(rows["result"]["json"].as_array().unwrap().len(), 20_000);
    bystander.notices_nothing(&daemon);
}

#[test]
fn the_deepest_arguments_of_a_tool_can_be_told_and_deeper_ones_fail_the_call() {
    let daemon = Daemon::new(&["--workers", "1"]);
    let bystander = Bystander::new(&daemon);
    let mut client = daemon.client();
    let sandbox =
        client.create(json!({"session": "deep", "tools": ["now"], "deferred_tools": ["later"]}));
    let code = nested(60) + "print(now(x))";
    let id = client.send("execute", json!({"sandbox": sandbox, "code": code}));
    let call = client.hear().unwrap();
    assert_eq!(call["method"], "tool.call", "{call}");
    client.write(&json!({"jsonrpc": "2.0", "id": call["id"], "result": "told"}).to_string());
    assert_eq!(client.answer(id)["result"]["stdout"], "told\n");
    let deeper = nested(70) + "try:\n    now(x)\nexcept Exception as e:\n    print('failed')";
    assert_eq!(client.prints(sandbox, &deeper), "failed\n");
    let waiting = client.execute(sandbox, &(nested(60) + "await later(x)"));
    assert_eq!(waiting["status"], "suspended", "{waiting}");
    let pending = client.ask("pending_calls", json!({"sandbox": sandbox}));
    assert_eq!(pending[0]["name"], "later");
    bystander.notices_nothing(&daemon);
}

#[test]
fn a_result_that_is_too_long_is_told_without_what_makes_it_so() {
    let daemon = Daemon::new(&["--workers", "1"]);
    let bystander = Bystander::new(&daemon);
    let mut client = daemon.client();
    let sandbox = client.create(json!({}));
    let code = "class Rich:\n    def _repr_html_(self): return '\\x01' * 12_000_000\n    \
                def __repr__(self): return 'rich'\nprint('ran')\nRich()";
    let result = client.execute(sandbox, code);
    assert_eq!(
        (&result["status"], &result["stdout"], &result["result"]["text"]),
        (&json!("ok"), &json!("ran\n"), &json!("rich"))
    );
    bystander.notices_nothing(&daemon);
}
