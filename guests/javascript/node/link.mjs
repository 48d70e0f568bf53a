// The driver's requests to Belljar's host, as JSON-RPC: tools and input.

import { INTERRUPTED, UserEnd } from "../../threads/channel.mjs";

export class Link {
  #end;
  #lastId = 0;
  /** Number of a request -> the driver's number of a call that was begun, or null for one that is waited for. */
  #asked = new Map();
  #requestOf = new Map();
  #answers = [];
  #replies = new Map();

  #stop;

  /** `stop` ends the user's code that waits when it is interrupted. */
  constructor(end, stop) {
    this.#end = new UserEnd(end);
    this.#stop = stop;
  }

  send(message) {
    this.#end.send(JSON.stringify({ jsonrpc: "2.0", ...message }));
  }

  sendText(text) {
    this.#end.send(text);
  }

  /** Forgets an interrupt that came too late. */
  forgetSignal() {
    this.#end.forgetSignal();
  }

  /** A request of the driver: text in, text out. */
  call = (text) => {
    const { do: what, ...request } = JSON.parse(text);
    const { name, args, kwargs } = request;
    switch (what) {
      case "call":
        return this.#waitFor(this.#ask("tool.call", { name, args, kwargs }, null));
      case "input":
        return this.#waitFor(this.#ask("input", { prompt: request.prompt }, null));
      case "begin":
        this.#requestOf.set(request.id, this.#ask("tool.call", { name, args, kwargs }, request.id));
        return "{}";
      case "wait":
        while (this.#answers.length === 0) if (!this.#takeOne()) this.#stop();
        return JSON.stringify({ answers: this.takeAnswers() });
      default:
        this.#drop(this.#requestOf.get(request.id));
        this.#requestOf.delete(request.id);
        return "{}";
    }
  };

  takeAnswers() {
    return this.#answers.splice(0);
  }

  /** A reply of the host's. */
  take({ id, result, error }) {
    if (!this.#asked.has(id)) return; // dropped, or never asked
    const begun = this.#asked.get(id);
    this.#asked.delete(id);
    const reply = error ? { error: { name: error.data?.name ?? "ToolError", message: `${error.message}` } } : { value: result };
    if (begun === null) return void this.#replies.set(id, reply);
    this.#requestOf.delete(begun);
    this.#answers.push({ id: begun, ...reply });
  }

  #ask(method, params, begun) {
    const id = ++this.#lastId;
    this.#asked.set(id, begun);
    this.send({ id, method, params });
    return id;
  }

  #waitFor(id) {
    while (!this.#replies.has(id)) {
      if (this.#takeOne()) continue;
      this.#drop(id);
      this.#stop();
    }
    const reply = this.#replies.get(id);
    this.#replies.delete(id);
    return JSON.stringify(reply);
  }

  #drop(id) {
    if (this.#asked.delete(id)) this.send({ method: "tool.drop", params: { id } });
  }

  /** Takes one line while the user's code waits; false when it is interrupted. */
  #takeOne() {
    const line = this.#end.receive();
    if (line === INTERRUPTED) return false;
    try {
      const message = JSON.parse(line);
      if (message.method === undefined) this.take(message);
      else if (message.id !== undefined)
        this.send({ id: message.id, error: { code: -32600, message: "another request is being worked on; one at a time" } });
    } catch {
      this.send({ id: null, error: { code: -32700, message: "the line is no JSON" } });
    }
    return true;
  }
}
