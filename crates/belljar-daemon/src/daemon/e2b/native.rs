//! Contexts of templates that name a Python of this machine: each is that Python in a jail, on a
//! thread that speaks to it. Its state lives in its process, and ends with it.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use belljar::core::limits::MAX_TIMEOUT_SECONDS;
use belljar::{
    Backend, CancelHandle, ExecutionPolicy, LineSink, PolicyLayer, Preset, RuntimeType,
    Sandbox as Interpreter, SandboxConfig, SandboxError, SandboxResult, create_sandbox,
};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::E2b;
use super::errors::Failure;
use super::place::{self, HOME};
use super::record::{self, Context};
use super::registry::Sandbox;
use super::shares::{Share, Shares};
use crate::agent::messages::Identity;
use crate::desk::{Listener, Printed, Problem, problem};

/// Interpreters of all sandboxes.
const MAX_INTERPRETERS: usize = 64;
/// What waits for one of them.
const WAITING: usize = 16;

/// What is run after each cell: every open figure as a picture and as data.
const FIGURES: &str = include_str!("figures.py");

/// Interpreters by their sessions.
pub(super) struct Interpreters {
    known: Mutex<HashMap<String, Kernel>>,
    shares: Arc<Shares>,
}

impl Default for Interpreters {
    fn default() -> Self {
        Self { known: Mutex::default(), shares: Shares::new(MAX_INTERPRETERS) }
    }
}

#[derive(Clone)]
struct Kernel {
    asks: SyncSender<Ask>,
    cancel: CancelHandle,
    _share: Arc<Share>,
}

struct Ask {
    code: String,
    listener: Option<Listener>,
    answer: oneshot::Sender<Result<SandboxResult, SandboxError>>,
}

/// Who is told what is printed now.
type Ear = Arc<Mutex<Option<Listener>>>;

impl Interpreters {
    fn known(&self) -> MutexGuard<'_, HashMap<String, Kernel>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends an interpreter, and what runs in it.
    pub(super) fn end(&self, session: &str) {
        if let Some(kernel) = self.known().remove(session) {
            // Its thread ends when nobody can ask it any more.
            kernel.cancel.cancel();
        }
    }
}

impl E2b {
    /// The Python of a sandbox's template, if it names one.
    pub(super) fn native_python(&self, sandbox: &Sandbox, context: &Context) -> Option<PathBuf> {
        let template = sandbox.record().template;
        let python = self.templates.get(&template)?;
        (context.language == RuntimeType::Python).then(|| python.clone())
    }

    /// Why a sandbox cannot be put aside or copied, if it cannot: the state of a machine's own Python
    /// is its process.
    pub(super) fn immovable(&self, sandbox: &Sandbox) -> Option<Failure> {
        let record = sandbox.record();
        record.contexts.iter().any(|context| context.started).then(|| {
            let problem = "code has run in a Python of the machine, whose state cannot be kept; \
                           remove or restart its contexts first";
            Failure::bad(problem)
        })
    }

    /// Runs code in the interpreter of a context, which is started if there is none.
    pub(super) async fn run_natively(
        &self,
        sandbox: &Sandbox,
        context: &Context,
        python: &Path,
        wanted: (String, Option<Listener>, &CancellationToken),
    ) -> Result<SandboxResult, Problem> {
        let (code, listener, stop) = wanted;
        let kernel = self.kernel(sandbox, context, python)?;
        let (answer, mut answered) = oneshot::channel();
        let gone = || Problem::new(problem::LOST, "the interpreter has ended; its state is gone");
        let ask = Ask { code, listener, answer };
        kernel.asks.try_send(ask).map_err(|_| Problem::busy("too much waits for this context"))?;
        loop {
            tokio::select! {
                answered = &mut answered => return Ok(answered.map_err(|_| gone())??),
                () = stop.cancelled() => {}
            }
            // Again and again: what was about to begin did not hear it.
            kernel.cancel.cancel();
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    }

    fn kernel(
        &self,
        sandbox: &Sandbox,
        context: &Context,
        python: &Path,
    ) -> Result<Kernel, Problem> {
        let mut known = self.interpreters.known();
        if let Some(kernel) = known.get(&context.session) {
            return Ok(kernel.clone());
        }
        let is_it = |it: &Context| it.session == context.session;
        if sandbox.record().contexts.iter().any(|it| is_it(it) && it.started) {
            let problem = "the interpreter has ended, and its state with it";
            return Err(Problem::new(problem::LOST, problem).hint("restart the context"));
        }
        let share = self.share(&self.interpreters.shares, &sandbox.owner);
        let share = share
            .ok_or_else(|| Problem::busy("there are as many interpreters of this key as may be"))?;
        if !self.hub.confined {
            return Err(Problem::invalid("templates with a Python of the machine need jails"));
        }
        // No link leads to what will be mounted; whether it is what was mounted, is asked first of
        // all that is asked.
        let root = self.root(sandbox).map_err(|error| Problem::failed(error.to_string()))?;
        let mine = root.identity(HOME).map_err(|error| Problem::failed(error.to_string()))?;
        let directory = self.directory_of(sandbox.slot());
        let home = place::root_path(&directory, &sandbox.id).join(&HOME[1..]);
        let ear = Ear::default();
        let config = SandboxConfig {
            runtime: RuntimeType::Python,
            backend: Backend::Native,
            policy: self.native_policy(sandbox)?,
            workspace: Some(home),
            python: Some(python.to_owned()),
            home: Some(self.home.clone()),
            on_stdout: Some(sink(&ear, Printed::Stdout)),
            on_stderr: Some(sink(&ear, Printed::Stderr)),
            ..SandboxConfig::default()
        };
        let mut interpreter = create_sandbox(&config)?;
        let cancel = interpreter.cancel_handle();
        let (asks, inbox) = sync_channel(WAITING);
        std::thread::Builder::new()
            .name("e2b-context".to_owned())
            .spawn(move || serve(interpreter.as_mut(), mine, &inbox, &ear))
            .map_err(|error| Problem::busy(&format!("no thread can be had: {error}")))?;
        let kernel = Kernel { asks, cancel, _share: Arc::new(share) };
        known.insert(context.session.clone(), kernel.clone());
        sandbox.change(|record| {
            record.contexts.iter_mut().filter(|it| is_it(it)).for_each(|it| it.started = true);
        });
        record::keep(&self.folder, &sandbox.record());
        Ok(kernel)
    }

    fn native_policy(&self, sandbox: &Sandbox) -> Result<ExecutionPolicy, Problem> {
        let limits = &self.hub.limits;
        let mut env = sandbox.record().env;
        for (name, value) in [("USER", "user"), ("MPLBACKEND", "Agg"), ("MPLCONFIGDIR", "/tmp")] {
            env.insert(name.to_owned(), value.to_owned());
        }
        let fields = json!({
            "guest_mount_path": HOME,
            "env": env,
            "timeout_seconds": MAX_TIMEOUT_SECONDS,
            "memory_bytes": limits.e2b_command_memory_bytes,
            "workspace_max_bytes": limits.e2b_disk_bytes,
        });
        let layer = PolicyLayer::from_json(&fields).map_err(SandboxError::from)?;
        Ok(ExecutionPolicy::build(Preset::Agent, [layer]).map_err(SandboxError::from)?)
    }
}

fn sink(ear: &Ear, printed: Printed) -> LineSink {
    let ear = Arc::clone(ear);
    Arc::new(move |line| {
        let listener = ear.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(listener) = listener {
            listener(printed, line.to_owned());
        }
    })
}

/// Does what is asked, one thing after the other, until nobody asks any more.
fn serve(interpreter: &mut dyn Interpreter, mine: Identity, inbox: &Receiver<Ask>, ear: &Ear) {
    let begun = interpreter.initialize(Value::Null).and_then(|()| check(interpreter, mine));
    while let Ok(Ask { code, listener, answer }) = inbox.recv() {
        *ear.lock().unwrap_or_else(PoisonError::into_inner) = listener;
        let ran = begun.clone().and_then(|()| interpreter.execute(&code));
        *ear.lock().unwrap_or_else(PoisonError::into_inner) = None;
        // Whoever asked may have gone.
        let _ = answer.send(ran);
    }
}

/// Whether an interpreter in which nothing else has run works in that directory: somebody who has
/// broken out of a worker could have put another one in its place.
fn check(interpreter: &mut dyn Interpreter, mine: Identity) -> Result<(), SandboxError> {
    let seen = interpreter.execute("__import__('os').stat('.')[1:3]")?;
    let seen = seen.result.and_then(|value| value.json);
    if seen == Some(json!([mine.1, mine.0])) {
        return Ok(());
    }
    Err(SandboxError::Workspace {
        path: HOME.into(),
        problem: "the sandbox's directory is not what it was".to_owned(),
        hint: None,
    })
}

/// The pictures that a cell has left, as results.
pub(super) fn figures(result: &SandboxResult) -> Vec<Value> {
    let shown = result.result.as_ref().and_then(|value| value.json.as_ref());
    let shown = shown.and_then(Value::as_array).into_iter().flatten();
    shown
        .filter(|it| it["png"].is_string())
        .map(|it| {
            json!({
                "type": "result",
                "text": it["text"],
                "png": it["png"],
                "chart": it["chart"],
                "is_main_result": false,
            })
        })
        .collect()
}

/// Code that gives what `figures` reads.
pub(super) fn figures_code() -> String {
    FIGURES.to_owned()
}
