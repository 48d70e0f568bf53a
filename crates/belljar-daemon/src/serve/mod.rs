//! One client's connection: requests come in, sandboxes live on threads of their own, answers,
//! output and calls of tools go out.

mod calls;
mod errors;
mod fitting;
mod lines;
mod outgoing;
mod seat;
mod seats;
mod setup;
mod snapshots;

use std::io::{self, Read, Write};
use std::sync::Arc;

use belljar::{Backend, DockerSettings, Durability, Home, Preset};
use belljar_core::limits::MAX_KEPT_SNAPSHOTS;
use belljar_core::protocol::methods::{self, Hello, PROTOCOL_VERSION};
use belljar_core::protocol::{
    INVALID_PARAMS, INVALID_REQUEST, Id, METHOD_NOT_FOUND, Message, RpcError,
};
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::gathered::Ended;
use calls::Calls;
use lines::Lines;
use outgoing::Outgoing;
use seat::{Ask, Wish};
use seats::Seats;
use snapshots::Snapshots;

/// What a server offers.
#[derive(Debug, Clone)]
pub struct Offer {
    /// Belljar's own directory.
    pub home: Home,
    /// The backend of clients that name none.
    pub backend: Backend,
    /// How containers are made.
    pub docker: DockerSettings,
    /// The preset of clients that name none.
    pub preset: Preset,
    /// Sandboxes of one connection.
    pub max_sandboxes: usize,
    /// Snapshots that one connection keeps.
    pub max_snapshots: usize,
    /// How far a named session has got before a result is told.
    pub durability: Durability,
}

impl Offer {
    /// wasm, the preset `agent`, and a thousand sandboxes.
    #[must_use]
    pub fn new(home: Home) -> Self {
        Self {
            home,
            backend: Backend::Wasm,
            docker: DockerSettings::default(),
            preset: Preset::Agent,
            max_sandboxes: 1000,
            max_snapshots: MAX_KEPT_SNAPSHOTS,
            durability: Durability::Disk,
        }
    }
}

/// Serves one client until it closes its end. Then everything it had is ended; sessions that have a
/// name are as after their last execution.
///
/// # Errors
/// When reading fails.
pub fn serve(
    input: impl Read,
    output: impl Write + Send + 'static,
    offer: Offer,
) -> io::Result<()> {
    let out = Outgoing::new(output);
    let server = Server {
        calls: Arc::new(Calls::new(out.clone())),
        snapshots: Arc::new(Snapshots::new(offer.max_snapshots)?),
        seats: Arc::new(Seats::new(offer.max_sandboxes)),
        offer,
        out,
    };
    let mut lines = Lines::new(input);
    let outcome = loop {
        match lines.next() {
            Ok(Some(Ended::Line(line))) => server.hear(&line),
            Ok(Some(Ended::Empty)) => {}
            Ok(Some(Ended::TooLong | Ended::Refused { .. })) => server.complain(&RpcError::new(
                INVALID_REQUEST,
                "the message is longer than any may be, and was passed over",
            )),
            Ok(None) => break Ok(()),
            Err(error) => break Err(error),
        }
    };
    server.calls.close();
    server.seats.close();
    outcome
}

struct Server {
    offer: Offer,
    out: Outgoing,
    calls: Arc<Calls>,
    snapshots: Arc<Snapshots>,
    seats: Arc<Seats>,
}

impl Server {
    fn hear(&self, line: &[u8]) {
        match Message::parse(line) {
            Ok(Message::Request { id, method, params }) => {
                if let Err(error) = self.serve(&id, &method, &params) {
                    self.out.refuse(&id, &error);
                }
            }
            Ok(Message::Response { id, outcome }) => self.calls.answered(&id, outcome),
            // There is nothing a client tells.
            Ok(Message::Notification { .. } | Message::Complaint(_)) => {}
            Err(error) => match Message::asker(line) {
                Some(id) => self.out.refuse(&id, &error),
                None => self.complain(&error),
            },
        }
    }

    /// Answers at once, or sees to it that somebody does.
    fn serve(&self, id: &Id, method: &str, params: &RawValue) -> Result<(), RpcError> {
        let wish = match method {
            methods::HELLO => {
                self.out.answer(id, &hello());
                return Ok(());
            }
            methods::CREATE => {
                let params = read(params)?;
                return self.create(id, params);
            }
            methods::CANCEL => {
                let wanted: methods::SandboxParams = read(params)?;
                self.seats.cancel(wanted.sandbox)?;
                self.out.answer(id, &());
                return Ok(());
            }
            methods::SNAPSHOT_READ => {
                self.out.answer(id, &self.snapshots.read(read(params)?)?);
                return Ok(());
            }
            methods::SNAPSHOT_WRITE => {
                self.out.answer(id, &self.snapshots.write(&read(params)?)?);
                return Ok(());
            }
            methods::SNAPSHOT_DROP => {
                let params: methods::SnapshotDropParams = read(params)?;
                self.snapshots.forget(params.snapshot)?;
                self.out.answer(id, &());
                return Ok(());
            }
            methods::INITIALIZE => Wish::Initialize(read(params)?),
            methods::EXECUTE => Wish::Execute(read(params)?),
            methods::VALIDATE => Wish::Validate(read(params)?),
            methods::GET_VARIABLE => Wish::Look(read(params)?),
            methods::COMPLETE => Wish::Complete(read(params)?),
            methods::PENDING_CALLS => Wish::Pending(read(params)?),
            methods::RESUME => Wish::Resume(read(params)?),
            methods::FORK => Wish::Fork(read(params)?),
            methods::SNAPSHOT => Wish::Snapshot(read(params)?),
            methods::RESTORE => Wish::Restore(read(params)?),
            methods::FILES_LIST => Wish::List(read(params)?),
            methods::FILES_READ => Wish::ReadFile(read(params)?),
            methods::FILES_WRITE => Wish::WriteFile(read(params)?),
            methods::FILES_REMOVE => Wish::RemoveFile(read(params)?),
            methods::DESTROY => Wish::Destroy(read(params)?),
            _ => {
                let problem = format!("there is no method {method:?}");
                return Err(RpcError::new(METHOD_NOT_FOUND, problem));
            }
        };
        self.seats.ask(Ask { id: id.clone(), wish })
    }

    fn create(&self, id: &Id, params: methods::CreateParams) -> Result<(), RpcError> {
        let number = self.seats.reserve()?;
        let room = seat::Room {
            number,
            offer: self.offer.clone(),
            out: self.out.clone(),
            calls: Arc::clone(&self.calls),
            snapshots: Arc::clone(&self.snapshots),
            seats: Arc::clone(&self.seats),
        };
        seat::open(room, id.clone(), params)
    }

    fn complain(&self, error: &RpcError) {
        self.out.complain(error);
    }
}

pub(crate) fn hello() -> Hello {
    Hello {
        belljar: env!("CARGO_PKG_VERSION").to_owned(),
        protocol: PROTOCOL_VERSION,
        pid: std::process::id(),
    }
}

fn read<T: DeserializeOwned>(params: &RawValue) -> Result<T, RpcError> {
    serde_json::from_str(params.get())
        .map_err(|error| RpcError::new(INVALID_PARAMS, format!("params: {error}")))
}
