// Tools, interrupts, and lines that are no requests.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { Interpreter, sleep, until } from "./harness.mjs";

const DOCS = { add: { doc: "Adds.", signature: "(...numbers: number[]) => number" }, slow: { doc: "Waits." } };
let node;

before(async () => {
  node = new Interpreter();
  await node.initialize({ tools: ["add", "slow", "fail", "never", "llm_query"], tool_docs: DOCS });
  Object.assign(node.handlers, {
    add: ({ args }) => ({ result: args.reduce((a, b) => a + b, 0) }),
    slow: async ({ args }) => (await sleep(args[0]), { result: args[0] }),
    fail: () => ({ error: { code: -32000, message: "it broke", data: { name: "ToolLimitError" } } }),
    never: () => undefined,
    llm_query: ({ args }) => ({ result: `<${args[0]}>` }),
    input: ({ prompt }) => ({ result: `answer to ${prompt}` }),
  });
});
after(() => node.close());

const textOf = async (code) => {
  const answer = await node.execute(code);
  assert.equal(answer.error, null);
  return answer.value?.text;
};

/** Runs code that says "on" or calls a tool, and interrupts it then. */
async function interrupted(code) {
  const before = node.events.length;
  const running = node.execute(code);
  await until(() => node.events.slice(before).some((event) => event.asked || event.stdout?.includes("on\n")));
  await sleep(20);
  const begun = performance.now();
  node.interrupt();
  const answer = await running;
  assert.ok(performance.now() - begun < 2000);
  return answer;
}

test("a tool gives a promise; its twin waits", async () => {
  assert.equal(await textOf("await add(1, 2)"), "3");
  assert.equal(await textOf("add.sync(3, 4)"), "7");
  assert.equal(await textOf("llm_query_batched.sync(['a', 'b'])"), "[ '<a>', '<b>' ]");
  assert.equal(await textOf("prompt('name? ')"), "'answer to name? '");
});

test("a tool says what it is, and cannot be made to say something else", async () => {
  assert.equal(await textOf("[add.doc, add.signature].join()"), "'Adds.,(...numbers: number[]) => number'");
  assert.equal(await textOf("[slow.doc, slow.signature, fail.doc]"), "[ 'Waits.', undefined, undefined ]");
  assert.equal(await textOf("add.doc = 'changed'; delete add.signature; [add.doc, add.signature.length, Object.keys(add)]"), "[ 'Adds.', 32, [] ]");
  assert.equal((await node.execute("'use strict'; add.doc = 1")).error.name, "TypeError");
  assert.equal(await textOf("add.toString() === fail.toString() && add.name"), "'add'");
});

test("tools run at the same time, and beside timers", async () => {
  const begun = performance.now();
  assert.equal(await textOf("await Promise.all([1, 2, 3].map(() => slow(300)))"), "[ 300, 300, 300 ]");
  assert.ok(performance.now() - begun < 800);
  assert.equal(await textOf("let ticks = 0; const i = setInterval(() => ticks++, 10); await slow(200); clearInterval(i); ticks > 3"), "true");
});

test("a tool's failure is an error the user may catch", async () => {
  const { error } = await node.execute("await fail()");
  assert.deepEqual([error.name, error.message], ["ToolLimitError", "it broke"]);
  assert.equal((await node.execute("fail.sync()")).error.name, "ToolLimitError");
  assert.equal(await textOf("try { fail.sync() } catch (e) { [e instanceof ToolError, e instanceof Error] }"), "[ true, true ]");
  assert.match((await node.execute("add(undefined)")).error.message, /argument 1 is undefined/);
});

test("an endless loop is interrupted wherever it runs, and the session lives on", async () => {
  await node.execute("let kept = 1");
  const endless = [
    "console.log('on'); for (;;);",
    "await null; console.log('on'); for (;;);",
    "await new Promise((r) => setTimeout(r, 5)); console.log('on'); for (;;);",
    "setTimeout(() => { console.log('on'); for (;;); }); await new Promise(() => {})",
    "console.log('on'); const spin = async () => { for (;;) await null }; await spin()",
    "console.log('on'); try { for (;;); } finally { kept = 2 }",
    "console.log('on'); await new Promise(() => {})",
    "console.log('on'); setInterval(() => {}, 1); await new Promise((r) => setTimeout(r, 60_000))",
    "never.sync()",
    "await never()",
  ];
  for (const code of endless) {
    const { end, error } = await interrupted(code);
    assert.deepEqual([end, error.name, error.message], ["raised", "Interrupted", "the cell was interrupted"], code);
    assert.equal(await textOf("await new Promise((resolve) => setTimeout(resolve, 5)); kept"), "1", code);
  }
  assert.equal(node.notifications.filter(({ method }) => method === "tool.drop").length, 2);
});

test("what an interrupted cell waited for may be collected without harm", async () => {
  for (let round = 0; round < 3; round++) {
    assert.equal((await interrupted("console.log('on'); await new Promise(() => {})")).error.name, "Interrupted");
    assert.equal(await textOf("let many = []; for (let i = 0; i < 2e6; i++) many.push({ i }); many.length"), "2000000");
  }
});

test("an interrupt that comes when nothing runs is forgotten", async () => {
  node.interrupt();
  await sleep(100);
  assert.equal(await textOf("await slow(50)"), "50");
});

test("lines that are no requests get a proper error and the session lives on", async () => {
  const other = new Interpreter();
  assert.deepEqual((await other.request("execute", { code: "1" })).error, { code: -32600, message: "`initialize` comes first" });
  await other.initialize();
  assert.equal((await other.request("initialize", {})).error.code, -32600);
  for (const [line, code] of [["{", -32700], ["[1]", -32600], ['"text"', -32600], ["null", -32600], ["[".repeat(100_000), -32700]]) {
    const reply = other.reply(null);
    other.sendLine(line);
    assert.equal((await reply).error.code, code, line.slice(0, 20));
  }
  assert.equal((await other.request("explode", {})).error.code, -32601);
  assert.equal((await other.request("execute", { code: 5 })).error.code, -32602);
  other.sendLine('{"jsonrpc": "2.0", "method": "notification"}\n{"jsonrpc": "2.0", "id": 99, "result": 1}\n');
  const running = other.execute("await new Promise((r) => setTimeout(r, 200)); 1");
  assert.equal((await other.request("execute", { code: "2" })).error.code, -32600);
  assert.equal((await running).value.text, "1");
  await other.close();
});

test("a workspace that is not there is said", async () => {
  const other = new Interpreter();
  const { error } = await other.request("initialize", { surroundings: { workspace: "/no/such/folder" } });
  assert.deepEqual(error, { code: -32000, message: "cannot enter the workspace /no/such/folder" });
  await other.close();
});

test("the end of the protocol ends the process at once, even in a loop", async () => {
  const other = new Interpreter();
  await other.initialize();
  other.execute("console.log('on'); for (;;);").catch(() => {});
  await until(() => other.stdout.includes("on"));
  const begun = performance.now();
  assert.equal(await other.close(), 0);
  assert.ok(performance.now() - begun < 1000);
});
