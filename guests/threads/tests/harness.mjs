// A real interpreter process on the other end of pipes, as the host starts it.

import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";

export class Process {
  #buffer = "";
  #lastId = 0;
  #waiting = new Map();
  stdout = "";
  stderr = "";
  /** Everything that came, in the order it came: { fd, text } or { message }. */
  events = [];
  notifications = [];
  handlers = {};

  constructor(command, args) {
    this.workspace = mkdtempSync(join(tmpdir(), "belljar-test-"));
    this.process = spawn(command[0], [...command.slice(1), ...args], {
      stdio: ["ignore", "pipe", "pipe", "pipe", "pipe"],
      env: { PATH: process.env.PATH, HOME: this.workspace, SECRET: "of the host" },
    });
    this.ended = new Promise((resolve) => this.process.on("exit", (code, signal) => resolve(signal ?? code)));
    this.process.stdout.on("data", (data) => this.#printed("stdout", data));
    this.process.stderr.on("data", (data) => this.#printed("stderr", data));
    this.process.stdio[4].on("data", (data) => this.#take(data));
    this.process.stdio[3].on("error", () => {});
    this.ended.then((how) => {
      for (const { reject } of this.#waiting.values()) reject(new Error(`the interpreter has ended (${how}): ${this.stderr}`));
    });
  }

  #printed(name, data) {
    this[name] += data;
    this.events.push({ [name]: `${data}` });
  }

  #take(data) {
    this.#buffer += data;
    for (;;) {
      const newline = this.#buffer.indexOf("\n");
      if (newline < 0) return;
      const message = JSON.parse(this.#buffer.slice(0, newline));
      this.#buffer = this.#buffer.slice(newline + 1);
      this.#receive(message);
    }
  }

  async #receive(message) {
    if (message.method === undefined) {
      this.#waiting.get(message.id)?.resolve(message);
      this.#waiting.delete(message.id);
    } else if (message.id === undefined) {
      this.notifications.push(message);
    } else {
      this.events.push({ asked: message });
      const handler = this.handlers[message.method === "input" ? "input" : message.params.name];
      const answer = handler ? await handler(message.params, message.id) : { error: { code: -32601, message: "no such tool" } };
      if (answer !== undefined) this.sendLine(JSON.stringify({ jsonrpc: "2.0", id: message.id, ...answer }));
    }
  }

  sendLine(line) {
    this.process.stdio[3].write(`${line}\n`);
  }

  /** The whole message that answers the request with this id (`null`: a line that could not be read). */
  reply(id) {
    return new Promise((resolve, reject) => this.#waiting.set(id, { resolve, reject }));
  }

  request(method, params) {
    const id = `r${++this.#lastId}`;
    const reply = this.reply(id);
    this.sendLine(JSON.stringify({ jsonrpc: "2.0", id, method, params }));
    return reply;
  }

  async call(method, params) {
    const { result, error } = await this.request(method, params);
    if (error !== undefined) throw new Error(error.message);
    return result;
  }

  initialize(more = {}) {
    const surroundings = { workspace: this.workspace, env: {}, path: [], argv: [""], tools: [], ...more };
    return this.call("initialize", { surroundings });
  }

  execute(code, more = {}) {
    return this.call("execute", { code, filename: "<cell>", value: true, ...more });
  }

  interrupt() {
    this.process.kill("SIGINT");
  }

  /** Ends it as the host does, by closing the protocol. */
  async close() {
    this.process.stdio[3].end();
    const how = await this.ended;
    rmSync(this.workspace, { recursive: true, force: true });
    return how;
  }
}

export const sleep = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

/** Waits until something is so. */
export async function until(condition, milliseconds = 20_000) {
  const end = Date.now() + milliseconds;
  while (!condition()) {
    if (Date.now() > end) throw new Error(`not so after ${milliseconds} ms: ${condition}`);
    await sleep(10);
  }
}
