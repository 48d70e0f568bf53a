// setTimeout and its kin. The loop in cells.js calls what is due.

import { define } from "./library.js";

/** A heap by time, then by order of creation. */
const heap = [];
const byId = new Map();
let lastId = 0;

export function installTimers() {
  define("setTimeout", 2, (callback, delay, ...args) => add(callback, delay, args, null, 1));
  define("setInterval", 2, (callback, delay, ...args) => add(callback, delay, args, delay, 1));
  define("setImmediate", 1, (callback, ...args) => add(callback, 0, args, null, 0));
  for (const name of ["clearTimeout", "clearInterval", "clearImmediate"]) define(name, 1, clear);
}

function add(callback, delay, args, every, least) {
  if (typeof callback !== "function") throw new TypeError("The callback must be a function");
  const wait = milliseconds(delay, least);
  const timer = { id: ++lastId, at: host.ticks() + wait, callback, args, every: every === null ? null : wait };
  byId.set(timer.id, timer);
  push(timer);
  return timer.id;
}

function milliseconds(delay, least) {
  const number = delay === undefined ? 0 : host.toNumber(delay);
  return number >= least && number < 2 ** 31 ? number : least;
}

function clear(id) {
  if (typeof id === "number") byId.delete(id);
}

export function clearAll() {
  heap.length = 0;
  byId.clear();
}

/** The next timer whose time has come, or null. */
export function takeDue() {
  dropCleared();
  if (heap.length === 0 || heap[0].at > host.ticks()) return null;
  const timer = pop();
  if (timer.every === null) {
    byId.delete(timer.id);
  } else {
    timer.at = host.ticks() + timer.every;
    push(timer);
  }
  return timer;
}

/** Milliseconds until the next timer, or null. */
export function untilNext() {
  dropCleared();
  return heap.length === 0 ? null : Math.max(0, heap[0].at - host.ticks());
}

function dropCleared() {
  while (heap.length > 0 && byId.get(heap[0].id) !== heap[0]) pop();
}

const isBefore = (a, b) => a.at < b.at || (a.at === b.at && a.id < b.id);

function push(timer) {
  let at = heap.push(timer) - 1;
  while (at > 0) {
    const parent = (at - 1) >> 1;
    if (!isBefore(timer, heap[parent])) break;
    heap[at] = heap[parent];
    at = parent;
  }
  heap[at] = timer;
}

function pop() {
  const top = heap[0];
  const last = heap.pop();
  if (heap.length === 0) return top;
  let at = 0;
  for (;;) {
    let child = 2 * at + 1;
    if (child >= heap.length) break;
    if (child + 1 < heap.length && isBefore(heap[child + 1], heap[child])) child++;
    if (!isBefore(heap[child], last)) break;
    heap[at] = heap[child];
    at = child;
  }
  heap[at] = last;
  return top;
}
