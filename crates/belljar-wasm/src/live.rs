//! A live interpreter: runs cells, keeps their state, can be put back to where it was.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use belljar_core::limits::MAX_LOOK_BYTES;
use belljar_core::{GuestImage, ToolAnswer, ToolCall, ToolDoc, ToolUsage};
use serde::Serialize;
use serde_json::Value;

use crate::error::EngineError;
use crate::frozen::Frozen;
use crate::instance::{CallEnd, Called, Holdings, Instance};
use crate::interpreter::Interpreter;
use crate::memory::MemoryState;
use crate::state::Turn;
use crate::wasi::{Traces, Undo};
use belljar_host::{Answer, Completions, Told, Variable};
use belljar_host::{Answers, GuestAnswer, SavedCalls};
use belljar_host::{CancelHandle, Control, Watch};

/// A live interpreter.
pub struct Live {
    interpreter: Arc<Interpreter>,
    /// `None` once putting it back has failed: then nothing is left to run.
    instance: Option<Instance>,
    memory_bytes: u64,
    control: Arc<Control>,
    waiting: Option<Waiting>,
}

/// A cell that waits for answers from elsewhere.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    pub fuel_used: u64,
}

/// The limits of one execution.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Fuel for the user's code.
    pub fuel: u64,
    /// Wall-clock time for all of it.
    pub timeout: Duration,
}

/// One piece of code to run.
#[derive(Clone, Copy, Debug)]
pub struct Cell<'a> {
    /// The source.
    pub code: &'a str,
    /// The name it has in tracebacks.
    pub filename: &'a str,
    /// Whether the value of a last expression is wanted.
    pub value: bool,
    /// Whether to go on until nothing is left to be done, as a program does.
    pub drain: bool,
    /// Needed with the first cell of an interpreter, and again after it was saved.
    pub surroundings: Option<&'a Surroundings>,
}

/// What a frozen interpreter cannot know.
#[derive(Clone, Debug, Serialize)]
pub struct Surroundings {
    /// Environment variables.
    pub env: BTreeMap<String, String>,
    /// The directory it starts in.
    pub workspace: String,
    /// Where modules are looked for.
    pub path: Vec<String>,
    /// The program's arguments.
    pub argv: Vec<String>,
    /// The tools it may call.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<String>,
    /// What is said about them.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub tool_docs: BTreeMap<String, ToolDoc>,
    /// Whether it has lived elsewhere before.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub renewed: bool,
}

/// How an execution went.
pub struct Ran {
    /// How it ended and what it used.
    pub called: Called,
    /// What the driver says; `None` unless the guest came to a regular end.
    pub answer: Option<Answer>,
    /// The calls it waits for, when it is not over yet.
    pub pending: Vec<ToolCall>,
    /// What it used of its tools.
    pub tools: ToolUsage,
}

/// Where an interpreter can be put back to.
pub struct Point {
    memory: MemoryState,
    wasi: Undo,
    calls: SavedCalls,
    waiting: Option<Waiting>,
}

#[derive(Serialize)]
#[serde(tag = "op", rename_all = "snake_case")]
enum Request<'a> {
    Execute {
        code: &'a str,
        filename: &'a str,
        value: bool,
        drain: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        surroundings: Option<&'a Surroundings>,
    },
    Resume {
        answers: Vec<GuestAnswer<'a>>,
        interrupt: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        surroundings: Option<&'a Surroundings>,
    },
    Validate {
        code: &'a str,
        filename: &'a str,
    },
    Define {
        variables: BTreeMap<&'a str, &'a Value>,
    },
    Inspect {
        name: &'a str,
    },
    Complete {
        code: &'a str,
        cursor: usize,
    },
}

impl Request<'_> {
    fn to_json(&self) -> Result<Vec<u8>, EngineError> {
        serde_json::to_vec(self).map_err(|error| EngineError::Engine(error.to_string()))
    }
}

/// Why a cell that waits goes on.
enum Wake {
    Go(Answers),
    Interrupt,
    /// Only answers from elsewhere are missing.
    Suspended,
    /// Nothing it waits for can happen.
    Never,
}

impl Live {
    pub(crate) fn new(
        interpreter: &Arc<Interpreter>,
        holdings: Holdings,
        memory_bytes: u64,
        cancel: &CancelHandle,
    ) -> Result<Live, EngineError> {
        interpreter.check_memory(memory_bytes)?;
        let control = cancel.control();
        let instance =
            Instance::new(interpreter.ready(), holdings, memory_bytes, Arc::clone(&control))?;
        Ok(Live {
            interpreter: Arc::clone(interpreter),
            instance: Some(instance),
            memory_bytes,
            control,
            waiting: None,
        })
    }

    /// Makes a new interpreter one that was saved.
    pub(crate) fn become_saved(
        &mut self,
        memory: &MemoryState,
        calls: &SavedCalls,
        waiting: Option<Waiting>,
    ) -> Result<(), EngineError> {
        let instance = self.instance()?;
        instance.load(memory)?;
        instance.desk_mut().restore(calls);
        self.waiting = waiting;
        Ok(())
    }

    /// Gives it random numbers nobody else has.
    pub(crate) fn renew_random(&mut self) -> Result<(), EngineError> {
        self.instance()?.renew_random()
    }

    fn instance(&mut self) -> Result<&mut Instance, EngineError> {
        self.instance.as_mut().ok_or(EngineError::Lost)
    }

    /// Runs a cell.
    pub fn execute(&mut self, cell: Cell<'_>, limits: Limits) -> Result<Ran, EngineError> {
        let Cell { code, filename, value, drain, surroundings } = cell;
        let request = Request::Execute { code, filename, value, drain, surroundings };
        self.instance()?.desk_mut().begin_execution();
        self.run(request.to_json()?, limits, 0)
    }

    /// The calls a cell waits for.
    pub fn pending(&mut self) -> Vec<ToolCall> {
        if self.waiting.is_none() {
            return Vec::new();
        }
        self.instance
            .as_mut()
            .map_or_else(Vec::new, |instance| instance.desk_mut().deferred().cloned().collect())
    }

    /// Goes on with a cell that waits.
    pub fn resume(
        &mut self,
        answers: Vec<ToolAnswer>,
        surroundings: Option<&Surroundings>,
        limits: Limits,
    ) -> Result<Ran, EngineError> {
        let waiting = self.waiting.take().ok_or(EngineError::NotWaiting)?;
        let desk = self.instance()?.desk_mut();
        for answer in answers {
            desk.answer(answer.id, answer.outcome);
        }
        let ended = desk.take_ended();
        let request = Request::Resume { answers: told(&ended), interrupt: false, surroundings };
        self.run(request.to_json()?, limits, waiting.fuel_used)
    }

    fn run(
        &mut self,
        mut request: Vec<u8>,
        limits: Limits,
        mut fuel_used: u64,
    ) -> Result<Ran, EngineError> {
        let control = Arc::clone(&self.control);
        let mut watch = Watch::new(&control, limits.timeout);
        let (mut memory_refused, mut told_to_stop, mut turn) = (false, false, Turn::First);
        loop {
            let instance = self.instance()?;
            let fuel = limits.fuel.saturating_sub(fuel_used);
            let mut called = instance.call(&request, turn, fuel, &mut watch)?;
            turn = Turn::Later;
            fuel_used += called.fuel_used;
            memory_refused |= called.memory_refused;
            (called.fuel_used, called.memory_refused) = (fuel_used, memory_refused);
            let told = match called.end {
                CallEnd::Answered(place) => instance.answer(place).and_then(Told::parse),
                _ => return Ok(self.ended(called, None)),
            };
            let timer = match told {
                Some(Told::Ended(answer)) => return Ok(self.ended(called, Some(answer))),
                Some(Told::Waiting { timer }) => timer,
                None => {
                    called.end = CallEnd::Nonsense;
                    return Ok(self.ended(called, None));
                }
            };
            request = match wake(instance, &control, &mut watch, timer) {
                Wake::Go(answers) => {
                    let answers = self::told(&answers);
                    Request::Resume { answers, interrupt: false, surroundings: None }.to_json()?
                }
                Wake::Interrupt if !told_to_stop => {
                    told_to_stop = true;
                    Request::Resume { answers: Vec::new(), interrupt: true, surroundings: None }
                        .to_json()?
                }
                // It waits for something else: it has had its chance.
                Wake::Interrupt => {
                    (called.end, called.stop) = (CallEnd::Stopped, watch.stop());
                    return Ok(self.ended(called, None));
                }
                Wake::Suspended => {
                    self.waiting = Some(Waiting { fuel_used });
                    return self.suspended(called);
                }
                Wake::Never => {
                    called.end = CallEnd::Nonsense;
                    return Ok(self.ended(called, None));
                }
            };
        }
    }

    fn ended(&mut self, called: Called, answer: Option<Answer>) -> Ran {
        let tools = self.instance.as_mut().map_or_else(ToolUsage::default, |instance| {
            instance.desk_mut().end_execution();
            instance.desk_mut().usage()
        });
        Ran { called, answer, pending: Vec::new(), tools }
    }

    fn suspended(&mut self, called: Called) -> Result<Ran, EngineError> {
        let desk = self.instance()?.desk_mut();
        let (pending, tools) = (desk.deferred().cloned().collect(), desk.usage());
        Ok(Ran { called, answer: None, pending, tools })
    }

    /// Compiles without running. The answer's error says what is wrong.
    pub fn validate(
        &mut self,
        code: &str,
        filename: &str,
        limits: Limits,
    ) -> Result<Ran, EngineError> {
        self.run(Request::Validate { code, filename }.to_json()?, limits, 0)
    }

    /// Sets variables.
    pub fn define(
        &mut self,
        variables: BTreeMap<&str, &Value>,
        limits: Limits,
    ) -> Result<Ran, EngineError> {
        self.run(Request::Define { variables }.to_json()?, limits, 0)
    }

    /// Looks at a variable: `Some(None)` when there is none of that name, `None` when the guest
    /// could not tell.
    pub fn inspect(
        &mut self,
        name: &str,
        limits: Limits,
    ) -> Result<Option<Option<Variable>>, EngineError> {
        self.look(&Request::Inspect { name }, limits, Variable::parse)
    }

    /// What could stand at a place in the code.
    pub fn complete(
        &mut self,
        code: &str,
        cursor: usize,
        limits: Limits,
    ) -> Result<Option<Completions>, EngineError> {
        self.look(&Request::Complete { code, cursor }, limits, Completions::parse)
    }

    fn look<T>(
        &mut self,
        request: &Request<'_>,
        limits: Limits,
        parse: fn(&[u8]) -> Option<T>,
    ) -> Result<Option<T>, EngineError> {
        let control = Arc::clone(&self.control);
        let mut watch = Watch::new(&control, limits.timeout);
        let instance = self.instance()?;
        instance.desk_mut().set_closed(true);
        let called = instance.call(&request.to_json()?, Turn::First, limits.fuel, &mut watch);
        instance.desk_mut().set_closed(false);
        let CallEnd::Answered(place) = called?.end else { return Ok(None) };
        let answer = instance.answer(place).filter(|answer| answer.len() <= MAX_LOOK_BYTES);
        Ok(answer.and_then(parse))
    }

    /// Where the interpreter is now.
    pub fn point(&mut self) -> Result<Point, EngineError> {
        let waiting = self.waiting;
        let instance = self.instance()?;
        Ok(Point {
            memory: instance.capture(false)?,
            wasi: instance.wasi_mut().checkpoint(),
            calls: instance.desk_mut().save(),
            waiting,
        })
    }

    /// Puts it back to where it was. Files are not touched, and what is known about them remains.
    pub fn put_back(&mut self, point: Point) -> Result<(), EngineError> {
        let mut holdings = self.instance.take().ok_or(EngineError::Lost)?.into_holdings();
        holdings.wasi.undo(point.wasi);
        holdings.desk.restore(&point.calls);
        let control = Arc::clone(&self.control);
        let ready = self.interpreter.ready();
        let mut instance = Instance::new(ready, holdings, self.memory_bytes, control)?;
        instance.load(&point.memory)?;
        self.instance = Some(instance);
        self.waiting = point.waiting;
        Ok(())
    }

    /// The image it is of.
    #[must_use]
    pub fn image(&self) -> GuestImage {
        self.interpreter.image()
    }

    /// It will not run for a while.
    pub fn rest(&mut self) -> Result<(), EngineError> {
        self.instance()?.rest()
    }

    /// All of it as a value. It lives on, untouched.
    pub fn freeze(&mut self) -> Result<Frozen, EngineError> {
        let (interpreter, waiting) = (Arc::clone(&self.interpreter), self.waiting);
        let instance = self.instance()?;
        let memory = instance.capture(true)?;
        let (wasi, calls) = (instance.wasi_mut().save(), instance.desk_mut().save());
        Ok(Frozen::new(interpreter, memory, wasi, calls, waiting))
    }

    /// Takes output, file changes and denials gathered since the last time.
    pub fn take_traces(&mut self) -> Result<Traces, EngineError> {
        Ok(self.instance()?.wasi_mut().take_traces())
    }
}

fn told(answers: &Answers) -> Vec<GuestAnswer<'_>> {
    answers.iter().map(|(id, outcome)| GuestAnswer { id: *id, outcome: outcome.into() }).collect()
}

/// Waits, with nothing of the guest on the stack, until it can go on.
fn wake(
    instance: &mut Instance,
    control: &Control,
    watch: &mut Watch<'_>,
    timer: Option<f64>,
) -> Wake {
    if watch.stop().is_some() {
        return Wake::Interrupt;
    }
    let ended = instance.desk_mut().take_ended();
    if !ended.is_empty() {
        return Wake::Go(ended);
    }
    if !instance.desk_mut().has_running() {
        let suspended = instance.desk_mut().deferred().next().is_some();
        return if suspended { Wake::Suspended } else { Wake::Never };
    }
    let away = timer.map(|seconds| Duration::try_from_secs_f64(seconds.max(0.0)));
    let until = away.and_then(|away| Instant::now().checked_add(away.ok()?));
    let inbox = instance.desk_mut().inbox();
    let arrived = watch.drive(control.wait(until, |waker| inbox.poll(waker)), || {});
    match arrived.flatten() {
        Some(arrived) => {
            instance.desk_mut().sort(arrived, None);
            Wake::Go(instance.desk_mut().take_ended())
        }
        None if watch.stop().is_some() => Wake::Interrupt,
        None => {
            instance.wasi_mut().pass_time(timer);
            Wake::Go(Vec::new())
        }
    }
}
