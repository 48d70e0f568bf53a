//! A client on a pair of streams, with a house of its own.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use belljar::{AgentSettings, AgentTool, Home};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf};
use tokio_util::sync::CancellationToken;

use super::serve_client;
use super::server::Agents;
use crate::desk::House;
use crate::serve::Offer;

/// Where all tests of the workspace keep their compiled guests.
fn home() -> Home {
    let program: PathBuf = std::env::current_exe().unwrap();
    Home::at(program.ancestors().nth(3).unwrap().join("test-home"))
}

struct Client {
    input: BufReader<ReadHalf<DuplexStream>>,
    output: WriteHalf<DuplexStream>,
    last: u64,
}

impl Client {
    async fn new(house: House) -> Self {
        let variables: [(&str, &str); 0] = [];
        let tool = AgentTool::new(AgentSettings::from_variables(variables).unwrap());
        let agents = Agents { house: Arc::new(house), tool: Arc::new(tool) };
        let (ours, theirs) = tokio::io::duplex(1 << 20);
        let (input, output) = tokio::io::split(theirs);
        tokio::spawn(async move {
            serve_client(agents, input, output, CancellationToken::new()).await.unwrap();
        });
        let (input, output) = tokio::io::split(ours);
        let mut client = Self { input: BufReader::new(input), output, last: 0 };
        let who = json!({"name": "test", "version": "1"});
        let version = "2025-06-18";
        let params = json!({"protocolVersion": version, "capabilities": {}, "clientInfo": who});
        let answer = client.ask("initialize", params).await;
        assert_eq!(answer["result"]["protocolVersion"], version);
        client.say(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
        client
    }

    async fn say(&mut self, message: &Value) {
        self.output.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }

    async fn ask(&mut self, method: &str, params: Value) -> Value {
        self.last += 1;
        let message =
            json!({"jsonrpc": "2.0", "id": self.last, "method": method, "params": params});
        self.say(&message).await;
        let mut line = String::new();
        self.input.read_line(&mut line).await.unwrap();
        serde_json::from_str(&line).unwrap()
    }

    /// Whether a call was an error, and its text.
    async fn call(&mut self, tool: &str, arguments: Value) -> (bool, String) {
        let answer = self.ask("tools/call", json!({"name": tool, "arguments": arguments})).await;
        let result = &answer["result"];
        let text = result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}"));
        (result["isError"] == json!(true), text.to_owned())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_nobody_uses_is_ended_and_one_in_use_is_not() {
    let mut house = House::new(Offer::new(home()));
    house.session_idle = Duration::from_millis(1500);
    let mut client = Client::new(house).await;
    for name in ["used", "idle"] {
        let (failed, text) = client.call("create_session", json!({"session_id": name})).await;
        assert!(!failed, "{text}");
    }
    let mut running = json!({"session_id": "used", "code": "x = 1"});
    for _ in 0..8 {
        tokio::time::sleep(Duration::from_millis(500)).await;
        let (failed, text) = client.call("execute_code", running.clone()).await;
        assert!(!failed, "{text}");
    }
    let (failed, text) = client.call("list_sessions", json!({})).await;
    assert_eq!((failed, text.as_str()), (false, "used (python, 8 executions)"));
    running["session_id"] = json!("idle");
    insta::assert_snapshot!(client.call("execute_code", running).await.1, @r#"
    error: there is no session "idle"; nothing was run
    hint: make one with create_session; unused ones end after a while
    "#);
}
