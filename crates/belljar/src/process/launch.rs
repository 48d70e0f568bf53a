//! Starting an interpreter in a process, and ending it.

use std::fmt;
use std::os::fd::OwnedFd;
use std::time::Duration;

use belljar_core::{Backend, RuntimeType, SandboxError};

use super::wire::Wire;

/// Starts interpreters of one kind, all with the same workspace and limits.
pub(crate) trait Launcher: Send {
    /// A new process with a driver in it that nobody has spoken to.
    fn launch(&mut self) -> Result<Launched, SandboxError>;

    /// The backend whose name stands in results.
    fn backend(&self) -> Backend;

    /// What it runs.
    fn language(&self) -> RuntimeType;

    /// Whether code can be told to stop. Where not, only the time-out ends it.
    fn interruptible(&self) -> bool {
        true
    }

    /// Where its code looks for modules, in the jail.
    fn path(&self) -> Vec<String>;
}

/// A process that was started.
pub(crate) struct Launched {
    /// Where its driver is spoken to.
    pub protocol: Wire,
    /// What the user's code prints.
    pub stdout: OwnedFd,
    /// What it prints as errors.
    pub stderr: OwnedFd,
    /// The process itself.
    pub process: Box<dyn Process>,
}

/// A running process. Dropping it ends it and everything it has started.
pub(crate) trait Process: Send {
    /// Tells it to stop what it does, and to live on.
    fn interrupt(&mut self);

    /// Ends it and all its descendants; gives how it ended, or had ended before.
    fn end(&mut self) -> Ended;

    /// How it has ended, if it does so within this time.
    fn wait(&mut self, patience: Duration) -> Option<Ended>;

    /// What everything that runs in it descends from, where that is known.
    fn ancestor(&self) -> Option<Ancestor> {
        None
    }

    /// The layers of isolation that hold.
    fn layers(&self) -> Vec<String>;

    /// Most memory it has used, where that is known.
    fn peak_memory_bytes(&mut self) -> Option<u64>;
}

/// A process of this machine, and with it all its descendants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ancestor {
    /// Its number.
    pub pid: u32,
    /// Whether the first process of a namespace below it is always one of Belljar's own, which
    /// holds nothing and lets no ordinary user look into it.
    pub owns_first: bool,
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// By itself, with this code.
    Exited(i32),
    /// By a signal.
    Signalled(i32),
    /// The system ended it because it wanted too much memory.
    OutOfMemory,
    /// Nobody knows.
    Unknown,
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited(code) => write!(f, "it exited with code {code}"),
            Self::Signalled(signal) => write!(f, "signal {signal} ended it"),
            Self::OutOfMemory => f.write_str("it wanted more memory than it may have"),
            Self::Unknown => f.write_str("it ended, nobody knows why"),
        }
    }
}
