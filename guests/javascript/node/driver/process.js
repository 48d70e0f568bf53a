// Node's own `process`, with the environment and the arguments that the host gives, and an exit that ends the cell only.

import { define } from "./library.js";

let exitCode = null;

export function settleProcess({ env, argv }) {
  const { process } = host;
  for (const [name, value] of Object.entries(env)) process.env[name] = value;
  process.argv = argv;
  const exit = (code) => {
    const wanted = code ?? process.exitCode ?? 0;
    exitCode = host.toNumber(wanted) & 0xff;
    host.stop();
  };
  process.exit = process.reallyExit = host.portal("exit", 1, exit);
  define("exit", 0, exit);
}

export const isExiting = () => exitCode !== null;

/** The exit code if exit() was called since the last time. */
export function takeExit() {
  const code = exitCode;
  exitCode = null;
  return code;
}
