// The command line.

import { fileURLToPath } from "node:url";

/** The release that the default address has; any release from 314 on may be in a folder. */
export const DEFAULT_VERSION = "314.0.7";
const DEFAULT_INDEX_URL = `https://cdn.jsdelivr.net/pyodide/v${DEFAULT_VERSION}/full/`;

const USAGE = `usage: main.mjs [--index-url FOLDER|URL]… [--direct] [--memory BYTES] [--mount FOLDER]…
                [--snapshot FILE | --make-snapshot FILE | --download FOLDER] [--driver FOLDER]`;

/** What was asked for, or `{ error }`. */
export function parseOptions(args) {
  const options = {
    indexUrls: [],
    direct: false,
    memoryBytes: null,
    mounts: [],
    snapshot: null,
    makeSnapshot: null,
    download: null,
    driver: fileURLToPath(new URL("../python/driver/", import.meta.url)),
  };
  const values = {
    "--index-url": (value) => options.indexUrls.push(value),
    "--memory": (value) => (options.memoryBytes = Number(value)),
    "--mount": (value) => options.mounts.push(value),
    "--snapshot": (value) => (options.snapshot = value),
    "--make-snapshot": (value) => (options.makeSnapshot = value),
    "--download": (value) => (options.download = value),
    "--driver": (value) => (options.driver = value),
  };
  for (let at = 0; at < args.length; at++) {
    const name = args[at];
    if (name === "--direct") options.direct = true;
    else if (!Object.hasOwn(values, name)) return { error: `unknown option ${name}\n${USAGE}` };
    else if (++at === args.length || args[at] === "") return { error: `${name} needs a value\n${USAGE}` };
    else values[name](args[at]);
  }
  if (options.memoryBytes !== null && !(Number.isSafeInteger(options.memoryBytes) && options.memoryBytes > 0))
    return { error: `--memory needs a number of bytes\n${USAGE}` };
  if (options.indexUrls.length === 0) options.indexUrls.push(DEFAULT_INDEX_URL);
  return options;
}
