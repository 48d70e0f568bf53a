// Written by `cargo xtask codegen` from the types of belljar-core. Changes belong there.

/** What JSON can carry. */
export type JsonValue =
  | null
  | boolean
  | number
  | string
  | JsonValue[]
  | { [key: string]: JsonValue };

/** The answer to a call: a result or an error. */
export interface AnswerForm {
  /** The call's number. */
  call: number;
  /** Why it gave nothing. */
  error?: ToolFailure | null;
  /** What the tool gave. */
  result?: JsonValue;
}

/** What isolates the guest. */
export type Backend = "wasm" | "native" | "pyodide" | "docker" | "e2b" | "daemon" | "auto";

/** The value of a cell's last expression. */
export interface CellValue {
  /** As JSON, where it can be. */
  json: JsonValue;
  /** Rich forms by MIME type; binary ones in base64. */
  mime: Record<string, string>;
  /** As the interpreter would print it. */
  text: string;
}

/** A piece of bytes. */
export interface Chunk {
  /** How long the whole is. */
  bytes: number;
  /** Base64. */
  data: string;
  /** Where it leads, when it is a symbolic link. A link has no bytes, and is not followed. */
  link?: string | null;
}

/** Code. */
export interface CodeParams {
  /** The source. */
  code: string;
  /** Which sandbox. */
  sandbox: number;
}

/** A place in the code. */
export interface CompleteParams {
  /** The code so far. */
  code: string;
  /** Where in it, in characters. */
  cursor: number;
  /** Which sandbox. */
  sandbox: number;
}

/** What could stand there. */
export interface Completed {
  /** What it could be replaced by. */
  matches: string[];
  /** Where the text to be replaced begins, in characters. */
  start: number;
}

/** What to run where. */
export interface CreateParams {
  /** The backend; the server's default when absent. */
  backend?: Backend | null;
  /** The name the code has in tracebacks. */
  code_name?: string | null;
  /** Tools whose answers come later, with `RESUME`. */
  deferred_tools?: string[];
  /** How deep this sandbox is nested in `rlm_query`. */
  depth?: number;
  /** Where the pyodide backend loads Pyodide from. */
  index_url?: string[];
  /** Whether the client answers `input()`. */
  input?: boolean;
  /** The language. */
  language?: RuntimeType;
  /** The fields of a policy file that differ from the preset. */
  policy?: Record<string, JsonValue>;
  /** What the policy starts from; `agent` when absent. */
  preset?: Preset | null;
  /** The Python of the native backend. */
  python?: string | null;
  /** The name of a session. One that is there is woken; else it is made. Its state is kept after every execution and outlives the connection and the server. */
  session?: string | null;
  /** Whether the client wants every line while code runs. */
  stream?: boolean;
  /** What is said about tools in the guest, by their names. */
  tool_docs?: Record<string, ToolDoc>;
  /** Tools of the client that the guest may call. */
  tools?: string[];
  /** Whether Pyodide runs in a worker thread. */
  use_worker?: boolean | null;
  /** A WASI interpreter to use instead of the embedded one. */
  wasm_binary_path?: string | null;
  /** A directory of the server's machine; one of its own when absent. */
  workspace?: string | null;
}

/** A sandbox that was made. */
export interface Created {
  /** Cells that were run in it before, when it is a session that was woken. */
  cells: number;
  /** Its number in this connection. */
  sandbox: number;
  /** Its workspace on the server's machine. */
  workspace: string;
}

/** A request of the server whose answer is not wanted any more. */
export interface DropParams {
  /** The request's id. */
  id: number;
}

/** Code to run. */
export interface ExecuteParams {
  /** The source. */
  code: string;
  /** Whether the workspace and added packages are on the interpreter's search path. Without them the code runs in a fresh interpreter, and a session is not touched. */
  inject_setup?: boolean;
  /** Which sandbox. */
  sandbox: number;
}

/** The values of a policy. Field names are the ones of policy files and JSON. */
export interface ExecutionPolicy {
  /** The guest's arguments, program name first. */
  argv?: string[];
  /** Modules whose import is refused before the code runs. A guard-rail, not a boundary. */
  block_imports?: string[];
  /** Fixed clock and seeded randomness, so that a run can be repeated exactly. */
  deterministic?: boolean;
  /** The guest's whole environment. Nothing of the host's is added to it. */
  env?: Record<string, string>;
  /** Instructions the guest may execute, counted deterministically. */
  fuel_budget?: number;
  /** Where the guest sees the read-only directory. */
  guest_data_path?: string;
  /** Where the guest sees its workspace. */
  guest_mount_path?: string;
  /** Seconds after which a session that nobody used may be removed. */
  idle_timeout_seconds?: number;
  /** What the interpreter has in it: `plain`, `data` with numpy, pandas and matplotlib, or `auto`, which is the one that has what the code imports. */
  image?: ImageChoice;
  /** Processes the guest may have at once, where the backend has processes. */
  max_processes?: number;
  /** How deep `rlm_query` may be nested. */
  max_rlm_depth?: number;
  /** Bytes of the arguments and results of tools in one execution, as JSON. */
  max_tool_bytes?: number;
  /** Calls of tools one execution may make, whatever becomes of them. */
  max_tool_calls?: number;
  /** Memory the guest may use, in bytes. */
  memory_bytes?: number;
  /** A host directory the guest sees read-only. */
  mount_data_dir?: string | null;
  /** The host directory the guest sees read-write: its workspace. */
  mount_host_dir?: string;
  /** Whether the guest may use the network. */
  network?: Network;
  /** Bytes of standard error that are kept. */
  stderr_max_bytes?: number;
  /** Bytes of standard output that are kept. */
  stdout_max_bytes?: number;
  /** Wall-clock seconds one execution may take. */
  timeout_seconds?: number;
  /** Bytes one execution may add to the workspace. */
  workspace_max_bytes?: number;
  /** Files, directories and links one execution may add to the workspace. */
  workspace_max_files?: number;
}

/** The exceptions a failed call can become. */
export type FailureName = "ToolError" | "ToolLimitError" | "InputRefused";

/** Something in a workspace. */
export interface FileEntry {
  /** Its size; 0 for what is no file. */
  bytes: number;
  /** What it is. */
  kind: FileKind;
  /** Relative to the workspace. */
  path: string;
}

/** What something in a workspace is. */
export type FileKind = "file" | "directory" | "link";

/** A file. */
export interface FileParams {
  /** Relative to the workspace. */
  path: string;
  /** Which sandbox. */
  sandbox: number;
}

/** A part of a file. */
export interface FileReadParams {
  /** At most so many bytes; as many as fit into a message when absent. */
  length?: number | null;
  /** From where. */
  offset?: number;
  /** Relative to the workspace. */
  path: string;
  /** Which sandbox. */
  sandbox: number;
}

/** What a file shall hold. */
export interface FileWriteParams {
  /** Whether it is added to what is there. */
  append?: boolean;
  /** Base64. */
  data?: string;
  /** Whether it shall be a directory. */
  directory?: boolean;
  /** Where it shall lead, for a symbolic link instead of a file. Not out of the workspace. */
  link?: string | null;
  /** Relative to the workspace. Directories above it are made. */
  path: string;
  /** Which sandbox. */
  sandbox: number;
}

/** An uncaught error of the guest. */
export interface GuestError {
  /** Its message. */
  message: string;
  /** The exception's class, such as `ValueError`. */
  name: string;
  /** The traceback with the user's lines only. */
  traceback: string;
}

/** What a guest's interpreter has in it when a sandbox begins. */
export type GuestImage = "plain" | "data";

/** Who serves. */
export interface Hello {
  /** The version of Belljar. */
  belljar: string;
  /** The process that answers. */
  pid: number;
  /** `PROTOCOL_VERSION` there. */
  protocol: number;
}

/** The image a policy asks for. */
export type ImageChoice = "auto" | "plain" | "data";

/** The context of a session. */
export interface InitializeParams {
  /** What the variable `context` holds. */
  context?: JsonValue;
  /** Which sandbox. */
  sandbox: number;
}

/** A question of the guest's `input()`. */
export interface InputParams {
  /** What it shows before it waits. */
  prompt: string;
  /** Of which sandbox. */
  sandbox: number;
}

/** Something that was printed. */
export interface Line {
  /** By which sandbox. */
  sandbox: number;
  /** A whole line with its end, or the rest at the end. */
  text: string;
}

/** A variable, or that there is none. */
export interface Looked {
  /** Null when there is none of that name. */
  variable: VariableForm | null;
}

/** Facts about an execution that are not its outcome. */
export interface Meta {
  /** Imports that were refused. */
  blocked_imports: string[];
  /** Names this execution in logs and artifacts. */
  execution_id: string;
  /** The backend that was asked for, where it was not there and `runtime` stood in for it. */
  fallback_from?: string | null;
  /** The image of the interpreter, where it is not the plain one. */
  image?: GuestImage | null;
  /** The layers of isolation that really held. */
  isolation: string[];
  /** The language. */
  language: RuntimeType;
  /** The interpreter's version. */
  language_version: string | null;
  /** The limits that held. */
  resource_limits: ResourceLimits;
  /** The backend: `wasm`, `local`, `docker` and so on. */
  runtime: string;
  /** The session, if it has a name. */
  session_id: string | null;
  /** What became of the session's state; `None` outside sessions. */
  state: StateAfter | null;
  /** Whether the clock stopped it. */
  timed_out: boolean;
  /** What was used of the tools. */
  tools: ToolUsage;
  /** Whether standard output or standard error was cut. */
  truncated: boolean;
}

/** A variable's name. */
export interface NameParams {
  /** The name. */
  name: string;
  /** Which sandbox. */
  sandbox: number;
}

/** Whether a guest may use the network. No backend of this version offers any. */
export type Network = "denied";

/** A named set of values to start a policy from. */
export type Preset = "strict" | "agent";

/** The limits that held during an execution. `None` where the backend cannot enforce one. */
export interface ResourceLimits {
  /** Fuel. */
  fuel_budget: number | null;
  /** Processes. */
  max_processes: number | null;
  /** How deep `rlm_query` may be nested. */
  max_rlm_depth: number | null;
  /** Bytes of arguments and results of tools, as JSON. */
  max_tool_bytes: number | null;
  /** Calls of tools. */
  max_tool_calls: number | null;
  /** Memory in bytes. */
  memory_bytes: number | null;
  /** Network access. */
  network: Network | null;
  /** Bytes of standard error kept. */
  stderr_max_bytes: number;
  /** Bytes of standard output kept. */
  stdout_max_bytes: number;
  /** Wall-clock seconds. */
  timeout_seconds: number;
  /** Bytes in the workspace. */
  workspace_max_bytes: number | null;
  /** Files in the workspace. */
  workspace_max_files: number | null;
}

/** A snapshot to become. */
export interface RestoreParams {
  /** Which sandbox. */
  sandbox: number;
  /** Which snapshot. It remains. */
  snapshot: number;
}

/** Answers to calls. */
export interface ResumeParams {
  /** The answers; calls without one go on waiting. */
  answers: AnswerForm[];
  /** Which sandbox. */
  sandbox: number;
}

/** The language of a guest. */
export type RuntimeType = "python" | "javascript";

/** A sandbox and nothing else. */
export interface SandboxParams {
  /** Which. */
  sandbox: number;
}

/** What one execution gave. `success`, `status` and `exit_code` come from one `Outcome` and cannot disagree; the rest are plain fields. */
export interface SandboxResult {
  /** Wall-clock milliseconds. */
  duration_ms: number;
  /** The uncaught error, if any. */
  error: GuestError | null;
  /** 0 ok, 1 error or blocked, the guest's own code when it exited, -1 when it was stopped. */
  exit_code: number;
  /** Paths created, relative to the workspace, sorted. */
  files_created: string[];
  /** Paths deleted, relative to the workspace, sorted. */
  files_deleted: string[];
  /** Paths modified, relative to the workspace, sorted. */
  files_modified: string[];
  /** Fuel used, where the backend counts it. */
  fuel_consumed: number | null;
  /** Most memory used, where the backend knows it. */
  memory_used_bytes: number | null;
  /** Everything else. */
  meta: Meta;
  /** The calls a suspended execution waits for. */
  pending_calls: ToolCall[];
  /** The value of the last expression, if there is one. */
  result: CellValue | null;
  /** How it ended. */
  status: Status;
  /** Captured standard error, capped; invalid UTF-8 is replaced. */
  stderr: string;
  /** Captured standard output, capped; invalid UTF-8 is replaced. */
  stdout: string;
  /** True only when the code ran to its end without an uncaught error. */
  success: boolean;
  /** The workspace on the host. */
  workspace_path: string;
}

/** A snapshot. */
export interface SnapshotDropParams {
  /** Which. */
  snapshot: number;
}

/** What a snapshot shall hold. */
export interface SnapshotParams {
  /** Whether the workspace's files go with it. */
  files?: boolean;
  /** Which sandbox. */
  sandbox: number;
}

/** A part of a snapshot. */
export interface SnapshotReadParams {
  /** At most so many bytes. */
  length: number;
  /** From where. */
  offset: number;
  /** Which. */
  snapshot: number;
}

/** More of a snapshot that is brought to the server. */
export interface SnapshotWriteParams {
  /** Base64. */
  data: string;
  /** Which; a new one when absent. */
  snapshot?: number | null;
}

/** A snapshot at the server. */
export interface Snapshotted {
  /** How long it is. */
  bytes: number;
  /** Its number in this connection. */
  snapshot: number;
}

/** What became of a session's state. */
export type StateAfter = "kept" | "rolled_back" | "lost";

/** How an execution ended. */
export type Status = "ok" | "error" | "timeout" | "out_of_fuel" | "out_of_memory" | "output_limit" | "quota" | "blocked" | "cancelled" | "suspended" | "crashed";

/** A guest's wish to have a tool run. */
export interface ToolCall {
  /** Arguments by position. */
  args: JsonValue[];
  /** Names the call within its session; what an answer refers to. */
  id: number;
  /** Arguments by name. */
  kwargs: Record<string, JsonValue>;
  /** The tool. */
  name: string;
}

/** What a tool is said to be, for the code that may call it. Plain text: nothing in it is run. */
export interface ToolDoc {
  /** What it does. */
  doc?: string | null;
  /** Its parameters and its result, on one line: `(article: str, n: int = 1) -> int`. Python's `inspect.signature` gives it if it is one of Python's; else it is only shown. */
  signature?: string | null;
}

/** Why a tool gave nothing. Becomes an exception in the guest. */
export interface ToolFailure {
  /** What went wrong, in words the guest may read. */
  message: string;
  /** The exception's name in the guest. */
  name: FailureName;
}

/** A tool to run. */
export interface ToolParams {
  /** Arguments by position. */
  args: JsonValue[];
  /** How deep the guest is nested in `rlm_query`. */
  depth: number;
  /** Arguments by name. */
  kwargs: Record<string, JsonValue>;
  /** The tool. */
  name: string;
  /** For which sandbox. */
  sandbox: number;
}

/** What an execution used of its tools. */
export interface ToolUsage {
  /** Bytes of arguments and results, as JSON. */
  bytes: number;
  /** Calls, whatever became of them. */
  calls: number;
  /** How deep this sandbox is nested in `rlm_query`; 0 for the outermost. */
  depth: number;
}

/** What a look at the syntax gave. */
export interface Validated {
  /** The interpreter's complaint; null when the code compiles. */
  error: GuestError | null;
}

/** A variable as the guest shows it. */
export interface VariableForm {
  /** Whether `json` is its value; a value that JSON cannot carry has none, which is not null. */
  has_json: boolean;
  /** As JSON, where it can be. */
  json: JsonValue;
  /** As the interpreter would print it. */
  text: string;
  /** The name of its type. */
  type_name: string;
}

/** What a server can be asked for. */
export interface Methods {
  "hello": { params: Record<string, never>; result: Hello };
  "create": { params: CreateParams; result: Created };
  "initialize": { params: InitializeParams; result: null };
  "execute": { params: ExecuteParams; result: SandboxResult };
  "validate": { params: CodeParams; result: Validated };
  "get_variable": { params: NameParams; result: Looked };
  "complete": { params: CompleteParams; result: Completed };
  "pending_calls": { params: SandboxParams; result: ToolCall[] };
  "resume": { params: ResumeParams; result: SandboxResult };
  "cancel": { params: SandboxParams; result: null };
  "fork": { params: SandboxParams; result: Created };
  "snapshot": { params: SnapshotParams; result: Snapshotted };
  "snapshot.read": { params: SnapshotReadParams; result: Chunk };
  "snapshot.write": { params: SnapshotWriteParams; result: Snapshotted };
  "snapshot.drop": { params: SnapshotDropParams; result: null };
  "restore": { params: RestoreParams; result: null };
  "files.list": { params: SandboxParams; result: FileEntry[] };
  "files.read": { params: FileReadParams; result: Chunk };
  "files.write": { params: FileWriteParams; result: null };
  "files.remove": { params: FileParams; result: null };
  "destroy": { params: SandboxParams; result: null };
}

/** What a server tells and asks while code runs. */
export interface ServerMessages {
  "stdout": Line;
  "stderr": Line;
  "tool.call": ToolParams;
  "input": InputParams;
  "tool.drop": DropParams;
}

export const PROTOCOL_VERSION = 1;
export const BUSY = -32001;
export const FAILED = -32000;
export const METHOD_NOT_FOUND = -32601;
export const MAX_MESSAGE_BYTES = 67108864;
export const MAX_CHUNK_BYTES = 4194304;
export const MAX_JSON_NESTING = 64;
export const MAX_ANSWER_WEIGHT = 268435456;
export const OBJECT_BYTES = 700;
export const LIST_BYTES = 160;
export const VALUE_BYTES = 40;
export const TEXT_BYTES = 48;
export const TRUNCATION_MARKER = "... (output truncated)";
