// Runs a cell and tells what came of it, in Node's own event loop.

import { describe } from "./display.js";
import { describeEnd, describeError } from "./errors.js";
import { resetConsole } from "./console.js";
import { isExiting, takeExit } from "./process.js";
import { rememberSource } from "./stack.js";
import * as timers from "./timers.js";
import * as tools from "./tools.js";

const RETURNED = 0;

/** The cell that runs, or null: { reply, wantsValue, drains, outcome }. */
let cell = null;

export function execute({ code, filename, wantsValue, drains }, reply) {
  rememberSource(filename, code);
  resetConsole();
  const current = (cell = { reply, wantsValue, drains, outcome: null });
  host.setBusy(true);
  host.runCell(asObject(code, filename), filename, (outcome) => {
    // What was interrupted has been answered already.
    if (cell === current) ended(outcome);
  });
}

export function validate(code, filename) {
  rememberSource(filename, code);
  const error = host.syntaxErrorOf(asObject(code, filename), filename);
  return error === null ? { end: "finished", error: null } : { end: "raised", error: describeError(error) };
}

/** `{ a: 1 }` is meant as an object, as every console takes it, unless it makes sense only as a block. */
function asObject(code, filename) {
  if (!/^\s*\{/.test(code) || /;\s*$/.test(code)) return code;
  return host.syntaxErrorOf(`(${code}\n)`, filename) === null ? `(${code}\n)` : code;
}

function ended({ stopped, ...outcome }) {
  if (stopped) return stoppedNow();
  // A promise as the last expression is awaited.
  if (cell.wantsValue && host.promiseState(outcome.value) >= 0) return awaitValue(outcome.value);
  cell.outcome = outcome;
  lookAgain();
}

function awaitValue(promise) {
  const current = cell;
  const settle = (key) => host.portal("", 1, (result) => {
    if (cell !== current) return;
    cell.outcome = { [key]: result };
    lookAgain();
  });
  host.settled(promise, settle("value"), settle("thrown"));
}

/** A cell that has come to its end is over, or waits for what it has begun. */
export function lookAgain() {
  if (cell === null || cell.outcome === null) return;
  if (cell.drains && !("thrown" in cell.outcome) && (timers.outstanding() > 0 || tools.outstanding() > 0)) return;
  if ("thrown" in cell.outcome) return conclude(raised(cell.outcome.thrown));
  if (!cell.wantsValue) return conclude({ end: "finished" });
  const described = describe(cell.outcome.value);
  conclude(described.how === undefined || described.how === RETURNED ? { end: "finished", value: described.forms } : raised(host.result()));
}

timers.onDone(lookAgain);

/** The engine has stopped the code: exit() was called, or the host has interrupted. */
function stoppedNow() {
  const exitCode = takeExit();
  abandon();
  conclude(exitCode === null ? { end: "raised", error: interruption(), exit_code: 1 } : { end: "exited", exit_code: exitCode });
}

/** The host interrupts. */
export function interrupt() {
  if (cell !== null) stoppedNow();
}

/** exit() in a callback: the engine has stopped it, and nobody else knows. */
export function lookAfterExit() {
  if (cell !== null && isExiting()) stoppedNow();
}

/** An exception in a timer or another callback ends the cell, as it would end a program. */
export function threw(error) {
  if (cell === null) host.write(2, describeError(error).traceback);
  else conclude(raised(error));
}

export function rejected(reason) {
  if (cell !== null && cell.drains) conclude(raised(reason));
  else host.write(2, describeError(reason, "Uncaught (in promise)").traceback);
}

const raised = (thrown) => ({ exit_code: 1, ...describeEnd(thrown) });

function interruption() {
  const message = "the cell was interrupted";
  return { name: "Interrupted", message, traceback: `Uncaught Interrupted: ${message}\n` };
}

function abandon() {
  timers.clearAll();
  tools.abandonAll();
}

function conclude(outcome) {
  const { reply } = cell;
  const answer = { end: outcome.end, exit_code: outcome.exit_code ?? 0, error: outcome.error ?? null, value: outcome.value ?? null };
  if (answer.error !== null) host.write(2, answer.error.traceback);
  tools.dropAll();
  cell = null;
  host.setBusy(false);
  reply(answer);
}
