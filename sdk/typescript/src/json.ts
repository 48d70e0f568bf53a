// JSON as the other side takes it. It refuses a line that nests too deeply or would take too much
// memory without saying whose it was, so what would be refused is refused here, before it is sent.

import { NotJsonError } from "./errors.js";
import {
  LIST_BYTES,
  MAX_ANSWER_WEIGHT,
  MAX_JSON_NESTING,
  MAX_MESSAGE_BYTES,
  OBJECT_BYTES,
  TEXT_BYTES,
  VALUE_BYTES,
  type JsonValue,
} from "./generated.js";

/** Room for what a value is wrapped in. */
const ENVELOPE = 4096;

/** The value as JSON text; `what` names it in errors. */
export function encoded(value: unknown, what: string): string {
  const measure = new Measure(what);
  const text = JSON.stringify(measure.checked(value, 0) ?? null);
  const bytes = Buffer.byteLength(text);
  if (bytes + ENVELOPE > MAX_MESSAGE_BYTES) {
    throw new NotJsonError(what, `it is ${bytes} bytes long, and a message holds ${MAX_MESSAGE_BYTES}`);
  }
  if (bytes + measure.weight + ENVELOPE > MAX_ANSWER_WEIGHT) {
    throw new NotJsonError(what, "it would take too much memory; give it as text, or in files");
  }
  return text;
}

/** The value as what JSON carries of it. */
export function plain(value: unknown, what: string): JsonValue {
  return JSON.parse(encoded(value, what)) as JsonValue;
}

class Measure {
  weight = 0;
  readonly #what: string;
  readonly #above = new Set<object>();

  constructor(what: string) {
    this.#what = what;
  }

  /** The value itself, once it is known that JSON.stringify loses nothing of it. */
  checked(value: unknown, depth: number): unknown {
    this.weight += VALUE_BYTES;
    switch (typeof value) {
      case "undefined":
      case "boolean":
        return value;
      case "string":
        return this.#text(value);
      case "number":
        if (Number.isFinite(value)) return value;
        return this.#refuse(`JSON cannot carry ${value}`);
      case "bigint":
        return this.#refuse("JSON cannot carry a BigInt; give it as text or as a number");
      case "function":
      case "symbol":
        return this.#refuse(`JSON cannot carry a ${typeof value}`);
      case "object":
        return value === null ? value : this.#object(value, depth);
    }
  }

  #object(value: object, depth: number): unknown {
    if (depth >= MAX_JSON_NESTING) this.#refuse(`it nests deeper than ${MAX_JSON_NESTING} levels`);
    if (this.#above.has(value)) this.#refuse("it contains itself");
    if ("toJSON" in value && typeof value.toJSON === "function") {
      this.#above.add(value);
      const form = this.checked((value.toJSON as () => unknown)(), depth);
      this.#above.delete(value);
      return form;
    }
    this.#above.add(value);
    const form = Array.isArray(value) ? this.#list(value, depth) : this.#members(value, depth);
    this.#above.delete(value);
    return form;
  }

  #list(list: unknown[], depth: number): unknown[] {
    this.weight += LIST_BYTES;
    return list.map((item) => this.checked(item, depth + 1) ?? null);
  }

  #members(value: object, depth: number): object {
    const prototype: unknown = Object.getPrototypeOf(value);
    if (prototype !== null && prototype !== Object.prototype && isExotic(value)) {
      this.#refuse(`JSON cannot carry a ${value.constructor.name}; give a plain object or a list`);
    }
    this.weight += OBJECT_BYTES;
    const members: [string, unknown][] = [];
    for (const [name, member] of Object.entries(value)) {
      const form = this.checked(member, depth + 1);
      if (form !== undefined) members.push([this.#text(name), form]);
      this.weight += VALUE_BYTES;
    }
    return Object.fromEntries(members);
  }

  #text(text: string): string {
    if (!text.isWellFormed()) this.#refuse("a text contains half of a surrogate pair");
    this.weight += TEXT_BYTES;
    return text;
  }

  #refuse(problem: string): never {
    throw new NotJsonError(this.#what, problem);
  }
}

/** Whether what makes it up is not in its own members. */
function isExotic(value: object): boolean {
  return (
    value instanceof Map ||
    value instanceof Set ||
    value instanceof WeakMap ||
    value instanceof WeakSet ||
    value instanceof Promise ||
    value instanceof Error ||
    value instanceof RegExp ||
    value instanceof ArrayBuffer ||
    ArrayBuffer.isView(value)
  );
}
