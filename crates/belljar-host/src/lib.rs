//! The host's side of a guest, whatever runs it: what it calls, what its driver answers, what it
//! prints, and the clock it runs under. Engines and processes build on it; it does no IO itself.

mod answer;
mod calls;
mod drive;
mod output;

pub use answer::{Answer, CellEnd, Completions, Told, Variable};
pub use calls::{
    Answers, CallHost, Desk, GuestAnswer, GuestOutcome, Message, Offer, Reply, SavedCalls, Size,
    Unreadable, Wish,
};
pub use drive::{CancelHandle, Control, StopCause, Wait, Watch};
pub use output::{LineSink, Output};
