// Functions of the caller that code in a sandbox may call.

import { ConfigError, messageOf, NotJsonError } from "./errors.js";
import type { JsonValue, ToolDoc, ToolParams } from "./generated.js";

/** A call as a tool sees it. */
export interface ToolRequest {
  name: string;
  /** Arguments by position. */
  args: JsonValue[];
  /** Arguments by name. */
  kwargs: Record<string, JsonValue>;
  /** How deep the caller is nested in `rlm_query`; a sandbox made for the answer is one deeper. */
  depth: number;
  /** Aborted when nobody waits for the answer any more. */
  signal: AbortSignal;
}

/** A plain function: arguments by position, those by name as an object behind them. */
// Functions with parameters of their own are wanted here, and JSON is all they can get.
// eslint-disable-next-line @typescript-eslint/no-explicit-any
export type ToolFunction = (...args: any[]) => unknown;

/** What the code in the sandbox can find out about a tool. Plain text: nothing in it is run. */
export interface ToolDescription {
  /** What it does: `NAME.doc` in JavaScript, `NAME.__doc__` and `help(NAME)` in Python. */
  doc?: string;
  /** Its parameters and its result, on one line: `NAME.signature`; `inspect.signature` if it is one of Python's. */
  signature?: string;
}

/** A plain function with something said about it. */
export interface DescribedTool extends ToolDescription {
  handler: ToolFunction;
}

/** A tool that wants to see the whole call. */
export interface ToolObject extends ToolDescription {
  run: (request: ToolRequest) => unknown;
}

export type Tool = ToolFunction | DescribedTool | ToolObject;

/** Asks a model. */
export type LLMQuery = (prompt: string, request: ToolRequest) => string | Promise<string>;

/** Gives a task and a context to a model that has a sandbox of its own. */
export type RLMQuery = (task: string, ctx: JsonValue, request: ToolRequest) => unknown;

type Handler = (request: ToolRequest) => unknown;

/** What a sandbox offers its guest. */
export class Tools {
  readonly #handlers = new Map<string, Handler>();
  readonly #docs = new Map<string, ToolDoc>();

  get names(): string[] {
    return [...this.#handlers.keys()];
  }

  get docs(): Record<string, ToolDoc> {
    return Object.fromEntries(this.#docs);
  }

  add(name: string, tool: Tool): void {
    this.#set(name, handlerOf(tool));
    if (typeof tool === "function") return;
    const { doc, signature } = tool;
    const said: ToolDoc = { ...(doc !== undefined && { doc }), ...(signature !== undefined && { signature }) };
    if (Object.keys(said).length > 0) this.#docs.set(name, said);
  }

  addLLM(ask: LLMQuery): void {
    this.#set("llm_query", async (request) => {
      const answer: unknown = await ask(text(request, 0, "prompt"), request);
      if (typeof answer === "string") return answer;
      throw new NotJsonError("the answer of onLLMQuery", `it must be text, not ${typeof answer}`);
    });
  }

  addRLM(ask: RLMQuery): void {
    this.#set("rlm_query", (request) => ask(text(request, 0, "task"), argument(request, 1, "ctx") ?? null, request));
  }

  /** Runs a tool. What it throws is the guest's to catch. */
  async run({ name, args, kwargs, depth }: ToolParams, signal: AbortSignal): Promise<unknown> {
    const handler = this.#handlers.get(name);
    if (handler === undefined) throw new Error(`there is no tool ${name}`);
    try {
      return await handler({ name, args, kwargs, depth, signal });
    } catch (error) {
      throw new Error(messageOf(error) || `${name} failed`, { cause: error });
    }
  }

  #set(name: string, handler: Handler): void {
    if (this.#handlers.has(name)) {
      throw new ConfigError([{ field: `tools.${name}`, message: "there is one of that name already" }]);
    }
    this.#handlers.set(name, handler);
  }
}

function handlerOf(tool: Tool): Handler {
  if (typeof tool === "function") return called(tool);
  if ("run" in tool && typeof tool.run === "function") return (request) => tool.run(request);
  return called((tool as DescribedTool).handler);
}

function called(tool: ToolFunction): Handler {
  return ({ args, kwargs }) => {
    const named = Object.keys(kwargs).length > 0 ? [kwargs] : [];
    return tool(...args, ...named);
  };
}

function argument({ args, kwargs }: ToolRequest, position: number, name: string): JsonValue | undefined {
  return args[position] ?? kwargs[name];
}

function text(request: ToolRequest, position: number, name: string): string {
  const given = argument(request, position, name);
  if (typeof given === "string") return given;
  throw new TypeError(`${request.name}() needs ${name}, and it must be text`);
}
