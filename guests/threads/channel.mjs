// What connects the thread that speaks with the host to the thread that runs the user's code.

import { MessageChannel, receiveMessageOnPort } from "node:worker_threads";

const SIGINT = 2;

/** What `receive` gives when it has no line. */
export const TIMED_OUT = 0;
export const INTERRUPTED = 1;

/** Both ends as plain data that can be handed to a worker. */
export function connect() {
  const { port1, port2 } = new MessageChannel();
  // Counts what has happened, so that nobody sleeps through it.
  const news = new Int32Array(new SharedArrayBuffer(4));
  // The number of the signal that waits for the user's thread, or 0.
  const signal = new Uint8Array(new SharedArrayBuffer(1));
  return { wireEnd: { port: port1, news, signal }, userEnd: { port: port2, news, signal } };
}

/** For the thread that speaks with the host. */
export class WireEnd {
  constructor({ port, news, signal }) {
    Object.assign(this, { port, news, signal });
  }

  deliver(line) {
    this.port.postMessage(line);
    this.#wake();
  }

  interrupt() {
    Atomics.store(this.signal, 0, SIGINT);
    this.#wake();
  }

  onLine(listener) {
    this.port.on("message", listener);
  }

  #wake() {
    Atomics.add(this.news, 0, 1);
    Atomics.notify(this.news, 0);
  }
}

/** For the thread that runs the user's code: everything blocks. */
export class UserEnd {
  constructor({ port, news, signal }) {
    Object.assign(this, { port, news, signal });
  }

  send(line) {
    this.port.postMessage(line);
  }

  /** The next line of the host; TIMED_OUT after so many milliseconds, INTERRUPTED when a signal has come. */
  receive(milliseconds = Infinity) {
    const end = performance.now() + milliseconds;
    for (;;) {
      const seen = Atomics.load(this.news, 0);
      if (this.#takeSignal()) return INTERRUPTED;
      const received = receiveMessageOnPort(this.port);
      if (received !== undefined) return received.message;
      if (!this.#sleep(seen, end)) return TIMED_OUT;
    }
  }

  /** Sleeps; TIMED_OUT or INTERRUPTED. Lines that come meanwhile are kept. */
  pause(milliseconds) {
    const end = performance.now() + milliseconds;
    for (;;) {
      const seen = Atomics.load(this.news, 0);
      if (this.#takeSignal()) return INTERRUPTED;
      if (!this.#sleep(seen, end)) return TIMED_OUT;
    }
  }

  /** What came too late for the last request is not meant for the next. */
  forgetSignal() {
    this.#takeSignal();
  }

  #takeSignal() {
    return Atomics.exchange(this.signal, 0, 0) !== 0;
  }

  /** Until there is news; false when the time is over. */
  #sleep(seen, end) {
    const left = end - performance.now();
    if (left <= 0) return false;
    Atomics.wait(this.news, 0, seen, left);
    return true;
  }
}
