// Whatever callers, callbacks and programs do wrong: an error that says what, and nothing that hangs.

import assert from "node:assert/strict";
import { chmodSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, describe, test } from "node:test";

import {
  BinaryError,
  BusyError,
  CallbackError,
  ConfigError,
  ConnectionLostError,
  createSandbox,
  findBinary,
  NotJsonError,
  PolicyValidationError,
  SandboxDestroyedError,
  SandboxError,
  shutdown,
  type REPLConfig,
} from "belljar";

import { belljar, isAlive, server, session, temporary, until } from "./support.js";

after(shutdown);

/** Options that the types would not allow. */
const odd = (options: unknown): REPLConfig => options as REPLConfig;

describe("wrong types and unknown options", () => {
  test("every wrong option is named at once", async () => {
    const config = odd({ timeout: "5", maxOutputLength: 0, useWorker: 1, onStdout: "x", wishful: true });
    await assert.rejects(createSandbox(config), (error) => {
      assert.ok(error instanceof ConfigError);
      assert.equal(
        error.message,
        'timeout: must be milliseconds from 1 to 86400000, not "5"; ' +
          "maxOutputLength: must be a whole number from 1 to 357913941, not 0; " +
          "useWorker: must be true or false, not 1; onStdout: must be a function, not \"x\"; " +
          "wishful: there is no such option; nothing was run",
      );
      assert.match(error.hint ?? "", /^the options are backend, language, timeout/);
      return true;
    });
  });

  test("what is no object is no configuration", async () => {
    for (const config of [null, "python", 3, []]) await assert.rejects(createSandbox(odd(config)), ConfigError);
  });

  test("the same limit twice is refused", async () => {
    await assert.rejects(createSandbox({ timeout: 100, policy: { timeout_seconds: 5 } }), ConfigError);
    await assert.rejects(createSandbox({ maxOutputLength: 9, policy: { stderr_max_bytes: 5 } }), ConfigError);
  });

  test("tools that are none, and names that cannot be", async () => {
    for (const add of [3, null, {}, { run: 1 }, { run: () => 1, handler: () => 1 }]) {
      await assert.rejects(createSandbox(odd({ tools: { add } })), /tools\.add: must be a function, or an object with either/);
    }
    await assert.rejects(createSandbox(odd({ tools: { add: { handler: () => 1, doc: 3 } } })), /tools\.add\.doc: must be text, not 3/);
    const said = (doc: string, signature = "()") => createSandbox({ tools: { add: { handler: () => 1, doc, signature } } });
    await assert.rejects(said("x".repeat(16_385)), /its documentation is 16 385 bytes long, and 16 KiB is the most/);
    await assert.rejects(said("a\0b"), /its documentation holds the control character U\+0000/);
    await assert.rejects(said("", "(\n)"), /its signature holds the control character U\+000A/);
    await using sandbox = await said("x".repeat(16_384), "(x=__import__('os').system('boom'))");
    assert.equal((await sandbox.execute("add.__doc__ == 'x' * 16384 and add()")).result?.json, 1);
    await assert.rejects(createSandbox({ tools: { "two words": () => 1 } }), {
      name: "SandboxError",
      kind: "tool",
      message: /"two words" cannot be offered: it is no name in both languages/,
    });
    const twice = { tools: { llm_query: () => "" }, onLLMQuery: () => "" };
    await assert.rejects(createSandbox(twice), /tools\.llm_query: there is one of that name already/);
  });

  test("a policy that makes no sense is refused with every issue", async () => {
    const policy = odd({ policy: { fuel_budget: -1, wishful: 1 } });
    await assert.rejects(createSandbox(policy), (error) => {
      assert.ok(error instanceof PolicyValidationError);
      assert.deepEqual(error.issues.map(({ field }) => field).sort(), ["fuel_budget", "wishful"]);
      return true;
    });
  });

  test("arguments of methods", async () => {
    await using sandbox = await session();
    await assert.rejects(sandbox.execute(3 as unknown as string), /code: must be text, not 3/);
    await assert.rejects(sandbox.getVariable(null as unknown as string), ConfigError);
    await assert.rejects(sandbox.execute("1", odd({ wishful: 1 }) as object), ConfigError);
    await assert.rejects(sandbox.execute("1", { signal: {} as AbortSignal }), /signal: must be an AbortSignal/);
    await assert.rejects(sandbox.restore("file" as unknown as Uint8Array), /must be a Snapshot or its bytes/);
    await assert.rejects(sandbox.execute("x = '\ud800'"), NotJsonError);
    for (const answers of [null, {}, [null], [{ result: 1 }]]) {
      await assert.rejects(sandbox.resume(answers as []), /answers: must be a list of answers/);
    }
    await assert.rejects(sandbox.resume([{ call: 1, result: 1 }]), { kind: "not_suspended" });
    await assert.rejects(sandbox.files.write("f", 3 as unknown as string), /contents: must be text or bytes/);
    await assert.rejects(sandbox.files.write(undefined as unknown as string, ""), SandboxError);
    await assert.rejects(sandbox.snapshot({ files: "x" as unknown as boolean }), SandboxError);
    assert.equal((await sandbox.execute("1")).success, true);
  });

  test("contexts that JSON cannot carry", async () => {
    await using sandbox = await createSandbox();
    const circle: unknown[] = [];
    circle.push(circle);
    let deep: unknown = null;
    for (let level = 0; level < 100; level++) deep = [deep];
    const contexts: [unknown, RegExp][] = [
      [10n, /BigInt/],
      [circle, /contains itself/],
      [deep, /nests deeper than 64/],
      [new Map(), /a Map/],
      [() => 1, /a function/],
      [{ x: NaN }, /NaN/],
      ["\ud800", /surrogate/],
      [new Array(7_000_000).fill(1), /too much memory/],
      ["x".repeat(65 * 1024 * 1024), /bytes long/],
    ];
    for (const [context, message] of contexts) {
      await assert.rejects(sandbox.initialize(context), (error) => {
        assert.ok(error instanceof NotJsonError);
        assert.match(error.message, message);
        return true;
      });
    }
    await sandbox.initialize({ when: new Date(0), left: undefined });
    assert.deepEqual(await sandbox.getVariable("context"), { when: "1970-01-01T00:00:00.000Z" });
  });
});

describe("the program", () => {
  /** A program that is not belljar. */
  function program(script: string): string {
    const path = join(temporary(), "belljar");
    writeFileSync(path, `#!/bin/sh\n${script}\n`);
    chmodSync(path, 0o755);
    return path;
  }
  const answer = (hello: string) => program(`read line; echo '{"jsonrpc":"2.0","id":1,"result":${hello}}'; cat`);

  const cases: [string, () => string, RegExp][] = [
    ["is missing", () => "/nowhere/belljar", /the option binary names \/nowhere\/belljar: there is no such file/],
    ["is a directory", () => temporary(), /it is no file/],
    [
      "may not be executed",
      () => {
        const path = program("");
        chmodSync(path, 0o644);
        return path;
      },
      /it may not be executed/,
    ],
    ["is of another version", () => answer('{"belljar":"9.9.9","protocol":99,"pid":1}'), /Belljar 9\.9\.9\) speaks version 99 of the protocol, and this package version 1/],
    ["does not say who it is", () => answer("null"), /speaks no version of the protocol/],
    ["is so old that it does not know how to serve", () => program("echo 'unknown command' >&2; exit 2"), /exit code 2[^]*unknown command/],
    ["says what is no message", () => program("echo hello; cat"), /no message of the protocol/],
    ["repeats what it is told", () => program("cat"), /this client has no method hello/],
    ["is no program", () => {
      const path = program("");
      writeFileSync(path, "\x7fELF nonsense");
      return path;
    }, /is no belljar that can be used/],
  ];
  for (const [what, path, message] of cases) {
    test(`one that ${what}`, async () => {
      await assert.rejects(createSandbox({ binary: path() }), (error) => {
        assert.ok(error instanceof BinaryError, String(error));
        assert.match(error.message, message);
        assert.notEqual(error.hint, null);
        return true;
      });
    });
  }

  test("the one that this package carries is of its version", () => {
    const carried = join("node_modules/belljar/binary", `${process.platform}-${process.arch}`, "belljar");
    assert.ok(findBinary().endsWith(carried), findBinary());
    const { version } = JSON.parse(readFileSync("node_modules/belljar/package.json", "utf8")) as { version: string };
    assert.equal(belljar(["--version"]), `belljar ${version}\n`);
  });

  test("one that the variable names, and that is not there, is not replaced by another", async () => {
    process.env["BELLJAR_BIN"] = "/nowhere/belljar";
    try {
      await assert.rejects(createSandbox(), /BELLJAR_BIN names \/nowhere\/belljar: there is no such file/);
    } finally {
      delete process.env["BELLJAR_BIN"];
    }
    await (await createSandbox()).destroy();
  });

  test("a crash in the middle of a call, and another process afterwards", async () => {
    const printed: string[] = [];
    const sandbox = await session({ onStdout: (line) => printed.push(line) });
    const other = await session();
    const pid = server();
    const running = sandbox.execute("print('go')\nwhile True: pass");
    const waiting = sandbox.getVariable("x");
    await until("it runs", () => printed.length > 0);
    process.kill(pid, "SIGKILL");
    await assert.rejects(running, (error) => {
      assert.ok(error instanceof ConnectionLostError);
      assert.match(error.message, /was ended by SIGKILL; the code may have run; its sandboxes are lost/);
      return true;
    });
    await assert.rejects(waiting, /nothing was run; its sandboxes are lost/);
    await assert.rejects(other.execute("1"), ConnectionLostError);
    await sandbox.cancel();
    await sandbox.destroy();
    await other.destroy();
    await using again = await session();
    assert.equal((await again.execute("6 * 7")).result?.json, 42);
    assert.ok(server() !== pid && !isAlive(pid));
  });
});

describe("callbacks that throw", () => {
  const thrown = new Error("the callback's own");
  const forms: [string, () => unknown][] = [
    ["at once", () => { throw thrown; }],
    ["later", () => Promise.reject(thrown)],
  ];
  for (const [when, callback] of forms) {
    test(`onStdout and onStderr, ${when}: the code is stopped and the session lives on`, async () => {
      for (const [name, target] of [["onStdout", "stdout"], ["onStderr", "stderr"]] as const) {
        await using sandbox = await session({ [name]: callback });
        const code = `import sys\nx = 1\nprint('go', file=sys.${target})\nwhile True: pass`;
        await assert.rejects(sandbox.execute(code), (error) => {
          assert.ok(error instanceof CallbackError);
          assert.equal(error.message, `${name} threw: the callback's own; the code was stopped`);
          assert.equal(error.cause, thrown);
          assert.equal(error.execution.status, "cancelled");
          return true;
        });
        assert.equal(await sandbox.getVariable("x"), 1);
      }
    });

    test(`onInput, ${when}`, async () => {
      await using sandbox = await session({ onInput: callback as () => string });
      await assert.rejects(sandbox.execute("input('? ')"), CallbackError);
      await assert.rejects(session({ onInput: () => 3 as unknown as string }).then((it) => it.execute("input()")), /a line must be text or null, not 3/);
    });

    test(`a tool, ${when}: an exception of the code's`, async () => {
      await using sandbox = await session({ tools: { fail: callback }, onLLMQuery: callback as () => string });
      const { error } = await sandbox.execute("fail()");
      assert.equal(error, "ToolError: the callback's own");
      const caught = await sandbox.execute("try: await llm_query('x')\nexcept Exception as e: print(e)");
      assert.equal(caught.stdout, "the callback's own\n");
    });
  }

  test("a tool that throws what is no error", async () => {
    const things: unknown[] = ["words", undefined, null, { toString: () => { throw thrown; } }];
    for (const thing of things) {
      await using sandbox = await session({
        tools: {
          fail: () => {
            throw thing;
          },
        },
      });
      assert.match((await sandbox.execute("fail()")).error ?? "", /^ToolError: /);
    }
  });

  test("results of tools that JSON cannot carry are exceptions of the code's", async () => {
    const results: unknown[] = [10n, () => 1, Symbol("s"), NaN, new Map([[1, 2]]), new Uint8Array(3), "\ud800"];
    await using sandbox = await session({ tools: { give: (index: number) => results[index] } });
    for (const [index] of results.entries()) {
      const { error } = await sandbox.execute(`give(${index})`);
      assert.match(error ?? "", /^ToolError: the result of give: /);
    }
    assert.equal((await sandbox.execute("give(99) is None")).result?.json, true, "undefined is None");
  });

  test("results and failures of tools that are far too long", async () => {
    const long = "x".repeat(70 * 1024 * 1024);
    const tools = {
      give: (bytes: number) => long.slice(0, bytes),
      fail: () => {
        throw new Error(long);
      },
    };
    await using sandbox = await session({ tools });
    assert.match((await sandbox.execute("give(70 * 1024 * 1024)")).error ?? "", /^ToolError: the result of give: it is/);
    assert.match((await sandbox.execute("give(40 * 1024 * 1024)")).error ?? "", /^Tool\w*Error: /);
    assert.match((await sandbox.execute("fail()")).error ?? "", /^ToolError: xxx/);
    assert.equal((await sandbox.execute("len(give(1000))")).result?.json, 1000);
  });

  test("an answer of onLLMQuery that is no text", async () => {
    await using sandbox = await session({ onLLMQuery: () => 42 as unknown as string });
    assert.match((await sandbox.execute("llm_query('x')")).error ?? "", /it must be text, not number/);
    assert.match((await sandbox.execute("llm_query(3)")).error ?? "", /llm_query\(\) needs prompt, and it must be text/);
  });
});

describe("use after the end", () => {
  test("every method of a sandbox that was destroyed", async () => {
    const sandbox = await session();
    await using twin = await session();
    await using snapshot = await twin.snapshot();
    await sandbox.destroy();
    await sandbox.destroy();
    await sandbox.cancel();
    for (const call of [
      () => sandbox.initialize(),
      () => sandbox.execute("1"),
      () => sandbox.getVariable("x"),
      () => sandbox.validate("1"),
      () => sandbox.snapshot(),
      () => sandbox.restore(snapshot),
      () => sandbox.fork(),
      () => sandbox.resume([]),
      () => sandbox.files.list(),
      () => sandbox.files.read("f"),
      () => sandbox.files.write("f", "x"),
    ]) {
      await assert.rejects(call(), SandboxDestroyedError);
    }
  });

  test("destroy while code runs stops it; what waited is refused", async () => {
    const sandbox = await session();
    const running = sandbox.execute("while True: pass");
    const waiting = sandbox.execute("1");
    const gone = assert.rejects(waiting, SandboxDestroyedError);
    await new Promise((resolve) => setTimeout(resolve, 50));
    await Promise.all([sandbox.destroy(), gone]);
    assert.equal((await running).status, "cancelled");
  });

  test("a snapshot that was dropped", async () => {
    await using sandbox = await session();
    const snapshot = await sandbox.snapshot();
    await snapshot.drop();
    await assert.rejects(sandbox.restore(snapshot), SandboxError);
    await assert.rejects(sandbox.restore(Buffer.from("no snapshot")), { kind: "snapshot" });
    assert.equal((await sandbox.execute("1")).success, true);
  });
});

test("more sandboxes than there may be are refused, and those that are there live", async () => {
  const wanted = await Promise.allSettled(Array.from({ length: 1010 }, () => createSandbox()));
  const made = wanted.flatMap((one) => (one.status === "fulfilled" ? [one.value] : []));
  const refused = wanted.flatMap((one) => (one.status === "rejected" ? [one.reason as unknown] : []));
  assert.ok(made.length >= 900 && refused.length >= 10, `${made.length} ${refused.length}`);
  for (const error of refused) assert.ok(error instanceof BusyError, String(error));
  assert.equal((await made[0]?.execute("6 * 7"))?.result?.json, 42);
  await Promise.all(made.map((sandbox) => sandbox.destroy()));
});
