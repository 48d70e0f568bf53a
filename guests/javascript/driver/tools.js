// Functions of the host that the user's code may call: NAME(…) gives a promise, NAME.sync(…) waits.

import { argumentJson, stringJson } from "./json.js";
import { errorPrototypes, global, set } from "./library.js";
import { chunkText, searchContext } from "./texts.js";
import { entries, items, own } from "./requests.js";

/** Calls that were begun and not answered: id -> { resolve, reject }. */
const calls = new Map();
let lastId = 0;

/** What we have put into global variables, to be taken away again with the tools. */
const ours = new Map();

export const outstanding = () => calls.size;

/**
 * Replaces the set of tools. Names that the user's code has taken for something else stay as they are.
 * `docs`: what the host says about some of them, or nothing.
 */
export function setTools(names, docs) {
  for (const [name, value] of ours) if (isStill(name, value)) Reflect.deleteProperty(global, name);
  ours.clear();
  for (const name of names) offer(name, described(tool(name), docs && own(docs, name)));
  for (const name of ["llm_query", "rlm_query"]) if (names.includes(name)) offer(`${name}_batched`, batched(name));
  if (names.length > 0) offerTexts();
}

/** Sets variables of the user's. With `context` come the functions that work on it. */
export function defineVariables(variables) {
  for (const [name, value] of entries(variables)) {
    host.setVariable(name, value);
    if (name === "context") offerTexts();
  }
}

function offerTexts() {
  const chunk = host.portal("chunkText", 2, chunkText);
  const search = host.portal("searchContext", 1, searchContext);
  offer("chunk_text", chunk);
  offer("chunkText", chunk);
  offer("search_context", search);
  offer("searchContext", search);
}

function offer(name, value) {
  if (host.variable(name) !== null) return;
  set(global, name, value);
  ours.set(name, value);
}

const isStill = (name, value) => host.variable(name)?.[0] === value;

function tool(name) {
  const start = host.portal(name, 0, (...args) => promised((settle) => begin(request(name, args), settle)));
  set(start, "sync", host.portal("sync", 0, (...args) => outcome(ask(`"do":"call",${request(name, args)}`))));
  return start;
}

/** `doc` and `signature` of a tool, for whoever asks: they cannot be changed and do not show. */
function described(tool, about) {
  for (const key of about ? ["doc", "signature"] : []) {
    const value = own(about, key);
    if (typeof value === "string") Reflect.defineProperty(tool, key, { value });
  }
  return tool;
}

/** One call for each item of a list; all run at once, the results come in order. */
function batched(name) {
  const requests = (list) => {
    if (!Array.isArray(list)) throw new TypeError(`${name}_batched: argument 1 must be an array`);
    const single = [];
    for (let i = 0; i < list.length; i++) single.push(request(name, [host.get(list, i)]));
    return single;
  };
  const start = host.portal(`${name}_batched`, 1, (list) => promised((settle) => beginAll(requests(list), settle)));
  const sync = (list) => {
    let result = null;
    beginAll(requests(list), (how, value) => (result ??= { how, value }));
    while (result === null) receive(own(ask('"do":"wait","seconds":null'), "answers"));
    if (result.how === "reject") throw result.value;
    return result.value;
  };
  set(start, "sync", host.portal("sync", 1, sync));
  return start;
}

function beginAll(requests, settle) {
  const results = host.array();
  let missing = requests.length;
  if (missing === 0) settle("resolve", results);
  requests.forEach((request, index) =>
    begin(request, (how, value) => {
      if (how === "reject") return settle(how, value);
      Reflect.defineProperty(results, `${index}`, { value, writable: true, enumerable: true, configurable: true });
      if (--missing === 0) settle("resolve", results);
    }),
  );
}

/** `"name":…,"args":…,"kwargs":{}` of a call. */
function request(name, args) {
  // The task's context, when none is given, is the session's.
  if (name === "rlm_query" && (args.length === 1 || args[1] === undefined || args[1] === null))
    args = [args[0], host.variable("context")?.[0] ?? null];
  const written = args.map((value, index) => argumentJson(value, `${name}: argument ${index + 1}`));
  return `"name":${stringJson(name)},"args":[${written.join(",")}],"kwargs":{}`;
}

/** A promise of the user's realm; `start` gets settle("resolve" | "reject", value). */
function promised(start) {
  const [promise, resolve, reject] = host.promise();
  start((how, value) => void host.invoke(how === "resolve" ? resolve : reject, undefined, value));
  return promise;
}

function begin(request, settle) {
  const id = ++lastId;
  const reply = ask(`"do":"begin","id":${id},${request}`);
  const error = own(reply, "error");
  if (error !== undefined) settle("reject", errorOf(error));
  else calls.set(id, settle);
}

/** Answers that have arrived: their promises are settled, and what waits for them runs in its turn. */
export function deliver(answers) {
  receive(answers);
}

function receive(answers) {
  for (const answer of items(answers)) {
    const id = own(answer, "id");
    const settle = calls.get(id);
    if (settle === undefined) continue;
    calls.delete(id);
    const error = own(answer, "error");
    if (error !== undefined) settle("reject", errorOf(error));
    else settle("resolve", own(answer, "value"));
  }
}

const ENDED = "the cell that made this call ended before the answer came; await it there";

/** Calls end with the cell that began them. */
export function dropAll() {
  for (const id of calls.keys()) host.hostCall(`{"do":"drop","id":${id}}`);
  for (const [id, settle] of calls) {
    calls.delete(id);
    settle("reject", host.error(errorPrototypes.ToolError, ENDED));
  }
}

/** The cell is abandoned: nothing that waits for a call may go on. */
export function abandonAll() {
  for (const id of calls.keys()) host.hostCall(`{"do":"drop","id":${id}}`);
  calls.clear();
}

/** The host's reply, in the user's realm. */
function ask(fields) {
  const reply = host.hostCall(`{${fields}}`);
  if (reply === null) throw new Error("the host refused the call");
  return host.parse(reply);
}

function outcome(reply) {
  const error = own(reply, "error");
  if (error !== undefined) throw errorOf(error);
  return own(reply, "value");
}

function errorOf(error) {
  const name = own(error, "name");
  const prototype = errorPrototypes[name === "ToolLimitError" ? name : "ToolError"];
  return host.error(prototype, String(own(error, "message")));
}
