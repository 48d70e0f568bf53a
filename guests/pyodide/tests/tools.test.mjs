// What Python asks of the host: tools that are waited for, awaited, several at once, failing; input().

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { Interpreter, sleep, until } from "./harness.mjs";

const DOCS = { add: { doc: "Adds.", signature: "(*numbers: int, more: int = 0) -> int" } };
let python;

before(async () => {
  python = new Interpreter();
  await python.initialize({ tools: ["add", "slow", "fail", "limit", "echo", "never", "llm_query"], tool_docs: DOCS });
  Object.assign(python.handlers, {
    add: ({ args, kwargs }) => ({ result: args.reduce((a, b) => a + b, 0) + (kwargs.more ?? 0) }),
    slow: async ({ args }) => (await sleep(args[0]), { result: args[0] }),
    fail: () => ({ error: { code: -32000, message: "it broke", data: { name: "ToolError" } } }),
    limit: () => ({ error: { code: -32000, message: "no more", data: { name: "ToolLimitError" } } }),
    echo: ({ args }) => ({ result: args[0] }),
    never: () => undefined,
    llm_query: ({ args }) => ({ result: `<${args[0]}>` }),
    input: ({ prompt }) => ({ result: `answer to ${prompt}` }),
  });
});
after(() => python.close());

const textOf = async (code) => {
  const answer = await python.execute(code);
  assert.equal(answer.error, null);
  return answer.value?.text;
};

test("a tool is a function", async () => {
  assert.equal(await textOf("add(1, 2, more=4)"), "7");
  assert.equal(await textOf("belljar_tools = __import__('belljar').tools\nbelljar_tools.add(1)"), "1");
});

test("a tool says what it is", async () => {
  assert.equal(await textOf("import inspect\n[add.__doc__, str(inspect.signature(add))]"), "['Adds.', '(*numbers: int, more: int = 0) -> int']");
  assert.equal(await textOf("str(inspect.signature(echo))"), "'(*args, **kwargs)'");
});

test("what is sent comes back as it was", async () => {
  assert.equal(await textOf("echo({'a': ['é', '\\U0001f600', None, -1.5]})"), "{'a': ['é', '😀', None, -1.5]}");
});

test("awaited tools run at the same time", async () => {
  const begun = performance.now();
  assert.equal(await textOf("import asyncio\nawait asyncio.gather(*(slow.aio(300) for _ in range(5)))"), "[300, 300, 300, 300, 300]");
  assert.ok(performance.now() - begun < 1200);
  assert.equal(await textOf("await slow(1)"), "1");
  assert.equal(await textOf("llm_query_batched(['a', 'b'])"), "['<a>', '<b>']");
  assert.equal(await textOf("async def m():\n    return await asyncio.gather(slow.aio(20), slow.aio(10))\nasyncio.run(m())"), "[20, 10]");
});

test("timers go on while a tool is awaited", async () => {
  const code = "seen = []\nasync def tick():\n    while True:\n        seen.append(1)\n        await asyncio.sleep(0.02)\nt = asyncio.create_task(tick())\nawait slow(300)\nt.cancel()\nlen(seen) > 3";
  assert.equal(await textOf(code), "True");
});

test("an awaited tool that takes too long is dropped", async () => {
  const before = python.notifications.length;
  const answer = await python.execute("await asyncio.wait_for(never.aio(), 0.05)");
  assert.equal(answer.error.name, "TimeoutError");
  assert.equal(python.notifications.at(before)?.method, "tool.drop");
});

test("a background task gets its answer between two cells", async () => {
  await python.execute("got = []\nasync def background():\n    got.append(await slow(50))\ntask = asyncio.create_task(background())\nawait asyncio.sleep(0)");
  await sleep(150);
  assert.equal(await textOf("await task\ngot"), "[50]");
});

test("a tool's failure is an exception the user may catch", async () => {
  const answer = await python.execute("fail()");
  assert.deepEqual([answer.error.name, answer.error.message], ["ToolError", "it broke"]);
  assert.doesNotMatch(answer.error.traceback, /belljar_guest/);
  assert.equal((await python.execute("await limit()")).error.name, "ToolLimitError");
  assert.equal(await textOf("from belljar import ToolError\ntry:\n    limit()\nexcept ToolError as e:\n    caught = str(e)\ncaught"), "'no more'");
});

test("what JSON cannot carry is refused by name", async () => {
  const answer = await python.execute("echo(object())");
  assert.deepEqual([answer.error.name, answer.error.message], ["TypeError", "argument 1 of echo() cannot be sent as JSON: object is no JSON type"]);
});

test("input() asks the host", async () => {
  assert.equal(await textOf("input('name? ')"), "'answer to name? '");
});

test("an interrupt in a tool that blocks is KeyboardInterrupt, and the call is dropped", async () => {
  const before = python.events.length;
  const dropped = python.notifications.length;
  const running = python.execute("kept = 1\nnever()");
  await until(() => python.events.slice(before).some((event) => event.asked));
  python.interrupt();
  const answer = await running;
  assert.equal(answer.error.name, "KeyboardInterrupt");
  assert.match(answer.error.traceback, /line 2, in <module>\n {4}never\(\)/);
  assert.equal(python.notifications.at(dropped)?.method, "tool.drop");
  assert.equal(await textOf("kept"), "1");
});

test("an interrupt in an awaited tool is KeyboardInterrupt too", async () => {
  const before = python.events.length;
  const running = python.execute("await never()");
  await until(() => python.events.slice(before).some((event) => event.asked));
  python.interrupt();
  assert.equal((await running).error.name, "KeyboardInterrupt");
  assert.equal(await textOf("await slow(1)"), "1");
});

test("an interrupt in a batch, and in a loop of the user's own", async () => {
  python.handlers.llm_query = () => undefined;
  for (const code of ["llm_query_batched(['a', 'b'])", "async def own(): await asyncio.wait_for(never.aio(), 30)\nasyncio.run(own())"]) {
    const before = python.events.length;
    const running = python.execute(code);
    await until(() => python.events.slice(before).some((event) => event.asked));
    await sleep(50);
    python.interrupt();
    assert.equal((await running).error.name, "KeyboardInterrupt", code);
  }
});
