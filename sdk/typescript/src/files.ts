// Files of a sandbox's workspace, wherever it is.

import { ConfigError, SandboxError } from "./errors.js";
import { MAX_CHUNK_BYTES, type FileEntry, type Methods } from "./generated.js";

type FileMethod = "files.list" | "files.read" | "files.write" | "files.remove";

/** Asks the sandbox, when it is its turn. */
export type Ask = <M extends FileMethod>(
  method: M,
  params: Omit<Methods[M]["params"], "sandbox">,
) => Promise<Methods[M]["result"]>;

export class SandboxFiles {
  readonly #ask: Ask;

  constructor(ask: Ask) {
    this.#ask = ask;
  }

  /** Everything in the workspace. */
  list(): Promise<FileEntry[]> {
    return this.#ask("files.list", {});
  }

  /** The bytes of a file. */
  async read(path: string): Promise<Buffer> {
    const parts: Buffer[] = [];
    for (let offset = 0; ; ) {
      const { data, bytes, link } = await this.#ask("files.read", { path, offset });
      if (typeof link === "string") {
        throw new SandboxError("link", `${path} is a symbolic link to ${link}, and links are not followed`, {
          hint: `read ${link} instead`,
        });
      }
      const part = Buffer.from(data, "base64");
      parts.push(part);
      offset += part.length;
      if (part.length === 0 || offset >= bytes) return Buffer.concat(parts);
    }
  }

  /** A file as text. */
  async readText(path: string): Promise<string> {
    return (await this.read(path)).toString();
  }

  /** Writes a file; directories above it are made. */
  async write(path: string, contents: string | Uint8Array): Promise<void> {
    if (typeof contents !== "string" && !(contents instanceof Uint8Array)) {
      throw new ConfigError([{ field: "contents", message: "must be text or bytes" }]);
    }
    const bytes = Buffer.from(contents as Uint8Array);
    for (let offset = 0; offset === 0 || offset < bytes.length; offset += MAX_CHUNK_BYTES) {
      const data = bytes.subarray(offset, offset + MAX_CHUNK_BYTES).toString("base64");
      await this.#ask("files.write", { path, data, append: offset > 0 });
    }
  }

  /** Makes a directory and those above it. */
  async makeDirectory(path: string): Promise<void> {
    await this.#ask("files.write", { path, directory: true });
  }

  /** Removes a file, or a directory with everything in it. */
  async remove(path: string): Promise<void> {
    await this.#ask("files.remove", { path });
  }
}
