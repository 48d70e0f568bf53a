//! The import `host_call`: one message of the guest, one reply.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use belljar_core::limits::MAX_TOOL_MESSAGE_BYTES;
use belljar_core::{ToolCall, ToolFailure, ToolOutcome};
use serde::Serialize;
use wasmtime::{Caller, Linker};

use crate::abi::IMPORT_MODULE;
use crate::state::State;
use belljar_host::{GuestAnswer, GuestOutcome, Message, Size, Unreadable};

/// What a guest is told when its message makes no sense.
const REFUSED: i32 = -1;

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Reply<'a> {
    Answers(Vec<GuestAnswer<'a>>),
    #[serde(untagged)]
    Outcome(GuestOutcome<'a>),
    #[serde(untagged)]
    Done {},
}

pub fn add_to_linker(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    linker.func_wrap_async(
        IMPORT_MODULE,
        "host_call",
        |mut caller: Caller<'_, State>, (address, len): (u32, u32)| {
            Box::new(async move {
                let Some(bytes) = read(&caller, address, len) else { return REFUSED };
                match Message::parse(bytes) {
                    Ok((message, weight)) => {
                        let size = Size { bytes: len as usize, weight };
                        serve(&mut caller, message, size).await
                    }
                    Err(Unreadable::Nonsense) => REFUSED,
                    Err(Unreadable::TooLarge) => {
                        let failure = ToolFailure::limit("it is too large or nested too deeply");
                        let reply = Reply::Outcome(GuestOutcome::Error(&failure));
                        caller.data_mut().desk.put_reply(&reply)
                    }
                }
            })
        },
    )?;
    linker.func_wrap(IMPORT_MODULE, "host_take", take)?;
    Ok(())
}

fn read<'a>(caller: &'a Caller<'_, State>, address: u32, len: u32) -> Option<&'a [u8]> {
    let memory = caller.data().memory?;
    let start = address as usize;
    let end = start.checked_add(len as usize).filter(|_| len as usize <= MAX_TOOL_MESSAGE_BYTES)?;
    memory.data(caller).get(start..end)
}

fn take(mut caller: Caller<'_, State>, address: u32, size: u32) {
    let reply = caller.data_mut().desk.take_reply();
    if let Some(memory) = caller.data().memory
        && reply.len() == size as usize
    {
        // A guest that names a bad address does not get its reply.
        let _ = memory.write(caller, address as usize, &reply);
    }
}

async fn serve(caller: &mut Caller<'_, State>, message: Message, size: Size) -> i32 {
    let outcome = match message {
        Message::Call { name, args, kwargs } => {
            let call = ToolCall { id: 0, name, args, kwargs };
            match caller.data_mut().desk.start(call, size, true) {
                Ok(Some(ticket)) => wait_for(caller, ticket).await,
                Ok(None) => return REFUSED,
                Err(failure) => Err(failure),
            }
        }
        Message::Begin(call) => match caller.data_mut().desk.start(call, size, false) {
            Ok(_) => return caller.data_mut().desk.put_reply(&Reply::Done {}),
            Err(failure) => Err(failure),
        },
        Message::Input { prompt } => match caller.data_mut().desk.start_input(prompt) {
            Ok(ticket) => wait_for(caller, ticket).await,
            Err(failure) => Err(failure),
        },
        // Looking at a session changes nothing in what it waits for.
        Message::Drop { .. } | Message::Wait { .. } if caller.data().desk.is_closed() => {
            return REFUSED;
        }
        Message::Drop { id } => {
            caller.data_mut().desk.drop_call(id);
            return caller.data_mut().desk.put_reply(&Reply::Done {});
        }
        Message::Wait { seconds } => return wait_for_any(caller, seconds).await,
    };
    let reply = Reply::Outcome(GuestOutcome::from(&outcome));
    caller.data_mut().desk.put_reply(&reply)
}

async fn wait_for(caller: &mut Caller<'_, State>, ticket: u64) -> ToolOutcome {
    loop {
        let Some(arrived) = arrival(caller, None).await else {
            caller.data_mut().desk.abandon(ticket);
            return Err(ToolFailure::new("interrupted"));
        };
        if let Some(outcome) = caller.data_mut().desk.sort(arrived, Some(ticket)) {
            return outcome;
        }
    }
}

async fn wait_for_any(caller: &mut Caller<'_, State>, seconds: Option<f64>) -> i32 {
    let desk = &mut caller.data_mut().desk;
    let mut answers = desk.take_ended();
    if answers.is_empty() && !desk.has_running() && seconds.is_none() {
        desk.fail_deferred();
        answers = desk.take_ended();
        if answers.is_empty() {
            // It would wait for ever.
            return REFUSED;
        }
    }
    if answers.is_empty() {
        let until = seconds.and_then(|seconds| {
            Instant::now().checked_add(Duration::try_from_secs_f64(seconds.max(0.0)).ok()?)
        });
        match arrival(caller, until).await {
            Some(arrived) => {
                caller.data_mut().desk.sort(arrived, None);
                answers = caller.data_mut().desk.take_ended();
            }
            None => caller.data_mut().wasi.pass_time(seconds),
        }
    }
    let told = answers.iter().map(|(id, outcome)| GuestAnswer { id: *id, outcome: outcome.into() });
    let reply = Reply::Answers(told.collect());
    caller.data_mut().desk.put_reply(&reply)
}

async fn arrival(
    caller: &mut Caller<'_, State>,
    until: Option<Instant>,
) -> Option<VecDeque<(u64, ToolOutcome)>> {
    let state = caller.data();
    let (inbox, control) = (state.desk.inbox(), std::sync::Arc::clone(&state.control));
    control.wait(until, |waker| inbox.poll(waker)).await
}
