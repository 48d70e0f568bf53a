//! `belljar daemon`: warm workers behind a socket.

use std::fs::{File, Metadata};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use belljar::Home;
use belljar::core::protocol::daemon::{DaemonStatus, METRICS, STATUS, STOP, StopParams};
use belljar::core::protocol::methods::{HELLO, Hello};
use belljar::remote::socket_path;
use belljar_daemon::daemon::{
    Control, DaemonError, E2bSettings, HttpSettings, Limits, Settings, WorkerSettings, has_ended,
    list_keys, log_path, new_key, older, openapi, prepare, revoke_key, run as serve, token_path,
    work,
};
use belljar_daemon::mcp::Token;
use serde_json::Value;

use crate::args::{DaemonArgs, DaemonCommand, KeyCommand, StartArgs};
use crate::{exit, render};

/// How long an answer of a daemon may take.
const ANSWER: Duration = Duration::from_secs(10);

/// How long a daemon may take until it answers for the first time.
const START: Duration = Duration::from_secs(60);

/// How long it may take to end beyond what it was given.
const END: Duration = Duration::from_secs(30);

/// The tokens that clients over HTTP have to know.
const TOKEN: &str = "BELLJAR_HTTP_TOKEN";

/// Keys that E2B's clients may have, beside those that were made with `daemon key`.
const E2B_KEY: &str = "E2B_API_KEY";

/// How often something is looked at.
const LOOK: Duration = Duration::from_millis(20);

/// What a daemon that could not start has to say, where nobody else hears it.
const START_ERRORS: &str = "start-errors";

pub(crate) fn run(args: DaemonArgs) -> anyhow::Result<ExitCode> {
    let outcome = match args.command {
        DaemonCommand::Start(args) => start(&args),
        DaemonCommand::Stop { patience } => stop(patience),
        DaemonCommand::Status { json, metrics } => status(json, metrics),
        DaemonCommand::Logs { follow } => logs(follow),
        DaemonCommand::Openapi => render::json(&openapi()).map(|()| ExitCode::SUCCESS),
        DaemonCommand::Key { command } => keys(&command),
        DaemonCommand::Agent => {
            belljar_daemon::agent::serve().context("the agent has ended")?;
            Ok(ExitCode::SUCCESS)
        }
        DaemonCommand::Terminal { command } => {
            let (program, args) = command.split_first().context("there is no program")?;
            match belljar_daemon::agent::become_in_terminal(program, args) {
                Ok(never) => match never {},
                Err(error) => Err(error).with_context(|| format!("cannot start {program}")),
            }
        }
        DaemonCommand::Worker(args) => {
            let settings =
                WorkerSettings { home: args.home, cache: args.cache, unconfined: args.unconfined };
            work(settings).map(|()| ExitCode::SUCCESS).map_err(Into::into)
        }
    };
    outcome.or_else(|error| match error.downcast::<DaemonError>() {
        Ok(error) => {
            render::problem(&error.to_string(), error.hint().as_deref());
            Ok(ExitCode::from(exit::COULD_NOT_RUN))
        }
        Err(other) => Err(other),
    })
}

fn start(args: &StartArgs) -> anyhow::Result<ExitCode> {
    let home = Home::locate()?;
    let home = match &args.cache {
        Some(cache) => home.with_cache(cache),
        None => home,
    };
    let socket = socket_path()?;
    let limits = Limits::with(&args.limits).map_err(anyhow::Error::msg)?;
    let http = http_settings(args)?;
    let own_token = http.as_ref().is_some_and(|http| http.tokens.is_empty());
    if args.foreground {
        if args.detach {
            rustix::process::setsid().context("cannot leave the terminal")?;
        }
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        serve(Settings {
            home,
            socket,
            workers: args.workers.unwrap_or(cores),
            unconfined: args.unconfined,
            limits,
            http,
            program: std::env::current_exe().context("cannot find this program")?,
        })?;
        return Ok(ExitCode::SUCCESS);
    }
    // Here somebody sees how long it takes.
    prepare(&home)?;
    let errors = home.daemon().join(START_ERRORS);
    std::fs::create_dir_all(home.daemon()).context("cannot make the daemon's directory")?;
    let mut daemon = spawn(&errors)?;
    let hello = wait_until_ready(&mut daemon, &socket, &errors)?;
    if args.unconfined {
        render::note("workers are in no jail: an escape from wasm would be this user");
    }
    let mut out = anstream::stdout().lock();
    writeln!(out, "the daemon runs as process {} at {}", hello.pid, socket.display())?;
    if args.http.is_some() {
        let status: DaemonStatus = Control::connect(&socket, ANSWER)?.ask(STATUS, &Value::Null)?;
        writeln!(out, "it is served at {}", status.http.unwrap_or_default())?;
        if own_token {
            writeln!(out, "the token is in {}", token_path(&home).display())?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// How it is to be served over HTTP. Each word of the variable is a client's token.
fn http_settings(args: &StartArgs) -> anyhow::Result<Option<HttpSettings>> {
    let Some(address) = args.http else { return Ok(None) };
    let tokens = match std::env::var_os(TOKEN) {
        Some(chosen) => {
            let chosen = chosen.to_str().with_context(|| format!("{TOKEN} is no text"))?;
            // A variable that is set and empty is a mistake, not a wish for another token.
            let words = if chosen.trim().is_empty() { vec![""] } else { words(chosen) };
            let tokens = words.into_iter().map(Token::chosen).collect::<Result<_, _>>();
            tokens.with_context(|| format!("{TOKEN} cannot be used"))?
        }
        None => Vec::new(),
    };
    let (anywhere, hosts) = (args.http_anywhere, args.http_host.clone());
    Ok(Some(HttpSettings { address, anywhere, hosts, tokens, e2b: e2b_settings(args)? }))
}

/// How E2B's clients are to be served, if they are.
fn e2b_settings(args: &StartArgs) -> anyhow::Result<Option<E2bSettings>> {
    if !args.e2b {
        return Ok(None);
    }
    let keys = match std::env::var_os(E2B_KEY) {
        Some(given) => {
            let given = given.to_str().with_context(|| format!("{E2B_KEY} is no text"))?;
            words(given).into_iter().map(str::to_owned).collect()
        }
        None => Vec::new(),
    };
    let program = std::env::current_exe().context("cannot find this program")?;
    let templates = args.e2b_template.iter().map(|text| template(text));
    let templates = templates.collect::<anyhow::Result<_>>()?;
    Ok(Some(E2bSettings { keys, program, templates }))
}

/// A template's name and the Python it is made from.
fn template(text: &str) -> anyhow::Result<(String, PathBuf)> {
    let (name, python) = text.split_once('=').context("--e2b-template: write NAME=PYTHON")?;
    let python = std::path::absolute(python).with_context(|| format!("--e2b-template {name}"))?;
    if name.is_empty() || !python.is_file() {
        bail!("--e2b-template {text}: there is no such Python");
    }
    Ok((name.to_owned(), python))
}

fn keys(command: &KeyCommand) -> anyhow::Result<ExitCode> {
    let home = Home::locate()?;
    let mut out = anstream::stdout().lock();
    match command {
        KeyCommand::New { name } => {
            let (_, key) = new_key(&home, name)?;
            writeln!(out, "{key}")?;
        }
        KeyCommand::List => {
            for key in list_keys(&home)? {
                writeln!(out, "{}  {}  {}", key.id, key.created, key.name)?;
            }
        }
        KeyCommand::Revoke { id } => {
            if !revoke_key(&home, id)? {
                bail!("there is no key {id}; `belljar daemon key list` shows those there are");
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn words(text: &str) -> Vec<&str> {
    text.split_ascii_whitespace().collect()
}

/// This program once more with the same arguments, without a terminal.
fn spawn(errors: &Path) -> anyhow::Result<Child> {
    let program = std::env::current_exe().context("cannot find this program")?;
    let errors = File::create(errors).context("cannot write to the daemon's directory")?;
    let child = Command::new(program)
        .args(std::env::args_os().skip(1))
        .args(["--foreground", "--detach"])
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::from(errors))
        .spawn();
    child.context("cannot start the daemon")
}

fn wait_until_ready(daemon: &mut Child, socket: &Path, errors: &Path) -> anyhow::Result<Hello> {
    let until = Instant::now() + START;
    loop {
        if let Some(status) = daemon.try_wait()? {
            let said = std::fs::read_to_string(errors).unwrap_or_default();
            let said = said.trim().trim_start_matches("error: ").to_owned();
            bail!(if said.is_empty() {
                format!("the daemon ended at once: {status}")
            } else {
                said
            });
        }
        let hello = Control::connect(socket, ANSWER)
            .and_then(|mut control| control.ask::<Hello>(HELLO, &Value::Null));
        match hello {
            // One that was there before has the socket until the new one gives up.
            Ok(hello) if hello.pid == daemon.id() => return Ok(hello),
            Ok(_) | Err(_) if Instant::now() < until => std::thread::sleep(LOOK),
            Ok(_) | Err(_) => bail!("the daemon did not answer in time"),
        }
    }
}

fn stop(patience: Option<f64>) -> anyhow::Result<ExitCode> {
    let mut control = Control::connect(&socket_path()?, ANSWER)?;
    let () = control.ask(STOP, &StopParams { patience_seconds: patience })?;
    let given = patience.unwrap_or(Limits::default().drain_seconds);
    control.wait_for_end(Duration::from_secs_f64(given).saturating_add(END))?;
    // The connection closes a moment before the process is gone.
    let (home, until) = (Home::locate()?, Instant::now() + END);
    while !has_ended(&home) && Instant::now() < until {
        std::thread::sleep(LOOK);
    }
    writeln!(anstream::stdout(), "the daemon has ended")?;
    Ok(ExitCode::SUCCESS)
}

fn status(json: bool, metrics: bool) -> anyhow::Result<ExitCode> {
    let mut control = Control::connect(&socket_path()?, ANSWER)?;
    let mut out = anstream::stdout().lock();
    if metrics {
        let text: String = control.ask(METRICS, &Value::Null)?;
        write!(out, "{text}")?;
        return Ok(ExitCode::SUCCESS);
    }
    let status: DaemonStatus = control.ask(STATUS, &Value::Null)?;
    if json {
        serde_json::to_writer(&mut out, &status)?;
        writeln!(out)?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(address) = &status.http {
        writeln!(out, "over HTTP at {address}")?;
    }
    let time = |seconds: f64| format!("{seconds:.0} s");
    let state = if status.stopping { "ends" } else { "runs" };
    writeln!(out, "process {} {state}, up {}", status.pid, time(status.uptime_seconds))?;
    if status.confined {
        writeln!(out, "workers in jails: {}", status.layers.join(", "))?;
    } else {
        writeln!(out, "workers UNCONFINED: an escape from wasm would be this user")?;
    }
    writeln!(
        out,
        "{} clients, {} sandboxes, {} executions running, {} waiting, {} done, {} lost",
        status.connections,
        status.sandboxes,
        status.running,
        status.waiting,
        status.counters.executions,
        status.counters.crashed
    )?;
    for worker in &status.workers {
        match worker.pid {
            Some(pid) => writeln!(
                out,
                "worker {}: process {pid}, up {}, {} sandboxes, {} running, replaced {} times",
                worker.number,
                time(worker.uptime_seconds),
                worker.sandboxes,
                worker.running,
                worker.restarts
            )?,
            None => writeln!(out, "worker {}: not ready", worker.number)?,
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn logs(follow: bool) -> anyhow::Result<ExitCode> {
    let path = log_path(&Home::locate()?);
    let mut out = io::stdout().lock();
    if let Ok(mut before) = File::open(older(&path)) {
        io::copy(&mut before, &mut out)?;
    }
    let mut log = File::open(&path).with_context(|| format!("no log at {}", path.display()))?;
    loop {
        io::copy(&mut log, &mut out)?;
        out.flush()?;
        if !follow {
            return Ok(ExitCode::SUCCESS);
        }
        std::thread::sleep(LOOK);
        if is_replaced(&log, &path)? {
            io::copy(&mut log, &mut out)?;
            log = File::open(&path)?;
        }
    }
}

/// Whether the log has begun anew.
fn is_replaced(log: &File, path: &Path) -> io::Result<bool> {
    let identity = |file: Metadata| (file.dev(), file.ino());
    match std::fs::metadata(path) {
        Ok(now) => Ok(identity(now) != identity(log.metadata()?)),
        // In a moment there is a new one.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}
