// Runs a cell and tells what came of it. A cell is a promise: it is over when that is settled, and
// in between the loop here runs reactions, timers and what arrives from tools.

import { describe } from "./display.js";
import { describeEnd, describeError } from "./errors.js";
import { resetConsole } from "./console.js";
import { isObject } from "./objects.js";
import * as process from "./process.js";
import { own } from "./requests.js";
import { firstPlace, frames, excerpt, rememberSource } from "./stack.js";
import * as timers from "./timers.js";
import * as tools from "./tools.js";

// How a barrier was passed (../shim/barrier.c).
const RETURNED = 0;
const THREW = 1;
const STOPPED = 2;
const NOT_COMPILED = 3;

const PENDING = 0;
const REJECTED = 2;

const NEVER = "the cell waits for something that can never happen: nothing is left that could settle what it awaits";

/** The cell that runs or waits. */
let cell = null;

/** Rejected promises that nobody has looked at yet. */
const unhandled = new Map();
host.setOnRejection((promise, reason, handled) => {
  if (handled) unhandled.delete(promise);
  else unhandled.set(promise, reason);
});

export function execute({ code, filename, wantsValue, drains }) {
  rememberSource(filename, code);
  resetConsole();
  cell = { wantsValue, drains, promise: null, value: null, error: null };
  // From here the user's limits count; the host ignores a second call.
  host.phase(host.USER);
  begin(code, filename);
  return proceed();
}

export function resume(answers, interrupt) {
  host.phase(host.USER);
  if (cell === null) {
    host.phase(host.DRIVER);
    return { end: "raised", exit_code: 1, error: named("Error", "no cell is waiting"), value: null };
  }
  tools.deliver(answers);
  if (interrupt) {
    const outcome = interrupted(undefined);
    return conclude(outcome);
  }
  return proceed();
}

export function validate(code, filename) {
  rememberSource(filename, code);
  host.phase(host.USER);
  const how = compile(host.compile, code, filename);
  host.phase(host.DRIVER);
  if (how === RETURNED) return { end: "finished", error: null };
  return { end: "raised", error: describeError(host.result()) };
}

/** `{ a: 1 }` is meant as an object, as every console takes it, unless it makes sense only as a block. */
function compile(how, code, filename) {
  if (/^\s*\{/.test(code) && !/;\s*$/.test(code)) {
    if (host.compile(`(${code}\n)`, filename) === RETURNED) return how(`(${code}\n)`, filename);
    host.result();
  }
  return how(code, filename);
}

function begin(code, filename) {
  const how = compile(host.start, code, filename);
  if (how === RETURNED) cell.promise = host.result();
  else cell.failure = failed(how);
}

/** Goes on until the cell is over or has to wait for the host. */
function proceed() {
  const outcome = cell.failure ?? run();
  if (outcome.end === "waiting") {
    host.phase(host.DRIVER);
    return outcome;
  }
  return conclude(outcome);
}

function conclude(outcome) {
  // With the user's memory cap lifted a little there is room to report a full memory.
  host.phase(host.DRIVER);
  const answer = { end: outcome.end, exit_code: outcome.exitCode ?? 0, error: null, value: outcome.value ?? null };
  if ("thrown" in outcome) {
    Object.assign(answer, describeEnd(outcome.thrown));
    answer.exit_code = 1;
  } else if (outcome.error) {
    answer.error = outcome.error;
    answer.exit_code = 1;
  }
  if (answer.error !== null) host.write(2, answer.error.traceback);
  tools.dropAll();
  unhandled.clear();
  if (answer.end !== "finished") host.dropUninitialised();
  cell = null;
  return answer;
}

/** The event loop. */
function run() {
  for (;;) {
    const how = host.runJobs();
    if (how !== RETURNED) return failed(how);
    host.result();
    if (host.interrupted()) return interrupted(undefined);
    const state = host.promiseState(cell.promise);
    unhandled.delete(cell.promise);
    if (state === REJECTED) return { end: "raised", thrown: host.promiseResult(cell.promise) };
    const rejected = reportUnhandled();
    if (rejected !== null) return rejected;
    const isOver = state !== PENDING && valueIsReady();
    if (isOver && !cell.drains) return finished();
    const timer = timers.takeDue();
    if (timer !== null) {
      const called = host.call(timer.callback, undefined, ...timer.args);
      if (called !== RETURNED) return failed(called);
      host.result();
      continue;
    }
    const wait = timers.untilNext();
    if (tools.outstanding() > 0) return { end: "waiting", timer: wait === null ? null : wait / 1000 };
    if (wait === null) return state === PENDING ? { end: "raised", error: named("Error", NEVER) } : finished();
    host.sleep(wait);
    if (host.interrupted()) return interrupted(undefined);
  }
}

/** A promise as the last expression is awaited, as long as there is hope for it. */
function valueIsReady() {
  const value = lastValue();
  if (!cell.wantsValue || host.promiseState(value) !== PENDING) return true;
  return timers.untilNext() === null && tools.outstanding() === 0;
}

/** The engine wraps the value in an object; where every object is a thenable, it is what that has made of it. */
function lastValue() {
  const result = host.promiseResult(cell.promise);
  return isObject(result) ? own(result, "value") : result;
}

function finished() {
  if (!cell.wantsValue) return { end: "finished" };
  let value = lastValue();
  if (host.promiseState(value) > PENDING) {
    host.markHandled(value);
    if (host.promiseState(value) === REJECTED) return { end: "raised", thrown: host.promiseResult(value) };
    value = host.promiseResult(value);
  }
  const described = describe(value);
  if (host.interrupted()) return interrupted(undefined);
  return described.how === undefined ? { end: "finished", value: described.forms } : failed(described.how);
}

/** What did not return from a barrier. */
function failed(how) {
  const thrown = host.result();
  if (how === THREW || how === NOT_COMPILED) return { end: "raised", thrown };
  const exitCode = process.takeExit();
  if (exitCode !== null) {
    abandon();
    return { end: "exited", exitCode };
  }
  return interrupted(thrown);
}

/** The host has interrupted; where the code was is known if it was running. */
function interrupted(thrown) {
  host.interrupted();
  abandon();
  const trace = thrown === undefined ? [] : frames(thrown);
  return { end: "raised", error: named("Interrupted", "the cell was interrupted", trace) };
}

/** Nothing of the cell goes on after it. */
function abandon() {
  host.dropJobs();
  timers.clearAll();
  tools.abandonAll();
  if (cell.promise !== null) host.markHandled(cell.promise);
}

function named(name, message, trace = []) {
  const lines = [`${excerpt(firstPlace(trace))}Uncaught ${name}: ${message}`, ...trace];
  return { name, message, traceback: `${lines.join("\n")}\n` };
}

/** As in Node, a program does not survive a rejection that nobody looks at; a session does. */
function reportUnhandled() {
  if (unhandled.size === 0) return null;
  const value = cell.wantsValue && host.promiseState(cell.promise) !== PENDING ? lastValue() : undefined;
  for (const [promise, reason] of unhandled) {
    if (promise === value) continue;
    unhandled.delete(promise);
    if (cell.drains) return { end: "raised", thrown: reason };
    host.write(2, describeError(reason, "Uncaught (in promise)").traceback);
  }
  return null;
}
