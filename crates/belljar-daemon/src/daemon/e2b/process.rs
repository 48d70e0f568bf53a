//! The agent's process service: commands and terminals.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Extension, Path, Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use futures_util::{StreamExt, stream};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::super::limits::seconds;
use super::E2b;
use super::commands::{Commands, Ended, Process, Told};
use super::connect::{self, Code, Frames, Refusal};
use super::errors::answer;
use super::filesystem::inside;
use super::place::HOME;
use super::registry::Sandbox;
use super::{body, watch};
use crate::agent::messages::{Command, Order, Size, Stream};

/// A command with its arguments and variables, as it is kept to be listed.
const MAX_COMMAND_BYTES: usize = 256 * 1024;
const MAX_TAG_BYTES: usize = 256;
const TIMEOUT_HEADER: &str = "connect-timeout-ms";
/// How often something is told while nothing happens, unless the client wants it otherwise.
const PING_SECONDS: u64 = 90;
/// Where programs are found.
const SEARCH_PATH: &str = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin";
const SIGKILL: i32 = 9;
const SIGTERM: i32 = 15;

#[derive(Debug, Deserialize)]
struct Start {
    process: Config,
    #[serde(default)]
    pty: Option<Pty>,
    #[serde(default)]
    tag: Option<String>,
    #[serde(default)]
    stdin: Option<bool>,
}

#[derive(Debug, Deserialize)]
struct Config {
    #[serde(default)]
    cmd: String,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    envs: BTreeMap<String, String>,
    #[serde(default)]
    cwd: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Pty {
    #[serde(default)]
    size: PtySize,
}

#[derive(Debug, Deserialize, Default)]
struct PtySize {
    #[serde(default)]
    cols: u16,
    #[serde(default)]
    rows: u16,
}

impl From<PtySize> for Size {
    fn from(PtySize { cols, rows }: PtySize) -> Self {
        Self { cols, rows }
    }
}

#[derive(Debug, Deserialize, Default)]
struct Selector {
    #[serde(default)]
    pid: Option<u32>,
    #[serde(default)]
    tag: Option<String>,
}

/// A message about one process.
#[derive(Debug, Deserialize)]
struct About {
    #[serde(default)]
    process: Selector,
    #[serde(default)]
    input: Option<Input>,
    #[serde(default)]
    signal: Option<Value>,
    #[serde(default)]
    pty: Option<Pty>,
}

#[derive(Debug, Deserialize)]
struct Input {
    #[serde(default)]
    stdin: Option<String>,
    #[serde(default)]
    pty: Option<String>,
}

/// A message of a stream of input.
#[derive(Debug, Deserialize)]
struct InputPart {
    #[serde(default)]
    start: Option<InputStart>,
    #[serde(default)]
    data: Option<InputData>,
}

#[derive(Debug, Deserialize)]
struct InputStart {
    #[serde(default)]
    process: Selector,
}

#[derive(Debug, Deserialize)]
struct InputData {
    input: Input,
}

pub(super) async fn serve(
    State(e2b): State<Arc<E2b>>,
    Extension(sandbox): Extension<Arc<Sandbox>>,
    Path(method): Path<String>,
    request: Request,
) -> Response {
    if method == "StreamInput" {
        // Answered when all has come: before, some clients would not send it.
        let told = stream_input(&e2b, &sandbox, request.into_body()).await;
        return connect::stream(stream::iter([told.map(|()| json!({}))]));
    }
    let headers = request.headers();
    let limit = connect::number(headers, TIMEOUT_HEADER).map(Duration::from_millis);
    let ping = connect::number(headers, watch::PING_HEADER).unwrap_or(PING_SECONDS).max(1);
    let bytes = match body::bytes(&e2b.hub, request.into_body()).await {
        Ok(bytes) => bytes,
        Err(failure) => return failure.into_response(),
    };
    let listening = match method.as_str() {
        "Start" => start(&e2b, &sandbox, &bytes, limit).await,
        "Connect" => listen(&e2b, &sandbox, &bytes).await,
        _ => {
            return match call(&e2b, &sandbox, &method, &bytes).await {
                Ok(value) => answer(StatusCode::OK, &value),
                Err(refusal) => refusal.into_response(),
            };
        }
    };
    match listening {
        Ok(listening) => listening.told(Duration::from_secs(ping)),
        Err(refusal) => connect::refused_stream(refusal),
    }
}

/// Somebody hears what a process does.
struct Listening {
    process: Arc<Process>,
    receiver: mpsc::Receiver<Told>,
    deadline: Option<Instant>,
}

async fn start(
    e2b: &Arc<E2b>,
    sandbox: &Arc<Sandbox>,
    bytes: &[u8],
    limit: Option<Duration>,
) -> Result<Listening, Refusal> {
    let wanted: Start = connect::framed_message(bytes)?;
    let config = &wanted.process;
    let mut env = BTreeMap::from(
        [("PATH", SEARCH_PATH), ("HOME", HOME), ("USER", "user"), ("LOGNAME", "user")]
            .map(|(name, value)| (name.to_owned(), value.to_owned())),
    );
    env.extend(sandbox.record().env);
    env.extend(config.envs.clone());
    super::control::check_env(&env).map_err(|failure| Refusal::invalid(failure.message))?;
    let texts = config.args.iter().chain([&config.cmd]);
    if config.cmd.is_empty() || texts.into_iter().any(|text| text.contains('\0')) {
        return Err(Refusal::invalid("this is no command"));
    }
    let directory = inside(config.cwd.as_deref().unwrap_or_default())?.as_str().to_owned();
    let told = json!({
        "cmd": config.cmd, "args": config.args, "envs": config.envs, "cwd": config.cwd,
    });
    let tag_bytes = wanted.tag.as_ref().map_or(0, String::len);
    if tag_bytes > MAX_TAG_BYTES || told.to_string().len() > MAX_COMMAND_BYTES {
        return Err(Refusal::invalid("the command, its environment or its tag is too long"));
    }
    let command = Command {
        program: wanted.process.cmd,
        args: wanted.process.args,
        env,
        directory,
        input: wanted.stdin.unwrap_or(true),
        terminal: wanted.pty.map(|pty| pty.size.into()),
    };
    // Brought to its end also when the client has gone: then it is known what runs.
    let (e2b, sandbox) = (Arc::clone(e2b), Arc::clone(sandbox));
    let started = tokio::spawn(async move {
        let started = e2b.start_process(&sandbox, command, told, wanted.tag).await?;
        if let Some(limit) = limit {
            tokio::spawn(end_after(Arc::clone(&started.0), started.1.pid, limit));
        }
        Ok::<_, Refusal>(started)
    });
    let (_, process, receiver) = started
        .await
        .map_err(|_| Refusal::new(Code::Internal, "the process was not started in order"))??;
    let deadline = limit.map(|limit| Instant::now() + limit);
    Ok(Listening { process, receiver, deadline })
}

/// A process has so much time.
async fn end_after(commands: Arc<Commands>, pid: u32, limit: Duration) {
    tokio::select! {
        () = sleep(limit) => {}
        () = commands.over.cancelled() => return,
    }
    if commands.is_running(pid) {
        // Fails when everything has ended.
        let _ = commands.order(&Order::Signal { pid, signal: SIGKILL }).await;
    }
}

async fn listen(e2b: &E2b, sandbox: &Sandbox, bytes: &[u8]) -> Result<Listening, Refusal> {
    let wanted: About = connect::framed_message(bytes)?;
    let (_, process) = find(e2b, sandbox, &wanted.process).await?;
    let receiver = process.listen();
    Ok(Listening { process, receiver, deadline: None })
}

async fn find(
    e2b: &E2b,
    sandbox: &Sandbox,
    selector: &Selector,
) -> Result<(Arc<Commands>, Arc<Process>), Refusal> {
    let unknown = || Refusal::new(Code::NotFound, "there is no such process");
    let commands = e2b.existing_commands(sandbox).await.ok_or_else(unknown)?;
    let process = commands.find(|process| match (selector.pid, &selector.tag) {
        (Some(pid), _) => process.pid == pid,
        (None, Some(tag)) => process.tag.as_ref() == Some(tag),
        (None, None) => false,
    });
    Ok((commands, process.ok_or_else(unknown)?))
}

impl Listening {
    fn told(self, ping: Duration) -> Response {
        let first = json!({ "event": { "start": { "pid": self.process.pid } } });
        let rest = stream::unfold(Some(self), move |listening| async move {
            let mut listening = listening?;
            let next = tokio::select! {
                biased;
                next = listening.receiver.recv() => next,
                () = until(listening.deadline) => {
                    let problem = "the time of the process is over";
                    return Some((Err(Refusal::new(Code::DeadlineExceeded, problem)), None));
                }
                () = sleep(ping) => {
                    return Some((Ok(json!({ "event": { "keepalive": {} } })), Some(listening)));
                }
            };
            match next {
                Some(Told::Data(stream, data)) => {
                    let name = match stream {
                        Stream::Stdout => "stdout",
                        Stream::Stderr => "stderr",
                        Stream::Pty => "pty",
                    };
                    let event = json!({ "event": { "data": { name: data } } });
                    Some((Ok(event), Some(listening)))
                }
                Some(Told::Ended(ended)) => Some((Ok(over(ended)), None)),
                None => {
                    let problem = "the sandbox's commands have ended";
                    Some((Err(Refusal::new(Code::Unavailable, problem)), None))
                }
            }
        });
        connect::stream(stream::iter([Ok(first)]).chain(rest))
    }
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

fn over(ended: Ended) -> Value {
    let mut end = match (ended.code, ended.signal) {
        (Some(code), _) => {
            json!({ "exitCode": code, "exited": true, "status": format!("exit status {code}") })
        }
        (None, signal) => {
            let name = match signal {
                Some(SIGKILL) => "killed".to_owned(),
                Some(SIGTERM) => "terminated".to_owned(),
                Some(2) => "interrupt".to_owned(),
                Some(number) => format!("signal {number}"),
                None => "unknown".to_owned(),
            };
            json!({ "exitCode": -1, "exited": false, "status": format!("signal: {name}") })
        }
    };
    if ended.code != Some(0) {
        end["error"] = end["status"].clone();
    }
    json!({ "event": { "end": end } })
}

async fn call(e2b: &E2b, sandbox: &Sandbox, method: &str, bytes: &[u8]) -> Result<Value, Refusal> {
    if method == "List" {
        let running = match e2b.existing_commands(sandbox).await {
            Some(commands) => commands.running(),
            None => Vec::new(),
        };
        let processes: Vec<Value> = running
            .iter()
            .map(|it| json!({ "config": it.config, "pid": it.pid, "tag": it.tag }))
            .collect();
        return Ok(json!({ "processes": processes }));
    }
    let about: About = connect::message(bytes)?;
    let order = |pid: u32| match method {
        "SendInput" => {
            let input =
                about.input.as_ref().ok_or_else(|| Refusal::invalid("input: is missing"))?;
            Ok(Order::Input { pid, data: given(input)? })
        }
        "CloseStdin" => Ok(Order::CloseInput { pid }),
        "SendSignal" => Ok(Order::Signal { pid, signal: signal(about.signal.as_ref())? }),
        "Update" => match &about.pty {
            Some(Pty { size: PtySize { cols, rows } }) => {
                Ok(Order::Resize { pid, size: Size { cols: *cols, rows: *rows } })
            }
            None => Err(Refusal::invalid("pty: is missing")),
        },
        _ => Err(Refusal::new(Code::Unimplemented, "there is no such method")),
    };
    // What is wrong with the message is said first.
    order(0)?;
    let (commands, process) = find(e2b, sandbox, &about.process).await?;
    if !commands.is_running(process.pid) {
        return Err(Refusal::new(Code::NotFound, "the process has ended"));
    }
    commands.order(&order(process.pid)?).await?;
    Ok(json!({}))
}

fn given(input: &Input) -> Result<String, Refusal> {
    let data = input.stdin.as_ref().or(input.pty.as_ref());
    data.cloned().ok_or_else(|| Refusal::invalid("input: neither stdin nor pty is there"))
}

fn signal(wanted: Option<&Value>) -> Result<i32, Refusal> {
    match wanted {
        Some(Value::String(name)) if name == "SIGNAL_SIGTERM" => Ok(SIGTERM),
        Some(Value::String(name)) if name == "SIGNAL_SIGKILL" => Ok(SIGKILL),
        Some(Value::Number(number)) if number.as_i64() == Some(15) => Ok(SIGTERM),
        Some(Value::Number(number)) if number.as_i64() == Some(9) => Ok(SIGKILL),
        _ => Err(Refusal::invalid("signal: SIGNAL_SIGTERM and SIGNAL_SIGKILL there are")),
    }
}

async fn stream_input(e2b: &E2b, sandbox: &Sandbox, body: Body) -> Result<(), Refusal> {
    let patience = seconds(e2b.hub.limits.http_body_seconds);
    let (mut frames, mut parts) = (Frames::default(), body.into_data_stream());
    let mut target: Option<(Arc<Commands>, Arc<Process>)> = None;
    loop {
        let part = timeout(patience, parts.next()).await;
        let part = part.map_err(|_| Refusal::invalid("the stream did not go on in time"))?;
        let Some(part) = part else { break };
        frames.add(&part.map_err(|error| Refusal::invalid(format!("the stream broke: {error}")))?);
        while let Some(message) = frames.next()? {
            let message: InputPart = connect::message(&message)?;
            if let Some(start) = message.start {
                target = Some(find(e2b, sandbox, &start.process).await?);
            }
            if let Some(data) = message.data {
                let (commands, process) =
                    target.as_ref().ok_or_else(|| Refusal::invalid("start: has to come first"))?;
                let data = given(&data.input)?;
                commands.order(&Order::Input { pid: process.pid, data }).await?;
            }
        }
    }
    if frames.is_empty() { Ok(()) } else { Err(Refusal::invalid("the last message is not whole")) }
}
