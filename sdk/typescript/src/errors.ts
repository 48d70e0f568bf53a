// What can go wrong that is not the guest's doing. A guest's failure is a result and throws nothing.

import type { CodeExecution } from "./execution.js";

/** One thing that is wrong with what a caller gave. */
export interface Issue {
  field: string;
  message: string;
}

/** Every error of this package. `kind` is a word for programs, `hint` says what to do. */
export class BelljarError extends Error {
  override name = "BelljarError";
  readonly kind: string;
  readonly hint: string | null;

  constructor(kind: string, message: string, options: { hint?: string | null; cause?: unknown } = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.kind = kind;
    this.hint = options.hint ?? null;
  }
}

/** Options or arguments that are not what they have to be. Nothing was run. */
export class ConfigError extends BelljarError {
  override name = "ConfigError";
  readonly issues: readonly Issue[];

  constructor(issues: readonly Issue[], hint: string | null = null) {
    const all = issues.map(({ field, message }) => `${field}: ${message}`).join("; ");
    super("config", `${all}; nothing was run`, { hint });
    this.issues = issues;
  }
}

/** A policy that the engine refuses, with everything that is wrong with it. */
export class PolicyValidationError extends BelljarError {
  override name = "PolicyValidationError";
  readonly issues: readonly Issue[];

  constructor(message: string, issues: readonly Issue[], hint: string | null) {
    super("policy_validation", message, { hint });
    this.issues = issues;
  }
}

/** The program `belljar` is missing, cannot be started, or is of another version. */
export class BinaryError extends BelljarError {
  override name = "BinaryError";
  /** Where it was looked for; null when there was nowhere to look. */
  readonly path: string | null;

  constructor(path: string | null, message: string, options: { hint?: string; cause?: unknown } = {}) {
    super("binary", message, options);
    this.path = path;
  }
}

/** The backend cannot be used here; the message says why. */
export class BackendUnavailableError extends BelljarError {
  override name = "BackendUnavailableError";
}

/** Too much is going on; the same may succeed later. Nothing was run. */
export class BusyError extends BelljarError {
  override name = "BusyError";
}

/** The process `belljar` has ended, and with it its sandboxes. New ones can be made. */
export class ConnectionLostError extends BelljarError {
  override name = "ConnectionLostError";
}

/** The sandbox was destroyed. */
export class SandboxDestroyedError extends BelljarError {
  override name = "SandboxDestroyedError";

  constructor() {
    super("destroyed", "the sandbox was destroyed; nothing was run", {
      hint: "make another one with createSandbox()",
    });
  }
}

/** A value that JSON cannot carry as it is. */
export class NotJsonError extends BelljarError {
  override name = "NotJsonError";

  constructor(what: string, problem: string) {
    super("not_json", `${what}: ${problem}`);
  }
}

/** An `AbortSignal` ended it. `execution` is what there was till then; null when nothing was run. */
export class ExecutionAbortedError extends BelljarError {
  override name = "AbortError";
  readonly execution: CodeExecution | null;

  constructor(reason: unknown, execution: CodeExecution | null) {
    const rest = execution === null ? "nothing was run" : "the code was stopped";
    super("aborted", `the execution was aborted; ${rest}`, { cause: reason });
    this.execution = execution;
  }
}

/** A callback threw while code ran. The code was stopped; `cause` is what was thrown. */
export class CallbackError extends BelljarError {
  override name = "CallbackError";
  readonly execution: CodeExecution;

  constructor(callback: string, cause: unknown, execution: CodeExecution) {
    super("callback", `${callback} threw: ${messageOf(cause)}; the code was stopped`, { cause });
    this.execution = execution;
  }
}

/** What the engine refused for another reason; `kind` says which. */
export class SandboxError extends BelljarError {
  override name = "SandboxError";
}

/** The words of whatever was thrown. */
export function messageOf(thrown: unknown): string {
  if (thrown instanceof Error) return thrown.message;
  try {
    return String(thrown);
  } catch {
    return "something that has no text";
  }
}
