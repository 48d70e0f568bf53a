// Pyodide as a process: the interpreter of Belljar's `pyodide` backend, in Node (18 or newer) or Deno.
// Speaks JSON-RPC on descriptors 3 and 4; descriptors 1 and 2 are the user's. README.md tells the rest.
//
// Two threads: one runs Python and may block, the other speaks with the host and never does. In worker
// mode Python has the worker and this thread stays free for signals; in direct mode it is the other way
// round, and an interrupt finds nobody who could pass it on.

import process from "node:process";
import { Worker } from "node:worker_threads";

import { connect } from "../threads/channel.mjs";
import { keep } from "./download.mjs";
import { FILES } from "./load.mjs";
import { parseOptions } from "./options.mjs";
import { makeSnapshot, servePython } from "./session.mjs";
import { serveWire } from "../threads/wire.mjs";

const EXIT_USAGE = 64;
const EXIT_CRASHED = 70;
// Recursion in C (nested lists, JSON) ends the process where the engine has no more stack: with this much, at some
// hundred thousand levels instead of ten thousand. Only Node lets one choose.
const PYTHON_STACK_MEGABYTES = 64;

async function main() {
  const options = parseOptions(process.argv.slice(2));
  if (options.error !== undefined) {
    console.error(options.error);
    process.exit(EXIT_USAGE);
  }
  if (options.download !== null) {
    await keep(options.indexUrls[0], FILES, options.download);
    return;
  }
  if (options.makeSnapshot !== null) {
    await makeSnapshot(options);
    return;
  }
  const { wireEnd, userEnd } = connect();
  if (options.direct) {
    process.on("SIGINT", () => {});
    start("wire", wireEnd, options);
    process.exit(await servePython(userEnd, options));
  }
  process.on("SIGINT", serveWire(wireEnd).interrupt);
  start("python", userEnd, options);
}

/** The other thread; the process ends with it. */
function start(role, end, options) {
  const worker = new Worker(new URL("./worker.mjs", import.meta.url), {
    workerData: { role, end, options },
    transferList: [end.port],
    env: {},
    resourceLimits: { stackSizeMb: PYTHON_STACK_MEGABYTES },
  });
  worker.on("message", (exitCode) => process.exit(exitCode));
  worker.on("error", (error) => {
    console.error(`the interpreter's thread failed: ${error?.stack ?? error}`);
    process.exit(EXIT_CRASHED);
  });
  worker.on("exit", (exitCode) => process.exit(exitCode));
}

main().catch((error) => {
  console.error(error?.message ?? error);
  process.exit(EXIT_CRASHED);
});
