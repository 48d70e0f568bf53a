//! What tools give: structures for programs, whose schemas are told with the tools.

use belljar::core::protocol::methods::{FileEntry, VariableForm};
use belljar::{GuestError, GuestImage, RuntimeType, Status};
use schemars::JsonSchema;
use serde::Serialize;

use super::arguments::Encoding;

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Ran {
    /// Whether the code ran to its end without an uncaught error.
    pub(super) success: bool,
    /// How it ended.
    pub(super) status: Status,
    /// What it printed, or what went wrong.
    pub(super) output: String,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Destroyed {
    /// The session that is gone.
    pub(super) session_id: String,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct VariableOf {
    /// The session.
    pub(super) session_id: String,
    /// The variable's name.
    pub(super) name: String,
    /// The variable; null when there is none of that name.
    pub(super) variable: Option<VariableForm>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct FileContent {
    /// The file.
    pub(super) path: String,
    /// How content is written: utf-8 where the bytes are text, else base64.
    pub(super) encoding: Encoding,
    /// What it holds, from the offset on.
    pub(super) content: String,
    /// The size of the whole file.
    pub(super) bytes: u64,
    /// Where to go on; null at the end.
    pub(super) next_offset: Option<u64>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Written {
    /// The file.
    pub(super) path: String,
    /// Its size.
    pub(super) bytes: u64,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct FileList {
    /// What is in the workspace, by path.
    pub(super) files: Vec<FileEntry>,
    /// How much there is in all; more than is listed when it is very much.
    pub(super) total: usize,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Cancelled {
    /// How many executions were stopped.
    pub(super) cancelled: usize,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Runtimes {
    /// Every language.
    pub(super) runtimes: Vec<Runtime>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Runtime {
    /// The language.
    pub(super) language: RuntimeType,
    /// Whether code in it can be run here.
    pub(super) available: bool,
    /// The interpreter's version.
    pub(super) version: Option<String>,
    /// What runs it.
    pub(super) backend: Option<String>,
    /// The layers of isolation around it.
    pub(super) isolation: Vec<String>,
    /// What it can have in it; empty where there is no choice.
    pub(super) images: Vec<Image>,
    /// Why it cannot be run.
    pub(super) problem: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Image {
    /// Its name, for the argument `image`.
    pub(super) name: GuestImage,
    /// What can be imported beyond the language's own library.
    pub(super) packages: Vec<ImagePackage>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct ImagePackage {
    /// The package's name.
    pub(super) name: String,
    /// Its version.
    pub(super) version: String,
    /// The modules it is imported by.
    pub(super) modules: Vec<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Valid {
    /// Whether the code compiles.
    pub(super) valid: bool,
    /// The interpreter's complaint; null when it compiles.
    pub(super) error: Option<GuestError>,
}
