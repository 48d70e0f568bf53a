// The memory of an interpreter that is ready to serve, as a file.
//
// A line of JSON says what it was made of, then comes what Pyodide makes of its memory. A snapshot made
// of anything else than what is here now is not used; whoever can write the file can run code in the jail.

import { Buffer } from "node:buffer";
import { createHash } from "node:crypto";
import { existsSync, readFileSync, renameSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";

const FORMAT = 1;
const NEWLINE = 10;
const MAX_HEAD_BYTES = 1024;

/** Names the Pyodide in a folder and the driver's files. Its wasm is told by its size: Pyodide itself compares builds. */
export function fingerprintOf(folder, guestFiles) {
  const hash = createHash("sha256");
  hash.update(readFileSync(join(folder, "pyodide.mjs")));
  for (const name of ["pyodide.asm.mjs", "pyodide.asm.wasm", "python_stdlib.zip"])
    hash.update(`${name} ${statSync(join(folder, name)).size}\n`);
  for (const [name, text] of guestFiles) hash.update(`${name} ${text.length}\n${text}`);
  return hash.digest("hex");
}

/** The memory, or null when there is no snapshot that fits. */
export function readSnapshot(file, fingerprint) {
  if (file === null || !existsSync(file)) return null;
  const bytes = readFileSync(file);
  const end = bytes.subarray(0, MAX_HEAD_BYTES).indexOf(NEWLINE);
  try {
    const head = JSON.parse(bytes.subarray(0, end).toString());
    if (head.format !== FORMAT || head.fingerprint !== fingerprint || head.bytes !== bytes.length - head.start) return null;
    return new Uint8Array(bytes.buffer, bytes.byteOffset + head.start, head.bytes);
  } catch {
    return null;
  }
}

/** Complete or not at all. */
export function writeSnapshot(file, { pyodide, fingerprint }) {
  const memory = pyodide.makeMemorySnapshot();
  const head = Buffer.alloc(MAX_HEAD_BYTES, " ");
  head.write(`${JSON.stringify({ format: FORMAT, fingerprint, start: MAX_HEAD_BYTES, bytes: memory.length })}\n`);
  const temporary = `${file}.${process.pid}`;
  writeFileSync(temporary, Buffer.concat([head, memory]));
  renameSync(temporary, file);
}
