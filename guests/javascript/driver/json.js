// JSON of values of the user's: refused rather than changed on the way.

import { classNameOf, keysOf, kindOf, ownProperty, ownValue, prototypeOf } from "./objects.js";

// The host reads a little more than a hundred levels.
const MAX_DEPTH = 100;

const objectPrototype = Reflect.getPrototypeOf(host.object());

/** JSON of a value that is made of plain objects, arrays and primitives only, or null. Runs nothing. */
export function plainJson(value, maxChars) {
  try {
    return new Writer({ runsCode: false, maxChars }).text(value, "");
  } catch (error) {
    if (error instanceof Refusal) return null;
    throw error;
  }
}

/** JSON of an argument; throws a TypeError of the user's that names it. Runs toJSON and getters, as JSON.stringify does. */
export function argumentJson(value, name) {
  try {
    return new Writer({ runsCode: true, maxChars: Infinity }).text(value, name);
  } catch (error) {
    if (error instanceof Refusal) throw host.error("TypeError", error.message);
    throw error;
  }
}

class Refusal extends Error {
  constructor(where, why) {
    super(`${where.length > MAX_WHERE_CHARS ? `${where.slice(0, MAX_WHERE_CHARS)}…` : where} ${why}`);
  }
}

const MAX_WHERE_CHARS = 100;

const ADVICE = {
  __proto__: null,
  Map: "; use Object.fromEntries(map)",
  Set: "; use [...set]",
  Promise: "; await it first",
};

class Writer {
  constructor({ runsCode, maxChars }) {
    this.runsCode = runsCode;
    this.left = maxChars;
    this.path = [];
  }

  text(value, where) {
    const text = this.written(value, where);
    this.left -= text.length;
    if (this.left < 0) throw new Refusal(where, "is too large");
    return text;
  }

  written(value, where) {
    switch (typeof value) {
      case "string":
        return stringJson(value);
      case "boolean":
        return value ? "true" : "false";
      case "number":
        if (!Number.isFinite(value)) throw new Refusal(where, `is ${value}, which JSON cannot carry`);
        return JSON.stringify(value);
      case "bigint":
        throw new Refusal(where, `is a BigInt, which JSON cannot carry; use Number(n) or String(n)`);
      case "undefined":
        throw new Refusal(where, `is undefined, which JSON cannot carry; use null`);
      case "object":
        return value === null ? "null" : this.object(value, where);
      default:
        throw new Refusal(where, `is a ${typeof value}, which JSON cannot carry`);
    }
  }

  object(value, where) {
    if (this.path.includes(value)) throw new Refusal(where, `contains itself, which JSON cannot carry`);
    if (this.path.length >= MAX_DEPTH) throw new Refusal(where, `is nested more than ${MAX_DEPTH} levels deep`);
    if (this.runsCode && kindOf(value) !== "Proxy") {
      const convert = host.get(value, "toJSON");
      if (typeof convert === "function") return this.text(host.invoke(convert, value, ""), where);
    }
    this.path.push(value);
    const text = this.structure(value, where);
    this.path.pop();
    return text;
  }

  structure(value, where) {
    const kind = kindOf(value);
    if (kind === "Array") return this.array(value, where);
    const isPlain = [objectPrototype, null].includes(prototypeOf(value));
    if (kind === "Object" && (isPlain || this.runsCode)) return this.record(value, where);
    const boxed = { Number, String, Boolean }[kind];
    if (boxed !== undefined && this.runsCode) return this.text(Reflect.apply(boxed.prototype.valueOf, value, []), where);
    const what = classNameOf(value) ?? kind;
    throw new Refusal(where, `is a ${what}, which JSON cannot carry${ADVICE[kind] ?? ""}`);
  }

  array(value, where) {
    const length = ownValue(value, "length");
    const parts = [];
    for (let i = 0; i < length; i++) parts.push(this.text(this.property(value, `${i}`, where), `${where}[${i}]`));
    return `[${parts.join(",")}]`;
  }

  record(value, where) {
    const parts = [];
    for (const key of keysOf(value)) {
      if (typeof key !== "string") continue;
      const entry = this.property(value, key, where);
      // Left out, as everywhere in JavaScript.
      if (entry === undefined) continue;
      parts.push(`${stringJson(key)}:${this.text(entry, `${where}.${key}`)}`);
      this.left -= key.length;
    }
    return `{${parts.join(",")}}`;
  }

  property(value, key, where) {
    const property = ownProperty(value, key);
    if (property === undefined || "value" in property) return property?.value;
    if (!this.runsCode) throw new Refusal(where, `has a getter`);
    return host.get(value, key);
  }
}

/** Halves of surrogate pairs cannot be carried either; they become U+FFFD. */
export const stringJson = (text) => JSON.stringify(text.isWellFormed() ? text : text.toWellFormed());

