// The part of Belljar that runs inside the interpreter: answers the host's requests, one at a time.
//
// It lives in a realm of its own, with its own Object, Array, Promise and so on. The user's code has
// another, and no object of this one ever gets there: functions it may call are portals (../shim/portal.c).
// So nothing that is done to the built-in objects there changes what happens here. `host` holds what the
// shim offers. The rules for touching values of the user's are in objects.js.

import * as cells from "./cells.js";
import { complete } from "./complete.js";
import { inspectVariable } from "./display.js";
import { installConsole } from "./console.js";
import { installFiles } from "./files.js";
import { installProcess } from "./process.js";
import { installTimers } from "./timers.js";
import { installUserLibrary } from "./library.js";
import { answerText, own } from "./requests.js";
import { settleIn } from "./surroundings.js";
import { defineVariables } from "./tools.js";
import { warmUp } from "./warm.js";

const operations = {
  __proto__: null,

  execute(request) {
    return cells.execute({
      code: own(request, "code"),
      filename: own(request, "filename"),
      wantsValue: own(request, "value") === true,
      drains: own(request, "drain") === true,
    });
  },

  resume(request) {
    return cells.resume(own(request, "answers"), own(request, "interrupt") === true);
  },

  validate(request) {
    return cells.validate(own(request, "code"), own(request, "filename"));
  },

  define(request) {
    defineVariables(own(request, "variables"));
    return { end: "finished" };
  },

  inspect(request) {
    return { end: "finished", variable: inspectVariable(own(request, "name")) };
  },

  complete(request) {
    return { end: "finished", ...complete(own(request, "code"), own(request, "cursor")) };
  },
};

function handle(request) {
  const surroundings = own(request, "surroundings");
  if (surroundings !== undefined && surroundings !== null) settleIn(surroundings);
  return answerText(operations[own(request, "op")](request));
}

installUserLibrary();
installConsole();
installTimers();
installFiles();
installProcess();
globalThis.handle = handle;
globalThis.warmUp = () => warmUp(handle);
