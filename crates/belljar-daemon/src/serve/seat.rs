//! The thread a sandbox lives on: it does what the client asks for, one thing after the other.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, OnceLock};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use belljar::{
    CancelHandle, Files, SandboxError, SandboxResult, Snapshot, Survives, Variable, WorkspaceFiles,
};
use belljar_core::limits::{MAX_CHUNK_BYTES, MAX_QUEUED_REQUESTS};
use belljar_core::protocol::methods::{
    Chunk, CodeParams, CompleteParams, Completed, CreateParams, Created, ExecuteParams, FileParams,
    FileReadParams, FileWriteParams, InitializeParams, Looked, NameParams, RestoreParams,
    ResumeParams, SandboxId, SandboxParams, SnapshotParams, Snapshotted, Validated, VariableForm,
};
use belljar_core::protocol::{Id, RpcError};
use serde_json::value::RawValue;

use super::Offer;
use super::calls::Calls;
use super::errors::{busy, failed, unknown};
use super::fitting::fitted;
use super::outgoing::Outgoing;
use super::seats::{Seat, Seats};
use super::setup::{self, Guest};
use super::snapshots::{Snapshots, decoded};

/// What surrounds a sandbox.
pub(super) struct Room {
    pub(super) number: SandboxId,
    pub(super) offer: Offer,
    pub(super) out: Outgoing,
    pub(super) calls: Arc<Calls>,
    pub(super) snapshots: Arc<Snapshots>,
    pub(super) seats: Arc<Seats>,
}

/// A request that is about one sandbox.
pub(super) struct Ask {
    pub(super) id: Id,
    pub(super) wish: Wish,
}

pub(super) enum Wish {
    Initialize(InitializeParams),
    Execute(ExecuteParams),
    Validate(CodeParams),
    Look(NameParams),
    Complete(CompleteParams),
    Pending(SandboxParams),
    Resume(ResumeParams),
    Fork(SandboxParams),
    Snapshot(SnapshotParams),
    Restore(RestoreParams),
    List(SandboxParams),
    ReadFile(FileReadParams),
    WriteFile(FileWriteParams),
    RemoveFile(FileParams),
    Destroy(SandboxParams),
}

impl Wish {
    pub(super) const fn sandbox(&self) -> SandboxId {
        match self {
            Self::Initialize(params) => params.sandbox,
            Self::Execute(params) => params.sandbox,
            Self::Validate(params) => params.sandbox,
            Self::Look(params) => params.sandbox,
            Self::Complete(params) => params.sandbox,
            Self::Resume(params) => params.sandbox,
            Self::Snapshot(params) => params.sandbox,
            Self::Restore(params) => params.sandbox,
            Self::ReadFile(params) => params.sandbox,
            Self::WriteFile(params) => params.sandbox,
            Self::RemoveFile(params) => params.sandbox,
            Self::Pending(params)
            | Self::Fork(params)
            | Self::List(params)
            | Self::Destroy(params) => params.sandbox,
        }
    }
}

/// A sandbox as a client wants it, on a new thread, which answers the request for it.
pub(super) fn open(room: Room, id: Id, params: CreateParams) -> Result<(), RpcError> {
    start(room, id, move |room| setup::make(room, params))
}

fn start(
    room: Room,
    id: Id,
    make: impl FnOnce(&Room) -> Result<Guest, SandboxError> + Send + 'static,
) -> Result<(), RpcError> {
    let (asks, inbox) = sync_channel(MAX_QUEUED_REQUESTS);
    let cancel = Arc::new(OnceLock::new());
    let (seats, number) = (Arc::clone(&room.seats), room.number);
    seats.seat(number, || {
        let handle = Arc::clone(&cancel);
        let thread = std::thread::Builder::new()
            .name(format!("sandbox-{number}"))
            .spawn(move || live(room, &id, make, &handle, &inbox))
            .map_err(|error| busy(&format!("no thread can be had: {error}")))?;
        Ok(Seat { asks, cancel, thread })
    })
}

/// The life of a sandbox.
fn live(
    room: Room,
    id: &Id,
    make: impl FnOnce(&Room) -> Result<Guest, SandboxError>,
    cancel: &OnceLock<CancelHandle>,
    inbox: &Receiver<Ask>,
) {
    let number = room.number;
    match caught(|| make(&room).map_err(|error| failed(&error))) {
        Ok(guest) => {
            let _ = cancel.set(guest.sandbox.cancel_handle());
            room.out.answer(id, &created(number, &guest));
            let mut host = Host { room, guest };
            while let Ok(ask) = inbox.recv() {
                if host.room.seats.is_closed() || !host.serve(ask) {
                    break;
                }
            }
            for ask in inbox.try_iter() {
                host.room.out.refuse(&ask.id, &unknown("sandbox", number));
            }
        }
        Err(error) => {
            // Its place is free before anybody hears of it.
            room.seats.leave(number);
            room.out.refuse(id, &error);
        }
    }
}

fn created(sandbox: SandboxId, guest: &Guest) -> Created {
    Created {
        sandbox,
        workspace: guest.sandbox.workspace().display().to_string(),
        cells: guest.session.as_ref().map_or(0, |session| session.record().cells_run),
    }
}

struct Host {
    room: Room,
    guest: Guest,
}

impl Host {
    /// `false` when it was the last thing.
    fn serve(&mut self, Ask { id, wish }: Ask) -> bool {
        let last = matches!(wish, Wish::Destroy(_));
        if let Wish::Fork(_) = wish {
            if let Err(error) = self.fork(&id) {
                self.room.out.refuse(&id, &error);
            }
            return true;
        }
        let answer = caught(|| self.answer(wish));
        let goes_on = !last && !matches!(&answer, Err(error) if is_lost(error));
        if !goes_on {
            self.room.seats.leave(self.room.number);
        }
        match answer {
            Ok(answer) => self.room.out.answer(&id, &answer),
            Err(error) => self.room.out.refuse(&id, &error),
        }
        goes_on
    }

    fn answer(&mut self, wish: Wish) -> Result<Box<RawValue>, RpcError> {
        match wish {
            Wish::Initialize(params) => {
                self.guest.sandbox.initialize(params.context).map_err(|error| failed(&error))?;
                self.keep(0)?;
                json_of(&())
            }
            Wish::Execute(params) => {
                let sandbox = &mut self.guest.sandbox;
                let ran = if params.inject_setup {
                    sandbox.execute(&params.code)
                } else {
                    sandbox.execute_without_setup(&params.code)
                };
                self.finished(ran)
            }
            Wish::Resume(params) => {
                let answers = params.answers.into_iter().map(Into::into).collect();
                let ran = self.guest.sandbox.resume(answers);
                self.finished(ran)
            }
            Wish::Validate(params) => {
                json(self.guest.sandbox.check_code(&params.code).map(|error| Validated { error }))
            }
            Wish::Look(params) => {
                let found = self.guest.sandbox.get_variable(&params.name);
                json(found.map(|found| Looked { variable: found.map(form) }))
            }
            Wish::Complete(params) => {
                let found = self.guest.sandbox.complete(&params.code, params.cursor);
                json(found.map(|found| Completed { start: found.start, matches: found.matches }))
            }
            Wish::Pending(_) => json(Ok(self.guest.sandbox.pending_calls())),
            Wish::Snapshot(params) => json_of(&self.snapshot(params)?),
            Wish::Restore(params) => {
                self.restore(params)?;
                json_of(&())
            }
            Wish::List(_) => json(self.files().and_then(|files| files.list())),
            Wish::ReadFile(params) => json(self.read_file(&params)),
            Wish::WriteFile(params) => {
                let data = decoded(&params.data)?;
                json(self.files().and_then(|files| match &params.link {
                    Some(target) => files.make_link(&params.path, target),
                    None if params.directory => files.make_directory(&params.path),
                    None => files.write(&params.path, &data, params.append),
                }))
            }
            Wish::RemoveFile(params) => {
                json(self.files().and_then(|files| files.remove(&params.path)))
            }
            Wish::Destroy(_) => json(self.guest.sandbox.destroy()),
            Wish::Fork(_) => json_of(&()),
        }
    }

    /// A session is kept before its result is told: whoever has seen the result finds the state.
    fn finished(
        &mut self,
        ran: Result<SandboxResult, SandboxError>,
    ) -> Result<Box<RawValue>, RpcError> {
        let result = ran.map_err(|error| failed(&error))?;
        self.keep(1)?;
        fitted(result)
    }

    fn keep(&mut self, cells: u64) -> Result<(), RpcError> {
        match &mut self.guest.session {
            Some(session) => {
                session.save(&mut *self.guest.sandbox, cells).map_err(|error| failed(&error))
            }
            None => Ok(()),
        }
    }

    fn fork(&mut self, id: &Id) -> Result<(), RpcError> {
        let room = Room {
            number: self.room.seats.reserve()?,
            offer: self.room.offer.clone(),
            out: self.room.out.clone(),
            calls: Arc::clone(&self.room.calls),
            snapshots: Arc::clone(&self.room.snapshots),
            seats: Arc::clone(&self.room.seats),
        };
        let guest = caught(|| setup::fork(&mut self.guest, &room).map_err(|error| failed(&error)))?;
        start(room, id.clone(), move |_| Ok(guest))
    }

    fn snapshot(&mut self, params: SnapshotParams) -> Result<Snapshotted, RpcError> {
        let files = if params.files { Files::With } else { Files::Without };
        let snapshot = self.guest.sandbox.snapshot(files).map_err(|error| failed(&error))?;
        self.room.snapshots.add(|path| snapshot.write(path).map_err(|error| failed(&error)))
    }

    fn restore(&mut self, params: RestoreParams) -> Result<(), RpcError> {
        let path = self.room.snapshots.path(params.snapshot)?;
        let restored = Snapshot::read(&path, &self.room.offer.home)
            .and_then(|snapshot| self.guest.sandbox.restore(&snapshot));
        restored.map_err(|error| failed(&error))?;
        self.keep(0)
    }

    fn files(&self) -> Result<WorkspaceFiles, SandboxError> {
        WorkspaceFiles::open(self.guest.sandbox.workspace())
    }

    fn read_file(&self, params: &FileReadParams) -> Result<Chunk, SandboxError> {
        let length = params.length.unwrap_or(MAX_CHUNK_BYTES).min(MAX_CHUNK_BYTES);
        let files = self.files()?;
        if let Some(link) = files.link(&params.path)? {
            return Ok(Chunk { data: String::new(), bytes: 0, link: Some(link) });
        }
        let (part, bytes) = files.read(&params.path, params.offset, length)?;
        Ok(Chunk { data: STANDARD.encode(part), bytes, link: None })
    }
}

fn form(variable: Variable) -> VariableForm {
    let Variable { type_name, text, json } = variable;
    VariableForm { type_name, text, has_json: json.is_some(), json: json.unwrap_or_default() }
}

fn json<T: serde::Serialize>(outcome: Result<T, SandboxError>) -> Result<Box<RawValue>, RpcError> {
    json_of(&outcome.map_err(|error| failed(&error))?)
}

fn json_of(value: &impl serde::Serialize) -> Result<Box<RawValue>, RpcError> {
    serde_json::value::to_raw_value(value).map_err(|error| failed(&panicked(&error.to_string())))
}

/// A mistake of ours takes one sandbox with it and not the others.
fn caught<T>(work: impl FnOnce() -> Result<T, RpcError>) -> Result<T, RpcError> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|cause| {
        let text = cause.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| cause.downcast_ref::<String>().cloned());
        Err(failed(&panicked(&text.unwrap_or_else(|| "a panic".to_owned()))))
    })
}

fn panicked(problem: &str) -> SandboxError {
    SandboxError::Internal { problem: problem.to_owned(), survives: Survives::OtherSandboxes }
}

/// After a mistake of ours nobody knows what state the sandbox is in.
fn is_lost(error: &RpcError) -> bool {
    let kind = error.data.as_ref().and_then(|data| data.get("kind"));
    kind.and_then(serde_json::Value::as_str) == Some("internal")
}
