// What a frozen interpreter cannot know: where it woke up, and for whom.

import { settleProcess } from "./process.js";
import { items, own } from "./requests.js";
import { setTools } from "./tools.js";

export function settleIn(surroundings) {
  const renewed = own(surroundings, "renewed") === true;
  settleProcess({
    env: own(surroundings, "env"),
    argv: own(surroundings, "argv"),
    directory: own(surroundings, "workspace"),
    renewed,
  });
  // Calls that wait go on waiting: the host has them too, and answers each of them somehow.
  const tools = own(surroundings, "tools");
  setTools(tools === undefined || tools === null ? [] : items(tools), own(surroundings, "tool_docs"));
}
