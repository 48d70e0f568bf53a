// What only the engine's debugger can do: run a cell as a console does, look into promises and at `let` variables.

import { Session } from "node:inspector";
import { createRequire } from "node:module";
import { promiseHooks } from "node:v8";
import vm from "node:vm";

const session = new Session();
session.connect();

// Values go from the debugger to us by way of a property that nobody else can name.
const SLOT = Symbol("belljar");
Object.defineProperty(globalThis, Symbol.for("belljar.slot"), { value: SLOT });
Object.defineProperty(globalThis, SLOT, { value: undefined, writable: true });
const slotExpression = `globalThis[globalThis[Symbol.for("belljar.slot")]]`;

/** The debugger's answer, at once; null when what it ran was stopped. */
function ask(method, params) {
  let answer = null;
  session.post(method, params, (error, result) => (answer = error ? null : result));
  return answer;
}

/** The value a remote object of the debugger's stands for. */
function valueOf(remote) {
  if (remote.objectId === undefined) return primitiveOf(remote);
  const functionDeclaration = `function () { ${slotExpression} = this }`;
  ask("Runtime.callFunctionOn", { objectId: remote.objectId, functionDeclaration });
  ask("Runtime.releaseObject", { objectId: remote.objectId });
  const value = globalThis[SLOT];
  globalThis[SLOT] = undefined;
  return value;
}

function primitiveOf({ type, value, unserializableValue, subtype }) {
  if (subtype === "null") return null;
  if (unserializableValue === undefined) return value;
  return type === "bigint" ? BigInt(unserializableValue.slice(0, -1)) : Number(unserializableValue);
}

/** Runs a cell: `onEnd` gets { value }, { thrown } or { stopped } when it is over, maybe much later, maybe never. */
export function runCell(code, filename, onEnd) {
  const expression = `${withImports(code)}\n//# sourceURL=${filename.replace(/\s/g, "_")}`;
  let promise = null;
  const unhook = promiseHooks.onInit((first) => {
    promise ??= first;
    unhook();
  });
  let isOver = false;
  session.post("Runtime.evaluate", { expression, replMode: true, awaitPromise: true }, (error, answer) => {
    isOver = true;
    unsettled.delete(promise);
    if (error) onEnd({ stopped: true });
    else if (answer.exceptionDetails) onEnd({ thrown: thrownOf(answer.exceptionDetails, filename) });
    else onEnd({ value: valueOf(answer.result) });
  });
  unhook();
  if (!isOver) unsettled.add(promise);
}

// Promises of cells that are not over. Were one collected, the debugger would tell us in the middle of a
// collection, where no code may run, and the process would die of it.
const unsettled = new Set();

function thrownOf({ exception, lineNumber, columnNumber, scriptId }, filename) {
  const thrown = valueOf(exception);
  // An error of the compiler's has no frame of the user's; the debugger knows the place.
  const isCompilers = scriptId !== undefined && thrown instanceof SyntaxError && !`${thrown.stack}`.includes(`${filename}:`);
  if (isCompilers) thrown.stack = `${thrown.name}: ${thrown.message}\n    at ${filename}:${lineNumber + 1}:${columnNumber + 1}`;
  return thrown;
}

/** Ends the code that runs right now; no `catch` or `finally` of it runs. */
export function stop() {
  ask("Runtime.terminateExecution", {});
  // The engine looks for it when a loop comes round.
  for (let i = 0; i < ROUNDS_TO_NOTICE; i++);
}

const ROUNDS_TO_NOTICE = 1e6;

/** null, or the SyntaxError of a cell that does not compile. */
export function syntaxErrorOf(code, filename) {
  const problem = compileProblem(code, filename);
  // `await` and what may be declared twice make sense only in a cell.
  return problem === null || compileProblem(`(async () => {${code}\n})`, filename) === null ? null : problem;
}

function compileProblem(code, filename) {
  try {
    new vm.Script(code, { filename });
    return null;
  } catch (error) {
    const place = /^(.*):(\d+)\n(.*)\n(\s*)\^/.exec(error.stack);
    if (place !== null) error.stack = `${error.name}: ${error.message}\n    at ${filename}:${place[2]}:${place[4].length + 1}`;
    return error;
  }
}

/** { state, result } of a promise; 0 pending, 1 fulfilled, 2 rejected. */
export function promiseDetails(promise) {
  globalThis[SLOT] = promise;
  const held = ask("Runtime.evaluate", { expression: slotExpression });
  const found = ask("Runtime.getProperties", { objectId: held.result.objectId, ownProperties: true });
  const internal = (name) => found.internalProperties.find((property) => property.name === name)?.value;
  const state = ["pending", "fulfilled", "rejected"].indexOf(internal("[[PromiseState]]").value);
  const result = state > 0 ? valueOf(internal("[[PromiseResult]]")) : undefined;
  globalThis[SLOT] = undefined;
  return { state, result };
}

/** Names of `let`, `const` and `class` of earlier cells. */
export const lexicalNames = () => ask("Runtime.globalLexicalScopeNames", {})?.names ?? [];

/** [value] of one of them, or null while it has none. */
export function lexicalValue(name) {
  const answer = ask("Runtime.evaluate", { expression: name, throwOnSideEffect: true });
  return answer === null || answer.exceptionDetails ? null : [valueOf(answer.result)];
}

/** Gives one of them another value; a constant may have one too. */
export function setLexical(name, value) {
  globalThis[SLOT] = value;
  ask("Runtime.evaluate", { expression: `let ${name} = ${slotExpression}`, replMode: true });
  globalThis[SLOT] = undefined;
}

// ---- import() ----

// As long as `import`, so that every column stays where it was.
export const IMPORT = "$mport";
const require = createRequire(import.meta.url);

/** Code that the debugger runs has no import() of its own: calls of it become calls of a function of ours. */
function withImports(code) {
  if (!/\bimport\s*\(/.test(code)) return code;
  const places = [];
  try {
    const { parse } = require("internal/deps/acorn/acorn/dist/acorn");
    const walk = require("internal/deps/acorn/acorn-walk/dist/walk");
    const options = { ecmaVersion: "latest", allowAwaitOutsideFunction: true, allowReturnOutsideFunction: true };
    walk.full(parse(code, options), (node) => node.type === "ImportExpression" && places.push(node.start));
  } catch {
    return code; // what is wrong with it the engine says better
  }
  for (const at of places) code = code.slice(0, at) + IMPORT + code.slice(at + "import".length);
  return code;
}
