// The forms in which a value is shown: text, JSON, and what notebooks know as rich output.

import { inspect } from "./inspect.js";
import { plainJson } from "./json.js";
import { RawJson } from "./requests.js";
import { classNameOf, findValue, isObject, keysOf, kindOf, ownValue } from "./objects.js";

const MAX_TEXT_CHARS = 256 * 1024;
const MAX_JSON_CHARS = 1024 * 1024;
const MAX_RICH_CHARS = 8 * 1024 * 1024;
const DEPTH = 4;

// As Deno's notebooks have it: a method that gives { mime type: text }.
const DISPLAY = Symbol.for("Jupyter.display");

/** { forms } of a cell's value, null for undefined; { how } when the value's own display failed. */
export function describe(value) {
  if (value === undefined) return { forms: null };
  const forms = { text: textOf(value), json: jsonOf(value), mime: {} };
  const display = isObject(value) ? findValue(value, DISPLAY) : undefined;
  if (typeof display !== "function") return { forms };
  const how = host.call(display, value);
  if (how !== 0) return { how };
  forms.mime = richForms(host.result());
  return { forms };
}

/** { type, text, json? } of a variable, or null. */
export function inspectVariable(name) {
  const found = typeof name === "string" ? host.variable(name) : null;
  if (found === null) return null;
  const [value] = found;
  const variable = { type: typeName(value), text: textOf(value) };
  const json = jsonOf(value);
  if (json !== null) variable.json = json;
  return variable;
}

export function typeName(value) {
  if (value === null) return "null";
  if (typeof value !== "object") return typeof value;
  return classNameOf(value) ?? (kindOf(value) || "object");
}

function textOf(value) {
  const text = inspect(value, DEPTH);
  return text.length <= MAX_TEXT_CHARS ? text : `${text.slice(0, MAX_TEXT_CHARS)}... (value truncated)`;
}

/** JSON that is text already; requests.js puts it into the answer as it is. */
function jsonOf(value) {
  const text = plainJson(value, MAX_JSON_CHARS);
  return text === null ? null : new RawJson(text);
}

function richForms(bundle) {
  const forms = {};
  if (!isObject(bundle)) return forms;
  for (const key of keysOf(bundle)) {
    const form = ownValue(bundle, key);
    if (typeof key !== "string" || !key.includes("/")) continue;
    const text = typeof form === "string" ? form : plainJson(form, MAX_RICH_CHARS);
    if (text !== null && text.length <= MAX_RICH_CHARS) forms[key] = text;
  }
  return forms;
}
