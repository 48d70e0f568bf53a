// Cells, values, errors, variables, output, files: one session, as a host sees it.

import assert from "node:assert/strict";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";

import { Interpreter, until } from "./harness.mjs";

const FINISHED = { end: "finished", exit_code: 0, error: null, value: null };
let python;

before(async () => {
  python = new Interpreter();
  const { language_version } = await python.initialize({ env: { GIVEN: "yes" }, argv: ["prog", "one"] });
  assert.match(language_version, /^3\.\d+\.\d+$/);
});
after(() => python.close());

const textOf = async (code) => (await python.execute(code)).value?.text;

test("state persists and the last expression is the value", async () => {
  assert.deepEqual(await python.execute("x = 20"), FINISHED);
  assert.deepEqual((await python.execute("x + 1")).value, { text: "21", json: 21, mime: {} });
  assert.deepEqual((await python.execute("x + 1", { value: false })).value, null);
});

test("values keep their exact form", async () => {
  assert.equal(await textOf("2**70, 1.0, 'é', float('nan')"), "(1180591620717411303424, 1.0, 'é', nan)");
  assert.deepEqual((await python.execute("{'a': [1, None, True]}")).value.json, { a: [1, null, true] });
  const rich = "class H:\n    def _repr_html_(self): return '<b>'\nH()";
  assert.deepEqual((await python.execute(rich)).value.mime, { "text/html": "<b>" });
});

test("an error shows the user's lines only", async () => {
  const answer = await python.execute("def f():\n    return 1 / 0\nf()");
  assert.equal(answer.end, "raised");
  assert.equal(answer.exit_code, 1);
  assert.equal(answer.error.name, "ZeroDivisionError");
  assert.equal(
    answer.error.traceback,
    'Traceback (most recent call last):\n  File "<cell>", line 3, in <module>\n    f()\n    ~^^\n' +
      '  File "<cell>", line 2, in f\n    return 1 / 0\n           ~~^~~\nZeroDivisionError: division by zero\n',
  );
  const awaited = await python.execute("import asyncio\nasync def g():\n    await asyncio.sleep(0)\n    raise KeyError('k')\nawait g()");
  assert.doesNotMatch(awaited.error.traceback, /belljar|python3/);
});

test("a syntax error names its place; validate runs nothing", async () => {
  const answer = await python.call("validate", { code: "print('ran')\nx = = 1", filename: "a.py" });
  assert.equal(answer.end, "raised");
  assert.equal(answer.error.name, "SyntaxError");
  assert.match(answer.error.traceback, /File "a.py", line 2\n {4}x = = 1/);
  assert.deepEqual(await python.call("validate", { code: "await x", filename: "a.py" }), { end: "finished", error: null });
  assert.doesNotMatch(python.stdout, /ran/);
});

test("null bytes in the source are a syntax error", async () => {
  assert.equal((await python.execute("x = 1\0")).error.name, "SyntaxError");
});

test("sys.exit ends the cell with its code, not the session", async () => {
  assert.deepEqual(await python.execute("import sys; sys.exit(3)"), { ...FINISHED, end: "exited", exit_code: 3 });
  assert.equal(await textOf("x"), "20");
});

test("top-level await, own loops, and timers work", async () => {
  assert.equal(await textOf("import asyncio\nawait asyncio.sleep(0.01, 'slept')"), "'slept'");
  assert.equal(await textOf("async def h():\n    await asyncio.sleep(0.01)\n    return 5\nasyncio.run(h())"), "5");
  const late = await python.execute("await asyncio.wait_for(asyncio.sleep(5), 0.05)");
  assert.equal(late.error.name, "TimeoutError");
});

test("a future import counts for the value too", async () => {
  assert.equal(await textOf("from __future__ import annotations\n(lambda: 1)()"), "1");
});

test("define, inspect and complete", async () => {
  await python.call("define", { variables: { context: "some text", n: 7 } });
  assert.deepEqual(await python.call("inspect", { name: "n" }), {
    end: "finished",
    variable: { type: "int", text: "7", json: 7 },
  });
  assert.deepEqual(await python.call("inspect", { name: "nothing" }), { end: "finished", variable: null });
  assert.equal(await textOf("search_context('text', 0)[0]['start']"), "5");
  const { start, matches } = await python.call("complete", { code: "contex", cursor: 6 });
  assert.deepEqual([start, matches.includes("context")], [0, true]);
});

test("output streams in order and is out before the answer", async () => {
  const from = python.events.length;
  await python.execute("import sys\nprint('one')\nprint('two', file=sys.stderr)\nsys.stdout.write('three')");
  const printed = (name) => python.events.slice(from).map((event) => event[name] ?? "").join("");
  await until(() => printed("stdout") === "one\nthree" && printed("stderr") === "two\n");
});

test("large output comes through complete", async () => {
  const before = python.stdout.length;
  await python.execute("for i in range(1000): print('y' * 9999)");
  await until(() => python.stdout.length - before === 10_000_000);
});

test("a large value and a large cell come through", async () => {
  const text = "z".repeat(1_000_000);
  assert.equal((await python.execute(`len('${text}')`)).value.text, "1000000");
  assert.equal((await python.execute("'q' * 200_000")).value.json.length, 200_000);
});

test("files of the workspace are read and written at once", async () => {
  writeFileSync(join(python.workspace, "in.txt"), "from outside");
  assert.equal(await textOf("open('in.txt').read()"), "'from outside'");
  await python.execute("import os\nos.makedirs('sub/deep')\nwith open('sub/deep/out.txt', 'w') as f: f.write('from inside')");
  assert.equal(readFileSync(join(python.workspace, "sub/deep/out.txt"), "utf8"), "from inside");
  await python.execute("import shutil; shutil.rmtree('sub')");
  assert.equal(existsSync(join(python.workspace, "sub")), false);
  assert.equal(await textOf("import tempfile\nwith tempfile.NamedTemporaryFile() as t: t.write(b'x'); ok = os.path.exists(t.name)\nok"), "True");
});

test("files outside of the workspace are not there; the workspace's are", async () => {
  assert.equal((await python.execute("open('/etc/hostname')")).error.name, "FileNotFoundError");
  assert.equal(await textOf("os.path.exists(os.path.join(os.getcwd(), 'in.txt'))"), "True");
});

test("the environment is what the host gives, and nothing else", async () => {
  assert.equal(await textOf("import os, sys\ndict(os.environ), sys.argv"), "({'GIVEN': 'yes'}, ['prog', 'one'])");
});

test("JavaScript is reachable, Node's environment is not handed out with it", async () => {
  assert.equal(await textOf("import js\njs.Math.max(1, 2)"), "2");
  assert.equal((await python.execute("js.process")).error.name, "AttributeError");
});

test("deep recursion is an exception", async () => {
  const answer = await python.execute("def r(n): return r(n + 1)\nr(0)");
  assert.equal(answer.error.name, "RecursionError");
  assert.equal(await textOf("1"), "1");
});

test("replaced builtins and closed streams do not break the session", async () => {
  await python.execute("import builtins, sys\nbuiltins.len = None\nsys.stdout.close()\nsys.stderr = None");
  assert.equal(await textOf("len([1, 2])"), "2");
});
