//! What the daemon and an agent say to each other: a JSON object a line.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What an agent reads of a process at once.
pub(crate) const CHUNK_BYTES: usize = 32 * 1024;
/// No line of an agent's is longer: a chunk in base64, and what is around it.
pub(crate) const MAX_LINE_BYTES: usize = 128 * 1024;

/// The home of the one user.
pub(crate) const HOME: &str = "/home/user";
/// Where the system has its temporary files.
pub(crate) const TMP: &str = "/tmp";

/// The daemon asks.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Order {
    /// A process.
    Start {
        /// Comes back in the answer.
        id: u64,
        command: Command,
    },
    /// Something for a process to read, in base64.
    Input { pid: u32, data: String },
    /// Nothing more to read.
    CloseInput { pid: u32 },
    /// A signal, by its number.
    Signal { pid: u32, signal: i32 },
    /// Another size of its terminal.
    Resize { pid: u32, size: Size },
}

/// What to start.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Command {
    pub(crate) program: String,
    pub(crate) args: Vec<String>,
    /// Its whole environment.
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) directory: String,
    /// Whether there will be something to read.
    pub(crate) input: bool,
    /// In a terminal of this size.
    pub(crate) terminal: Option<Size>,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Size {
    pub(crate) cols: u16,
    pub(crate) rows: u16,
}

/// A directory, by what the kernel calls it: device and number.
pub(crate) type Identity = (u64, u64);

/// The agent tells.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum News {
    /// First of all, before anything else has run in the jail: what is mounted there to be written.
    Here { home: Identity, tmp: Identity },
    /// It runs.
    Started { id: u64, pid: u32 },
    /// It could not be started.
    Refused { id: u64, problem: String },
    /// It wrote something, here in base64.
    Output { pid: u32, stream: Stream, data: String },
    /// It is over: by itself with a code, or by a signal.
    Ended { pid: u32, code: Option<i32>, signal: Option<i32> },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Stream {
    Stdout,
    Stderr,
    Pty,
}
