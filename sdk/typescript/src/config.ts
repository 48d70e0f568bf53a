// What a sandbox shall be: options as callers write them, checked, and what the engine is asked for.

import { ConfigError, type Issue } from "./errors.js";
import { BYTES_PER_UNIT } from "./execution.js";
import type { Backend, CreateParams, ExecutionPolicy, JsonValue, Preset, RuntimeType } from "./generated.js";
import { plain } from "./json.js";
import { Tools, type DescribedTool, type LLMQuery, type RLMQuery, type Tool, type ToolObject } from "./tools.js";

/** A line that was printed, with its end; the last one may have none. */
export type OutputCallback = (line: string) => unknown;

/** Options of a sandbox. All may be left away. */
export interface REPLConfig {
  /** What isolates the code; `wasm` unless Belljar is configured otherwise. */
  backend?: Backend;
  /** `python` unless told otherwise. */
  language?: RuntimeType;
  /** Milliseconds one execution may take; 30 000 unless told otherwise. */
  timeout?: number;
  /** Length at which standard output and standard error are cut, each. */
  maxOutputLength?: number;
  /** Where the pyodide backend loads Pyodide from: the first that works; jsDelivr when absent. */
  indexURL?: string | readonly string[];
  /** Whether Pyodide runs in a worker thread, where it can be interrupted. */
  useWorker?: boolean;
  /** Called with each line while code runs. */
  onStdout?: OutputCallback;
  /** Called with each line while code runs. */
  onStderr?: OutputCallback;
  /** Answers `llm_query(prompt)` and `llm_query_batched(prompts)`. */
  onLLMQuery?: LLMQuery;
  /** Answers `rlm_query(task, ctx)` and `rlm_query_batched(tasks)`. */
  onRLMQuery?: RLMQuery;
  /** Answers `input()`: a line, or null when there is none. */
  onInput?: (prompt: string, signal: AbortSignal) => string | null | Promise<string | null>;
  /** Functions the code may call. */
  tools?: Readonly<Record<string, Tool>>;
  /** Tools whose answers come later, with `resume`. */
  deferredTools?: readonly string[];
  /** What the code may do, field by field over the preset. */
  policy?: ExecutionPolicy;
  /** What the policy starts from; `agent` when absent. */
  preset?: Preset;
  /** A directory the code sees as its own; a temporary one when absent. */
  workspace?: string;
  /** The name of a session that outlives this process. */
  session?: string;
  /** The Python of the native backend. */
  python?: string;
  /** The name the code has in tracebacks. */
  codeName?: string;
  /** How deep this sandbox is nested in `rlm_query`. */
  depth?: number;
  /** Every execution in a fresh interpreter, without state. */
  fresh?: boolean;
  /** The program `belljar`, instead of the one this package carries. */
  binary?: string;
}

/** What the options mean. */
export interface Plan {
  binary: string | undefined;
  create: CreateParams;
  tools: Tools;
  onStdout: OutputCallback | undefined;
  onStderr: OutputCallback | undefined;
  onInput: REPLConfig["onInput"];
  maxOutputLength: number | null;
  fresh: boolean;
}

type Check = (value: unknown) => string | null;

const text: Check = (value) => (typeof value === "string" && value !== "" ? null : `must be text, not ${shown(value)}`);
const flag: Check = (value) => (typeof value === "boolean" ? null : `must be true or false, not ${shown(value)}`);
const callback: Check = (value) => (typeof value === "function" ? null : `must be a function, not ${shown(value)}`);
const object: Check = (value) =>
  typeof value === "object" && value !== null && !Array.isArray(value) ? null : `must be an object, not ${shown(value)}`;
const texts: Check = (value) =>
  Array.isArray(value) && value.every((item) => text(item) === null) ? null : `must be a list of texts, not ${shown(value)}`;
const textOrTexts: Check = (value) => (text(value) === null ? null : texts(value));
const milliseconds: Check = (value) =>
  typeof value === "number" && value >= 1 && value <= 86_400_000
    ? null
    : `must be milliseconds from 1 to 86400000, not ${shown(value)}`;
const length: Check = (value) =>
  Number.isSafeInteger(value) && (value as number) >= 1 && (value as number) * BYTES_PER_UNIT <= 2 ** 30
    ? null
    : `must be a whole number from 1 to ${Math.floor(2 ** 30 / BYTES_PER_UNIT)}, not ${shown(value)}`;
const count: Check = (value) =>
  Number.isSafeInteger(value) && (value as number) >= 0 ? null : `must be a whole number, not ${shown(value)}`;
const oneOf = (...names: string[]): Check => (value) =>
  names.includes(value as string) ? null : `must be one of ${names.join(", ")}, not ${shown(value)}`;

const CHECKS: Readonly<Record<keyof REPLConfig, Check>> = {
  backend: oneOf("wasm", "native", "pyodide", "docker", "e2b", "daemon", "auto"),
  language: oneOf("python", "javascript"),
  timeout: milliseconds,
  maxOutputLength: length,
  indexURL: textOrTexts,
  useWorker: flag,
  onStdout: callback,
  onStderr: callback,
  onLLMQuery: callback,
  onRLMQuery: callback,
  onInput: callback,
  tools: object,
  deferredTools: texts,
  policy: object,
  preset: oneOf("strict", "agent"),
  workspace: text,
  session: text,
  python: text,
  codeName: text,
  depth: count,
  fresh: flag,
  binary: text,
};

/** Checks everything at once. Throws a ConfigError that lists all that is wrong. */
export function planned(config: REPLConfig): Plan {
  const issues = issuesOf(config);
  if (issues.length > 0) throw new ConfigError(issues, `the options are ${Object.keys(CHECKS).join(", ")}`);
  const tools = toolsOf(config);
  const { onStdout, onStderr, onInput, maxOutputLength } = config;
  const create: CreateParams = {
    language: config.language ?? "python",
    policy: policyOf(config),
    tools: tools.names,
    tool_docs: tools.docs,
    stream: onStdout !== undefined || onStderr !== undefined,
    input: onInput !== undefined,
  };
  if (config.backend !== undefined) create.backend = config.backend;
  if (config.preset !== undefined) create.preset = config.preset;
  if (config.workspace !== undefined) create.workspace = config.workspace;
  if (config.session !== undefined) create.session = config.session;
  if (config.python !== undefined) create.python = config.python;
  if (config.codeName !== undefined) create.code_name = config.codeName;
  if (config.depth !== undefined) create.depth = config.depth;
  if (config.deferredTools !== undefined) create.deferred_tools = [...config.deferredTools];
  if (config.indexURL !== undefined) create.index_url = typeof config.indexURL === "string" ? [config.indexURL] : [...config.indexURL];
  if (config.useWorker !== undefined) create.use_worker = config.useWorker;
  return {
    binary: config.binary,
    create,
    tools,
    onStdout,
    onStderr,
    onInput,
    maxOutputLength: maxOutputLength ?? null,
    fresh: config.fresh ?? false,
  };
}

function issuesOf(config: unknown): Issue[] {
  const wrong = object(config);
  if (wrong !== null) return [{ field: "config", message: wrong }];
  const given = Object.entries(config as object).filter(([, value]) => value !== undefined);
  const issues: Issue[] = [];
  for (const [field, value] of given) {
    const check = Object.hasOwn(CHECKS, field) ? CHECKS[field as keyof REPLConfig] : () => "there is no such option";
    const message = check(value);
    if (message !== null) issues.push({ field, message });
  }
  const { policy, tools, timeout, maxOutputLength } = config as REPLConfig;
  // Whoever says the same thing twice may mean either; nobody guesses which.
  if (timeout !== undefined && policy?.timeout_seconds !== undefined) {
    issues.push({ field: "timeout", message: "policy.timeout_seconds is set as well" });
  }
  if (maxOutputLength !== undefined && (policy?.stdout_max_bytes ?? policy?.stderr_max_bytes) !== undefined) {
    issues.push({ field: "maxOutputLength", message: "the policy bounds the output as well" });
  }
  if (object(tools) === null) {
    for (const [name, tool] of Object.entries(tools ?? {})) {
      issues.push(...issuesOfTool(`tools.${name}`, tool));
    }
  }
  return issues;
}

function issuesOfTool(field: string, tool: Tool): Issue[] {
  if (typeof tool === "function") return [];
  const given: Partial<ToolObject & DescribedTool> = object(tool) === null ? tool : {};
  const { run, handler, doc, signature } = given;
  if ((typeof run === "function") === (typeof handler === "function")) {
    return [{ field, message: "must be a function, or an object with either run() or handler()" }];
  }
  const texts = Object.entries({ doc, signature }).filter(([, value]) => value !== undefined && typeof value !== "string");
  return texts.map(([name, value]) => ({ field: `${field}.${name}`, message: `must be text, not ${shown(value)}` }));
}

function toolsOf({ tools, onLLMQuery, onRLMQuery }: REPLConfig): Tools {
  const all = new Tools();
  for (const [name, tool] of Object.entries(tools ?? {})) all.add(name, tool);
  if (onLLMQuery !== undefined) all.addLLM(onLLMQuery);
  if (onRLMQuery !== undefined) all.addRLM(onRLMQuery);
  return all;
}

function policyOf({ policy, timeout, maxOutputLength }: REPLConfig): Record<string, JsonValue> {
  const fields = plain(policy ?? {}, "policy") as Record<string, JsonValue>;
  if (timeout !== undefined) fields["timeout_seconds"] = timeout / 1000;
  if (maxOutputLength !== undefined) {
    // Lengths are counted here in UTF-16 units and there in bytes: it keeps enough to cut exactly.
    fields["stdout_max_bytes"] = maxOutputLength * BYTES_PER_UNIT;
    fields["stderr_max_bytes"] = maxOutputLength * BYTES_PER_UNIT;
  }
  return fields;
}

/** A value in a message. */
export function shown(value: unknown): string {
  if (typeof value === "string") return JSON.stringify(value.slice(0, 60));
  if (Array.isArray(value)) return "a list";
  return typeof value === "object" && value !== null ? "an object" : String(value);
}
