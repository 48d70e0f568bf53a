// Starts Pyodide from the first place that has it, from a snapshot where there is one, with the driver in it.

import { existsSync, readFileSync, readdirSync, statSync, writeSync } from "node:fs";
import * as crypto from "node:crypto";
import * as fs from "node:fs";
import { join, resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

import { download } from "./download.mjs";
import { limitMemory } from "./memory.mjs";
import { fingerprintOf, readSnapshot } from "./snapshot.mjs";

/** What a folder must hold. */
export const FILES = ["pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm", "python_stdlib.zip", "pyodide-lock.json"];

// Where the driver lies in Python's file system.
const GUEST_FOLDER = "/belljar";

export class CannotLoad extends Error {}

/** { pyodide, folder, fingerprint }; CannotLoad says for every place why it could not be loaded from there. */
export async function loadPython(options) {
  const reasons = [];
  for (const place of options.indexUrls) {
    try {
      return await loadFrom(await folderOf(place), options);
    } catch (error) {
      reasons.push(`cannot load Pyodide from ${place}: ${error?.message ?? error}`);
    }
  }
  throw new CannotLoad(reasons.join("; "));
}

async function folderOf(place) {
  const folder = /^https?:/.test(place) ? await download(place, FILES) : folderOfPath(place);
  if (!existsSync(folder)) throw new Error("there is no such folder");
  if (!statSync(folder).isDirectory()) throw new Error("it is no folder");
  const missing = FILES.filter((name) => !existsSync(join(folder, name)));
  if (missing.length > 0) throw new Error(`the folder is not complete, ${missing.join(", ")} is missing`);
  return folder;
}

const folderOfPath = (place) => (place.startsWith("file:") ? fileURLToPath(place) : resolve(place));

async function loadFrom(folder, options) {
  const guest = guestFiles(options.driver);
  const fingerprint = fingerprintOf(folder, guest);
  const snapshot = options.makeSnapshot === null ? readSnapshot(options.snapshot, fingerprint) : null;
  offerRequire();
  if (options.memoryBytes !== null) limitMemory(options.memoryBytes);
  const { loadPyodide } = await import(pathToFileURL(join(folder, "pyodide.mjs")).href);
  const pyodide = await orFailure(loadPyodide, {
    indexURL: folder,
    jsglobals: fewGlobals(),
    ...(snapshot === null ? {} : { _loadSnapshot: snapshot }),
    ...(options.makeSnapshot === null ? {} : { _makeSnapshot: true }),
  });
  connectStreams(pyodide);
  placeGuest(pyodide, guest, snapshot !== null, options.makeSnapshot !== null);
  return { pyodide, folder, fingerprint };
}

/** Pyodide never settles when its WebAssembly cannot be compiled: it only prints the reason. */
function orFailure(loadPyodide, config) {
  const { instantiate } = WebAssembly;
  return new Promise((resolve, reject) => {
    WebAssembly.instantiate = async (...args) => {
      try {
        return await instantiate(...args);
      } catch (error) {
        reject(error);
        throw error;
      }
    };
    loadPyodide(config).then(resolve, reject);
  }).finally(() => (WebAssembly.instantiate = instantiate));
}

/** The driver and our additions to it: name -> text. */
function guestFiles(driver) {
  const files = new Map();
  for (const folder of [join(driver, "belljar_guest"), fileURLToPath(new URL("./python/", import.meta.url))]) {
    for (const name of readdirSync(folder).sort())
      if (name.endsWith(".py")) files.set(name, readFileSync(join(folder, name), "utf8"));
  }
  return files;
}

function placeGuest(pyodide, files, isBooted, forSnapshot) {
  pyodide.FS.mkdirTree(`${GUEST_FOLDER}/belljar_guest`);
  for (const [name, text] of files) pyodide.FS.writeFile(`${GUEST_FOLDER}/belljar_guest/${name}`, text);
  const boot = isBooted
    ? ""
    : `
import sys
sys.path.append("${GUEST_FOLDER}")
import belljar_guest.pyodide_boot
sys.path.remove("${GUEST_FOLDER}")
belljar_guest.pyodide_boot.boot(${forSnapshot ? "True" : "False"})`;
  pyodide.runPython(`${boot}
import belljar_guest.pyodide_boot
belljar_guest.pyodide_boot.wake_up()`, { globals: pyodide.toPy({}) });
}

/** Pyodide asks for Node's modules by `require`, and would import all it may need, `ws` among them, if there were none. */
function offerRequire() {
  const modules = { __proto__: null, fs, crypto };
  globalThis.require ??= (name) => modules[name.replace(/^node:/, "")];
}

/** What `import js` offers. The jail keeps what is outside; this only keeps temptation away. */
function fewGlobals() {
  const names = [
    "Object", "Array", "Map", "Set", "Promise", "Error", "TypeError", "Date", "Math", "JSON", "Number", "String", "Boolean",
    "BigInt", "Symbol", "RegExp", "ArrayBuffer", "Uint8Array", "Int32Array", "Float64Array", "DataView", "TextEncoder",
    "TextDecoder", "URL", "AbortController", "AbortSignal", "setTimeout", "clearTimeout", "performance", "console",
  ];
  return Object.fromEntries(names.map((name) => [name, globalThis[name]]));
}

/** Bytes go out as they are written: Python's own streams do the buffering. */
function connectStreams(pyodide) {
  pyodide.setStdin({ stdin: () => undefined });
  for (const [fd, connect] of [[1, pyodide.setStdout], [2, pyodide.setStderr]])
    connect({ write: (bytes) => writeAll(fd, bytes), isatty: false });
}

const RETRY_MILLISECONDS = 1;
const nothing = new Int32Array(new SharedArrayBuffer(4));

function writeAll(fd, bytes) {
  for (let written = 0; written < bytes.length; ) {
    try {
      written += writeSync(fd, bytes.subarray(written));
    } catch (error) {
      // Somebody else has made the pipe non-blocking, and it is full.
      if (error.code !== "EAGAIN") throw error;
      Atomics.wait(nothing, 0, 0, RETRY_MILLISECONDS);
    }
  }
  return bytes.length;
}
