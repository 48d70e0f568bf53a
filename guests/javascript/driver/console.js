// console: log, info and debug go to standard output, warn, error and trace to standard error.

import { inspect, primitiveText } from "./inspect.js";
import { isObject, ownValue } from "./objects.js";
import { objectOf, set, global } from "./library.js";
import { frames } from "./stack.js";
import { table } from "./table.js";

const OUT = 1;
const ERROR = 2;

let indentation = "";
const counts = new Map();
const started = new Map();

/** What a cell leaves open does not move the output of the next. */
export function resetConsole() {
  indentation = "";
}

export function forgetConsole() {
  resetConsole();
  counts.clear();
  started.clear();
}

export function installConsole() {
  const label = (value) => (value === undefined ? "default" : host.toText(value));
  const elapsed = (name) => {
    const since = started.get(name);
    return since === undefined ? null : `${name}: ${duration(host.ticks() - since)}`;
  };
  const functions = {
    log: (...args) => print(OUT, format(args)),
    info: (...args) => print(OUT, format(args)),
    debug: (...args) => print(OUT, format(args)),
    warn: (...args) => print(ERROR, format(args)),
    error: (...args) => print(ERROR, format(args)),
    trace: (...args) => print(ERROR, ["Trace" + (args.length > 0 ? `: ${format(args)}` : ""), ...frames(host.error("Error", ""))].join("\n")),
    assert: (condition, ...args) => {
      if (!condition) print(ERROR, typeof args[0] === "string" ? `Assertion failed: ${format(args)}` : format(["Assertion failed", ...args]));
    },
    dir: (value, options) => print(OUT, inspect(value, depthOf(options))),
    dirxml: (...args) => print(OUT, format(args)),
    table: (data, columns) => print(OUT, table(data, columns) ?? format([data])),
    count: (name) => {
      const key = label(name);
      counts.set(key, (counts.get(key) ?? 0) + 1);
      print(OUT, `${key}: ${counts.get(key)}`);
    },
    countReset: (name) => void counts.delete(label(name)),
    time: (name) => void started.set(label(name), host.ticks()),
    timeLog: (name, ...args) => {
      const text = elapsed(label(name));
      if (text !== null) print(OUT, args.length > 0 ? `${text} ${format(args)}` : text);
    },
    timeEnd: (name) => {
      const text = elapsed(label(name));
      started.delete(label(name));
      if (text !== null) print(OUT, text);
    },
    group: (...args) => {
      if (args.length > 0) print(OUT, format(args));
      indentation += "  ";
    },
    groupEnd: () => {
      indentation = indentation.slice(2);
    },
    clear: () => undefined,
  };
  functions.groupCollapsed = functions.group;
  set(global, "console", objectOf(functions));
}

function print(stream, text) {
  if (indentation !== "") text = indentation + text.replaceAll("\n", `\n${indentation}`);
  host.write(stream, `${text}\n`);
}

function duration(milliseconds) {
  return milliseconds < 1000 ? `${milliseconds.toFixed(3)}ms` : `${(milliseconds / 1000).toFixed(3)}s`;
}

function depthOf(options) {
  const depth = isObject(options) ? ownValue(options, "depth") : undefined;
  return depth === null ? Infinity : typeof depth === "number" ? depth : 2;
}

/** Arguments as one text: strings as they are, other values inspected, % in the first string replaced. */
function format(args) {
  if (args.length === 1) return shown(args[0]);
  let at = 0;
  let text = "";
  if (typeof args[0] === "string") {
    text = args[0];
    at = 1;
    if (text.includes("%"))
      text = text.replace(/%([sdifjoOc%])/g, (all, kind) => {
        if (kind === "%") return "%";
        return at < args.length ? replacement(kind, args[at++]) : all;
      });
  }
  const rest = args.slice(at).map(shown);
  return at === 0 ? rest.join(" ") : [text, ...rest].join(" ");
}

const shown = (value) => (typeof value === "string" ? value : inspect(value));

function replacement(kind, value) {
  switch (kind) {
    case "s":
      if (typeof value === "string") return value;
      return isObject(value) ? inspect(value, 0) : primitiveText(value);
    case "d":
      return isObject(value) ? "NaN" : typeof value === "bigint" ? `${value}n` : typeof value === "symbol" ? "NaN" : `${Number(value)}`;
    case "i":
      return isObject(value) || typeof value === "symbol" ? "NaN" : typeof value === "bigint" ? `${value}n` : `${parseInt(value, 10)}`;
    case "f":
      return isObject(value) || typeof value === "symbol" ? "NaN" : `${parseFloat(value)}`;
    case "c":
      return "";
    case "j":
      return inspect(value, 10);
    default:
      return inspect(value, 4);
  }
}

