// The thread that runs Python: starts it, hands it the host's lines one by one.

import process from "node:process";

import { UserEnd } from "../threads/channel.mjs";
import { CannotLoad, loadPython } from "./load.mjs";
import { mountFolders } from "./files.mjs";
import { loadImported } from "./packages.mjs";
import { writeSnapshot } from "./snapshot.mjs";

const EXIT_CRASHED = 70;
const CANNOT_LOAD = -32000;

/** Serves until Python ends the process itself; its exit code. */
export async function servePython(end, options) {
  const host = new UserEnd(end);
  let python;
  try {
    python = await loadPython(options);
  } catch (error) {
    if (!(error instanceof CannotLoad)) throw error;
    refuseAll(host, error.message);
  }
  const serve = begin(python, host, options);
  for (;;) {
    const line = host.receive();
    // An interrupt while nothing runs has nothing to interrupt.
    if (typeof line !== "string") continue;
    try {
      await loadImported(python, line);
      serve(line);
    } catch (error) {
      return exitCodeOf(error);
    }
  }
}

/** The function that answers a line. */
function begin(python, host, options) {
  const { pyodide } = python;
  pyodide.setInterruptBuffer(host.signal);
  const guest = pyodide.pyimport("belljar_guest.pyodide_host");
  guest.link = Object.freeze({
    __proto__: null,
    send: (line) => host.send(line),
    receive: (milliseconds) => host.receive(milliseconds),
    pause: (milliseconds) => host.pause(milliseconds),
    forgetSignal: () => host.forgetSignal(),
    enter: (folders) => mountFolders(pyodide.FS, [...JSON.parse(folders), ...options.mounts]),
  });
  return pyodide.pyimport("belljar_guest.serve").serve;
}

/** os._exit() comes as an exception that knows its code; anything else is a crash of the interpreter. */
function exitCodeOf(error) {
  if (typeof error?.status === "number") return error.status;
  process.stderr.write(`the interpreter crashed: ${error?.message ?? error}\n`);
  return EXIT_CRASHED;
}

/** Without an interpreter every request is answered with the reason. */
function refuseAll(host, message) {
  for (;;) {
    const line = host.receive();
    if (typeof line === "string") host.send(JSON.stringify(refusal(line, message)));
  }
}

function refusal(line, message) {
  let id = null;
  try {
    id = JSON.parse(line).id ?? null;
  } catch {
    // The refusal goes to whoever has sent this.
  }
  return { jsonrpc: "2.0", id, error: { code: CANNOT_LOAD, message } };
}

/** Starts Python with all that programs often import, and keeps its memory in a file. */
export async function makeSnapshot(options) {
  const python = await loadPython(options);
  writeSnapshot(options.makeSnapshot, python);
}
