// Pyodide with the driver in it, in Node or Deno.

import process from "node:process";
import { fileURLToPath } from "node:url";

import { Process } from "../../threads/tests/harness.mjs";

export { sleep, until } from "../../threads/tests/harness.mjs";

const MAIN = fileURLToPath(new URL("../main.mjs", import.meta.url));

/** Where Pyodide is, from the environment: the npm package's folder. */
export const PYODIDE = process.env.BELLJAR_PYODIDE;
if (!PYODIDE) throw new Error("set BELLJAR_PYODIDE to a folder with Pyodide (npm install pyodide, then node_modules/pyodide)");
/** Node unless a Deno is given. */
const DENO = process.env.BELLJAR_DENO;

export const runtime = DENO ? "deno" : "node";
// `--allow-net` is for the tests that load from an address, `--allow-run` for direct mode, which ends by a signal to itself.
const PERMISSIONS = ["--allow-read", "--allow-write", "--allow-env", "--allow-net", "--allow-run"];
export const command = DENO
  ? [DENO, "run", "--quiet", "--no-prompt", "--no-config", "--no-remote", "--no-npm", ...PERMISSIONS, MAIN]
  : [process.execPath, MAIN];

export class Interpreter extends Process {
  constructor(args = ["--index-url", PYODIDE]) {
    super(command, args);
  }
}
