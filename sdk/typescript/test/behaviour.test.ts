// What sandboxes do beyond the specification: signals, forks, snapshots, files, tools, many at once.

import assert from "node:assert/strict";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, describe, test } from "node:test";

import {
  createSandbox,
  ExecutionAbortedError,
  runCode,
  SandboxError,
  shutdown,
  type JsonValue,
  type ToolRequest,
} from "belljar";

import { belljar, session, temporary, until } from "./support.js";

after(shutdown);

describe("state", () => {
  test("lives from the first execution on, without being asked for", async () => {
    await using sandbox = await createSandbox();
    await sandbox.execute("x = 41");
    assert.equal((await sandbox.execute("x + 1")).result?.json, 42);
    assert.equal(await sandbox.getVariable("x"), 41);
  });

  test("does not live where every execution shall be fresh", async () => {
    await using sandbox = await createSandbox({ fresh: true });
    await sandbox.execute("x = 41");
    assert.equal((await sandbox.execute("x")).error, "NameError: name 'x' is not defined");
    await assert.rejects(sandbox.getVariable("x"), { kind: "not_in_session" });
  });

  test("of a session that has a name is there for another process", async () => {
    const name = `ts-${process.pid}`;
    const first = await createSandbox({ session: name });
    await first.initialize("kept");
    await first.execute("x = 41");
    await shutdown();
    const second = await createSandbox({ session: name });
    assert.deepEqual([await second.getVariable("x"), await second.getVariable("context")], [41, "kept"]);
    await second.destroy();
    belljar(["session", "rm", name]);
  });

  test("runCode runs once and leaves nothing", async () => {
    const { stdout, workspacePath } = await runCode("console.log([1, 2].length)", { language: "javascript" });
    assert.equal(stdout, "2\n");
    await until("its workspace is gone", () => !existsSync(workspacePath));
    await assert.rejects(runCode("1", { signal: AbortSignal.abort() }), { name: "AbortError" });
  });

  test("code that exits has a code and keeps the session", async () => {
    await using sandbox = await session();
    const { exitCode, success, error } = await sandbox.execute("x = 1\nimport sys\nsys.exit(3)");
    assert.deepEqual([exitCode, success, error], [3, false, "exited with code 3"]);
    assert.equal(await sandbox.getVariable("x"), 1);
  });

  test("validate looks at the syntax and runs nothing", async () => {
    await using sandbox = await session();
    assert.equal(await sandbox.validate("x = 1"), null);
    assert.equal((await sandbox.validate("x = ("))?.name, "SyntaxError");
    assert.equal(await sandbox.getVariable("x"), undefined);
  });
});

describe("stopping", () => {
  test("cancel before anything runs and after everything ran does nothing", async () => {
    await using sandbox = await session();
    await sandbox.cancel();
    assert.equal((await sandbox.execute("1")).status, "ok");
    await sandbox.cancel();
    assert.equal((await sandbox.execute("2")).status, "ok");
  });

  test("cancel right after the start is heard", async () => {
    for (let attempt = 0; attempt < 20; attempt++) {
      await using sandbox = await session();
      const running = sandbox.execute("while True: pass");
      // One step later it has been sent, and may not have begun.
      await Promise.resolve();
      await Promise.resolve();
      await sandbox.cancel();
      setTimeout(() => void sandbox.cancel(), 20);
      const { status, error } = await running;
      assert.equal(status, "cancelled");
      assert.match(error ?? "", /cancel/i);
    }
  });

  test("a signal that was aborted before means that nothing is run", async () => {
    await using sandbox = await session();
    const reason = new Error("not any more");
    await assert.rejects(sandbox.execute("x = 1", { signal: AbortSignal.abort(reason) }), (error) => {
      assert.ok(error instanceof ExecutionAbortedError);
      assert.deepEqual([error.name, error.cause, error.execution], ["AbortError", reason, null]);
      return true;
    });
    assert.equal(await sandbox.getVariable("x"), undefined);
  });

  test("a signal stops what runs, and what it ran is told", async () => {
    const lines: string[] = [];
    await using sandbox = await session({ onStdout: (line) => lines.push(line) });
    const controller = new AbortController();
    const running = sandbox.execute("x = 1\nprint('go')\nwhile True: pass", { signal: controller.signal });
    await until("it runs", () => lines.length > 0);
    controller.abort();
    await assert.rejects(running, (error) => {
      assert.ok(error instanceof ExecutionAbortedError);
      assert.deepEqual([error.execution?.status, error.execution?.stdout], ["cancelled", "go\n"]);
      return true;
    });
    assert.equal(await sandbox.getVariable("x"), 1);
  });

  test("a signal ends what waits for its turn at once, and what runs goes on", async () => {
    await using sandbox = await session();
    const running = sandbox.execute("import time; time.sleep(0.3); 'done'");
    const controller = new AbortController();
    const waiting = sandbox.execute("y = 1", { signal: controller.signal });
    const begin = Date.now();
    controller.abort();
    await assert.rejects(waiting, { name: "AbortError" });
    assert.ok(Date.now() - begin < 100);
    assert.equal((await running).result?.json, "done");
    assert.equal(await sandbox.getVariable("y"), undefined);
  });

  test("a signal that is aborted afterwards changes nothing", async () => {
    await using sandbox = await session();
    const controller = new AbortController();
    assert.equal((await sandbox.execute("1", { signal: controller.signal })).status, "ok");
    controller.abort();
    assert.equal((await sandbox.execute("2")).status, "ok");
  });
});

describe("forks and snapshots", () => {
  test("a fork goes on from here, and neither disturbs the other", async () => {
    const asked: string[] = [];
    await using sandbox = await session({ tools: { tell: (who: string) => asked.push(who) } });
    await sandbox.execute("x = 1\nopen('f', 'w').write('here')");
    await using fork = await sandbox.fork();
    await Promise.all([fork.execute("x += 10\ntell('fork')"), sandbox.execute("x += 100\ntell('parent')")]);
    assert.deepEqual([await fork.getVariable("x"), await sandbox.getVariable("x")], [11, 101]);
    assert.deepEqual(asked.sort(), ["fork", "parent"]);
    assert.equal(await fork.files.readText("f"), "here");
    assert.notEqual(fork.workspace, sandbox.workspace);
  });

  test("a snapshot can be restored any number of times, and in another process", async () => {
    await using sandbox = await session();
    await sandbox.execute("x = 1\nopen('f', 'w').write('then')");
    const snapshot = await sandbox.snapshot();
    await sandbox.execute("x = 2\nopen('f', 'w').write('now')");
    await sandbox.restore(snapshot);
    assert.deepEqual([await sandbox.getVariable("x"), await sandbox.files.readText("f")], [1, "then"]);
    const file = join(temporary(), "session.belljar");
    writeFileSync(file, await snapshot.read());
    assert.equal(readFileSync(file).length, snapshot.bytes);
    await shutdown();
    await using other = await createSandbox();
    await other.restore(readFileSync(file));
    assert.deepEqual([await other.getVariable("x"), await other.files.readText("f")], [1, "then"]);
  });

  test("a session that waits for an answer goes on elsewhere", async () => {
    const config = { deferredTools: ["approve"] };
    await using sandbox = await session(config);
    const { status, pendingCalls, error } = await sandbox.execute("ok = await approve('pay', amount=100)\nprint(ok)");
    assert.deepEqual([status, error], ["suspended", null]);
    const [call] = pendingCalls;
    assert.deepEqual([call?.name, call?.args, call?.kwargs], ["approve", ["pay"], { amount: 100 }]);
    const bytes = await (await sandbox.snapshot()).read();
    await using other = await createSandbox(config);
    await other.restore(bytes);
    assert.equal((await other.resume([{ call: call?.id ?? 0, result: true }])).stdout, "True\n");
    const refused = await sandbox.resume([{ call: call?.id ?? 0, error: "far too much" }]);
    assert.equal(refused.error, "ToolError: far too much");
  });
});

test("files are written, read, listed and removed, however long they are", async () => {
  await using sandbox = await createSandbox();
  const long = Buffer.alloc(9 * 1024 * 1024, "0123456789");
  await sandbox.files.write("data/long", long);
  await sandbox.files.write("text", "två\n");
  await sandbox.files.write("empty", "");
  await sandbox.files.makeDirectory("folder");
  assert.ok((await sandbox.files.read("data/long")).equals(long));
  assert.deepEqual((await sandbox.execute("open('text').read()")).result?.json, "två\n");
  const { filesCreated } = await sandbox.execute("import os\n_ = open('made', 'w').write('x')\nos.symlink('text', 'link')");
  assert.deepEqual(filesCreated, ["link", "made"]);
  const listed = (await sandbox.files.list()).map(({ path, kind, bytes }) => `${kind} ${path} ${bytes}`);
  assert.deepEqual(listed.sort(), [
    "directory data 0",
    "directory folder 0",
    "file data/long 9437184",
    "file empty 0",
    "file made 1",
    "file text 5",
    "link link 0",
  ]);
  await assert.rejects(sandbox.files.read("link"), /link is a symbolic link to text/);
  assert.equal((await sandbox.files.read("empty")).length, 0);
  await sandbox.files.remove("data");
  await assert.rejects(sandbox.files.read("data/long"), SandboxError);
  await assert.rejects(sandbox.files.write("../out", "x"), SandboxError);
});

describe("tools", () => {
  test("are plain functions; arguments by name come as an object behind the others", async () => {
    const tools = {
      add: (a: number, b: number) => a + b,
      show: (...args: JsonValue[]) => args,
    };
    await using sandbox = await session({ tools });
    assert.equal((await sandbox.execute("add(1, 2)")).result?.json, 3);
    assert.deepEqual((await sandbox.execute("show(1, b=2)")).result?.json, [1, { b: 2 }]);
    await using script = await session({ tools, language: "javascript" });
    assert.equal((await script.execute("await add(1, 2)")).result?.json, 3);
  });

  test("say what they are, in every execution", async () => {
    const tools = {
      price: {
        doc: "The price of an article.",
        signature: "(article: str, n: int = 1) -> int",
        handler: (article: string, n = 1) => article.length * n,
      },
      whole: { run: ({ args }: ToolRequest) => args, doc: "Sees the whole call.", signature: "(...args) => unknown" },
      plain: () => 1,
    };
    const python = "import inspect\n[price('tea', 2), price.__doc__, str(inspect.signature(price)), whole.__doc__, str(inspect.signature(plain))]";
    const script = "[await price('tea', 2), price.doc, price.signature, whole.signature, plain.doc ?? null, Object.keys(price)]";
    const inPython = [6, tools.price.doc, tools.price.signature, "whole(...args) => unknown\n\nSees the whole call.", "(*args, **kwargs)"];
    const inScript = [6, tools.price.doc, tools.price.signature, "(...args) => unknown", null, []];
    for (const fresh of [true, false]) {
      await using sandbox = await session({ tools, fresh });
      assert.deepEqual((await sandbox.execute(python)).result?.json, inPython);
      await using other = await session({ tools, fresh, language: "javascript" });
      assert.deepEqual((await other.execute(script)).result?.json, inScript);
    }
    await using sandbox = await session({ tools });
    await using fork = await sandbox.fork();
    assert.deepEqual((await fork.execute(python)).result?.json, inPython);
  });

  test("run at the same time when the code awaits several", async () => {
    let running = 0;
    let most = 0;
    const slow = async (n: number) => {
      most = Math.max(most, ++running);
      await new Promise((resolve) => setTimeout(resolve, 50));
      running--;
      return n;
    };
    await using sandbox = await session({ tools: { slow } });
    const { result } = await sandbox.execute("import asyncio\nawait asyncio.gather(*(slow.aio(n) for n in range(8)))");
    assert.deepEqual(result?.json, [0, 1, 2, 3, 4, 5, 6, 7]);
    assert.ok(most > 1, `${most}`);
  });

  test("see the whole call, and that nobody waits any more", async () => {
    const seen: ToolRequest[] = [];
    const hang = {
      run: (request: ToolRequest) => {
        seen.push(request);
        return new Promise(() => undefined);
      },
    };
    await using sandbox = await session({ timeout: 300, tools: { hang } });
    assert.equal((await sandbox.execute("hang(1, x=2)")).status, "timeout");
    const [call] = seen;
    assert.deepEqual([call?.name, call?.args, call?.kwargs, call?.depth], ["hang", [1], { x: 2 }, 0]);
    await until("it is told", () => call?.signal.aborted === true);
  });

  test("may use other sandboxes, and this one's forks", async () => {
    await using inner = await session();
    const onRLMQuery = async (task: string, ctx: JsonValue, { depth }: ToolRequest) => {
      await using nested = await session({ depth: depth + 1 }, ctx);
      const { result } = await nested.execute(task);
      return result?.json;
    };
    const tools = { ask: async (code: string) => (await inner.execute(code)).result?.json };
    await using sandbox = await session({ onRLMQuery, tools }, [1, 2, 3]);
    const { result } = await sandbox.execute("rlm_query('sum(context)'), ask('6 * 7')");
    assert.deepEqual(result?.json, [6, 42]);
  });

  test("input() is answered, and its prompt is seen", async () => {
    const prompts: string[] = [];
    const onInput = (prompt: string) => (prompts.push(prompt) === 1 ? "Ann" : null);
    await using sandbox = await session({ onInput });
    assert.equal((await sandbox.execute("input('who? ')")).result?.json, "Ann");
    assert.match((await sandbox.execute("input()")).error ?? "", /^EOFError/);
    assert.deepEqual(prompts, ["who? ", ""]);
  });
});

describe("many at once", () => {
  test("five thousand calls of one sandbox are served in their order", async () => {
    await using sandbox = await session();
    await sandbox.execute("seen = []");
    const calls = Array.from({ length: 5000 }, (_, n) => sandbox.execute(`seen.append(${n})\n${n} * 2`));
    const results = await Promise.all(calls);
    assert.deepEqual(results.map(({ result }) => result?.json), results.map((_, n) => n * 2));
    assert.equal((await sandbox.execute("seen == list(range(5000))")).result?.json, true);
  });

  test("two thousand calls of a hundred sandboxes have the right answers", async () => {
    const sandboxes = await Promise.all(Array.from({ length: 100 }, (_, n) => session({ tools: { own: () => n } })));
    const calls = Array.from({ length: 2000 }, async (_, n) => {
      const sandbox = sandboxes[n % 100];
      assert.ok(sandbox);
      return (await sandbox.execute(`own() * 10_000 + ${n}`)).result?.json;
    });
    const expected = Array.from({ length: 2000 }, (_, n) => (n % 100) * 10_000 + n);
    assert.deepEqual(await Promise.all(calls), expected);
    await Promise.all(sandboxes.map((sandbox) => sandbox.destroy()));
  });
});
