// JSON-RPC with a process `belljar serve --stdio`: requests of all sandboxes go out, answers come
// back to whoever asked, what guests print and ask goes to their sandbox.

import { spawn, type ChildProcessByStdio } from "node:child_process";
import type { Readable, Writable } from "node:stream";
import type { Socket } from "node:net";

import { BinaryError, ConnectionLostError, messageOf, type BelljarError } from "./errors.js";
import {
  FAILED,
  METHOD_NOT_FOUND,
  PROTOCOL_VERSION,
  type Hello,
  type InputParams,
  type Methods,
  type ServerMessages,
  type ToolParams,
} from "./generated.js";
import { encoded } from "./json.js";
import { Lines } from "./lines.js";
import { refused, type RpcError } from "./refused.js";

/** How long a program may take to say who it is; a machine may be busy. */
const HELLO_PATIENCE = 20_000;

/** How long a process may take to end everything in it; then it is ended itself. */
const CLOSE_PATIENCE = 10_000;

/** What the code is told of a failure; somebody's error may have a whole document for a message. */
const MAX_FAILURE_LENGTH = 64 * 1024;

/** What is kept of the last words of the process, for the error that tells of its end. */
const LAST_WORDS = 4096;

type Child = ChildProcessByStdio<Writable, Readable, Readable>;

/** Whoever hears what a guest prints and asks. */
export interface Listener {
  printed(stream: "stdout" | "stderr", text: string): void;
  toolCalled(call: ToolParams, signal: AbortSignal): Promise<unknown>;
  inputWanted(request: InputParams, signal: AbortSignal): Promise<string | null>;
}

/** A message of the other side, whatever it is. */
interface Message {
  id?: number | null;
  method?: string;
  params?: unknown;
  result?: unknown;
  error?: RpcError;
}

interface Pending {
  method: keyof Methods;
  resolve: (result: never) => void;
  reject: (error: BelljarError) => void;
}

export class Connection {
  readonly #child: Child;
  readonly #lines = new Lines();
  readonly #pending = new Map<number, Pending>();
  readonly #listeners = new Map<number, Listener>();
  readonly #answering = new Map<number, AbortController>();
  readonly #whenLost: Promise<void>;
  #lastId = 0;
  #lastWords = "";
  #lost: string | null = null;
  #closing = false;

  /** Starts the program and makes sure that it speaks our version of the protocol. */
  static async open(path: string): Promise<Connection> {
    const connection = Connection.#start(path);
    const timer = setTimeout(() => {
      connection.#end(`it has not said who it is within ${HELLO_PATIENCE / 1000} s`);
    }, HELLO_PATIENCE);
    try {
      check(path, await connection.call("hello", {}));
      return connection;
    } catch (error) {
      const why = connection.#lost === null ? messageOf(error) : connection.#lost + connection.#words();
      connection.#end("it is not used");
      throw error instanceof BinaryError ? error : unusable(path, why, error);
    } finally {
      clearTimeout(timer);
    }
  }

  static #start(path: string): Connection {
    try {
      return new Connection(path);
    } catch (error) {
      throw unusable(path, messageOf(error), error);
    }
  }

  private constructor(path: string) {
    // Not detached: a session of its own would be scheduled apart from this process, and every call
    // would wait for milliseconds on a busy machine. When this process ends, however it does, the
    // other's standard input ends, and it does, too.
    const child = spawn(path, ["serve", "--stdio"], { stdio: ["pipe", "pipe", "pipe"] });
    this.#child = child;
    this.#whenLost = new Promise((resolve) => {
      const lose = (why: string): void => {
        this.#lose(why);
        resolve();
      };
      child.once("error", (error) => {
        lose(`it cannot be started (${error.message})`);
      });
      child.once("close", (code, signal) => {
        lose(signal === null ? `it ended with exit code ${code ?? "unknown"}` : `it was ended by ${signal}`);
      });
    });
    child.stdin.on("error", () => {
      // Whoever cannot be written to has closed, which is told above.
    });
    child.stdout.on("data", (chunk: Buffer) => {
      this.#hear(chunk);
    });
    child.stderr.on("data", (chunk: Buffer) => {
      this.#lastWords = (this.#lastWords + chunk.toString()).slice(-LAST_WORDS);
    });
    (child.stdin as Socket).unref();
    (child.stderr as Socket).unref();
    this.#hold(false);
  }

  /** Whether nothing can come any more. */
  get lost(): boolean {
    return this.#lost !== null;
  }

  /** Asks, and waits for the answer. */
  async call<M extends keyof Methods>(method: M, params: Methods[M]["params"]): Promise<Methods[M]["result"]> {
    return this.callWith(method, encoded(params, method));
  }

  /** The same with parameters that are JSON text already. */
  callWith<M extends keyof Methods>(method: M, params: string): Promise<Methods[M]["result"]> {
    if (this.#lost !== null) return Promise.reject(this.#lostError("nothing was run"));
    const id = ++this.#lastId;
    return new Promise((resolve, reject) => {
      this.#pending.set(id, { method, resolve, reject });
      if (this.#pending.size === 1) this.#hold(true);
      this.#send(`{"jsonrpc":"2.0","id":${id},"method":"${method}","params":${params}}\n`);
    });
  }

  /** From now on the sandbox's messages go there, or nowhere. */
  listen(sandbox: number, listener: Listener | null): void {
    if (listener === null) this.#listeners.delete(sandbox);
    else this.#listeners.set(sandbox, listener);
  }

  /** Ends the process and everything in it, and waits for that. */
  async close(): Promise<void> {
    this.#closing = true;
    this.#child.ref();
    this.#child.stdin.end();
    const timer = setTimeout(() => this.#child.kill("SIGKILL"), CLOSE_PATIENCE);
    await this.#whenLost;
    clearTimeout(timer);
  }

  /** Only somebody who waits for an answer keeps the caller's process from ending. */
  #hold(on: boolean): void {
    const stdout = this.#child.stdout as Socket;
    if (on) {
      this.#child.ref();
      stdout.ref();
    } else {
      this.#child.unref();
      stdout.unref();
    }
  }

  #send(line: string): void {
    this.#child.stdin.write(line);
  }

  #hear(chunk: Buffer): void {
    try {
      this.#lines.take(chunk, (line) => {
        this.#sort(JSON.parse(line) as Message);
      });
    } catch (error) {
      this.#end(`it says what is no message of the protocol (${messageOf(error)})`);
    }
  }

  #sort(message: Message): void {
    if (message.method === undefined) this.#answered(message);
    else if (typeof message.id === "number") this.#asked(message.id, message.method, message.params);
    else this.#told(message.method as keyof ServerMessages, message.params);
  }

  #answered({ id, result, error }: Message): void {
    if (typeof id !== "number") {
      // Nobody knows whose request it was; rather than leave one waiting for ever, all end.
      this.#end(`it refused a message (${error?.message ?? "without saying why"})`);
      return;
    }
    const pending = this.#pending.get(id);
    if (pending === undefined) return;
    this.#pending.delete(id);
    if (this.#pending.size === 0 && !this.#closing) this.#hold(false);
    if (error === undefined) pending.resolve(result as never);
    else pending.reject(refused(error));
  }

  #told(method: keyof ServerMessages, params: unknown): void {
    switch (method) {
      case "stdout":
      case "stderr": {
        const { sandbox, text } = params as ServerMessages["stdout"];
        this.#listeners.get(sandbox)?.printed(method, text);
        break;
      }
      case "tool.drop": {
        const { id } = params as ServerMessages["tool.drop"];
        this.#answering.get(id)?.abort(new Error("nobody waits for the answer any more"));
        this.#answering.delete(id);
        break;
      }
      default:
      // What a later version tells is not for us.
    }
  }

  #asked(id: number, method: string, params: unknown): void {
    const controller = new AbortController();
    this.#answering.set(id, controller);
    void this.#answer(method, params, controller.signal).then((outcome) => {
      // An answer that nobody waits for is not sent.
      if (this.#answering.delete(id)) this.#send(`{"jsonrpc":"2.0","id":${id},${outcome}}\n`);
    });
  }

  /** The rest of the answer's line. Whatever a callback does, there is one. */
  async #answer(method: string, params: unknown, signal: AbortSignal): Promise<string> {
    if (method !== "tool.call" && method !== "input") {
      return failure(METHOD_NOT_FOUND, `this client has no method ${method}`);
    }
    try {
      const { sandbox } = params as ToolParams | InputParams;
      const listener = this.#listeners.get(sandbox);
      if (listener === undefined) return failure(FAILED, "the sandbox is gone");
      if (method === "input") {
        return `"result":${encoded(await listener.inputWanted(params as InputParams, signal), "the line")}`;
      }
      const call = params as ToolParams;
      return `"result":${encoded(await listener.toolCalled(call, signal), `the result of ${call.name}`)}`;
    } catch (error) {
      return failure(FAILED, messageOf(error));
    }
  }

  /** Ends the process because it cannot be used any more. */
  #end(why: string): void {
    this.#lose(why);
    this.#child.kill("SIGKILL");
  }

  /** The first reason counts. */
  #lose(why: string): void {
    if (this.#lost !== null) return;
    this.#lost = this.#closing ? "it was told to end" : why;
    this.#hold(false);
    for (const controller of this.#answering.values()) controller.abort(new Error("belljar has ended"));
    this.#answering.clear();
    this.#listeners.clear();
    for (const { method, reject } of this.#pending.values()) {
      const runs = method === "execute" || method === "resume";
      reject(this.#lostError(runs ? "the code may have run" : "nothing was run"));
    }
    this.#pending.clear();
  }

  #lostError(ran: string): ConnectionLostError {
    const message = `the process belljar is gone: ${this.#lost ?? "unknown"}; ${ran}; its sandboxes are lost${this.#words()}`;
    return new ConnectionLostError("connection_lost", message, {
      hint: "createSandbox() starts another; named sessions are as after their last execution",
    });
  }

  /** What the process has said of its end. */
  #words(): string {
    const words = this.#lastWords.trim();
    return this.#closing || words === "" ? "" : `\nIts last words:\n${words}`;
  }
}

function unusable(path: string, why: string, cause: unknown): BinaryError {
  const hint = "use the program that belongs to this package";
  return new BinaryError(path, `${path} is no belljar that can be used: ${why}`, { hint, cause });
}

function check(path: string, hello: Partial<Hello> | null): void {
  if (hello?.protocol === PROTOCOL_VERSION) return;
  const theirs = typeof hello?.protocol === "number" ? `version ${hello.protocol}` : "no version";
  const message = `${path} (Belljar ${hello?.belljar ?? "unknown"}) speaks ${theirs} of the protocol, and this package version ${PROTOCOL_VERSION}`;
  throw new BinaryError(path, message, { hint: "install the same version of both" });
}

function failure(code: number, message: string): string {
  const short = message.slice(0, MAX_FAILURE_LENGTH).toWellFormed();
  return `"error":${JSON.stringify({ code, message: short })}`;
}
