// Files of the workspace, as plain functions. Paths are relative to it. Errors have a code like ENOENT.

import { argumentJson } from "./json.js";
import { isObject, ownValue } from "./objects.js";
import { define } from "./library.js";

export function installFiles() {
  define("readText", 1, (path) => host.readFile(checked(path), false));
  define("readBytes", 1, (path) => host.readFile(checked(path), true));
  define("readJson", 1, (path) => host.parse(host.readFile(checked(path), false)));
  define("writeText", 2, (path, text) => host.writeFile(checked(path), textOf(text), false));
  define("writeBytes", 2, (path, bytes) => host.writeFile(checked(path), bytesOf(bytes), false));
  define("writeJson", 2, (path, value, indent) => host.writeFile(checked(path), jsonOf(value, indent), false));
  define("appendText", 2, (path, text) => host.writeFile(checked(path), textOf(text), true));
  define("listFiles", 0, (path, options) => listed(path === undefined ? "." : checked(path), options));
  define("removeFile", 1, (path) => host.remove(checked(path)));
  define("renameFile", 2, (from, to) => host.rename(checked(from), checked(to)));
  define("makeDir", 1, (path) => makeDirectories(checked(path)));
  define("exists", 1, (path) => host.status(checked(path)) !== null);
}

function checked(path) {
  if (typeof path !== "string" || path === "") throw new TypeError("the path must be a string");
  if (path.includes("\0")) throw new TypeError("the path must not contain a null character");
  return path;
}

function textOf(text) {
  if (isObject(text)) throw new TypeError("the text must be a string; writeJson writes objects");
  return host.toText(text).toWellFormed();
}

function bytesOf(bytes) {
  if (host.kind(bytes) !== "Uint8Array") throw new TypeError("the bytes must be a Uint8Array");
  return bytes;
}

function jsonOf(value, indent) {
  const text = argumentJson(value, "the value");
  const space = typeof indent === "number" || typeof indent === "string" ? indent : 2;
  return `${JSON.stringify(JSON.parse(text), null, space)}\n`;
}

/** Names of files, sorted; those in directories below as paths, directories left out, when `recursive` is set. */
function listed(path, options) {
  const recursive = isObject(options) && ownValue(options, "recursive") === true;
  const names = [];
  const visit = (directory, prefix) => {
    for (const name of host.list(directory).sort()) {
      if (recursive && name.endsWith("/")) visit(`${directory}/${name.slice(0, -1)}`, prefix + name);
      else names.push(prefix + name);
    }
  };
  visit(path, "");
  const list = host.array();
  names.forEach((value, index) =>
    Reflect.defineProperty(list, `${index}`, { value, writable: true, enumerable: true, configurable: true }),
  );
  return list;
}

function makeDirectories(path) {
  const parts = path.split("/");
  for (let end = 1; end <= parts.length; end++) {
    const part = parts.slice(0, end).join("/");
    if (part === "" || host.status(part) === "directory") continue;
    host.makeDirectory(part);
  }
}
