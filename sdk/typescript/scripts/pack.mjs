// Packs the package with the program it carries: node scripts/pack.mjs BINARY FOLDER
// The program goes to binary/PLATFORM-ARCHITECTURE/, without what only a debugger reads.

import { execFileSync, spawnSync } from "node:child_process";
import { chmodSync, copyFileSync, mkdirSync, rmSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const quiet = ["--loglevel=error"];

/** Gives the path of the packed file. */
export function pack(binary, folder) {
  const carried = join(root, "binary", `${process.platform}-${process.arch}`);
  rmSync(join(root, "binary"), { recursive: true, force: true });
  rmSync(join(root, "dist"), { recursive: true, force: true });
  mkdirSync(carried, { recursive: true });
  mkdirSync(folder, { recursive: true });
  const program = join(carried, "belljar");
  copyFileSync(resolve(binary), program);
  // Where there is no strip the package is larger, and works as well.
  spawnSync("strip", [program]);
  chmodSync(program, 0o755);
  for (const name of ["LICENSE-MIT", "LICENSE-APACHE", "NOTICE"]) {
    copyFileSync(join(root, "../..", name), join(root, "binary", name));
  }
  execFileSync("npm", ["run", "--silent", "build", ...quiet], { cwd: root, stdio: "inherit" });
  const told = execFileSync("npm", ["pack", "--json", "--pack-destination", folder, ...quiet], { cwd: root });
  const [{ filename }] = JSON.parse(told.toString());
  return join(folder, filename);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [binary, folder] = process.argv.slice(2);
  if (binary === undefined || folder === undefined) throw new Error("usage: node scripts/pack.mjs BINARY FOLDER");
  process.stdout.write(`${pack(binary, resolve(folder))}\n`);
}
