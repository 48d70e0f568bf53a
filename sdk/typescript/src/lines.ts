// Lines of a stream of bytes, of bounded length.

import { MAX_MESSAGE_BYTES } from "./generated.js";

const NEWLINE = 10;

export class Lines {
  #parts: Buffer[] = [];
  #length = 0;

  /** Calls `each` with every line that is whole now, without its end. */
  take(chunk: Buffer, each: (line: string) => void): void {
    let start = 0;
    for (;;) {
      const end = chunk.indexOf(NEWLINE, start);
      if (end < 0) break;
      const rest = chunk.subarray(start, end);
      each(this.#parts.length === 0 ? rest.toString() : Buffer.concat([...this.#parts, rest]).toString());
      this.#parts = [];
      this.#length = 0;
      start = end + 1;
    }
    if (start < chunk.length) {
      this.#parts.push(chunk.subarray(start));
      this.#length += chunk.length - start;
      if (this.#length > MAX_MESSAGE_BYTES) throw new RangeError("a message has no end");
    }
  }
}
