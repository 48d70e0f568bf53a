//! Signals as calls of a function, on a thread of its own.

use std::io;
use std::thread;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// What somebody wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Signal {
    /// Ctrl-C: what runs should stop.
    Interrupt,
    /// The program should end, for example because its terminal is gone.
    End,
}

/// Has a function called for every signal from now on, instead of dying of it.
pub(crate) fn listen(handler: impl Fn(Signal) + Send + 'static) -> io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    thread::Builder::new().name("signals".to_owned()).spawn(move || {
        for signal in signals.forever() {
            handler(if signal == SIGINT { Signal::Interrupt } else { Signal::End });
        }
    })?;
    Ok(())
}
