// A sandbox as its user sees it: one thing after the other, whatever is asked at the same time.

import { setTimeout as sleep } from "node:timers/promises";

import { shown, type Plan } from "./config.js";
import type { Connection, Listener } from "./connection.js";
import {
  BelljarError,
  CallbackError,
  ConfigError,
  ConnectionLostError,
  ExecutionAbortedError,
  SandboxDestroyedError,
} from "./errors.js";
import { executionOf, type CodeExecution } from "./execution.js";
import { SandboxFiles } from "./files.js";
import type { Created, GuestError, InputParams, SandboxResult, ToolParams } from "./generated.js";
import { encoded, plain } from "./json.js";
import { bring, Snapshot } from "./snapshot.js";
import { valueOf } from "./variable.js";

/** How often what shall end is told so: what is about to begin does not hear it. */
const CANCEL_AGAIN = 20;

/** The answer to a call that a suspended execution waits for. */
export type ToolAnswer = { call: number; result: unknown } | { call: number; error: string };

export interface ExecuteOptions {
  /** Stops the code when it is aborted; the promise is rejected with an AbortError. */
  signal?: AbortSignal;
}

/** One isolated interpreter. Calls are served one after the other, in the order they were made. */
export interface ISandbox extends AsyncDisposable {
  /** The workspace on the host. */
  readonly workspace: string;
  /** The files of the workspace. */
  readonly files: SandboxFiles;
  /** Begins a session, or begins it anew: `context` is what the variable of that name holds. */
  initialize(context?: unknown): Promise<void>;
  /** Runs code. Whatever the code does, there is a result. */
  execute(code: string, options?: ExecuteOptions): Promise<CodeExecution>;
  /** A variable's value; `undefined` when there is none of that name. */
  getVariable(name: string): Promise<unknown>;
  /** Stops what runs now; does nothing when nothing runs. */
  cancel(): Promise<void>;
  /** What is wrong with the code's syntax, or null. Nothing is run. */
  validate(code: string): Promise<GuestError | null>;
  /** Goes on with a suspended execution. */
  resume(answers: readonly ToolAnswer[], options?: ExecuteOptions): Promise<CodeExecution>;
  /** Keeps the session's state, with its files unless told otherwise. */
  snapshot(options?: { files?: boolean }): Promise<Snapshot>;
  /** Becomes the session that a snapshot holds. */
  restore(from: Snapshot | Uint8Array): Promise<void>;
  /** A second session that goes on from here, with the same options, in a copy of the workspace. */
  fork(): Promise<ISandbox>;
  /** Ends it and everything it started. What runs is stopped. May be called again. */
  destroy(): Promise<void>;
}

/** An execution that runs. */
interface Run {
  stopping: boolean;
  failure: { callback: string; thrown: unknown } | null;
}

export class Sandbox implements ISandbox, Listener {
  readonly workspace: string;
  readonly files: SandboxFiles;
  readonly #connection: Connection;
  readonly #number: number;
  readonly #plan: Plan;
  /** Whether there is a session; state lives from then on. */
  #begun: boolean;
  #run: Run | null = null;
  #last: Promise<unknown> = Promise.resolve();
  #ended: Promise<void> | null = null;

  static async create(connection: Connection, plan: Plan): Promise<Sandbox> {
    const created = await connection.call("create", plan.create);
    // A session that has a name begins by being woken.
    return new Sandbox(connection, plan, created, typeof plan.create.session === "string");
  }

  private constructor(connection: Connection, plan: Plan, created: Created, begun: boolean) {
    this.#connection = connection;
    this.#plan = plan;
    this.#number = created.sandbox;
    this.#begun = begun;
    this.workspace = created.workspace;
    this.files = new SandboxFiles((method, params) =>
      this.#inTurn(() =>
        this.#connection.call(method, { ...params, sandbox: this.#number }),
      ),
    );
    connection.listen(this.#number, this);
  }

  async initialize(context: unknown = null): Promise<void> {
    const text = encoded(context, "context");
    await this.#inTurn(() => this.#begin(text));
  }

  async execute(code: string, options: ExecuteOptions = {}): Promise<CodeExecution> {
    checkText("code", code);
    return this.#execute(options, () => this.#connection.call("execute", { sandbox: this.#number, code }));
  }

  async resume(answers: readonly ToolAnswer[], options: ExecuteOptions = {}): Promise<CodeExecution> {
    const usable = (answer: unknown) => Number.isSafeInteger((answer as ToolAnswer | null)?.call);
    if (!Array.isArray(answers) || !answers.every(usable)) {
      throw new ConfigError([{ field: "answers", message: "must be a list of answers, each with the number of its call" }]);
    }
    const forms = (answers as readonly ToolAnswer[]).map((answer) =>
      "error" in answer
        ? { call: answer.call, error: { name: "ToolError" as const, message: answer.error } }
        : { call: answer.call, result: plain(answer.result, `the answer to call ${answer.call}`) },
    );
    return this.#execute(options, () => this.#connection.call("resume", { sandbox: this.#number, answers: forms }));
  }

  async getVariable(name: string): Promise<unknown> {
    checkText("name", name);
    const { variable } = await this.#inSession(() =>
      this.#connection.call("get_variable", { sandbox: this.#number, name }),
    );
    return variable === null ? undefined : valueOf(variable);
  }

  async validate(code: string): Promise<GuestError | null> {
    checkText("code", code);
    const ask = () => this.#connection.call("validate", { sandbox: this.#number, code });
    return (await this.#inTurn(ask)).error;
  }

  async cancel(): Promise<void> {
    const run = this.#run;
    if (run === null) return;
    void this.#stop(run);
    await this.#tellToStop();
  }

  async snapshot({ files = true }: { files?: boolean } = {}): Promise<Snapshot> {
    const kept = await this.#inSession(() =>
      this.#connection.call("snapshot", { sandbox: this.#number, files }),
    );
    return new Snapshot(this.#connection, kept.snapshot, kept.bytes);
  }

  async restore(from: Snapshot | Uint8Array): Promise<void> {
    if (!(from instanceof Snapshot || from instanceof Uint8Array)) {
      throw new ConfigError([{ field: "from", message: `must be a Snapshot or its bytes, not ${shown(from)}` }]);
    }
    await this.#inTurn(async () => {
      const { number, brought } =
        from instanceof Snapshot
          ? await from.numberAt(this.#connection)
          : { number: await bring(this.#connection, from), brought: true };
      try {
        await this.#connection.call("restore", { sandbox: this.#number, snapshot: number });
        this.#begun = true;
      } finally {
        if (brought) await this.#connection.call("snapshot.drop", { snapshot: number });
      }
    });
  }

  async fork(): Promise<ISandbox> {
    const created = await this.#inSession(() => this.#connection.call("fork", { sandbox: this.#number }));
    return new Sandbox(this.#connection, this.#plan, created, true);
  }

  destroy(): Promise<void> {
    this.#ended ??= this.#end();
    return this.#ended;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.destroy();
  }

  printed(stream: "stdout" | "stderr", text: string): void {
    const [name, callback] =
      stream === "stdout" ? ["onStdout", this.#plan.onStdout] : ["onStderr", this.#plan.onStderr];
    const run = this.#run;
    if (callback === undefined || run?.failure != null) return;
    try {
      const outcome = callback(text);
      if (outcome instanceof Promise) {
        outcome.catch((thrown: unknown) => {
          this.#callbackThrew(run, name, thrown);
        });
      }
    } catch (thrown) {
      this.#callbackThrew(run, name, thrown);
    }
  }

  toolCalled(call: ToolParams, signal: AbortSignal): Promise<unknown> {
    return this.#plan.tools.run(call, signal);
  }

  async inputWanted({ prompt }: InputParams, signal: AbortSignal): Promise<string | null> {
    const run = this.#run;
    try {
      const line: unknown = (await this.#plan.onInput?.(prompt, signal)) ?? null;
      if (line === null || typeof line === "string") return line;
      throw new TypeError(`a line must be text or null, not ${shown(line)}`);
    } catch (thrown) {
      this.#callbackThrew(run, "onInput", thrown);
      return null;
    }
  }

  /** The code is stopped, and whoever waits for it is told. Where nobody does, it is the process's. */
  #callbackThrew(run: Run | null, callback: string, thrown: unknown): void {
    if (run === null || run !== this.#run) {
      queueMicrotask(() => {
        throw thrown;
      });
      return;
    }
    run.failure ??= { callback, thrown };
    void this.#stop(run);
  }

  /** Runs something when its turn comes, and never when it is aborted before. */
  #execute({ signal, ...unknown }: ExecuteOptions, ask: () => Promise<SandboxResult>): Promise<CodeExecution> {
    const [odd] = Object.keys(unknown);
    if (odd !== undefined) throw new ConfigError([{ field: odd, message: "there is no such option" }]);
    if (signal === undefined) return this.#inSession(() => this.#runNow(ask));
    if (!(signal instanceof AbortSignal)) {
      throw new ConfigError([{ field: "signal", message: `must be an AbortSignal, not ${shown(signal)}` }]);
    }
    return this.#executeUntil(signal, ask);
  }

  #executeUntil(signal: AbortSignal, ask: () => Promise<SandboxResult>): Promise<CodeExecution> {
    return new Promise((resolve, reject) => {
      const refuse = (): void => {
        reject(new ExecutionAbortedError(signal.reason, null));
      };
      if (signal.aborted) {
        refuse();
        return;
      }
      signal.addEventListener("abort", refuse);
      const running = this.#inSession(async () => {
        signal.removeEventListener("abort", refuse);
        if (signal.aborted) throw new ExecutionAbortedError(signal.reason, null);
        const execution = this.#runNow(ask);
        const run = this.#run;
        const stop = (): void => {
          if (run !== null) void this.#stop(run);
        };
        signal.addEventListener("abort", stop);
        try {
          return await execution;
        } finally {
          signal.removeEventListener("abort", stop);
        }
      });
      running
        .then((execution) => {
          // Code that came to its end all the same has a result like any other.
          if (!signal.aborted || execution.status !== "cancelled") resolve(execution);
          else reject(new ExecutionAbortedError(signal.reason, execution));
        }, reject)
        .finally(() => {
          signal.removeEventListener("abort", refuse);
        });
    });
  }

  async #runNow(ask: () => Promise<SandboxResult>): Promise<CodeExecution> {
    const run: Run = { stopping: false, failure: null };
    this.#run = run;
    try {
      const execution = executionOf(await ask(), this.#plan.maxOutputLength);
      if (run.failure === null) return execution;
      throw new CallbackError(run.failure.callback, run.failure.thrown, execution);
    } finally {
      this.#run = null;
    }
  }

  /** Tells it to stop until it has. An interrupt is raised in the code once. */
  async #stop(run: Run): Promise<void> {
    if (run.stopping) return;
    run.stopping = true;
    while (run === this.#run) {
      await this.#tellToStop();
      await sleep(CANCEL_AGAIN);
    }
  }

  async #tellToStop(): Promise<void> {
    try {
      await this.#connection.call("cancel", { sandbox: this.#number });
    } catch (error) {
      // Whoever is gone runs nothing.
      if (!(error instanceof BelljarError)) throw error;
    }
  }

  /** The context is JSON text. */
  async #begin(context: string): Promise<void> {
    await this.#connection.callWith("initialize", `{"sandbox":${this.#number},"context":${context}}`);
    this.#begun = true;
  }

  /** The same as `#inTurn`, with state that lives on, unless every execution shall be fresh. */
  #inSession<T>(work: () => Promise<T>): Promise<T> {
    return this.#inTurn(
      this.#begun || this.#plan.fresh
        ? work
        : async () => {
            if (!this.#begun) await this.#begin("null");
            return work();
          },
    );
  }

  /** Does it after everything that was asked for before. */
  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    if (this.#ended !== null) return Promise.reject(new SandboxDestroyedError());
    const done = this.#last.then(() => {
      if (this.#ended !== null) throw new SandboxDestroyedError();
      return work();
    });
    this.#last = done.catch(() => null);
    return done;
  }

  async #end(): Promise<void> {
    if (this.#run !== null) void this.#stop(this.#run);
    await this.#last;
    try {
      await this.#connection.call("destroy", { sandbox: this.#number });
    } catch (error) {
      // It ended with the process, and is gone as it should be.
      if (!(error instanceof ConnectionLostError)) throw error;
    } finally {
      this.#connection.listen(this.#number, null);
    }
  }
}

function checkText(field: string, value: unknown): void {
  if (typeof value !== "string") {
    throw new ConfigError([{ field, message: `must be text, not ${shown(value)}` }]);
  }
}
