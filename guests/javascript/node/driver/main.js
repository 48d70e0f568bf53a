// As ../../driver/main.js, for a process with an event loop of its own: a cell is answered when it is over.

import * as cells from "./cells.js";
import { complete } from "./complete.js";
import { inspectVariable } from "./display.js";
import { installConsole } from "./console.js";
import { installFiles } from "./files.js";
import { installTimers } from "./timers.js";
import { installUserLibrary } from "./library.js";
import { answerText, own } from "./requests.js";
import { settleProcess } from "./process.js";
import { defineVariables, deliver as deliverAnswers, setTools } from "./tools.js";

const operations = {
  __proto__: null,
  validate: (request) => cells.validate(own(request, "code"), own(request, "filename")),
  define(request) {
    defineVariables(own(request, "variables"));
    return { end: "finished" };
  },
  inspect: (request) => ({ end: "finished", variable: inspectVariable(own(request, "name")) }),
  complete: (request) => ({ end: "finished", ...complete(own(request, "code"), own(request, "cursor")) }),
};

/** Calls `reply(text)` with the answer, now or later. */
export function handle(request, reply) {
  const op = own(request, "op");
  if (op !== "execute") return reply(answerText(operations[op](request)));
  cells.execute(
    {
      code: own(request, "code"),
      filename: own(request, "filename"),
      wantsValue: own(request, "value") === true,
      drains: own(request, "drain") === true,
    },
    (answer) => reply(answerText(answer)),
  );
}

export function settle(surroundings) {
  settleProcess(surroundings);
  setTools([...surroundings.tools], surroundings.docs);
}

export function deliver(text) {
  deliverAnswers(host.parse(text));
  cells.lookAgain();
}

export const { interrupt, lookAfterExit, rejected, threw } = cells;

installUserLibrary();
installConsole();
installTimers();
installFiles();
