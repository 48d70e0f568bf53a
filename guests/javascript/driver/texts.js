// chunk_text and search_context: for working through a text that is too long to read at once.

import { inspect } from "./inspect.js";
import { plainJson } from "./json.js";
import { isObject, kindOf, regExpParts } from "./objects.js";

/** A list of pieces of at most `size` characters, each beginning `overlap` characters before the end of the one before. */
export function chunkText(text, size, overlap) {
  if (typeof text !== "string") throw new TypeError("chunk_text: the text must be a string");
  const length = wholeNumber("size", size, 1);
  const shared = overlap === undefined ? 0 : wholeNumber("overlap", overlap, 0);
  if (shared >= length) throw new RangeError("chunk_text: overlap must be smaller than size");
  const chunks = host.array();
  let count = 0;
  for (let start = 0; start < text.length; start += length - shared) {
    set(chunks, count++, text.slice(start, start + length));
    if (start + length >= text.length) break;
  }
  return chunks;
}

function wholeNumber(what, value, least) {
  if (!Number.isInteger(value) || value < least) throw new RangeError(`chunk_text: ${what} must be a whole number, at least ${least}`);
  return value;
}

// More than anybody reads; a pattern that matches everywhere must not fill the memory.
const MAX_MATCHES = 1000;

/** Where a pattern occurs in `context`: match, start, end, and as `context` the match with `window` characters on either side. */
export function searchContext(pattern, window = 200) {
  if (!Number.isInteger(window) || window < 0) throw new RangeError("search_context: window must be a whole number, at least 0");
  const text = searchable(host.variable("context")?.[0]);
  const matches = host.array();
  let count = 0;
  for (const match of text.matchAll(expressionOf(pattern))) {
    const start = match.index;
    const end = start + match[0].length;
    const found = host.object();
    set(found, "match", match[0]);
    set(found, "start", start);
    set(found, "end", end);
    set(found, "context", text.slice(Math.max(0, start - window), end + window));
    set(matches, count++, found);
    if (count === MAX_MATCHES) break;
  }
  return matches;
}

/** A context that is no text is searched as its JSON. */
function searchable(context) {
  if (typeof context === "string") return context;
  if (context === undefined || context === null) throw new Error("search_context: there is no context; set the variable `context` first");
  return plainJson(context, Infinity) ?? inspect(context, 10);
}

function expressionOf(pattern) {
  if (typeof pattern === "string") return new RegExp(pattern, "g");
  if (!isObject(pattern) || kindOf(pattern) !== "RegExp") throw new TypeError("search_context: the pattern must be a string or a RegExp");
  const { source, flags } = regExpParts(pattern);
  return new RegExp(source, `${flags.replace(/[gy]/g, "")}g`);
}

const set = (object, key, value) =>
  Reflect.defineProperty(object, `${key}`, { value, writable: true, enumerable: true, configurable: true });
