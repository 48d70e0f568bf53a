// What the user's global object holds beside the language itself.

export const global = host.global();

const HIDDEN = { writable: true, configurable: true, enumerable: false };

/** Sets a property of an object of ours in the user's realm. */
export function set(object, name, value) {
  Reflect.defineProperty(object, name, { ...HIDDEN, value });
}

/** A global function of the user's that calls one of ours. */
export function define(name, length, implementation) {
  set(global, name, host.portal(name, length, implementation));
}

/** An object of the user's realm with functions that call ours. */
export function objectOf(functions) {
  const object = host.object();
  for (const [name, implementation] of Object.entries(functions))
    Reflect.defineProperty(object, name, { ...HIDDEN, enumerable: true, value: host.portal(name, implementation.length, implementation) });
  return object;
}

const refusal = (what) => `the Belljar sandbox does not offer ${what}`;

// Parts that are classes are written in the user's realm. Each is a function of what the shim gives it
// and returns what becomes global.
const PARTS = ["errors", "text", "crypto", "url", "clone"];

export const errorPrototypes = {};

export function installUserLibrary() {
  for (const part of PARTS) {
    const make = host.evaluate(host.readFile(`/boot/driver/user/${part}.js`, false), `belljar:${part}`);
    const parts = host.invoke(make, undefined, host.natives);
    for (const name of Reflect.ownKeys(parts)) set(global, name, parts[name]);
  }
  for (const name of ["ToolError", "ToolLimitError"]) errorPrototypes[name] = global[name].prototype;
  set(global, "performance", performanceObject());
  define("fetch", 1, () => {
    const [promise, , reject] = host.promise();
    host.invoke(reject, undefined, host.error("TypeError", refusal("network access")));
    return promise;
  });
  define("require", 1, (name) => {
    const hint = typeof name === "string" && /^[./]/.test(name) ? `; use import(${JSON.stringify(name)})` : "";
    throw new Error(`${refusal("require")}${hint || "; import works for files of the workspace"}`);
  });
  define("prompt", 1, (text) => askForInput(text === undefined ? "" : host.toText(text)));
}

function performanceObject() {
  const object = objectOf({
    now: () => host.ticks(),
    mark: () => undefined,
    measure: () => undefined,
  });
  Reflect.defineProperty(object, "timeOrigin", {
    get: host.portal("timeOrigin", 0, () => host.now() - host.ticks()),
    configurable: true,
    enumerable: true,
  });
  return object;
}

function askForInput(prompt) {
  const reply = host.hostCall(JSON.stringify({ do: "input", prompt: prompt.toWellFormed() }));
  const answer = reply === null ? {} : JSON.parse(reply);
  if (typeof answer.value === "string") return answer.value;
  throw new Error(answer.error?.message ?? refusal("input: nobody is there to answer"));
}
