// The state of a session, kept by the process `belljar` until it is dropped or brought here.

import type { Connection } from "./connection.js";
import { MAX_CHUNK_BYTES } from "./generated.js";

export class Snapshot {
  /** How long it is. */
  readonly bytes: number;
  readonly #connection: Connection;
  readonly #number: number;

  /** Made by `sandbox.snapshot()`. */
  constructor(connection: Connection, number: number, bytes: number) {
    this.#connection = connection;
    this.#number = number;
    this.bytes = bytes;
  }

  /** All of it, to be kept anywhere. It holds everything the session knew, secrets included. */
  async read(): Promise<Buffer> {
    const parts: Buffer[] = [];
    for (let offset = 0; offset < this.bytes; ) {
      const params = { snapshot: this.#number, offset, length: MAX_CHUNK_BYTES };
      const part = Buffer.from((await this.#connection.call("snapshot.read", params)).data, "base64");
      if (part.length === 0) break;
      parts.push(part);
      offset += part.length;
    }
    return Buffer.concat(parts);
  }

  /** Forgets it. What was restored from it lives on. */
  async drop(): Promise<void> {
    await this.#connection.call("snapshot.drop", { snapshot: this.#number });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.drop();
  }

  /** Its number with that process; a snapshot of another one is brought there first. */
  async numberAt(connection: Connection): Promise<{ number: number; brought: boolean }> {
    if (connection === this.#connection) return { number: this.#number, brought: false };
    return { number: await bring(connection, await this.read()), brought: true };
  }
}

/** Brings the bytes of a snapshot to a process, and gives its number there. */
export async function bring(connection: Connection, bytes: Uint8Array): Promise<number> {
  const all = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const part = (offset: number): string => all.subarray(offset, offset + MAX_CHUNK_BYTES).toString("base64");
  const { snapshot } = await connection.call("snapshot.write", { data: part(0) });
  for (let offset = MAX_CHUNK_BYTES; offset < all.length; offset += MAX_CHUNK_BYTES) {
    await connection.call("snapshot.write", { snapshot, data: part(offset) });
  }
  return snapshot;
}
