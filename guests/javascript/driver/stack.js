// What is said about an error: its name, its message, and where in the user's code it came from.

import { classNameOf, findValue, getter, isObject, kindOf } from "./objects.js";

export const MAX_FRAMES = 50;

/** The name and message of an error, as they are written; no code of the user's runs. */
export function errorName(error) {
  const name = part(error, "name");
  if (typeof name !== "string" || name === "") return "Error";
  // A class of one's own often does not say its name.
  return name === "Error" ? (classNameOf(error) ?? name) : name;
}

export function errorMessage(error) {
  const message = part(error, "message");
  return typeof message === "string" ? message : "";
}

/** A DOMException has getters for both; ours read what is inside of it. */
function part(error, key) {
  return kindOf(error) === "DOMException" ? exceptionGetters[key](error) : findValue(error, key);
}

const exceptionGetters = { name: getter(DOMException.prototype, "name"), message: getter(DOMException.prototype, "message") };

export function errorHead(error) {
  const name = errorName(error);
  const message = errorMessage(error);
  return message === "" ? name : `${name}: ${message}`;
}

export const isError = (value) => isObject(value) && (kindOf(value) === "Error" || kindOf(value) === "DOMException");

/** The lines "    at …" of an error's stack. */
export function frames(error) {
  const stack = host.errorStack(error);
  if (typeof stack !== "string") return [];
  return stack.split("\n").filter((line) => line.startsWith("    at ")).slice(0, MAX_FRAMES);
}

/** Where the first line that has a place points to. */
export function firstPlace(lines) {
  for (const line of lines) {
    const match = /^ {4}at (?:.* \()?(.+):(\d+):(\d+)\)?$/.exec(line);
    if (match !== null) return { file: match[1], line: Number(match[2]), column: Number(match[3]) };
  }
  return null;
}

// ---- the sources of cells, to show the line an error comes from ----

const MAX_KEPT_CHARS = 1024 * 1024;
const sources = new Map();
let kept = 0;

export function rememberSource(file, source) {
  forget(file);
  sources.set(file, source);
  kept += source.length;
  for (const oldest of sources.keys()) {
    if (kept <= MAX_KEPT_CHARS || oldest === file) break;
    forget(oldest);
  }
}

function forget(file) {
  kept -= sources.get(file)?.length ?? 0;
  sources.delete(file);
}

export function forgetSources() {
  sources.clear();
  kept = 0;
}

/** The line itself with a mark below, or nothing when it is not known. */
export function excerpt(place) {
  const source = place === null ? undefined : (sources.get(place.file) ?? fileSource(place.file));
  const line = source?.split("\n")[place.line - 1];
  if (line === undefined || line.length > 500) return "";
  const mark = line.slice(0, place.column - 1).replace(/[^\t]/g, " ");
  return `${place.file}:${place.line}\n${line}\n${mark}^\n\n`;
}

function fileSource(file) {
  if (!file.startsWith("/")) return undefined;
  try {
    return host.readFile(file, false);
  } catch {
    return undefined;
  }
}

