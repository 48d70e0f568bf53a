//! A session: one interpreter that lives on from cell to cell, and is never left half-changed.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use belljar_core::{
    GuestImage, SandboxError, SandboxExecutionError, SandboxResult, StateAfter, Survives,
    ToolAnswer, ToolCall,
};
use belljar_host::{CellEnd, Completions, Variable};
use belljar_wasm::{CallEnd, Cell, EngineError, Frozen, Limits, Live, Point, Ran};
use serde_json::Value;

use super::failure::failure;
use super::host::{Lifetime, WasmHost};
use super::report::{Execution, InSession, report};
use crate::logging::SandboxLogger;

/// The name under which a session finds what it was started with.
const CONTEXT: &str = "context";

/// How long showing a value or completing a name may take.
const PATIENCE: Duration = Duration::from_secs(2);

pub(super) struct Session {
    live: Live,
    id: Option<String>,
    cells: u64,
    /// What the interpreter has to be told with its next cell.
    arrival: Option<Arrival>,
}

/// How an interpreter came here.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Arrival {
    New,
    Saved,
}

impl Session {
    /// A new one, with `context` as the variable of that name.
    pub(super) fn begin(
        host: &WasmHost,
        id: Option<String>,
        context: &Value,
    ) -> Result<Self, SandboxError> {
        let interpreter = host.interpreter().ok_or_else(stateless)?;
        let mut live = interpreter.live(host.setup(Lifetime::Session)).map_err(failure)?;
        let variables = BTreeMap::from([(CONTEXT, context)]);
        let ran = live.define(variables, host.limits()).map_err(failure)?;
        if !matches!(ran.answer, Some(answer) if answer.end == CellEnd::Finished) {
            return Err(SandboxExecutionError {
                problem: "the context does not fit into the sandbox".to_owned(),
                survives: Survives::NothingWasRun,
                hint: Some("raise memory_bytes, or put it into a file in the workspace".to_owned()),
            }
            .into());
        }
        Ok(Self { live, id, cells: 0, arrival: Some(Arrival::New) })
    }

    /// One that goes on from a saved state.
    pub(super) fn continue_from(
        host: &WasmHost,
        id: Option<String>,
        frozen: &Frozen,
        cells: u64,
    ) -> Result<Self, SandboxError> {
        let live = frozen.thaw(host.setup(Lifetime::Session)).map_err(failure)?;
        Ok(Self { live, id, cells, arrival: Some(Arrival::Saved) })
    }

    /// The image its interpreter has.
    pub(super) fn image(&self) -> GuestImage {
        self.live.image()
    }

    pub(super) fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    pub(super) fn cells(&self) -> u64 {
        self.cells
    }

    pub(super) fn pending(&mut self) -> Vec<ToolCall> {
        self.live.pending()
    }

    /// All of it as a value. It lives on, untouched.
    pub(super) fn freeze(&mut self) -> Result<Frozen, SandboxError> {
        self.live.freeze().map_err(failure)
    }

    /// Runs one cell, under a name of its own unless it is given one.
    pub(super) fn execute(
        &mut self,
        host: &WasmHost,
        code: &str,
        filename: Option<&str>,
        logger: &SandboxLogger,
    ) -> Result<SandboxResult, SandboxError> {
        self.refuse_if_waiting()?;
        let numbered = format!("<cell {}>", self.cells.saturating_add(1));
        let surroundings =
            self.arrival.map(|arrival| host.surroundings(true, arrival == Arrival::Saved));
        let cell = Cell {
            code,
            filename: filename.unwrap_or(&numbered),
            value: true,
            drain: false,
            surroundings: surroundings.as_ref(),
        };
        let result = self.safely(host, logger, |live| live.execute(cell, host.limits()))?;
        self.cells = self.cells.saturating_add(1);
        Ok(result)
    }

    /// Goes on with a cell that waits for answers.
    pub(super) fn resume(
        &mut self,
        host: &WasmHost,
        answers: Vec<ToolAnswer>,
        logger: &SandboxLogger,
    ) -> Result<SandboxResult, SandboxError> {
        let pending: Vec<u64> = self.live.pending().iter().map(|call| call.id).collect();
        if pending.is_empty() {
            return Err(SandboxError::NotSuspended);
        }
        if answers.iter().any(|answer| !pending.contains(&answer.id)) {
            return Err(SandboxError::Suspended { pending });
        }
        let surroundings =
            self.arrival.map(|arrival| host.surroundings(true, arrival == Arrival::Saved));
        let resume = |live: &mut Live| live.resume(answers, surroundings.as_ref(), host.limits());
        self.safely(host, logger, resume)
    }

    /// Runs something that may go wrong in any way; if it does, the session is what it was before.
    fn safely(
        &mut self,
        host: &WasmHost,
        logger: &SandboxLogger,
        run: impl FnOnce(&mut Live) -> Result<Ran, EngineError>,
    ) -> Result<SandboxResult, SandboxError> {
        let started = Instant::now();
        let point = self.live.point().map_err(failure)?;
        let ran = match run(&mut self.live) {
            Ok(ran) => ran,
            Err(error) => return Err(self.back_out(point, error)),
        };
        let traces = self.live.take_traces().map_err(failure)?;
        let elapsed = started.elapsed();
        let state = self.settle(&ran, point)?;
        let session = Some(InSession { id: self.id.as_deref(), state });
        Ok(report(host, Execution { ran, traces, elapsed, session }, logger))
    }

    fn settle(&mut self, ran: &Ran, point: Point) -> Result<StateAfter, SandboxError> {
        if !is_sound(ran) {
            self.live.put_back(point).map_err(failure)?;
            return Ok(StateAfter::RolledBack);
        }
        self.arrival = None;
        self.live.rest().map_err(failure)?;
        Ok(StateAfter::Kept)
    }

    /// The host failed in the middle: nothing of it may remain.
    fn back_out(&mut self, point: Point, error: EngineError) -> SandboxError {
        let refused = matches!(error, EngineError::RequestTooLarge { .. });
        match self.live.put_back(point) {
            Ok(()) if refused => failure(error),
            Ok(()) => SandboxExecutionError {
                problem: error.to_string(),
                survives: Survives::SandboxAsBefore,
                hint: None,
            }
            .into(),
            Err(lost) => failure(lost),
        }
    }

    /// A variable; `None` when there is none of that name.
    pub(super) fn variable(
        &mut self,
        host: &WasmHost,
        name: &str,
    ) -> Result<Option<Variable>, SandboxError> {
        self.look(|live| live.inspect(name, looking(host)))?.ok_or_else(|| {
            SandboxExecutionError {
                problem: format!("the variable {name:?} cannot be shown within the limits"),
                survives: Survives::SandboxAsBefore,
                hint: Some("look at a part of it with a cell of its own".to_owned()),
            }
            .into()
        })
    }

    pub(super) fn complete(
        &mut self,
        host: &WasmHost,
        code: &str,
        cursor: usize,
    ) -> Result<Completions, SandboxError> {
        Ok(self.look(|live| live.complete(code, cursor, looking(host)))?.unwrap_or_default())
    }

    /// Looks at the state. Showing a value may run the user's code, which may break anything.
    fn look<T>(
        &mut self,
        look: impl FnOnce(&mut Live) -> Result<Option<T>, EngineError>,
    ) -> Result<Option<T>, SandboxError> {
        let point = self.live.point().map_err(failure)?;
        match look(&mut self.live) {
            Ok(Some(found)) => Ok(Some(found)),
            Ok(None) => self.live.put_back(point).map(|()| None).map_err(failure),
            Err(error) => Err(self.back_out(point, error)),
        }
    }

    fn refuse_if_waiting(&mut self) -> Result<(), SandboxError> {
        let pending: Vec<u64> = self.live.pending().iter().map(|call| call.id).collect();
        if pending.is_empty() { Ok(()) } else { Err(SandboxError::Suspended { pending }) }
    }
}

/// Whether the interpreter came to an orderly end, so that what it did may be kept. One that ran
/// into its memory limit is no place to go on in.
fn is_sound(ran: &Ran) -> bool {
    let out_of_memory = ran.called.memory_refused
        && ran.answer.as_ref().is_some_and(|answer| answer.end == CellEnd::OutOfMemory);
    matches!(ran.called.end, CallEnd::Answered(_)) && !out_of_memory
}

/// Nobody waits long for a look at a value, and in a shell nobody could interrupt it.
fn looking(host: &WasmHost) -> Limits {
    let limits = host.limits();
    Limits { timeout: limits.timeout.min(PATIENCE), ..limits }
}

fn stateless() -> SandboxError {
    SandboxExecutionError {
        problem: "a custom interpreter keeps no state between executions".to_owned(),
        survives: Survives::NothingWasRun,
        hint: Some("leave wasm_binary_path away for sessions".to_owned()),
    }
    .into()
}
