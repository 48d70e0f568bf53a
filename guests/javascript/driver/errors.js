// What becomes of an error that the user's code did not catch.

import { inspect } from "./inspect.js";
import { ownValue } from "./objects.js";
import { errorHead, errorMessage, errorName, excerpt, firstPlace, frames, isError } from "./stack.js";

const MAX_NAME_CHARS = 256;
const MAX_MESSAGE_CHARS = 64 * 1024;
const MAX_TRACEBACK_CHARS = 256 * 1024;

// Names that programs for other places expect, and what to say when they are not there.
const ABSENT = {
  __proto__: null,
  Intl: "the Belljar sandbox does not offer Intl (dates and numbers in the manner of a language)",
  Buffer: "the Belljar sandbox does not offer Buffer; use Uint8Array, TextEncoder, TextDecoder, btoa and atob",
  XMLHttpRequest: "the Belljar sandbox does not offer network access",
  WebSocket: "the Belljar sandbox does not offer network access",
  WebAssembly: "the Belljar sandbox does not offer WebAssembly",
  Worker: "the Belljar sandbox does not offer threads",
  document: "the Belljar sandbox does not offer a browser's objects",
  window: "the Belljar sandbox does not offer a browser's objects; globalThis is the global object",
  Deno: "the Belljar sandbox does not offer Deno's objects; readText and writeText work on files",
  Bun: "the Belljar sandbox does not offer Bun's objects; readText and writeText work on files",
  fs: "the Belljar sandbox does not offer Node's modules; readText, writeText, readJson, writeJson and listFiles work on files",
};

/** { name, message, traceback } of anything thrown. */
export function describeError(thrown, prefix = "Uncaught") {
  if (!isError(thrown)) {
    const text = inspect(thrown);
    return shortened("Uncaught", text, `${prefix} ${text}\n`);
  }
  const trace = frames(thrown);
  const place = firstPlace(trace);
  const hint = hintFor(thrown);
  const cause = causeText(thrown, 0);
  const lines = [`${excerpt(place)}${prefix} ${errorHead(thrown)}`, ...trace, ...cause, ...(hint ? [`hint: ${hint}`] : [])];
  return shortened(errorName(thrown), errorMessage(thrown), `${lines.join("\n")}\n`);
}

function causeText(error, depth) {
  const cause = ownValue(error, "cause");
  if (cause === undefined || depth > 3) return [];
  if (!isError(cause)) return [`caused by: ${inspect(cause)}`];
  return [`caused by: ${errorHead(cause)}`, ...frames(cause), ...causeText(cause, depth + 1)];
}

function hintFor(error) {
  if (errorName(error) !== "ReferenceError") return undefined;
  const match = /^'?([\w$]+)'? is not defined$/.exec(errorMessage(error));
  return match === null ? undefined : ABSENT[match[1]];
}

function shortened(name, message, traceback) {
  return {
    name: shorten(name, MAX_NAME_CHARS),
    message: shorten(message, MAX_MESSAGE_CHARS),
    traceback: shorten(traceback, MAX_TRACEBACK_CHARS),
  };
}

function shorten(text, limit) {
  if (text.length <= limit) return text;
  const half = Math.floor(limit / 2);
  return `${text.slice(0, half)}\n... (${text.length - 2 * half} characters left out) ...\n${text.slice(-half)}`;
}

/** How a cell ended that ended with this. */
export function endOf(thrown) {
  if (isOutOfMemory(thrown)) return "out_of_memory";
  if (isError(thrown) && ownValue(thrown, "code") === "ENOSPC") return "no_space";
  return "raised";
}

/** Without memory for an error QuickJS throws null. */
function isOutOfMemory(thrown) {
  if (!host.memoryRefused()) return false;
  if (thrown === null || thrown === undefined) return true;
  return isError(thrown) && errorName(thrown) === "InternalError" && errorMessage(thrown) === "out of memory";
}

export function describeEnd(thrown) {
  const end = endOf(thrown);
  if (end === "out_of_memory" && !isError(thrown))
    return { end, error: shortened("InternalError", "out of memory", "Uncaught InternalError: out of memory\n") };
  return { end, error: describeError(thrown) };
}
