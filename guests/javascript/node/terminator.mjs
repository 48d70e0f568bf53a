// Stops what a worker executes, and leaves the worker alive: what a debugger's stop button does.

import { Session } from "node:inspector";

/** A function that stops the one worker this thread will start. */
export function terminator() {
  const session = new Session();
  let sessionId = null;
  let lastId = 0;
  session.connect();
  session.on("NodeWorker.attachedToWorker", ({ params }) => (sessionId ??= params.sessionId));
  session.post("NodeWorker.enable", { waitForDebuggerOnStart: false });
  return () => {
    if (sessionId === null) return;
    const message = JSON.stringify({ id: ++lastId, method: "Runtime.terminateExecution" });
    session.post("NodeWorker.sendMessageToWorker", { sessionId, message }, () => {});
  };
}
