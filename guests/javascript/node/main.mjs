// Node as a process: the JavaScript interpreter of Belljar's `native` backend (Node 20 or newer).
// Speaks JSON-RPC on descriptors 3 and 4; descriptors 1 and 2 are the user's. README.md tells the rest.
//
// The user's code has a worker; this thread speaks with the host and can interrupt it at any time.

import process from "node:process";
import { Worker } from "node:worker_threads";

import { connect } from "../../threads/channel.mjs";
import { serveWire } from "../../threads/wire.mjs";
import { terminator } from "./terminator.mjs";

const EXIT_CRASHED = 70;
// How long code may take to end by itself when it is interrupted: a cell that only waits does so at once.
const GRACE_MILLISECONDS = 20;

const EXEC_ARGV = [
  // The driver has a realm of its own, made of modules.
  "--experimental-vm-modules",
  // Node's own parser, to find import() in a cell.
  "--expose-internals",
  "--no-warnings",
  // A timer's callback that is stopped in the middle is no reason to end the process.
  "--no-force-async-hooks-checks",
];

const { wireEnd, userEnd } = connect();
// The number of the cell that runs, or 0.
const busy = new Int32Array(new SharedArrayBuffer(4));
const terminate = terminator();
const wire = serveWire(wireEnd, enterWorkspace);

const worker = new Worker(new URL("./session.mjs", import.meta.url), {
  workerData: { end: userEnd, busy },
  transferList: [userEnd.port],
  env: {},
  execArgv: EXEC_ARGV,
});
worker.on("error", (error) => {
  console.error(`the interpreter failed: ${error?.message ?? error}`);
  process.exit(EXIT_CRASHED);
});
worker.on("exit", (exitCode) => process.exit(exitCode));
process.on("SIGINT", interrupt);

function interrupt() {
  const cell = Atomics.load(busy, 0);
  if (cell === 0) return;
  wire.interrupt();
  worker.postMessage(cell);
  setTimeout(() => {
    if (Atomics.load(busy, 0) !== cell) return;
    terminate();
    // Should the first have been what was terminated.
    worker.postMessage(cell);
  }, GRACE_MILLISECONDS);
}

/** Only this thread may change the directory. Whether the line is a proper request is found out elsewhere. */
function enterWorkspace(line) {
  if (!line.includes('"initialize"')) return;
  try {
    const { method, params } = JSON.parse(line);
    if (method === "initialize") process.chdir(params.surroundings.workspace);
  } catch {
    // The session looks where it is, and says so.
  }
}
