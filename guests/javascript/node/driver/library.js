// As ../../driver/library.js; most of what that adds Node has itself.

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

export const errorPrototypes = {};

export function installUserLibrary() {
  const parts = host.errorClasses;
  for (const name of Reflect.ownKeys(parts)) {
    set(global, name, parts[name]);
    errorPrototypes[name] = parts[name].prototype;
  }
  define("fetch", 1, () => {
    const [promise, , reject] = host.promise();
    host.invoke(reject, undefined, host.error("TypeError", refusal("network access")));
    return promise;
  });
  define("prompt", 1, (text) => askForInput(text === undefined ? "" : host.toText(text)));
}

function askForInput(prompt) {
  const reply = host.hostCall(JSON.stringify({ do: "input", prompt: prompt.toWellFormed() }));
  const answer = reply === null ? {} : JSON.parse(reply);
  if (typeof answer.value === "string") return answer.value;
  throw new Error(answer.error?.message ?? refusal("input: nobody is there to answer"));
}
