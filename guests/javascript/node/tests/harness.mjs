// Node with the driver in it.

import process from "node:process";
import { fileURLToPath } from "node:url";

import { Process } from "../../../threads/tests/harness.mjs";

export { sleep, until } from "../../../threads/tests/harness.mjs";

const MAIN = fileURLToPath(new URL("../main.mjs", import.meta.url));

export const command = [process.execPath, MAIN];

export class Interpreter extends Process {
  constructor(args = []) {
    super(command, args);
  }
}
