// What a frozen interpreter cannot know: where it woke up, and for whom.

import { settleProcess } from "./process.js";
import { items, own } from "./requests.js";
import { loseAll, setTools } from "./tools.js";

export function settleIn(surroundings) {
  const renewed = own(surroundings, "renewed") === true;
  settleProcess({
    env: own(surroundings, "env"),
    argv: own(surroundings, "argv"),
    directory: own(surroundings, "workspace"),
    renewed,
  });
  if (renewed) loseAll();
  const tools = own(surroundings, "tools");
  setTools(tools === undefined || tools === null ? [] : items(tools));
}
