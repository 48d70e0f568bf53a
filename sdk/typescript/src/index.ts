// Belljar for Node: sandboxes for code that a language model wrote.

import { findBinary } from "./binary.js";
import { planned, type REPLConfig } from "./config.js";
import { BackendUnavailableError } from "./errors.js";
import type { CodeExecution } from "./execution.js";
import type { Backend } from "./generated.js";
import { connect } from "./processes.js";
import { Sandbox, type ExecuteOptions, type ISandbox } from "./sandbox.js";

/** Makes a sandbox. State lives in it from the first execution on, unless `fresh` is set. */
export async function createSandbox(config: REPLConfig = {}): Promise<ISandbox> {
  const plan = planned(config);
  return Sandbox.create(await connect(findBinary(plan.binary)), plan);
}

/** Runs code in a sandbox of its own, which is gone afterwards. */
export async function runCode(code: string, options: REPLConfig & ExecuteOptions = {}): Promise<CodeExecution> {
  const { signal, ...config } = options;
  const sandbox = await createSandbox({ fresh: true, ...config });
  try {
    return await sandbox.execute(code, signal === undefined ? {} : { signal });
  } finally {
    await sandbox.destroy();
  }
}

/** Whether a backend can be used here, and if not, why and what to do. */
export type BackendStatus = { available: true } | { available: false; reason: string; hint: string | null };

/** Tries a backend by making a sandbox on it. */
export async function backendStatus(backend: Backend, config: Omit<REPLConfig, "backend"> = {}): Promise<BackendStatus> {
  try {
    const sandbox = await createSandbox({ ...config, backend });
    await sandbox.destroy();
    return { available: true };
  } catch (error) {
    if (!(error instanceof BackendUnavailableError)) throw error;
    return { available: false, reason: error.message, hint: error.hint };
  }
}

export { findBinary } from "./binary.js";
export type { OutputCallback, REPLConfig } from "./config.js";
export * from "./errors.js";
export type { CodeExecution } from "./execution.js";
export type { SandboxFiles } from "./files.js";
export type {
  Backend,
  CellValue,
  ExecutionPolicy,
  FileEntry,
  FileKind,
  GuestError,
  JsonValue,
  Meta,
  Preset,
  ResourceLimits,
  RuntimeType,
  StateAfter,
  Status,
  ToolCall,
} from "./generated.js";
export { PROTOCOL_VERSION } from "./generated.js";
export { shutdown } from "./processes.js";
export type { ExecuteOptions, ISandbox, ToolAnswer } from "./sandbox.js";
export type { Snapshot } from "./snapshot.js";
export type { DescribedTool, LLMQuery, RLMQuery, Tool, ToolDescription, ToolFunction, ToolObject, ToolRequest } from "./tools.js";
export { GuestValue } from "./variable.js";
