// process: what programs for Node look at, as far as a sandbox has it; and exit().

import { define, global, objectOf, set } from "./library.js";
import { entries, items } from "./requests.js";

let exitCode = null;
const environment = host.object();
/** Variables the host gave, as it gave them. */
let given = new Map();
let workspace = "/app";
const arguments_ = host.array();

export function installProcess() {
  const streams = { stdout: 1, stderr: 2 };
  const process = objectOf({
    exit: (code) => exit(code),
    cwd: () => workspace,
    uptime: () => host.ticks() / 1000,
    hrtime: () => hrtime(),
    nextTick: (callback, ...args) => nextTick(callback, args),
    on: () => undefined,
    once: () => undefined,
    off: () => undefined,
  });
  for (const [name, stream] of Object.entries(streams))
    set(process, name, objectOf({ write: (text) => (host.write(stream, host.toText(text)), true) }));
  const properties = { argv: arguments_, env: environment, platform: "wasi", arch: "wasm32", pid: 1, title: "belljar", version: `v${host.version()}` };
  for (const [name, value] of Object.entries(properties)) set(process, name, value);
  const versions = host.object();
  set(versions, "quickjs", host.version());
  set(process, "versions", versions);
  set(process.hrtime, "bigint", host.portal("bigint", 0, () => BigInt(Math.round(host.ticks() * 1e6))));
  set(global, "process", process);
  define("exit", 0, (code) => exit(code));
}

function exit(code) {
  exitCode = code === undefined || code === null ? 0 : host.toNumber(code) & 0xff;
  host.stop();
}

/** The exit code if exit() was called since the last time. */
export function takeExit() {
  const code = exitCode;
  exitCode = null;
  return code;
}

function nextTick(callback, args) {
  if (typeof callback !== "function") throw new TypeError("The callback must be a function");
  const [promise, resolve] = host.promise();
  host.invoke(resolve, undefined, undefined);
  host.then(promise, host.portal("", 0, () => void host.invoke(callback, undefined, ...args)));
}

function hrtime() {
  const ticks = host.ticks();
  const pair = host.array();
  [Math.floor(ticks / 1000), Math.round((ticks % 1000) * 1e6)].forEach((value, index) =>
    Reflect.defineProperty(pair, `${index}`, { value, writable: true, enumerable: true, configurable: true }),
  );
  return pair;
}

/** Where and for whom the sandbox runs. In one that has run elsewhere, variables the user's code has set stay. */
export function settleProcess({ env, argv, directory, renewed }) {
  for (const [name, value] of given) {
    const current = Reflect.getOwnPropertyDescriptor(environment, name);
    if (current?.value === value) Reflect.deleteProperty(environment, name);
  }
  given = new Map(entries(env));
  for (const [name, value] of given) {
    if (renewed && Reflect.getOwnPropertyDescriptor(environment, name) !== undefined) continue;
    Reflect.defineProperty(environment, name, { value, writable: true, enumerable: true, configurable: true });
  }
  if (renewed) return;
  workspace = directory;
  host.enter(workspace);
  arguments_.length = 0;
  items(argv).forEach((value, index) =>
    Reflect.defineProperty(arguments_, `${index}`, { value, writable: true, enumerable: true, configurable: true }),
  );
}
