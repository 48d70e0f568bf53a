// Names that complete what stands before the cursor. Looks, and runs nothing.

import { isObject, keysOf, kindOf, ownProperty, prototypeOf } from "./objects.js";
import { global } from "./library.js";

const MAX_MATCHES = 100;
const KEYWORDS =
  "async await break case catch class const continue debugger default delete do else export extends false finally for function if import in instanceof let new null of return static super switch this throw true try typeof undefined var void while yield".split(" ");

/** { start, matches }; both count characters, not halves of surrogate pairs. */
export function complete(code, cursor) {
  const before = typeof code === "string" && Number.isInteger(cursor) ? [...code].slice(0, Math.max(0, cursor)).join("") : "";
  const [, path, prefix] = /((?:[\p{ID_Start}$_][\p{ID_Continue}$]*\s*\??\.\s*)*)([\p{ID_Start}$_][\p{ID_Continue}$]*)?$/u.exec(before) ?? ["", "", ""];
  const word = prefix ?? "";
  const start = [...before].length - [...word].length;
  // After `foo().` or a number nothing is known.
  const isUnknown = path === "" && /[.)\]"'`]\s*$/.test(before.slice(0, before.length - word.length)) && /\.\s*$/.test(before.slice(0, before.length - word.length));
  if (isUnknown) return { start, matches: [] };
  const names = path === "" ? globalNames() : memberNames(path.split(".").map((name) => name.replace("?", "").trim()).slice(0, -1));
  const matches = [...new Set(names)].filter((name) => name.startsWith(word) && name !== word).sort(byRelevance);
  return { start, matches: matches.slice(0, MAX_MATCHES) };
}

const byRelevance = (a, b) => {
  const hidden = Number(a.startsWith("_")) - Number(b.startsWith("_"));
  return hidden !== 0 ? hidden : a < b ? -1 : 1;
};

function globalNames() {
  return [...host.lexicalNames(), ...Reflect.ownKeys(global).filter((key) => typeof key === "string"), ...KEYWORDS];
}

function memberNames(path) {
  let value = path[0] === "globalThis" ? global : host.variable(path[0])?.[0];
  for (const name of path.slice(1)) value = isObject(value) ? lookedUp(value, name) : undefined;
  const object = isObject(value) ? value : primitivePrototype(value);
  const names = [];
  for (let at = object; at !== null && at !== undefined; at = prototypeOf(at)) {
    if (kindOf(at) === "Proxy") break;
    const keys = Array.isArray(at) || ArrayBuffer.isView(at) ? [...host.namedKeys(at), ...keysOf(at)] : Reflect.ownKeys(at);
    names.push(...keys.filter((key) => typeof key === "string" && /^[\p{ID_Start}$_][\p{ID_Continue}$]*$/u.test(key)));
  }
  return names;
}

function lookedUp(object, name) {
  for (let at = object; at !== null; at = prototypeOf(at)) {
    const property = ownProperty(at, name);
    if (property !== undefined) return property.value;
  }
  return undefined;
}

/** The prototypes of the user's realm, found where nobody has put anything in the way. */
function primitivePrototype(value) {
  const constructor = { string: "String", number: "Number", boolean: "Boolean", bigint: "BigInt", symbol: "Symbol" }[typeof value];
  const found = constructor === undefined ? undefined : host.variable(constructor)?.[0];
  return isObject(found) ? ownProperty(found, "prototype")?.value : undefined;
}
