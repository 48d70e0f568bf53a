// The `host` object of the JavaScript driver, on Node: what the shim's C does for QuickJS (../shim).
// This realm is the user's; the driver has one of its own.

import fs from "node:fs";
import { types } from "node:util";

import * as engine from "./engine.mjs";

const { apply, getOwnPropertyDescriptor, defineProperty, ownKeys } = Reflect;
const RETURNED = 0;
const THREW = 1;

/** `link` is the way to Belljar's host: call(text) for the driver's requests. */
export function makeHost(link) {
  let result;
  return {
    hostCall: link.call,
    memoryRefused: () => false,

    // From the driver into the user's code.
    call(f, self, ...args) {
      try {
        result = apply(f, self, args);
        return RETURNED;
      } catch (error) {
        result = error;
        return THREW;
      }
    },
    result: () => result,
    get: (object, key) => object[key],
    invoke: (f, self, ...args) => apply(f, self, args),
    toNumber: (value) => +value,
    toText: (value) => `${value}`,

    // From the user's code into the driver.
    portal,
    error(kind, message) {
      const prototype = typeof kind === "string" ? globalThis[kind].prototype : kind;
      const error = new Error(message);
      Object.setPrototypeOf(error, prototype);
      return error;
    },
    object: () => ({}),
    array: () => [],
    parse: (text) => JSON.parse(text),
    promise() {
      let resolve, reject;
      const promise = new Promise((...both) => ([resolve, reject] = both));
      return [promise, resolve, reject];
    },
    settled: (promise, onValue, onError) => void Promise.prototype.then.call(promise, onValue, onError),
    global: () => globalThis,

    // Looking at values.
    kind,
    proxyTarget: () => null,
    promiseState: (value) => (types.isPromise(value) ? engine.promiseDetails(value).state : -1),
    promiseResult: (value) => engine.promiseDetails(value).result,
    errorStack,
    namedKeys: (object) => ownKeys(object).filter((key) => typeof key === "symbol" || !/^\d+$/.test(key)),
    isClass: (value) => typeof value === "function" && /^class\b/.test(Function.prototype.toString.call(value)),

    // Variables.
    variable(name) {
      if (engine.lexicalNames().includes(name)) return engine.lexicalValue(name);
      const property = getOwnPropertyDescriptor(globalThis, name);
      return property === undefined || !("value" in property) ? null : [property.value];
    },
    setVariable(name, value) {
      if (engine.lexicalNames().includes(name)) engine.setLexical(name, value);
      else defineProperty(globalThis, name, { value, writable: true, enumerable: true, configurable: true });
    },
    lexicalNames: engine.lexicalNames,

    // The world.
    ticks: () => performance.now(),
    write: writeAll,
    readFile: (path, asBytes) => (asBytes ? new Uint8Array(fs.readFileSync(path)) : fs.readFileSync(path, "utf8")),
    writeFile: (path, data, append) => (append ? fs.appendFileSync : fs.writeFileSync)(path, data),
    remove: (path) => (fs.lstatSync(path).isDirectory() ? fs.rmdirSync(path) : fs.unlinkSync(path)),
    rename: (from, to) => fs.renameSync(from, to),
    makeDirectory: (path) => fs.mkdirSync(path),
    list: (path) => fs.readdirSync(path, { withFileTypes: true }).map((entry) => entry.name + (entry.isDirectory() ? "/" : "")),
    status(path) {
      const found = fs.statSync(path, { throwIfNoEntry: false });
      return found === undefined ? null : found.isDirectory() ? "directory" : "file";
    },
  };
}

/** A function of this realm that calls one of the driver's; the driver's errors become this realm's. */
function portal(name, length, implementation) {
  const passed = function (...args) {
    try {
      return implementation(...args);
    } catch (error) {
      throw error instanceof Error || !types.isNativeError(error) ? error : translated(error);
    }
  };
  defineProperty(passed, "name", { value: name, configurable: true });
  defineProperty(passed, "length", { value: length, configurable: true });
  return passed;
}

function translated(error) {
  const Type = { TypeError, RangeError, SyntaxError }[error.name] ?? Error;
  return new Type(error.message);
}

/** The built-in class of an object, "Proxy", or "" for what is no object. */
function kind(value) {
  if ((typeof value !== "object" && typeof value !== "function") || value === null) return "";
  if (types.isProxy(value)) return "Proxy";
  if (typeof value === "function") return functionKind(value);
  if (Array.isArray(value)) return "Array";
  if (ArrayBuffer.isView(value)) return types.isDataView(value) ? "DataView" : typedArrayName(value);
  for (const [name, is] of KINDS) if (is(value)) return name;
  return value instanceof DOMException ? "DOMException" : "Object";
}

const typedArrayName = (() => {
  const { get } = getOwnPropertyDescriptor(Object.getPrototypeOf(Uint8Array.prototype), Symbol.toStringTag);
  return (value) => apply(get, value, []);
})();

const KINDS = [
  ["Error", types.isNativeError], ["Promise", types.isPromise], ["Map", types.isMap], ["Set", types.isSet], ["Date", types.isDate],
  ["RegExp", types.isRegExp], ["ArrayBuffer", types.isArrayBuffer], ["SharedArrayBuffer", types.isSharedArrayBuffer],
  ["WeakMap", types.isWeakMap], ["WeakSet", types.isWeakSet], ["Number", types.isNumberObject], ["String", types.isStringObject],
  ["Boolean", types.isBooleanObject], ["Symbol", types.isSymbolObject], ["BigInt", types.isBigIntObject],
  ["Arguments", types.isArgumentsObject], ["Generator", types.isGeneratorObject], ["Module", types.isModuleNamespaceObject],
];

function functionKind(value) {
  const isAsync = types.isAsyncFunction(value);
  if (!types.isGeneratorFunction(value)) return isAsync ? "AsyncFunction" : "Function";
  return isAsync ? "AsyncGeneratorFunction" : "GeneratorFunction";
}

/** The stack without what is ours and Node's own. */
function errorStack(error) {
  let stack;
  try {
    stack = error.stack;
  } catch {
    return undefined;
  }
  if (typeof stack !== "string") return undefined;
  const lines = stack.split("\n");
  const ours = lines.findIndex((line) => line.startsWith("    at Session.post (node:inspector"));
  return (ours < 0 ? lines : lines.slice(0, ours)).filter((line) => !OURS.test(line)).join("\n");
}

const OURS = new RegExp(`^ {4}at .*(node:internal|${new URL(".", import.meta.url).href}|belljar:)`);

const nothing = new Int32Array(new SharedArrayBuffer(4));

export function writeAll(fd, text) {
  const bytes = typeof text === "string" ? Buffer.from(text) : text;
  for (let written = 0; written < bytes.length; ) {
    try {
      written += fs.writeSync(fd, bytes, written);
    } catch (error) {
      // Somebody has made the pipe non-blocking, and it is full.
      if (error.code !== "EAGAIN") return;
      Atomics.wait(nothing, 0, 0, 1);
    }
  }
}
