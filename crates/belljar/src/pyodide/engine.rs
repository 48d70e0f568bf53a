//! What Pyodide runs in: Deno when it is there, else Node.

use std::path::{Path, PathBuf};

use belljar_core::{Backend, SandboxError};

use crate::native::{Description, Node};
use crate::process::asking;

/// The oldest Node that Pyodide runs in.
const OLDEST_NODE: u32 = 18;

const QUESTION: &str =
    "console.log(JSON.stringify({version: Deno.version.deno, executable: Deno.execPath()}))";

/// What Deno grants the driver; the jail around it decides what there is to reach.
const DENO: [&str; 9] = [
    "run",
    "--quiet",
    "--no-prompt",
    "--no-config",
    "--no-remote",
    "--no-npm",
    "--allow-read",
    "--allow-write",
    "--allow-env",
];

/// What Deno's compiler reserves, and what it starts with.
const DENO_CODE_BYTES: u64 = 768 * 1024 * 1024;

/// A JavaScript engine of this machine.
pub(super) enum Engine {
    Deno { program: PathBuf, version: String },
    Node(Node),
}

impl Engine {
    pub(super) fn find() -> Result<Self, SandboxError> {
        let deno = deno();
        let node = match deno {
            Ok(engine) => return Ok(engine),
            Err(_) => Node::find(OLDEST_NODE),
        };
        node.map(Self::Node).map_err(|reason| SandboxError::BackendUnavailable {
            backend: Backend::Pyodide,
            reason: format!("there is neither Deno nor Node: {reason}"),
            hint: Some(format!("install Deno, or Node {OLDEST_NODE} or newer")),
        })
    }

    pub(super) fn program(&self) -> &Path {
        match self {
            Self::Deno { program, .. } => program,
            Self::Node(node) => &node.program,
        }
    }

    /// What stands before the driver's file on the command line.
    pub(super) fn arguments(&self, direct: bool) -> Vec<String> {
        match self {
            Self::Deno { .. } => {
                let ends_itself = direct.then_some("--allow-run");
                DENO.into_iter().chain(ends_itself).map(str::to_owned).collect()
            }
            Self::Node(_) => Vec::new(),
        }
    }

    /// Addresses its compiler reserves, far more than it will use.
    pub(super) fn code_bytes(&self) -> u64 {
        match self {
            Self::Deno { .. } => DENO_CODE_BYTES,
            Self::Node(_) => 0,
        }
    }

    pub(super) fn describe(&self) -> String {
        match self {
            Self::Deno { version, .. } => format!("Deno {version}"),
            Self::Node(node) => format!("Node {}", node.version),
        }
    }
}

fn deno() -> Result<Engine, String> {
    let answer = asking::ask(Path::new("deno"), &["eval", QUESTION])?;
    let Description { version, executable } =
        serde_json::from_slice(&answer).map_err(|error| error.to_string())?;
    let program = std::fs::canonicalize(&executable).unwrap_or(executable);
    Ok(Engine::Deno { program, version })
}
