// A tool definition for the AI SDK: a model writes code, a sandbox runs it, the model reads what
// came of it. The shape is a plain object, so this package does not need that one.

import type { CodeExecution } from "./execution.js";
import { runCode, type ISandbox, type REPLConfig, type RuntimeType } from "./index.js";

/** What a model gives. */
export interface CodeInput {
  code: string;
}

export interface CodeToolOptions {
  /** A sandbox to run everything in; its variables and files live from call to call. */
  sandbox?: ISandbox;
  /** Options of a sandbox of its own for every call, where none is given. */
  config?: REPLConfig;
  /** What the model is told about the tool. */
  description?: string;
  /** Characters of the answer that the model sees at most. */
  maxAnswerLength?: number;
}

/** The answer's usual bound: a few thousand tokens. */
const MAX_ANSWER_LENGTH = 20_000;

const SCHEMA = {
  type: "object",
  properties: { code: { type: "string", description: "The source code to run" } },
  required: ["code"],
  additionalProperties: false,
} as const;

type Validated = { value: CodeInput } | { issues: { message: string }[] };

/** Standard Schema with its JSON Schema: what the AI SDK takes for an input schema. */
const inputSchema = {
  "~standard": {
    version: 1 as const,
    vendor: "belljar",
    validate: (value: unknown): Validated => {
      const code = (value as Partial<CodeInput> | null)?.code;
      return typeof code === "string" ? { value: { code } } : { issues: [{ message: "code: must be text" }] };
    },
    jsonSchema: { input: () => ({ ...SCHEMA }), output: () => ({ ...SCHEMA }) },
  },
};

/** A tool for `generateText({ tools: { code: codeTool() } })` and its like. */
export function codeTool(options: CodeToolOptions = {}) {
  const { sandbox, config = {}, maxAnswerLength = MAX_ANSWER_LENGTH } = options;
  const lives = sandbox !== undefined;
  return {
    description: options.description ?? described(config.language ?? "python", lives),
    inputSchema,
    execute: ({ code }: CodeInput, call: { abortSignal?: AbortSignal | undefined } = {}): Promise<CodeExecution> => {
      const signal = call.abortSignal === undefined ? {} : { signal: call.abortSignal };
      return lives ? sandbox.execute(code, signal) : runCode(code, { ...config, ...signal });
    },
    toModelOutput: ({ output }: { output: CodeExecution }) => ({
      type: "text" as const,
      value: answerOf(output, maxAnswerLength),
    }),
  };
}

/** What came of it, as a model reads it. */
export function answerOf(execution: CodeExecution, maxLength = MAX_ANSWER_LENGTH): string {
  const { stdout, stderr, error, result, status } = execution;
  const parts = [stdout, stderr];
  if (result !== null) parts.push(result.text);
  if (error !== null && !stderr.includes(error)) parts.push(error);
  const files = [...execution.filesCreated, ...execution.filesModified];
  if (files.length > 0) parts.push(`files written: ${files.join(", ")}`);
  const text = parts.map((part) => part.trimEnd()).filter((part) => part !== "").join("\n");
  if (text === "") return status === "ok" ? "(no output)" : `(no output; ${status})`;
  // The end of a traceback says most.
  return text.length <= maxLength ? text : `${text.slice(0, maxLength / 2)}\n…\n${text.slice(-maxLength / 2)}`;
}

function described(language: RuntimeType, lives: boolean): string {
  const name = language === "python" ? "Python" : "JavaScript";
  const state = lives ? "Variables and files stay for the next call." : "Every call starts from nothing.";
  return `Runs ${name} code in a sandbox without network and gives what it prints and the value of its last expression. ${state}`;
}
