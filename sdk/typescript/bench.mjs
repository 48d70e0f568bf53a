// What a call from Node costs over the engine's own, and a thousand executions at once:
//   node bench.mjs [--json]      where the package belljar is installed

import { spawn } from "node:child_process";
import { once } from "node:events";

import { createSandbox } from "belljar";

const CALLS = 3000;
const AT_ONCE = 1000;
const SANDBOXES = 50;

const sandbox = await createSandbox();
await sandbox.initialize();
for (let n = 0; n < 300; n++) await sandbox.execute("print('hello')");

const [walls, own, over] = [[], [], []];
for (let n = 0; n < CALLS; n++) {
  const begin = performance.now();
  const { duration, stdout } = await sandbox.execute("print('hello')");
  const wall = performance.now() - begin;
  if (stdout !== "hello\n") throw new Error(`wrong output: ${stdout}`);
  walls.push(wall);
  own.push(duration);
  over.push(wall - duration);
}

// What any process costs here: the same line there and back, and nothing done with it.
const cat = spawn("cat", { stdio: ["pipe", "pipe", "inherit"] });
const echoes = [];
for (let n = 0; n < CALLS; n++) {
  const begin = performance.now();
  cat.stdin.write('{"jsonrpc":"2.0","id":1,"method":"execute","params":{"sandbox":1,"code":"1"}}\n');
  await once(cat.stdout, "data");
  echoes.push(performance.now() - begin);
}
cat.stdin.end();

const sandboxes = await Promise.all(Array.from({ length: SANDBOXES }, () => createSandbox()));
await Promise.all(sandboxes.map((one) => one.initialize()));
const begin = performance.now();
const answers = await Promise.all(
  Array.from({ length: AT_ONCE }, (_, n) => sandboxes[n % SANDBOXES].execute(`${n} ** 2`)),
);
const together = performance.now() - begin;
const wrong = answers.filter(({ result }, n) => result?.json !== n ** 2).length;
await Promise.all([sandbox, ...sandboxes].map((one) => one.destroy()));

const at = (values, part) => values.sort((a, b) => a - b)[Math.floor(values.length * part)];
const rows = [
  ["execute on a live session, wall clock", at(walls, 0.5), at(walls, 0.99)],
  ["the same, as the engine measures it", at(own, 0.5), at(own, 0.99)],
  ["over the engine", at(over, 0.5), at(over, 0.99)],
  ["to compare: a line to `cat` and back", at(echoes, 0.5), at(echoes, 0.99)],
];
if (process.argv.includes("--json")) {
  console.log(JSON.stringify({ rows, together, wrong }));
} else {
  for (const [what, median, p99] of rows) console.log(`${what.padEnd(40)} ${median.toFixed(3)} ms   p99 ${p99.toFixed(3)} ms`);
  const rate = Math.round((AT_ONCE / together) * 1000);
  console.log(`${AT_ONCE} executions at once in ${SANDBOXES} sandboxes: ${together.toFixed(0)} ms, ${rate} a second, ${wrong} wrong answers`);
}
if (wrong > 0) process.exitCode = 1;
