// Interrupts while code runs, and the ways an interpreter ends.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { Interpreter, PYODIDE, sleep, until } from "./harness.mjs";

let python;

before(async () => {
  python = new Interpreter();
  await python.initialize();
});
after(() => python.close());

/** Runs code that says "on" and interrupts it then. */
async function interrupted(code) {
  python.stdout = "";
  const running = python.execute(code);
  await until(() => python.stdout.includes("on\n"));
  await sleep(30);
  const begun = performance.now();
  python.interrupt();
  const answer = await running;
  assert.ok(performance.now() - begun < 2000);
  return answer;
}

test("an endless loop is interrupted and the session lives on", async () => {
  const answer = await interrupted("n = 5\nprint('on')\nwhile True:\n    pass");
  assert.equal(answer.end, "raised");
  assert.equal(answer.error.name, "KeyboardInterrupt");
  assert.match(answer.error.traceback, /File "<cell>", line [34], in <module>/);
  assert.equal((await python.execute("n")).value.text, "5");
});

test("so are a sleep, a loop that awaits, and a sum over everything", async () => {
  const endless = [
    "import time\nprint('on')\ntime.sleep(60)",
    "import asyncio\nprint('on')\nawait asyncio.sleep(60)",
    "print('on')\nwhile True: await asyncio.sleep(0)",
    "print('on')\nsum(i for i in iter(int, 1))",
  ];
  for (const code of endless) assert.equal((await interrupted(code)).error.name, "KeyboardInterrupt", code);
});

test("code may catch it", async () => {
  const answer = await interrupted("print('on')\ntry:\n    while True: pass\nexcept KeyboardInterrupt:\n    caught = 'so it is'\ncaught");
  assert.equal(answer.value.text, "'so it is'");
});

test("an interrupt that comes when nothing runs is forgotten", async () => {
  python.interrupt();
  await sleep(100);
  assert.equal((await python.execute("sum(range(100000))")).value.text, "4999950000");
});

test("code that swallows it goes on until the process is killed", async () => {
  const stubborn = new Interpreter();
  await stubborn.initialize();
  const running = stubborn.execute("print('on')\nwhile True:\n    try:\n        while True: pass\n    except KeyboardInterrupt: print('no')");
  const failed = assert.rejects(running, /has ended \(SIGKILL\)/);
  await until(() => stubborn.stdout.includes("on"));
  stubborn.interrupt();
  await until(() => stubborn.stdout.includes("no"));
  stubborn.process.kill("SIGKILL");
  await failed;
});

test("the end of the protocol ends the process at once, even in a loop", async () => {
  for (const mode of [[], ["--direct"]]) {
    const other = new Interpreter(["--index-url", PYODIDE, ...mode]);
    await other.initialize();
    other.execute("print('on')\nwhile True: pass").catch(() => {});
    await until(() => other.stdout.includes("on"));
    const begun = performance.now();
    assert.equal(await other.close(), mode.length === 0 ? 0 : "SIGKILL");
    assert.ok(performance.now() - begun < 1000);
  }
});

test("os._exit ends the process with its code", async () => {
  const other = new Interpreter();
  await other.initialize();
  await assert.rejects(other.execute("import os; os._exit(7)"), /has ended \(7\)/);
});

test("direct mode runs, and an interrupt does nothing there", async () => {
  const direct = new Interpreter(["--index-url", PYODIDE, "--direct"]);
  await direct.initialize({ tools: ["add"] });
  direct.handlers.add = ({ args }) => ({ result: args[0] + args[1] });
  const running = direct.execute("import time\nprint('on')\ntime.sleep(0.5)\nadd(1, await add(1, 1))");
  await until(() => direct.stdout.includes("on"));
  direct.interrupt();
  assert.equal((await running).value.text, "3");
  await direct.close();
});
