// Node's timers, counted: a cell may wait for them, and they end with a cell that is stopped.

import { define } from "./library.js";

const { timers } = host;
/** Timer -> what clears it. */
const running = new Map();
let whenDone = () => {};

export const outstanding = () => running.size;

/** Calls this when a timer has run. */
export function onDone(callback) {
  whenDone = callback;
}

export function installTimers() {
  install("setTimeout", "clearTimeout", false);
  install("setImmediate", "clearImmediate", false);
  install("setInterval", "clearInterval", true);
}

function install(setName, clearName, repeats) {
  define(setName, 2, (callback, ...rest) => {
    if (typeof callback !== "function") throw new TypeError("The callback must be a function");
    const called = host.portal("", 0, (...args) => {
      if (!repeats) running.delete(timer);
      try {
        host.invoke(callback, undefined, ...args);
      } finally {
        timers.setImmediate(whenDone);
      }
    });
    const timer = timers[setName](called, ...rest);
    running.set(timer, timers[clearName]);
    return timer;
  });
  define(clearName, 1, (timer) => {
    running.delete(timer);
    timers[clearName](timer);
    timers.setImmediate(whenDone);
  });
}

export function clearAll() {
  for (const [timer, clear] of running) clear(timer);
  running.clear();
}
