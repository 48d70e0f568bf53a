// Where the program `belljar` is: named by the caller, by BELLJAR_BIN, carried in this package,
// or in the path, in this order.

import { accessSync, constants, statSync } from "node:fs";
import { delimiter, join } from "node:path";
import { fileURLToPath } from "node:url";

import { BinaryError } from "./errors.js";

/** The variable that names the program. */
const VARIABLE = "BELLJAR_BIN";

/** Its path. Throws a BinaryError that says where it was looked for. */
export function findBinary(named?: string): string {
  const variable = process.env[VARIABLE];
  if (named !== undefined) return checked(named, "the option binary");
  if (variable !== undefined && variable !== "") return checked(variable, VARIABLE);
  const bundled = bundledPath();
  const inPath = (process.env["PATH"] ?? "")
    .split(delimiter)
    .filter((folder) => folder !== "")
    .map((folder) => join(folder, "belljar"));
  const found = [bundled, ...inPath].find((path) => problemOf(path) === null);
  if (found !== undefined) return found;
  throw new BinaryError(bundled, `there is no program belljar at ${bundled} or in the path`, {
    hint: `install a package for ${process.platform}-${process.arch}, or set ${VARIABLE}`,
  });
}

/** Where the packing script puts it. */
function bundledPath(): string {
  const folder = `../binary/${process.platform}-${process.arch}/belljar`;
  return fileURLToPath(new URL(folder, import.meta.url));
}

/** What somebody named is used or refused; nothing else takes its place. */
function checked(path: string, by: string): string {
  const problem = problemOf(path);
  if (problem === null) return path;
  throw new BinaryError(path, `${by} names ${path}: ${problem}`, {
    hint: "name the program belljar, or nothing to use the one this package carries",
  });
}

function problemOf(path: string): string | null {
  try {
    if (!statSync(path).isFile()) return "it is no file";
    accessSync(path, constants.X_OK);
    return null;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    return code === "EACCES" ? "it may not be executed" : "there is no such file";
  }
}
