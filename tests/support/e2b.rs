//! A daemon that serves E2B's clients, as the backend e2b finds one. Its processes are the program of
//! the tests itself, in other roles.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use belljar::core::protocol::daemon::{DaemonStatus, STATUS, STOP, StopParams};
use belljar::{E2bSettings, Home};
use belljar_daemon::daemon::{
    Control, E2bSettings as Served, HttpSettings, Limits, Settings, WorkerSettings, run, work,
};
use serde_json::Value;

use crate::jar::home;

const KEY: &str = "e2b_0123456789abcdef0123456789abcdef01234567";
/// Nothing here takes longer, even on a busy machine.
const LONG: Duration = Duration::from_secs(120);
const SERVE: &str = "serve-e2b";

/// What this process is to be instead of a run of the tests, if it was started for that. The
/// program's `main` asks before anything else.
#[must_use]
pub fn other_role() -> Option<ExitCode> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let outcome = match *args {
        [SERVE, place] => serve(Path::new(place)),
        // As the daemon starts its workers.
        ["daemon", "worker", "--home", home, "--cache", cache] => {
            work(WorkerSettings { home: home.into(), cache: cache.into(), unconfined: false })
        }
        _ => return None,
    };
    outcome.expect("another role");
    Some(ExitCode::SUCCESS)
}

/// Serves until whoever started it is gone.
fn serve(place: &Path) -> Result<(), belljar_daemon::daemon::DaemonError> {
    let program = std::env::current_exe().expect("this program");
    let e2b = Served {
        keys: vec![KEY.to_owned()],
        program: program.clone(),
        templates: Default::default(),
    };
    let socket = socket(place);
    let stopped = socket.clone();
    std::thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        let params = StopParams { patience_seconds: Some(0.0) };
        let stop = || Control::connect(&stopped, LONG)?.ask::<Value>(STOP, &params);
        stop().expect("it stops");
    });
    let served = run(Settings {
        home: Home::at(place.join("home")).with_cache(home().cache()),
        socket,
        workers: 2,
        unconfined: false,
        limits: Limits::default(),
        http: Some(HttpSettings {
            address: ([127, 0, 0, 1], 0).into(),
            anywhere: false,
            hosts: Vec::new(),
            tokens: Vec::new(),
            e2b: Some(e2b),
        }),
        program,
    });
    let _ = std::fs::remove_dir_all(place);
    served
}

fn socket(place: &Path) -> PathBuf {
    place.join("run/daemon.sock")
}

/// The service that the tests of this process share; or why there is none. It ends with the process.
///
/// # Errors
/// Where daemons cannot be started.
pub fn e2b_settings() -> Result<E2bSettings, String> {
    static SHARED: OnceLock<Result<(E2bSettings, Child), String>> = OnceLock::new();
    let shared = SHARED.get_or_init(start);
    shared.as_ref().map(|(settings, _)| settings.clone()).map_err(Clone::clone)
}

fn start() -> Result<(E2bSettings, Child), String> {
    let place = tempfile::Builder::new().prefix("belljar-e2b-").tempdir().expect("a directory");
    let place = place.keep();
    let program = std::env::current_exe().expect("this program");
    let mut child = Command::new(program)
        .arg(SERVE)
        .arg(&place)
        .stdin(Stdio::piped())
        .spawn()
        .map_err(|error| error.to_string())?;
    let begun = Instant::now();
    loop {
        if let Ok(Some(status)) = child.try_wait() {
            return Err(format!("the daemon has ended: {status}"));
        }
        let ask =
            || Control::connect(&socket(&place), LONG)?.ask::<DaemonStatus>(STATUS, &Value::Null);
        let url = ask().ok().filter(|status| status.workers.iter().all(|it| it.pid.is_some()));
        if let Some(url) = url.and_then(|status| status.http) {
            return Ok((settings(url), child));
        }
        if begun.elapsed() > LONG {
            let _ = child.kill();
            return Err("the daemon does not start".to_owned());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn settings(url: String) -> E2bSettings {
    E2bSettings {
        api_key: KEY.to_owned(),
        api_url: Some(url.clone()),
        sandbox_url: Some(url),
        domain: "nowhere.invalid".to_owned(),
        template: "code-interpreter-v1".to_owned(),
    }
}
