// What the tests share.

import { execFileSync } from "node:child_process";
import { EventEmitter, once } from "node:events";
import {
  chmodSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { createSandbox, findBinary, runCode, type ISandbox, type REPLConfig } from "belljar";

/** A sandbox whose session has begun. */
export async function session(config: REPLConfig = {}, context: unknown = null): Promise<ISandbox> {
  const sandbox = await createSandbox(config);
  await sandbox.initialize(context);
  return sandbox;
}

/** Runs until the code has printed something, then does what is asked, and gives the result. */
export async function meanwhile(config: REPLConfig, code: string, act: (sandbox: ISandbox) => unknown) {
  const printed = new EventEmitter();
  const sandbox = await session({ ...config, onStdout: () => printed.emit("line") });
  const started = once(printed, "line");
  const running = sandbox.execute(code);
  await started;
  await act(sandbox);
  return { sandbox, execution: await running };
}

/** Pyodide as npm has installed it beside the package. */
export const PYODIDE_FOLDER = join(process.cwd(), "node_modules/pyodide");

/** Options for a Pyodide that needs no network. */
export const PYODIDE: REPLConfig = { backend: "pyodide", indexURL: PYODIDE_FOLDER };

/** A directory that is gone after the tests of this process. */
export function temporary(): string {
  const folder = mkdtempSync(join(tmpdir(), "belljar-test-"));
  process.once("exit", () => {
    rmSync(folder, { recursive: true, force: true });
  });
  return folder;
}

/** Runs the program itself, and gives what it prints. */
export function belljar(args: string[], env: NodeJS.ProcessEnv = {}): string {
  return execFileSync(findBinary(), args, { env: { ...process.env, ...env } }).toString();
}

/** The processes that this one has started and that are still there, with their command lines. */
export function children(pid: number = process.pid): { pid: number; command: string }[] {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((other) => parentOf(other) === pid)
    .map((other) => ({ pid: other, command: read(`/proc/${other}/cmdline`).replaceAll("\0", " ").trim() }));
}

/** The process `belljar` that serves this one. */
export function server(): number {
  const [found, ...more] = children().filter(({ command }) => command.endsWith("serve --stdio"));
  if (found === undefined || more.length > 0) throw new Error(`${more.length + 1} servers instead of one`);
  return found.pid;
}

/** Whether a process runs; one that nobody has waited for does not. */
export function isAlive(pid: number): boolean {
  const state = /^State:\s+(\w)/m.exec(read(`/proc/${pid}/status`))?.[1];
  return state !== undefined && state !== "Z";
}

/** Memory that is a process's own: what is in no file, and files without a name, where sessions keep theirs. */
export function privateBytes(pid: number): number {
  const anonymous = Number(/^RssAnon:\s+(\d+) kB$/m.exec(read(`/proc/${pid}/status`))?.[1] ?? 0) * 1024;
  const descriptors = readdirSync(`/proc/${pid}/fd`).map((name) => `/proc/${pid}/fd/${name}`);
  const unnamed = descriptors.filter((path) => readlinkSync(path).startsWith("/memfd:"));
  return unnamed.reduce((sum, path) => sum + statSync(path).blocks * 512, anonymous);
}

/** Looks again until it is so. */
export async function until(what: string, holds: () => boolean, milliseconds = 10_000): Promise<void> {
  const end = Date.now() + milliseconds;
  while (!holds()) {
    if (Date.now() > end) throw new Error(`not within ${milliseconds} ms: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

/** A daemon with a home of its own, at the socket that BELLJAR_SOCKET names. */
export class Daemon implements AsyncDisposable {
  readonly #env: NodeJS.ProcessEnv;

  private constructor(env: NodeJS.ProcessEnv) {
    this.#env = env;
  }

  static async start(): Promise<Daemon> {
    // What is compiled already is not compiled again.
    await runCode("");
    const home = temporary();
    const cache = join(home, "cache");
    mkdirSync(cache);
    chmodSync(cache, 0o700);
    cpSync(join(process.env["BELLJAR_HOME"] ?? "", "cache"), cache, { recursive: true, preserveTimestamps: true });
    const daemon = new Daemon({ BELLJAR_HOME: home });
    belljar(["daemon", "start", "--workers", "1"], daemon.#env);
    return daemon;
  }

  /** Sandboxes that each of its workers has. */
  sandboxes(): number[] {
    const status = JSON.parse(belljar(["daemon", "status", "--json"], this.#env)) as {
      workers: { sandboxes: number }[];
    };
    return status.workers.map((worker) => worker.sandboxes);
  }

  [Symbol.asyncDispose](): Promise<void> {
    belljar(["daemon", "stop", "--patience", "1s"], this.#env);
    return Promise.resolve();
  }
}

function parentOf(pid: number): number {
  return Number(/^PPid:\s+(\d+)/m.exec(read(`/proc/${pid}/status`))?.[1] ?? -1);
}

/** Nothing when the process is gone. */
function read(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}
