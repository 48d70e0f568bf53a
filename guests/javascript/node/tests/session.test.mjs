// Cells, values, errors, variables, output, files: one session, as a host sees it.

import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";

import { Interpreter, until } from "./harness.mjs";

const FINISHED = { end: "finished", exit_code: 0, error: null, value: null };
let node;

before(async () => {
  node = new Interpreter();
  const { language_version } = await node.initialize({ env: { GIVEN: "yes" }, argv: ["prog", "one"] });
  assert.equal(language_version, process.versions.node);
});
after(() => node.close());

const textOf = async (code) => (await node.execute(code)).value?.text;

test("state persists, may be declared again, and the last expression is the value", async () => {
  assert.deepEqual(await node.execute("let x = 20"), FINISHED);
  assert.deepEqual((await node.execute("x + 1")).value, { text: "21", json: 21, mime: {} });
  assert.equal(await textOf("let x = 5; x"), "5");
  assert.deepEqual((await node.execute("x", { value: false })).value, null);
  assert.equal(await textOf("function f() { return x }\nclass C {}\nf() + typeof C"), "'5function'");
});

test("values look as on the other backends", async () => {
  assert.equal(await textOf("({ p: Promise.resolve(5), m: new Map([[1, 'a']]), e: [,1] })"), "{ p: Promise { 5 }, m: Map(1) { 1 => 'a' }, e: [ <1 empty item>, 1 ] }");
  assert.deepEqual((await node.execute("{ a: [1, null, true] }")).value.json, { a: [1, null, true] });
  assert.equal(await textOf("10n ** 20n"), "100000000000000000000n");
  const rich = "({ [Symbol.for('Jupyter.display')]: () => ({ 'text/html': '<b>' }) })";
  assert.deepEqual((await node.execute(rich)).value.mime, { "text/html": "<b>" });
});

test("an error shows the user's lines only", async () => {
  const { end, exit_code, error } = await node.execute("function f() {\n  return null.x;\n}\nf()");
  assert.deepEqual([end, exit_code, error.name], ["raised", 1, "TypeError"]);
  assert.equal(
    error.traceback,
    "<cell>:2\n  return null.x;\n              ^\n\nUncaught TypeError: Cannot read properties of null (reading 'x')\n    at f (<cell>:2:15)\n    at <cell>:4:1\n",
  );
  const later = await node.execute("await new Promise((resolve) => setTimeout(resolve, 5));\nthrow new RangeError('late')");
  assert.match(later.error.traceback, /at <cell>:2:7\n$/);
  assert.equal((await node.execute("throw { a: 1 }")).error.message, "{ a: 1 }");
});

test("a syntax error names its place; validate runs nothing", async () => {
  const broken = await node.execute("let a = 1;\nlet b = ;");
  assert.deepEqual([broken.error.name, broken.error.traceback.split("\n")[0]], ["SyntaxError", "<cell>:2"]);
  const answer = await node.call("validate", { code: "console.log('ran')\nlet = = 1", filename: "a.js" });
  assert.deepEqual([answer.end, answer.error.name], ["raised", "SyntaxError"]);
  assert.match(answer.error.traceback, /^a\.js:2\n/);
  for (const code of ["await x", "let x; let y", "{ a: 1 }"])
    assert.deepEqual(await node.call("validate", { code, filename: "a.js" }), { end: "finished", error: null });
  assert.doesNotMatch(node.stdout, /ran/);
});

test("process.exit ends the cell with its code, not the session", async () => {
  assert.deepEqual(await node.execute("try { process.exit(3) } finally { x = 'no' }"), { ...FINISHED, end: "exited", exit_code: 3 });
  assert.deepEqual(await node.execute("await null; process.exit(4)"), { ...FINISHED, end: "exited", exit_code: 4 });
  assert.deepEqual(await node.execute("setTimeout(() => exit(5), 5); await new Promise(() => {})"), { ...FINISHED, end: "exited", exit_code: 5 });
  assert.equal(await textOf("await new Promise((resolve) => setTimeout(resolve, 5)); x"), "5");
});

test("promises are awaited; timers may be waited for", async () => {
  assert.equal(await textOf("new Promise((resolve) => setTimeout(() => resolve('slept'), 5))"), "'slept'");
  await node.execute("setTimeout(() => console.log('drained'), 50)", { drain: true });
  await until(() => node.stdout.endsWith("drained\n"));
  const late = await node.execute("setTimeout(() => { throw new TypeError('in a timer') }, 5); await new Promise(() => {})");
  assert.deepEqual([late.end, late.error.message], ["raised", "in a timer"]);
});

test("a rejection nobody looks at is told, and the session lives on", async () => {
  node.stderr = "";
  await node.execute("Promise.reject(new Error('unseen')); await new Promise((resolve) => setTimeout(resolve, 10))");
  await until(() => node.stderr.includes("Uncaught (in promise) Error: unseen"));
});

test("define, inspect and complete", async () => {
  await node.call("define", { variables: { context: "some text", n: 7, x: "again" } });
  assert.deepEqual(await node.call("inspect", { name: "n" }), { end: "finished", variable: { type: "number", text: "7", json: 7 } });
  assert.equal((await node.call("inspect", { name: "x" })).variable.text, "'again'");
  assert.deepEqual(await node.call("inspect", { name: "nothing" }), { end: "finished", variable: null });
  assert.equal(await textOf("searchContext('text', 0)[0].start"), "5");
  const { start, matches } = await node.call("complete", { code: "contex", cursor: 6 });
  assert.deepEqual([start, matches], [0, ["context"]]);
});

test("console and process write in order, before the answer", async () => {
  node.stdout = node.stderr = "";
  await node.execute("console.log('one', { a: 1 }); process.stdout.write('two'); console.error('three')");
  await until(() => node.stdout === "one { a: 1 }\ntwo" && node.stderr === "three\n");
});

test("large output comes through complete", async () => {
  node.stdout = "";
  await node.execute("for (let i = 0; i < 1000; i++) console.log('y'.repeat(9999))");
  await until(() => node.stdout.length === 10_000_000);
});

test("files of the workspace, by our functions and by Node's", async () => {
  writeFileSync(join(node.workspace, "in.json"), '{"a": 1}');
  assert.equal(await textOf("readJson('in.json').a + JSON.parse(require('fs').readFileSync('in.json')).a"), "2");
  await node.execute("writeText('out.txt', 'from inside'); makeDir('d/e'); writeJson('d/e/f.json', [1])");
  assert.equal(readFileSync(join(node.workspace, "out.txt"), "utf8"), "from inside");
  assert.equal(await textOf("listFiles('.', { recursive: true })"), "[ 'd/e/f.json', 'in.json', 'out.txt' ]");
  const missing = await node.execute("readText('missing')");
  assert.match(missing.error.message, /ENOENT/);
});

test("Node's modules and files of the workspace can be imported", async () => {
  writeFileSync(join(node.workspace, "own.mjs"), "export const answer = 42;");
  assert.equal(await textOf("(await import('./own.mjs')).answer"), "42");
  assert.equal(await textOf("(await import('node:path')).join('a', 'b')"), "'a/b'");
  assert.equal(await textOf("const { readFile } = await import('fs/promises'); await readFile('out.txt', 'utf8')"), "'from inside'");
  assert.equal(await textOf("'import(x)'.length // import('not me')"), "9");
  assert.equal(await textOf("Buffer.from('é').length + new URL('http://a/b').pathname"), "'2/b'");
});

test("there is no network and nothing of the host's environment", async () => {
  assert.equal((await node.execute("await fetch('http://127.0.0.1')")).error.message, "the Belljar sandbox does not offer network access");
  assert.equal(await textOf("[process.env, process.argv]"), "[ { GIVEN: 'yes' }, [ 'prog', 'one' ] ]");
});

test("deep recursion is an exception; broken built-ins do not break the session", async () => {
  assert.equal((await node.execute("function r() { return r() + 1 }\nr()")).error.name, "RangeError");
  await node.execute("Array.prototype.map = Object.prototype.toString = JSON.stringify2 = null; Object.prototype.polluted = 1");
  assert.equal(await textOf("[1, 2]"), "[ 1, 2 ]");
  await node.execute("delete Object.prototype.polluted");
});
