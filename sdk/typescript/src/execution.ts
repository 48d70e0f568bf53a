// What one execution gave, in the words of JavaScript.

import {
  TRUNCATION_MARKER,
  type CellValue,
  type GuestError,
  type Meta,
  type SandboxResult,
  type Status,
  type ToolCall,
} from "./generated.js";

/** What one execution gave. Whatever the code does, there is one. */
export interface CodeExecution {
  /** What was printed, capped. */
  stdout: string;
  /** What was written to standard error, capped; tracebacks are there as well. */
  stderr: string;
  /** What went wrong, such as `ValueError: the message` or `Timeout: …`; null when nothing did. */
  error: string | null;
  /** Wall-clock milliseconds. */
  duration: number;
  /** True only when the code ran to its end without an uncaught error. */
  success: boolean;
  /** How it ended. */
  status: Status;
  /** 0 ok, 1 error or blocked, the guest's own code when it exited, -1 when it was stopped. */
  exitCode: number;
  /** The uncaught exception in its parts, if there was one. */
  exception: GuestError | null;
  /** The value of the last expression, if there is one: its text, its JSON, its rich forms. */
  result: CellValue | null;
  /** Fuel used, where the backend counts it. */
  fuelConsumed: number | null;
  /** Most memory used, where the backend knows it. */
  memoryUsedBytes: number | null;
  /** Paths relative to the workspace, sorted. */
  filesCreated: string[];
  filesModified: string[];
  filesDeleted: string[];
  /** The workspace on the host. */
  workspacePath: string;
  /** The calls a suspended execution waits for; `resume` answers them. */
  pendingCalls: ToolCall[];
  /** Everything else: backend, versions, limits, layers of isolation, what became of the session. */
  meta: Meta;
}

/** A view of the engine's result; output longer than `maxOutputLength` is cut. */
export function executionOf(result: SandboxResult, maxOutputLength: number | null): CodeExecution {
  const [stdout, outCut] = cut(result.stdout, maxOutputLength);
  const [stderr, errCut] = cut(result.stderr, maxOutputLength);
  return {
    stdout,
    stderr,
    error: errorOf(result),
    duration: result.duration_ms,
    success: result.success,
    status: result.status,
    exitCode: result.exit_code,
    exception: result.error,
    result: result.result,
    fuelConsumed: result.fuel_consumed,
    memoryUsedBytes: result.memory_used_bytes,
    filesCreated: result.files_created,
    filesModified: result.files_modified,
    filesDeleted: result.files_deleted,
    workspacePath: result.workspace_path,
    pendingCalls: result.pending_calls,
    meta: outCut || errCut ? { ...result.meta, truncated: true } : result.meta,
  };
}

/** Bytes of UTF-8 that one UTF-16 unit takes at most: what the engine has to keep. */
export const BYTES_PER_UNIT = 3;

/** Cuts to so many UTF-16 units, the notice included, and never within a pair. */
export function cut(text: string, max: number | null): [string, boolean] {
  if (max === null || text.length <= max) return [text, false];
  const kept = text.slice(0, Math.max(0, max - TRUNCATION_MARKER.length));
  const whole = kept.isWellFormed() ? kept : kept.slice(0, -1);
  return [(whole + TRUNCATION_MARKER).slice(0, max), true];
}

/** One line for people. What stopped the code is in the last line the engine has written. */
function errorOf({ success, status, error, stderr, exit_code }: SandboxResult): string | null {
  if (success || status === "suspended") return null;
  const [notice = ""] = stderr.trimEnd().split("\n").slice(-1);
  if (exit_code === -1) return notice === "" ? `stopped: ${status}` : notice;
  if (error === null) return `exited with code ${exit_code}`;
  return error.message === "" ? error.name : `${error.name}: ${error.message}`;
}
