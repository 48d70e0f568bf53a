// The thread of the user's code: loads the driver into a realm of its own and answers the host's lines.

import { readFileSync, realpathSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import process from "node:process";
import { pathToFileURL } from "node:url";
import vm from "node:vm";
import { parentPort, workerData } from "node:worker_threads";

import * as engine from "./engine.mjs";
import { makeHost, writeAll } from "./host.mjs";
import { Link } from "./link.mjs";

// Of the driver these are other files here; the rest is the same as on WebAssembly.
const REPLACED = ["main.js", "cells.js", "library.js", "process.js", "timers.js"];

const { end, busy } = workerData;
const link = new Link(end, engine.stop);
const driver = await loadDriver();
prepareGlobals();
let initialized = false;

end.port.on("message", serve);
parentPort.on("message", (number) => number === Atomics.load(busy, 0) && driver.interrupt());
process.on("unhandledRejection", (reason, promise) => driver.rejected(reason, promise));
process.on("uncaughtException", (error) => driver.threw(error));

async function loadDriver() {
  const host = { ...makeHost(link), runCell: engine.runCell, syntaxErrorOf: engine.syntaxErrorOf, setBusy };
  host.timers = { setTimeout, setInterval, setImmediate, clearTimeout, clearInterval, clearImmediate };
  host.process = process;
  host.stop = () => {
    // Where the code ran from a callback nobody else looks after it.
    setImmediate(() => driver.lookAfterExit());
    engine.stop();
  };
  host.errorClasses = toolErrors();
  const context = vm.createContext({ host, DOMException });
  const modules = new Map();
  const load = (name) => {
    if (!modules.has(name)) {
      const url = new URL(REPLACED.includes(name) ? `./driver/${name}` : `../driver/${name}`, import.meta.url);
      modules.set(name, new vm.SourceTextModule(readFileSync(url, "utf8"), { identifier: `belljar:${name}`, context }));
    }
    return modules.get(name);
  };
  const main = load("main.js");
  await main.link((specifier) => load(specifier.replace("./", "")));
  await main.evaluate();
  return main.namespace;
}

/** The classes of errors that tools end with, of this realm. */
function toolErrors() {
  const file = new URL("../driver/user/errors.js", import.meta.url);
  return vm.runInThisContext(readFileSync(file, "utf8"), { filename: "belljar:errors" })();
}

let cells = 0;

function setBusy(is) {
  if (is) link.forgetSignal();
  Atomics.store(busy, 0, is ? ++cells : 0);
}

/** What a program for Node expects and a cell would not have. */
function prepareGlobals() {
  const hidden = (name, value) => Object.defineProperty(globalThis, name, { value, writable: true, configurable: true });
  const inWorkspace = () => pathToFileURL(join(process.cwd(), "cell.js")).href;
  hidden("require", (name) => createRequire(inWorkspace())(name));
  hidden(engine.IMPORT, (name, options) => import(resolved(`${name}`), options));
  const resolved = (name) => (/^\.{0,2}\//.test(name) ? new URL(name, inWorkspace()).href : isBuiltin(name) ? name : packagePath(name));
  const packagePath = (name) => (name.includes(":") ? name : pathToFileURL(createRequire(inWorkspace()).resolve(name)).href);
  for (const [fd, stream] of [[1, process.stdout], [2, process.stderr]])
    stream.write = (data, encoding, done) => {
      writeAll(fd, typeof data === "string" ? data : Buffer.from(data));
      const callback = typeof encoding === "function" ? encoding : done;
      if (typeof callback === "function") process.nextTick(callback);
      return true;
    };
}

function isBuiltin(name) {
  return name.startsWith("node:") || createRequire(import.meta.url)("node:module").isBuiltin(name);
}

// ---- JSON-RPC ----

const METHODS = {
  __proto__: null,
  execute: { code: "string", filename: "string?", value: "boolean?", drain: "boolean?" },
  validate: { code: "string", filename: "string?" },
  define: { variables: "object" },
  inspect: { name: "string" },
  complete: { code: "string", cursor: "number" },
};

function serve(line) {
  let message;
  try {
    message = JSON.parse(line);
  } catch {
    return refuse(null, -32700, "the line is no JSON");
  }
  if (typeof message !== "object" || message === null || message.jsonrpc !== "2.0")
    return refuse(null, -32600, "the line is no JSON-RPC 2.0 message");
  if (message.method === undefined) {
    link.take(message);
    return driver.deliver(JSON.stringify(link.takeAnswers()));
  }
  if (message.id !== undefined) answer(message);
}

const refuse = (id, code, text) => link.send({ id, error: { code, message: text } });

function answer({ id, method, params = {} }) {
  if (Atomics.load(busy, 0) !== 0) return refuse(id, -32600, "another request is being worked on; one at a time");
  if (typeof params !== "object" || params === null || Array.isArray(params)) return refuse(id, -32602, "`params` must be an object");
  if (method === "initialize") return initialize(id, params.surroundings ?? {});
  if (METHODS[method] === undefined) return refuse(id, -32601, `there is no method ${JSON.stringify(method)}`);
  if (!initialized) return refuse(id, -32600, "`initialize` comes first");
  for (const [name, kind] of Object.entries(METHODS[method])) {
    const isMissing = kind.endsWith("?") && params[name] === undefined;
    if (!isMissing && typeof params[name] !== kind.replace("?", "")) return refuse(id, -32602, `\`${name}\` must be a ${kind.replace("?", "")}`);
  }
  const request = { filename: "<cell>", value: true, ...params, op: method };
  driver.handle(request, (text) => link.sendText(`{"jsonrpc":"2.0","id":${JSON.stringify(id)},"result":${text}}`));
}

/** The other thread has tried to enter it. */
function isHere(folder) {
  try {
    return realpathSync(folder) === process.cwd();
  } catch {
    return false;
  }
}

function initialize(id, given) {
  if (initialized) return refuse(id, -32600, "`initialize` comes only once");
  const { workspace = "/app", env = {}, argv = [""], tools = [], tool_docs: docs } = given;
  if (!isHere(workspace)) return refuse(id, -32000, `cannot enter the workspace ${workspace}`);
  driver.settle({ env, argv, tools, docs, workspace });
  initialized = true;
  link.send({ id, result: { language_version: process.versions.node } });
}
