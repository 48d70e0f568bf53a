//! What a client can ask a Belljar server for: names of methods, parameters and results.
//!
//! A server is `belljar serve --stdio`, a worker of the daemon, or the daemon itself; all speak the
//! same. Requests of one sandbox are served in their order, those of different ones at the same
//! time; `cancel` is served at once.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::backend::Backend;
use crate::language::RuntimeType;
use crate::policy::Preset;
use crate::result::GuestError;
use crate::tools::{ToolAnswer, ToolDoc, ToolFailure, ToolOutcome};

/// Both sides have to speak the same.
pub const PROTOCOL_VERSION: u32 = 1;

/// Who is there: no parameters → [`Hello`].
pub const HELLO: &str = "hello";
/// A sandbox: [`CreateParams`] → [`Created`].
pub const CREATE: &str = "create";
/// Begins a session: [`InitializeParams`] → null.
pub const INITIALIZE: &str = "initialize";
/// Runs code: [`ExecuteParams`] → a `SandboxResult`.
pub const EXECUTE: &str = "execute";
/// Checks the syntax: [`CodeParams`] → [`Validated`].
pub const VALIDATE: &str = "validate";
/// A variable of a session: [`NameParams`] → [`Looked`].
pub const GET_VARIABLE: &str = "get_variable";
/// What could stand somewhere in the code: [`CompleteParams`] → [`Completed`].
pub const COMPLETE: &str = "complete";
/// The calls a suspended execution waits for: [`SandboxParams`] → a list of `ToolCall`.
pub const PENDING_CALLS: &str = "pending_calls";
/// Goes on with a suspended execution: [`ResumeParams`] → a `SandboxResult`.
pub const RESUME: &str = "resume";
/// Stops what runs: [`SandboxParams`] → null. Does nothing when nothing runs.
pub const CANCEL: &str = "cancel";
/// A second session that goes on from here: [`SandboxParams`] → [`Created`].
pub const FORK: &str = "fork";
/// Keeps the state of a session: [`SnapshotParams`] → [`Snapshotted`].
pub const SNAPSHOT: &str = "snapshot";
/// A part of a snapshot: [`SnapshotReadParams`] → [`Chunk`].
pub const SNAPSHOT_READ: &str = "snapshot.read";
/// Adds to a snapshot that is brought here: [`SnapshotWriteParams`] → [`Snapshotted`].
pub const SNAPSHOT_WRITE: &str = "snapshot.write";
/// Forgets a snapshot: [`SnapshotDropParams`] → null.
pub const SNAPSHOT_DROP: &str = "snapshot.drop";
/// Becomes the session a snapshot holds: [`RestoreParams`] → null.
pub const RESTORE: &str = "restore";
/// Everything in the workspace: [`SandboxParams`] → a list of [`FileEntry`].
pub const FILES_LIST: &str = "files.list";
/// A part of a file: [`FileReadParams`] → [`Chunk`].
pub const FILES_READ: &str = "files.read";
/// Writes a file: [`FileWriteParams`] → null.
pub const FILES_WRITE: &str = "files.write";
/// Removes a file or a directory with everything in it: [`FileParams`] → null.
pub const FILES_REMOVE: &str = "files.remove";
/// Ends a sandbox: [`SandboxParams`] → null.
pub const DESTROY: &str = "destroy";

/// Told while code runs, when [`CreateParams::stream`] is set: [`Line`].
pub const STDOUT: &str = "stdout";
/// As [`STDOUT`].
pub const STDERR: &str = "stderr";
/// The server asks its client to run a tool: [`ToolParams`] → the result.
pub const TOOL_CALL: &str = "tool.call";
/// The server asks its client for a line: [`InputParams`] → text, or null when there is none.
pub const INPUT: &str = "input";
/// Nobody waits for that answer any more: [`DropParams`].
pub const CALL_DROPPED: &str = "tool.drop";

/// Names a sandbox within one connection.
pub type SandboxId = u64;

/// Who serves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Hello {
    /// The version of Belljar.
    pub belljar: String,
    /// [`PROTOCOL_VERSION`] there.
    pub protocol: u32,
    /// The process that answers.
    pub pid: u32,
}

/// What to run where.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CreateParams {
    /// The language.
    pub language: RuntimeType,
    /// The backend; the server's default when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backend: Option<Backend>,
    /// What the policy starts from; `agent` when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preset: Option<Preset>,
    /// The fields of a policy file that differ from the preset.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub policy: Map<String, Value>,
    /// A directory of the server's machine; one of its own when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workspace: Option<PathBuf>,
    /// The name the code has in tracebacks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code_name: Option<String>,
    /// The name of a session. One that is there is woken; else it is made. Its state is kept after
    /// every execution and outlives the connection and the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// Tools of the client that the guest may call.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<String>,
    /// Tools whose answers come later, with [`RESUME`].
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub deferred_tools: Vec<String>,
    /// What is said about tools in the guest, by their names.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub tool_docs: BTreeMap<String, ToolDoc>,
    /// How deep this sandbox is nested in `rlm_query`.
    #[serde(skip_serializing_if = "is_zero")]
    pub depth: u64,
    /// Whether the client answers `input()`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub input: bool,
    /// Whether the client wants every line while code runs.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub stream: bool,
    /// A WASI interpreter to use instead of the embedded one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wasm_binary_path: Option<PathBuf>,
    /// The Python of the native backend.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub python: Option<PathBuf>,
    /// Where the pyodide backend loads Pyodide from.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub index_url: Vec<String>,
    /// Whether Pyodide runs in a worker thread.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub use_worker: Option<bool>,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// A sandbox that was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Created {
    /// Its number in this connection.
    pub sandbox: SandboxId,
    /// Its workspace on the server's machine.
    pub workspace: String,
    /// Cells that were run in it before, when it is a session that was woken.
    pub cells: u64,
}

/// A sandbox and nothing else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SandboxParams {
    /// Which.
    pub sandbox: SandboxId,
}

/// The context of a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct InitializeParams {
    /// Which sandbox.
    pub sandbox: SandboxId,
    /// What the variable `context` holds.
    #[serde(default)]
    pub context: Value,
}

/// Code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CodeParams {
    /// Which sandbox.
    pub sandbox: SandboxId,
    /// The source.
    pub code: String,
}

/// Code to run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExecuteParams {
    /// Which sandbox.
    pub sandbox: SandboxId,
    /// The source.
    pub code: String,
    /// Whether the workspace and added packages are on the interpreter's search path. Without them
    /// the code runs in a fresh interpreter, and a session is not touched.
    #[serde(default = "yes", skip_serializing_if = "Clone::clone")]
    pub inject_setup: bool,
}

fn yes() -> bool {
    true
}

/// What a look at the syntax gave.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Validated {
    /// The interpreter's complaint; null when the code compiles.
    pub error: Option<GuestError>,
}

/// A variable's name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NameParams {
    /// Which sandbox.
    pub sandbox: SandboxId,
    /// The name.
    pub name: String,
}

/// A variable, or that there is none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Looked {
    /// Null when there is none of that name.
    pub variable: Option<VariableForm>,
}

/// A variable as the guest shows it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct VariableForm {
    /// The name of its type.
    pub type_name: String,
    /// As the interpreter would print it.
    pub text: String,
    /// Whether `json` is its value; a value that JSON cannot carry has none, which is not null.
    pub has_json: bool,
    /// As JSON, where it can be.
    pub json: Value,
}

/// A place in the code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CompleteParams {
    /// Which sandbox.
    pub sandbox: SandboxId,
    /// The code so far.
    pub code: String,
    /// Where in it, in characters.
    pub cursor: usize,
}

/// What could stand there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Completed {
    /// Where the text to be replaced begins, in characters.
    pub start: usize,
    /// What it could be replaced by.
    pub matches: Vec<String>,
}

/// Answers to calls.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ResumeParams {
    /// Which sandbox.
    pub sandbox: SandboxId,
    /// The answers; calls without one go on waiting.
    pub answers: Vec<AnswerForm>,
}

/// The answer to a call: a result or an error.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AnswerForm {
    /// The call's number.
    pub call: u64,
    /// What the tool gave.
    #[serde(default)]
    pub result: Value,
    /// Why it gave nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ToolFailure>,
}

impl From<AnswerForm> for ToolAnswer {
    fn from(AnswerForm { call, result, error }: AnswerForm) -> Self {
        Self { id: call, outcome: error.map_or(Ok(result), Err) }
    }
}

impl From<ToolAnswer> for AnswerForm {
    fn from(ToolAnswer { id, outcome }: ToolAnswer) -> Self {
        match outcome {
            ToolOutcome::Ok(result) => Self { call: id, result, error: None },
            ToolOutcome::Err(error) => Self { call: id, result: Value::Null, error: Some(error) },
        }
    }
}

/// What a snapshot shall hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SnapshotParams {
    /// Which sandbox.
    pub sandbox: SandboxId,
    /// Whether the workspace's files go with it.
    #[serde(default)]
    pub files: bool,
}

/// A snapshot at the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Snapshotted {
    /// Its number in this connection.
    pub snapshot: u64,
    /// How long it is.
    pub bytes: u64,
}

/// A part of a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SnapshotReadParams {
    /// Which.
    pub snapshot: u64,
    /// From where.
    pub offset: u64,
    /// At most so many bytes.
    pub length: u64,
}

/// More of a snapshot that is brought to the server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SnapshotWriteParams {
    /// Which; a new one when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<u64>,
    /// Base64.
    pub data: String,
}

/// A snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SnapshotDropParams {
    /// Which.
    pub snapshot: u64,
}

/// A snapshot to become.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RestoreParams {
    /// Which sandbox.
    pub sandbox: SandboxId,
    /// Which snapshot. It remains.
    pub snapshot: u64,
}

/// A piece of bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Chunk {
    /// Base64.
    pub data: String,
    /// How long the whole is.
    pub bytes: u64,
    /// Where it leads, when it is a symbolic link. A link has no bytes, and is not followed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
}

/// Something in a workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileEntry {
    /// Relative to the workspace.
    pub path: String,
    /// What it is.
    pub kind: FileKind,
    /// Its size; 0 for what is no file.
    pub bytes: u64,
}

/// What something in a workspace is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FileKind {
    /// A file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
}

/// A file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FileParams {
    /// Which sandbox.
    pub sandbox: SandboxId,
    /// Relative to the workspace.
    pub path: String,
}

/// A part of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FileReadParams {
    /// Which sandbox.
    pub sandbox: SandboxId,
    /// Relative to the workspace.
    pub path: String,
    /// From where.
    #[serde(default)]
    pub offset: u64,
    /// At most so many bytes; as many as fit into a message when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub length: Option<u64>,
}

/// What a file shall hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FileWriteParams {
    /// Which sandbox.
    pub sandbox: SandboxId,
    /// Relative to the workspace. Directories above it are made.
    pub path: String,
    /// Base64.
    #[serde(default)]
    pub data: String,
    /// Whether it is added to what is there.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub append: bool,
    /// Where it shall lead, for a symbolic link instead of a file. Not out of the workspace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
    /// Whether it shall be a directory.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub directory: bool,
}

/// Something that was printed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Line {
    /// By which sandbox.
    pub sandbox: SandboxId,
    /// A whole line with its end, or the rest at the end.
    pub text: String,
}

/// A tool to run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToolParams {
    /// For which sandbox.
    pub sandbox: SandboxId,
    /// The tool.
    pub name: String,
    /// Arguments by position.
    #[serde(default)]
    pub args: Vec<Value>,
    /// Arguments by name.
    #[serde(default)]
    pub kwargs: Map<String, Value>,
    /// How deep the guest is nested in `rlm_query`.
    #[serde(default)]
    pub depth: u64,
}

/// A question of the guest's `input()`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InputParams {
    /// Of which sandbox.
    pub sandbox: SandboxId,
    /// What it shows before it waits.
    pub prompt: String,
}

/// A request of the server whose answer is not wanted any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DropParams {
    /// The request's id.
    pub id: u64,
}
