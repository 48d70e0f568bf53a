// Functions of the caller that code in a sandbox may call.

import { ConfigError, messageOf, NotJsonError } from "./errors.js";
import type { JsonValue, ToolParams } from "./generated.js";

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

/** A tool that wants to see the whole call. */
export interface ToolObject {
  run: (request: ToolRequest) => unknown;
}

export type Tool = ToolFunction | ToolObject;

/** Asks a model. */
export type LLMQuery = (prompt: string, request: ToolRequest) => string | Promise<string>;

/** Gives a task and a context to a model that has a sandbox of its own. */
export type RLMQuery = (task: string, ctx: JsonValue, request: ToolRequest) => unknown;

type Handler = (request: ToolRequest) => unknown;

/** What a sandbox offers its guest. */
export class Tools {
  readonly #handlers = new Map<string, Handler>();

  get names(): string[] {
    return [...this.#handlers.keys()];
  }

  add(name: string, tool: Tool): void {
    this.#set(name, typeof tool === "function" ? called(tool) : (request) => tool.run(request));
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
