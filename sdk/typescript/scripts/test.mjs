// Tests the installed package: node scripts/test.mjs FOLDER [WORDS FOR node --test]
// Tests and examples are copied beside it, so that nothing of this directory can be found from there.

import { execFileSync } from "node:child_process";
import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const [target, ...words] = process.argv.slice(2);
if (target === undefined) throw new Error("usage: node scripts/test.mjs FOLDER");
const folder = resolve(target);
const env = {
  // The interpreter is compiled once for all tests of a build directory.
  BELLJAR_HOME: join(dirname(folder), "test-home"),
  ...process.env,
  // The program is the one in the package, and examples ask their stand-ins.
  BELLJAR_BIN: "",
  MODEL_URL: undefined,
};
const run = (program, args) => execFileSync(program, args, { cwd: folder, env, stdio: "inherit" });

for (const name of ["test", "compiled", "examples", "documented"]) rmSync(join(folder, name), { recursive: true, force: true });
cpSync(join(root, "test"), join(folder, "test"), { recursive: true });
cpSync(join(root, "../../examples/typescript"), join(folder, "examples"), { recursive: true });
const { compilerOptions } = JSON.parse(readFileSync(join(root, "tsconfig.json"), "utf8"));
const forTests = { ...compilerOptions, rootDir: "test", outDir: "compiled", noEmit: false };
writeFileSync(join(folder, "tsconfig.json"), JSON.stringify({ compilerOptions: forTests, include: ["test"] }));
const forScripts = { ...compilerOptions, allowJs: true, checkJs: true, noEmit: true };
const scripts = { compilerOptions: forScripts, include: ["examples", "documented"] };
writeFileSync(join(folder, "tsconfig.scripts.json"), JSON.stringify(scripts));
const documented = documentedScripts(readFileSync(join(root, "../../docs/typescript.md"), "utf8"));

const tsc = join(root, "node_modules/typescript/bin/tsc");
run(process.execPath, [tsc, "-p", "tsconfig.json"]);
run(process.execPath, [tsc, "-p", "tsconfig.scripts.json"]);
const tests = filesBelow(join(folder, "compiled")).filter((name) => name.endsWith(".test.js"));
run(process.execPath, ["--test", "--test-reporter=spec", ...words, ...tests]);
for (const script of documented) {
  process.stdout.write(`node ${script}\n`);
  run(process.execPath, [script]);
}
for (const script of examples()) {
  process.stdout.write(`node ${script}\n`);
  const printed = execFileSync(process.execPath, [script], { cwd: folder, env }).toString();
  const expected = readFileSync(join(folder, "examples/expected", `${basename(script, ".mjs")}.txt`), "utf8");
  if (printed !== expected) throw new Error(`${script} prints\n${printed}\ninstead of\n${expected}`);
}
process.stdout.write("the TypeScript package passed\n");

function examples() {
  const names = readdirSync(join(folder, "examples")).filter((name) => name.endsWith(".mjs"));
  return names.filter((name) => name !== "model.mjs").map((name) => join("examples", name));
}

/** Every block of JavaScript of the page, as a file of its own. */
function documentedScripts(page) {
  mkdirSync(join(folder, "documented"));
  const blocks = [...page.matchAll(/^```js\n(.*?)^```$/gms)].map(([, code]) => code);
  if (blocks.length === 0) throw new Error("docs/typescript.md has no examples");
  return blocks.map((code, index) => {
    const name = join("documented", `${index + 1}.mjs`);
    writeFileSync(join(folder, name), code);
    return name;
  });
}

function filesBelow(directory) {
  return readdirSync(directory, { withFileTypes: true }).flatMap((entry) =>
    entry.isDirectory() ? filesBelow(join(directory, entry.name)) : [join(directory, entry.name)],
  );
}
