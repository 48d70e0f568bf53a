// Packs the package and installs it into an empty directory: node scripts/install.mjs BINARY FOLDER
// Beside it stand the packages that its tests use, in the versions that this one was made with.

import { execFileSync } from "node:child_process";
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";

import { pack } from "./pack.mjs";

const USED_BY_TESTS = ["@types/node", "ai", "pyodide", "zod"];

const [binary, target] = process.argv.slice(2);
if (binary === undefined || target === undefined) throw new Error("usage: node scripts/install.mjs BINARY FOLDER");
const folder = resolve(target);
rmSync(folder, { recursive: true, force: true });
mkdirSync(folder, { recursive: true });
const packed = pack(binary, folder);
const { devDependencies } = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8"));
writeFileSync(join(folder, "package.json"), JSON.stringify({ private: true, type: "module" }));
const others = USED_BY_TESTS.map((name) => `${name}@${devDependencies[name]}`);
const options = ["--no-audit", "--no-fund", "--prefer-offline", "--loglevel=error"];
execFileSync("npm", ["install", ...options, packed, ...others], { cwd: folder, stdio: "inherit" });
