//! Every cap on something a guest or a caller controls, each with its reason.
//!
//! Limits a policy sets live in the policy; these are the bounds around it.

/// One wasm page. Memory limits are counted in these by the engine.
pub const WASM_PAGE_BYTES: u64 = 64 * 1024;

/// The name of a tool.
pub const MAX_TOOL_NAME_BYTES: usize = 64;

/// Tools of one sandbox that are documented. A model that is shown more than some hundred tools
/// chooses badly; and every fresh interpreter is told about all of them.
pub const MAX_DOCUMENTED_TOOLS: usize = 1024;

/// What is said about one tool. Docstrings of whole modules are shorter.
pub const MAX_TOOL_DOC_BYTES: usize = 16 * 1024;

/// The signature of one tool, on one line. It is parsed in the guest.
pub const MAX_TOOL_SIGNATURE_BYTES: usize = 4 * 1024;

/// Names, documentation and signatures of all tools of one sandbox: they are sent with every fresh
/// interpreter and kept in its memory.
pub const MAX_TOOL_DOCS_BYTES: usize = 1024 * 1024;

/// One request of a guest to its host, and one answer: a long document as a prompt fits.
pub const MAX_TOOL_MESSAGE_BYTES: usize = 32 * 1024 * 1024;

/// How deep JSON between a guest and a tool may nest. Wrapped in a snapshot's header it must still be
/// readable, and `serde_json` stops at 128.
pub const MAX_JSON_NESTING: usize = 64;

/// How deep a message may nest: whatever a guest's JSON is wrapped in, it can still be told.
pub const MAX_MESSAGE_NESTING: usize = MAX_JSON_NESTING + 16;

/// How deep the JSON form of a value may nest. Deeper ones have no such form.
pub const MAX_VALUE_NESTING: usize = MAX_JSON_NESTING - 4;

/// What the JSON form of a value may take in memory, unpacked. Heavier ones have no such form: with
/// everything else a result holds it is still lighter than [`MAX_ANSWER_WEIGHT`].
pub const MAX_VALUE_WEIGHT: usize = 64 * 1024 * 1024;

/// What the calls of one guest that have not ended may take in the host's memory, unpacked.
pub const MAX_KEPT_CALL_BYTES: usize = 64 * 1024 * 1024;

/// What the results of one guest's calls may take in memory until it fetches them.
pub const MAX_WAITING_BYTES: usize = 128 * 1024 * 1024;

/// What the JSON of one answer of a guest may take in the host's memory, unpacked.
pub const MAX_ANSWER_WEIGHT: usize = 256 * 1024 * 1024;

/// An answer to a mere look at a session.
pub const MAX_LOOK_BYTES: usize = 4 * 1024 * 1024;

/// The id or the method of a message.
pub const MAX_RPC_NAME_BYTES: usize = 128;

/// One message of a client to a server: the largest source, if most of it is plain text.
pub const MAX_MESSAGE_BYTES: usize = 64 * 1024 * 1024;

/// One message of a server to a client: the richest value a guest may give, escaped at its worst.
pub const MAX_SERVER_MESSAGE_BYTES: usize = 256 * 1024 * 1024;

/// Bytes of a file or a snapshot in one message.
pub const MAX_CHUNK_BYTES: u64 = 4 * 1024 * 1024;

/// Requests of one sandbox that wait for their turn; more are refused.
pub const MAX_QUEUED_REQUESTS: usize = 64;

/// Snapshots that one connection keeps at the server.
pub const MAX_KEPT_SNAPSHOTS: usize = 64;

/// What they may take together: they are files.
pub const MAX_KEPT_SNAPSHOT_BYTES: u64 = 4 * 1024 * 1024 * 1024;

/// Calls of one guest that run at the same time; more wait for their turn. Each holds a thread.
pub const MAX_RUNNING_CALLS: usize = 32;

/// Threads of one process that run tools. A tool that never returns keeps its thread, whatever
/// became of the sandbox that called it.
pub const MAX_STUCK_CALLS: usize = 1024;

/// Calls a guest may have begun and not finished.
pub const MAX_BEGUN_CALLS: usize = 10_000;

/// Source code of one execution. Ten megabytes of generated tables are legitimate; beyond this the
/// guest's parser would need more memory than any policy gives it.
pub const MAX_SOURCE_BYTES: usize = 16 * 1024 * 1024;

/// One answer from the guest's driver. Holds capped output twice over plus a rich cell value; a
/// guest that claims more is lying or broken.
pub const MAX_RESPONSE_BYTES: usize = 64 * 1024 * 1024;

/// The class name of a guest's exception.
pub const MAX_ERROR_NAME_BYTES: usize = 1024;

/// The message of a guest's exception. A driver of ours sends a quarter of this at most.
pub const MAX_ERROR_MESSAGE_BYTES: usize = 256 * 1024;

/// The traceback of a guest's exception.
pub const MAX_TRACEBACK_BYTES: usize = 1024 * 1024;

/// The JSON form of a cell's value: in memory it takes some thirty times as much.
pub const MAX_VALUE_JSON_BYTES: usize = 2 * 1024 * 1024;

/// The rich forms of a cell's value together.
pub const MAX_VALUE_RICH_BYTES: usize = 32 * 1024 * 1024;

/// The text of a cell's value.
pub const MAX_VALUE_TEXT_BYTES: usize = 1024 * 1024;

/// One request to the guest's driver: the largest source, JSON-escaped at worst sixfold, and what is
/// said about tools, where lines are all that has to be escaped.
pub const MAX_REQUEST_BYTES: usize = 6 * MAX_SOURCE_BYTES + 2 * MAX_TOOL_DOCS_BYTES + 1024 * 1024;

/// How deep JSON from a guest may nest. `serde_json` itself stops at 128; this is the documented
/// number and what messages say.
pub const MAX_JSON_DEPTH: usize = 128;

/// Descriptors one guest may hold open. Well under the usual 1024 of a host process, so that one
/// guest cannot starve the others.
pub const MAX_OPEN_FILES: usize = 256;

/// Memory above the policy's limit that only the driver may use, so that a full sandbox can still
/// report and recover.
pub const DRIVER_MEMORY_RESERVE: u64 = 4 * 1024 * 1024;

/// Completions a guest may offer at once.
pub const MAX_COMPLETIONS: usize = 200;

/// A line of output given to a listener; longer ones come in pieces.
pub const MAX_LINE_BYTES: usize = 64 * 1024;

/// A guest may write this many times its output cap before it is stopped with `output_limit`.
/// Up to there the surplus is discarded and the code may finish.
pub const OUTPUT_FLOOD_FACTOR: u64 = 64;

/// The flood limit is never below this, so that a tiny output cap does not stop ordinary programs.
pub const OUTPUT_FLOOD_FLOOR_BYTES: u64 = 16 * 1024 * 1024;

/// Length of a path a guest may name. Linux's own `PATH_MAX`.
pub const MAX_PATH_BYTES: usize = 4096;

/// Paths below a directory that is renamed, together: each is told under its old and new name.
pub const MAX_MOVED_PATH_BYTES: usize = 64 * 1024 * 1024;

/// Names in the directory listings a guest has begun and not finished.
pub const MAX_LISTING_BYTES: usize = 32 * 1024 * 1024;

/// Bytes one read, write or request for randomness moves; guests ask again for the rest. Keeps a
/// single host call, which no clock can interrupt, short.
pub const MAX_TRANSFER_BYTES: u32 = 8 * 1024 * 1024;

/// Buffers of one read or write.
pub const MAX_IOVECS: u32 = 1024;

/// Changed paths listed in one result. A million created files must not become a gigabyte of JSON;
/// the workspace file quota is normally far below this.
pub const MAX_LISTED_FILES: usize = 100_000;

/// Names and values of the guest's environment together. Linux allows 128 KiB per string; a guest's
/// whole environment has no reason to be larger than that.
pub const MAX_ENV_BYTES: usize = 128 * 1024;

/// Variables in the guest's environment.
pub const MAX_ENV_VARS: usize = 1024;

/// Arguments of the guest together, in bytes. Same reason as the environment.
pub const MAX_ARGV_BYTES: usize = 128 * 1024;

/// Module names in `block_imports`.
pub const MAX_BLOCKED_IMPORTS: usize = 1024;

/// Code that the import guard looks at. A model's code is a few kilobytes; what is longer is
/// refused where modules are blocked, because looking at it is work that no time-out ends.
pub const MAX_GUARD_SOURCE_BYTES: usize = 1024 * 1024;

/// Levels of a syntax tree that the import guard follows. CPython itself gives up long before: at
/// 200 open brackets, 100 blocks, some ten thousand operators.
pub const MAX_GUARD_DEPTH: usize = 50_000;

/// Text the import guard puts together from constants, or reads as code in a string.
pub const MAX_GUARD_TEXT_BYTES: usize = 1024 * 1024;

/// Code in strings of code in strings that the import guard reads.
pub const MAX_GUARD_NESTED_TEXTS: usize = 8;

/// Imports one examination reports. One is enough to block; these are for the message.
pub const MAX_GUARD_FINDINGS: usize = 100;

/// Steps the import guard may take, beside [`GUARD_STEPS_A_BYTE`]: about a second's work.
pub const GUARD_STEPS: u64 = 2_000_000;

/// Steps the import guard may take for each byte of code. Ordinary code needs less than one.
pub const GUARD_STEPS_A_BYTE: u64 = 4;

/// A policy file. Ours are a few hundred bytes; a megabyte is a mistake, not a policy.
pub const MAX_POLICY_FILE_BYTES: u64 = 1024 * 1024;

/// Most fuel a policy may give: some five years of work, and far enough below `i64::MAX` that
/// counters can be added without overflow.
pub const MAX_FUEL_BUDGET: u64 = 1_000_000_000_000_000_000;

/// Most memory a policy may give: what a 32-bit guest can address, less one page.
pub const MAX_MEMORY_BYTES: u64 = 4 * 1024 * 1024 * 1024 - WASM_PAGE_BYTES;

/// Most output a policy may keep. Output is held in memory and sent as one JSON string.
pub const MAX_OUTPUT_BYTES: u64 = 1024 * 1024 * 1024;

/// Longest time-out: a day. Nothing waits longer than that on purpose.
pub const MAX_TIMEOUT_SECONDS: f64 = 24.0 * 60.0 * 60.0;

/// Shortest time-out: a millisecond, the resolution at which deadlines are worth promising.
pub const MIN_TIMEOUT_SECONDS: f64 = 0.001;

/// Most bytes a policy may let a workspace hold: a tebibyte.
pub const MAX_WORKSPACE_BYTES: u64 = 1024 * 1024 * 1024 * 1024;

/// Most files a policy may let a workspace hold. File deltas are kept in memory.
pub const MAX_WORKSPACE_FILES: u64 = 10_000_000;

/// Most processes a policy may allow: below the smallest usual `pid_max`, so that the host always
/// has some left.
pub const MAX_PROCESSES: u64 = 4096;

/// Most calls of tools a policy may allow one execution. Each is logged and may cost money.
pub const MAX_TOOL_CALLS: u64 = 10_000_000;

/// Most bytes of arguments and results a policy may allow one execution: a tebibyte. They are not
/// kept, so this bounds work and not memory.
pub const MAX_TOOL_BYTES: u64 = 1024 * 1024 * 1024 * 1024;

/// Deepest nesting of `rlm_query` a policy may allow. Every level is a live sandbox and a thread
/// that waits for it.
pub const MAX_RLM_DEPTH: u64 = 16;

/// Shortest idle time-out of a session: a second, so that none is removed between two cells of the
/// same script.
pub const MIN_IDLE_TIMEOUT_SECONDS: f64 = 1.0;

/// Longest idle time-out of a session: a year.
pub const MAX_IDLE_TIMEOUT_SECONDS: f64 = 366.0 * 24.0 * 60.0 * 60.0;

/// The name of a session, which is also the name of a directory.
pub const MAX_SESSION_ID_BYTES: usize = 64;

/// The description of a session on disk. The arguments of calls that wait are the large part.
pub const MAX_SESSION_FILE_BYTES: u64 = 64 * 1024 * 1024;

/// Files of a workspace that can be copied with a session.
pub const MAX_ARCHIVED_FILES: usize = 100_000;

/// Bytes of them.
pub const MAX_ARCHIVED_BYTES: u64 = 4 * 1024 * 1024 * 1024;

/// The header of a snapshot: the names of its files and the calls it waits for are the large part.
pub const MAX_SNAPSHOT_HEADER_BYTES: usize = 64 * 1024 * 1024;

/// What it may take in memory, unpacked: a hundred thousand files and the heaviest calls.
pub const MAX_SNAPSHOT_HEADER_WEIGHT: usize = 512 * 1024 * 1024;

/// A downloaded wheel. The largest pure-Python wheels in use are under 50 MiB.
pub const MAX_WHEEL_BYTES: u64 = 256 * 1024 * 1024;

/// A wheel once unpacked, all files together: guards against archive bombs.
pub const MAX_UNPACKED_WHEEL_BYTES: u64 = 1024 * 1024 * 1024;

/// Files in one wheel.
pub const MAX_WHEEL_FILES: usize = 50_000;

/// A custom guest given by `wasm_binary_path`. Known CPython builds are under 100 MiB.
pub const MAX_WASM_BYTES: u64 = 512 * 1024 * 1024;

/// The name of a container image: a registry accepts 255 characters for the name alone; a digest
/// comes on top.
pub const MAX_IMAGE_NAME_BYTES: usize = 384;

/// Least memory of a container: Docker's own minimum.
pub const MIN_CONTAINER_MEMORY_BYTES: u64 = 6 * 1024 * 1024;

/// Most memory of a container: a tebibyte.
pub const MAX_CONTAINER_MEMORY_BYTES: u64 = 1024 * 1024 * 1024 * 1024;

/// The code of an execution that is kept as an artifact. Longer code is cut and cannot be replayed.
pub const MAX_ARTIFACT_CODE_BYTES: usize = 1024 * 1024;

/// Each text of a result that is kept as an artifact: stdout, stderr, message, traceback, value.
pub const MAX_ARTIFACT_TEXT_BYTES: usize = 256 * 1024;

/// Names of changed files that an artifact lists.
pub const MAX_ARTIFACT_FILES: usize = 1000;

/// One artifact: all of the above, escaped as JSON at worst sixfold.
pub const MAX_ARTIFACT_BYTES: u64 = 32 * 1024 * 1024;

/// Artifacts that are looked at when one is stored, so that a full directory does not make every
/// call slow.
pub const MAX_ARTIFACTS_LOOKED_AT: usize = 10_000;

/// What the agent's tool says about a failure, besides the code's own output.
pub const MAX_TOOL_TRACEBACK_BYTES: usize = 4 * 1024;

/// The code's own output in what the agent's tool says about a failure: its end.
pub const MAX_TOOL_FAILURE_OUTPUT_BYTES: usize = 4 * 1024;
