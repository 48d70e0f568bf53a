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
use super::place::{self, HOME};
use super::record::Context;
use super::registry::Sandbox;
use crate::desk::{Listener, Printed, Problem, problem};

/// Interpreters of all sandboxes.
const MAX_INTERPRETERS: usize = 64;
/// What waits for one of them.
const WAITING: usize = 16;

/// What is run after each cell: every open figure as a picture and as data.
const FIGURES: &str = include_str!("figures.py");

/// Interpreters by their sessions.
#[derive(Default)]
pub(super) struct Interpreters(Mutex<HashMap<String, Kernel>>);

#[derive(Clone)]
struct Kernel {
    asks: SyncSender<Ask>,
    cancel: CancelHandle,
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
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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
        if known.len() >= MAX_INTERPRETERS {
            return Err(Problem::busy("there are as many interpreters as may be"));
        }
        if !self.hub.confined {
            return Err(Problem::invalid("templates with a Python of the machine need jails"));
        }
        // No link leads to what will be mounted.
        self.root(sandbox).map_err(|error| Problem::failed(error.to_string()))?;
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
            .spawn(move || serve(interpreter.as_mut(), &inbox, &ear))
            .map_err(|error| Problem::busy(&format!("no thread can be had: {error}")))?;
        let kernel = Kernel { asks, cancel };
        known.insert(context.session.clone(), kernel.clone());
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
fn serve(interpreter: &mut dyn Interpreter, inbox: &Receiver<Ask>, ear: &Ear) {
    let begun = interpreter.initialize(Value::Null);
    while let Ok(Ask { code, listener, answer }) = inbox.recv() {
        *ear.lock().unwrap_or_else(PoisonError::into_inner) = listener;
        let ran = begun.clone().and_then(|()| interpreter.execute(&code));
        *ear.lock().unwrap_or_else(PoisonError::into_inner) = None;
        // Whoever asked may have gone.
        let _ = answer.send(ran);
    }
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
