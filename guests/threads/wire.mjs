// The thread that speaks with the host: lines from descriptor 3 to the user's, lines from there to descriptor 4.
// Sockets rather than files: that is what Deno opens by number, and what does not hold up the thread.

import { Buffer } from "node:buffer";
import { Socket } from "node:net";
import process from "node:process";
import { isMainThread } from "node:worker_threads";

import { WireEnd } from "./channel.mjs";

const PROTOCOL_IN = 3;
const PROTOCOL_OUT = 4;
const NEWLINE = 10;
// No request of the host is longer; one that is could only fill the memory.
const MAX_LINE_BYTES = 64 * 1024 * 1024;

/** `onLine` sees each line before the other thread gets it. */
export function serveWire(end, onLine = () => {}) {
  const user = new WireEnd(end);
  const out = new Socket({ fd: PROTOCOL_OUT, readable: false, writable: true });
  out.on("error", leave);
  user.onLine((line) => out.write(`${line}\n`));
  const lines = new LineSplitter((line) => {
    onLine(line);
    user.deliver(line);
  });
  const input = new Socket({ fd: PROTOCOL_IN, readable: true, writable: false });
  input.on("data", (data) => lines.take(data));
  input.on("end", leave);
  input.on("error", leave);
  return { interrupt: () => user.interrupt() };
}

/** Nobody is there any more. From a worker only a signal ends the whole process. */
function leave() {
  if (isMainThread) process.exit(0);
  process.kill(process.pid, "SIGKILL");
}

class LineSplitter {
  #pieces = [];
  #bytes = 0;
  #onLine;

  constructor(onLine) {
    this.#onLine = onLine;
  }

  take(data) {
    for (let start = 0; start < data.length; ) {
      const newline = data.indexOf(NEWLINE, start);
      const piece = data.subarray(start, newline < 0 ? data.length : newline);
      this.#bytes += piece.length;
      // Of a line that is too long the beginning is enough to be refused as no JSON.
      if (this.#bytes <= MAX_LINE_BYTES) this.#pieces.push(piece);
      if (newline < 0) return;
      const line = Buffer.concat(this.#pieces).toString();
      this.#pieces = [];
      this.#bytes = 0;
      if (line.trim() !== "") this.#onLine(line);
      start = newline + 1;
    }
  }
}
