// Capability: REPL Sandbox. One test for each scenario, in the document's words and order.
//
// The document was written for Pyodide in a worker. What concerns every backend runs on wasm here;
// what concerns the worker, its interrupt buffer and where Pyodide is loaded from runs on Pyodide.

import assert from "node:assert/strict";
import { existsSync, lstatSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";

import {
  backendStatus,
  BackendUnavailableError,
  ConfigError,
  createSandbox,
  GuestValue,
  SandboxDestroyedError,
  shutdown,
  type Backend,
  type ISandbox,
  type REPLConfig,
} from "belljar";

import {
  children,
  Daemon,
  meanwhile,
  privateBytes,
  PYODIDE,
  PYODIDE_FOLDER,
  server,
  session,
  temporary,
  until,
} from "../support.js";

// A daemon that runs on this machine for other reasons is none of the tests' business.
const SOCKET = join(temporary(), "daemon.sock");
process.env["BELLJAR_SOCKET"] = SOCKET;

/** Why a jail cannot be had, if so; what needs one is then shown as skipped. */
const native = await backendStatus("native");
const jailed = { skip: native.available ? false : native.reason };

after(shutdown);

describe("Requirement: Sandbox Lifecycle", () => {
  test("Scenario: Initialize with context", async () => {
    await using sandbox = await createSandbox();
    await sandbox.initialize({ chapters: ["one", "två"], n: 1.5 });
    const { result } = await sandbox.execute("context['chapters'][1], context['n']");
    assert.deepEqual(result?.json, ["två", 1.5]);
    await sandbox.initialize("another");
    assert.equal(await sandbox.getVariable("context"), "another");
  });

  test("Scenario: Cleanup on destroy", async () => {
    await using warm = await session();
    await warm.execute("1");
    const before = privateBytes(server());
    const sandbox = await session();
    await sandbox.execute("held, file = bytearray(b'x') * 60_000_000, open('f', 'w')");
    const during = privateBytes(server());
    assert.ok(during > before + 60_000_000, `it held memory: ${before} ${during}`);
    await sandbox.destroy();
    await until("it gave it back", () => privateBytes(server()) < before + 8_000_000);
    await until("its workspace is gone", () => !existsSync(sandbox.workspace));
    await assert.rejects(sandbox.getVariable("held"), SandboxDestroyedError);
  });
});

describe("Requirement: Code Execution", () => {
  test("Scenario: Execute returns result", async () => {
    await using sandbox = await session();
    const code = "import sys; print('out'); print('err', file=sys.stderr); {}['missing']";
    const { stdout, stderr, error, duration } = await sandbox.execute(code);
    assert.equal(stdout, "out\n");
    assert.match(stderr, /^err\nTraceback/);
    assert.equal(error, "KeyError: 'missing'");
    assert.ok(duration > 0);
  });

  test("Scenario: Stdout capture", async () => {
    await using sandbox = await session();
    assert.equal((await sandbox.execute("print('printed', 1)\nprint('text')")).stdout, "printed 1\ntext\n");
  });

  test("Scenario: Stderr capture", async () => {
    await using sandbox = await session();
    const { stdout, stderr } = await sandbox.execute("import sys; _ = sys.stderr.write('error text')");
    assert.deepEqual([stdout, stderr], ["", "error text"]);
  });

  test("Scenario: Error capture", async () => {
    await using sandbox = await session();
    const { error, exception } = await sandbox.execute("raise ValueError('the message')");
    assert.equal(error, "ValueError: the message");
    assert.deepEqual([exception?.name, exception?.message], ["ValueError", "the message"]);
    const cut = await sandbox.execute("x = (");
    assert.equal(cut.error, "SyntaxError: '(' was never closed (<cell 2>, line 1)");
  });
});

describe("Requirement: Timeout Handling", () => {
  test("Scenario: Timeout exceeded", async () => {
    await using sandbox = await session({ timeout: 300 });
    const { status, error, success } = await sandbox.execute("while True: pass");
    assert.deepEqual([status, success], ["timeout", false]);
    assert.equal(error, "Timeout: timed out after 0.3 s; raise timeout_seconds to allow more");
  });

  test("Scenario: Timeout configurable", async () => {
    for (const timeout of [100, 600]) {
      await using sandbox = await session({ timeout });
      const { status, duration, meta } = await sandbox.execute("import time; time.sleep(60)");
      assert.equal(status, "timeout");
      assert.equal(meta.resource_limits.timeout_seconds, timeout / 1000);
      assert.ok(duration >= timeout && duration < timeout + 400, `${duration}`);
    }
  });

  test("Scenario: True interrupt with worker", jailed, async () => {
    await using sandbox = await session({ ...PYODIDE, timeout: 2000 });
    await sandbox.execute("x = 1");
    const { status, exception } = await sandbox.execute("while True: pass");
    assert.deepEqual([status, exception?.name], ["timeout", "KeyboardInterrupt"]);
    assert.equal(await sandbox.getVariable("x"), 1, "the session lives on");
  });
});

describe("Requirement: Output Truncation", () => {
  test("Scenario: Output within limit", async () => {
    await using sandbox = await session({ maxOutputLength: 1000 });
    // Counted as JavaScript counts: what is not ASCII has more bytes than length.
    for (const letter of ["x", "ö", "€", "\u{1f514}"]) {
      const times = Math.floor(999 / letter.length);
      const { stdout, meta } = await sandbox.execute(`print('${letter}' * ${times})`);
      assert.equal(stdout, `${letter.repeat(times)}\n`);
      assert.equal(meta.truncated, false);
    }
  });

  test("Scenario: Output exceeds limit", async () => {
    await using sandbox = await session({ maxOutputLength: 1000 });
    for (const letter of ["x", "ö", "€", "\u{1f514}"]) {
      for (const length of [1000, 5000]) {
        const { stdout, meta, success } = await sandbox.execute(`print('${letter}' * ${length})`);
        assert.ok(stdout.length <= 1000 && stdout.length > 990, `${stdout.length}`);
        assert.ok(stdout.isWellFormed() && stdout.endsWith(`${letter}... (output truncated)`), stdout);
        assert.deepEqual([meta.truncated, success], [true, true]);
      }
    }
    assert.equal((await sandbox.execute("print('for each execution')")).stdout, "for each execution\n");
  });
});

describe("Requirement: LLM Bridge Functions", () => {
  test("Scenario: llm_query function", async () => {
    const onLLMQuery = (prompt: string) => Promise.resolve(`answer to ${prompt}`);
    await using sandbox = await session({ onLLMQuery });
    assert.equal((await sandbox.execute("llm_query('a question')")).result?.json, "answer to a question");
    assert.equal((await sandbox.execute("await llm_query(prompt='b')")).result?.json, "answer to b");
    const batch = await sandbox.execute("llm_query_batched(['one', 'two'])");
    assert.deepEqual(batch.result?.json, ["answer to one", "answer to two"]);
  });

  test("Scenario: rlm_query function", async () => {
    const onRLMQuery: REPLConfig["onRLMQuery"] = (task, ctx, { depth }) => ({ task, ctx, depth });
    await using sandbox = await session({ onRLMQuery }, "all of it");
    const answer = { task: "summarise", ctx: ["a", "part"], depth: 0 };
    for (const code of ["rlm_query('summarise', ['a', 'part'])", "await rlm_query('summarise', ctx=['a', 'part'])"]) {
      assert.deepEqual((await sandbox.execute(code)).result?.json, answer);
    }
  });

  test("Scenario: rlm_query default context", async () => {
    await using sandbox = await session({ onRLMQuery: (task, ctx) => [task, ctx] }, "the first");
    assert.deepEqual((await sandbox.execute("rlm_query('t')")).result?.json, ["t", "the first"]);
    await sandbox.execute("context = {'now': 'another'}");
    assert.deepEqual((await sandbox.execute("rlm_query('t')")).result?.json, ["t", { now: "another" }]);
  });
});

describe("Requirement: Utility Functions", () => {
  test("Scenario: chunk_text function", async () => {
    await using sandbox = await session();
    const { result } = await sandbox.execute("chunk_text('abcdefgh', 4, 2)");
    assert.deepEqual(result?.json, ["abcd", "cdef", "efgh"]);
  });

  test("Scenario: search_context function", async () => {
    await using sandbox = await session({}, "the cat sat; the dog ran");
    const { result } = await sandbox.execute("search_context(r'[cd].[tg]', window=3)");
    assert.deepEqual(result?.json, [
      { match: "cat", start: 4, end: 7, context: "he cat sa" },
      { match: "dog", start: 17, end: 20, context: "he dog ra" },
    ]);
  });
});

describe("Requirement: Variable Access", () => {
  test("Scenario: Get existing variable", async () => {
    await using sandbox = await session();
    await sandbox.execute("found = {'pages': [1, None, 2.5], 'ok': True}\nodd, nothing, big = {3}, None, 2**70");
    assert.deepEqual(await sandbox.getVariable("found"), { pages: [1, null, 2.5], ok: true });
    assert.equal(await sandbox.getVariable("nothing"), null);
    assert.equal(await sandbox.getVariable("big"), 2n ** 70n);
    assert.deepEqual(await sandbox.getVariable("odd"), new GuestValue("set", "{3}"));
  });

  test("Scenario: Get missing variable", async () => {
    await using sandbox = await session();
    assert.equal(await sandbox.getVariable("missing"), undefined);
  });
});

describe("Requirement: Worker Isolation", () => {
  const spin = "print('go')\nwhile True: pass";

  test("Scenario: Worker-based execution", jailed, async () => {
    for (const worker of [{}, { useWorker: true }]) {
      // In the main thread of Node, or Deno, nobody could write to the interrupt buffer.
      const { sandbox, execution } = await meanwhile({ ...PYODIDE, ...worker }, spin, (it) => it.cancel());
      assert.deepEqual([execution.status, execution.meta.runtime], ["cancelled", "pyodide"]);
      await sandbox.destroy();
    }
  });

  test("Scenario: Fallback to direct mode", jailed, async () => {
    await using sandbox = await session({ ...PYODIDE, useWorker: false }, { n: 2 });
    await sandbox.execute("x = context['n'] * 21");
    assert.equal(await sandbox.getVariable("x"), 42);
  });

  test("Scenario: Worker termination cleanup", jailed, async () => {
    const idle = children(server()).length;
    for (const useWorker of [true, false]) {
      const sandbox = await session({ ...PYODIDE, useWorker });
      await sandbox.execute("held = bytearray(30_000_000)");
      assert.ok(children(server()).length > idle, "a session is a process");
      await sandbox.destroy();
      assert.deepEqual(children(server()).length, idle);
    }
  });
});

describe("Requirement: Execution Cancellation", () => {
  test("Scenario: Cancel with worker isolation", jailed, async () => {
    const code = "before = 'set'\nprint('running')\nwhile True: pass";
    for (const config of [{}, PYODIDE]) {
      const { sandbox, execution } = await meanwhile(config, code, (it) => it.cancel());
      assert.deepEqual([execution.status, execution.exception?.name], ["cancelled", "KeyboardInterrupt"]);
      assert.equal(await sandbox.getVariable("before"), "set");
      await sandbox.cancel();
      assert.equal((await sandbox.execute("'nothing ran, so nothing was cancelled'")).status, "ok");
      await sandbox.destroy();
    }
  });

  test("Scenario: Cancel without worker", jailed, async () => {
    const code = "import time\nprint('go')\nend = time.time() + 1.5\nwhile time.time() < end: pass\n'to the end'";
    const { sandbox, execution } = await meanwhile({ ...PYODIDE, useWorker: false }, code, (it) => it.cancel());
    assert.equal(execution.result?.json, "to the end");
    await sandbox.destroy();
  });
});

describe("Requirement: Configurable CDN", () => {
  test("Scenario: Custom indexURL string", jailed, async () => {
    await using sandbox = await createSandbox({ backend: "pyodide", indexURL: PYODIDE_FOLDER });
    assert.equal((await sandbox.execute("6 * 7")).result?.json, 42);
    await assert.rejects(createSandbox({ backend: "pyodide", indexURL: "/nowhere" }), {
      name: "BackendUnavailableError",
      message: /cannot load Pyodide from \/nowhere: there is no such folder/,
    });
  });

  test("Scenario: IndexURL with fallbacks", jailed, async () => {
    for (const indexURL of [
      [PYODIDE_FOLDER, "/nowhere"],
      ["/nowhere", PYODIDE_FOLDER],
    ]) {
      await using sandbox = await createSandbox({ backend: "pyodide", indexURL });
      assert.equal((await sandbox.execute("6 * 7")).result?.json, 42);
    }
    await assert.rejects(createSandbox({ backend: "pyodide", indexURL: ["/nowhere", "/neither"] }), {
      message: /from \/nowhere: there is no such folder; cannot load Pyodide from \/neither/,
    });
  });

  test("Scenario: Default CDN", jailed, async () => {
    const status = await backendStatus("pyodide");
    // Where there is no network, the error says what was tried.
    if (!status.available) assert.match(status.reason, /https:\/\/cdn\.jsdelivr\.net\/pyodide\//);
  });
});

describe("Requirement: Stdout/Stderr Callbacks", () => {
  test("Scenario: Stdout callback", async () => {
    const lines: string[] = [];
    await using sandbox = await session({ onStdout: (line) => lines.push(line) });
    const code = "import sys\nprint('one')\nprint('two\\nthree')\nprint('err', file=sys.stderr)\nprint('rest', end='')";
    assert.equal((await sandbox.execute(code)).stdout, "one\ntwo\nthree\nrest");
    assert.deepEqual(lines, ["one\n", "two\n", "three\n", "rest"]);
  });

  test("Scenario: Stderr callback", async () => {
    const lines: string[] = [];
    await using sandbox = await session({ onStderr: (line) => lines.push(line) });
    await sandbox.execute("import sys\nprint('out')\nprint('one\\ntwo', file=sys.stderr)");
    assert.deepEqual(lines, ["one\n", "two\n"]);
  });
});

describe("Requirement: Backend Selection", () => {
  test("Scenario: Backend type enumeration", async () => {
    for (const backend of ["pyodide", "native", "daemon"] as const) {
      // Each is known; whether it works here is another question.
      const status = await backendStatus(backend, { indexURL: "/nowhere" });
      if (!status.available) assert.match(status.reason, new RegExp(`^the ${backend} backend cannot be used`));
    }
    await assert.rejects(createSandbox({ backend: "wishful" as Backend }), ConfigError);
  });

  test("Scenario: Auto-select daemon when running", jailed, async () => {
    await using daemon = await Daemon.start();
    await using sandbox = await createSandbox({ backend: "auto" });
    assert.equal((await sandbox.execute("1")).meta.runtime, "daemon");
    assert.deepEqual(daemon.sandboxes(), [1]);
  });

  test("Scenario: Auto-select native when Python available", jailed, async () => {
    await using sandbox = await createSandbox({ backend: "auto" });
    assert.equal((await sandbox.execute("1")).meta.runtime, "local");
  });

  test("Scenario: Fallback to Pyodide", jailed, async () => {
    await using sandbox = await createSandbox({
      backend: "auto",
      python: "/there/is/no/python",
      indexURL: PYODIDE_FOLDER,
    });
    assert.equal((await sandbox.execute("1")).meta.runtime, "pyodide");
  });

  test("Scenario: Explicit backend selection", jailed, async () => {
    await using daemon = await Daemon.start();
    const runtimes = { native: "local", daemon: "daemon", pyodide: "pyodide" } as const;
    for (const [backend, runtime] of Object.entries(runtimes)) {
      await using sandbox = await createSandbox({ backend: backend as Backend, indexURL: PYODIDE_FOLDER });
      assert.equal((await sandbox.execute("1")).meta.runtime, runtime);
    }
    assert.deepEqual(daemon.sandboxes(), [0]);
  });
});

describe("Requirement: Native Python Sandbox", () => {
  const onNative: REPLConfig = { backend: "native" };

  test("Scenario: JSON-RPC protocol", jailed, async () => {
    // Code that looks for the driver's connection meets JSON-RPC 2.0 there; what it prints is apart.
    const code = `import json, os, stat
fd = max(fd for fd in range(3, 256) if os.path.exists(f'/proc/self/fd/{fd}') and stat.S_ISSOCK(os.fstat(fd).st_mode))
os.write(fd, b'{"jsonrpc": "2.0", "id": 7001, "method": "wishful", "params": {}}\\n')
answer = json.loads(os.read(fd, 4096))
print(answer['jsonrpc'], answer['id'], answer['error']['code'])`;
    await using sandbox = await session(onNative);
    assert.equal((await sandbox.execute(code)).stdout, "2.0 7001 -32601\n");
  });

  test("Scenario: Execute code", jailed, async () => {
    await using sandbox = await session(onNative);
    const code = "import os, sys\nprint('out', os.getpid() > 1)\nprint('err', file=sys.stderr)";
    const { stdout, stderr, duration } = await sandbox.execute(code);
    assert.deepEqual([stdout, stderr], ["out True\n", "err\n"]);
    assert.ok(duration > 0);
    const child = await sandbox.execute("import subprocess\nx = subprocess.run(['echo', 'child'])");
    assert.equal(child.stdout, "child\n");
  });

  test("Scenario: Bridge callback handling", jailed, async () => {
    const onLLMQuery = (prompt: string) => `answer to ${prompt}`;
    const onRLMQuery: REPLConfig["onRLMQuery"] = (task, ctx) => Promise.resolve([task, ctx]);
    await using sandbox = await session({ ...onNative, onLLMQuery, onRLMQuery }, "all of it");
    const { result, meta } = await sandbox.execute("llm_query('q'), rlm_query('t')");
    assert.deepEqual(result?.json, ["answer to q", ["t", "all of it"]]);
    assert.equal(meta.tools.calls, 2);
  });

  test("Scenario: Context injection", jailed, async () => {
    await using sandbox = await session(onNative, { pages: ["one", "två"] });
    assert.equal((await sandbox.execute("context['pages'][1]")).result?.json, "två");
  });

  test("Scenario: Python availability check", jailed, async () => {
    const missing = await backendStatus("native", { python: "/nowhere/python3" });
    assert.match(missing.available ? "" : missing.reason, /\/nowhere\/python3: No such file/);
    assert.deepEqual(native, { available: true });
    await using sandbox = await session(onNative);
    const [major, minor = 0] = ((await sandbox.execute("")).meta.language_version ?? "").split(".").map(Number);
    assert.ok(major === 3 && minor >= 8);
  });
});

describe("Requirement: Daemon Client Sandbox", () => {
  let daemon: Daemon | undefined;

  before(async () => {
    if (native.available) daemon = await Daemon.start();
  });

  after(async () => {
    await daemon?.[Symbol.asyncDispose]();
  });

  test("Scenario: IPC connection", jailed, async () => {
    assert.ok(lstatSync(SOCKET).isSocket());
    await using sandbox = await session({ backend: "daemon" });
    assert.equal((await sandbox.execute("print('hello')")).stdout, "hello\n");
  });

  test("Scenario: Socket path", async () => {
    // With another home and nothing that names a socket, the error tells where it was looked for.
    await shutdown();
    const home = temporary();
    const { HOME } = process.env;
    delete process.env["BELLJAR_SOCKET"];
    process.env["HOME"] = home;
    try {
      const status = await backendStatus("daemon");
      assert.ok(!status.available && status.reason.includes(`there is no ${home}/.rlm/daemon.sock`));
    } finally {
      process.env["HOME"] = HOME;
      process.env["BELLJAR_SOCKET"] = SOCKET;
      await shutdown();
    }
  });

  test("Scenario: Named pipe path", (t) => {
    t.skip("this package is for Linux; the engine knows the name and has no client for it yet");
  });

  test("Scenario: Execute via daemon", jailed, async () => {
    await using sandbox = await session({ backend: "daemon" });
    assert.deepEqual(daemon?.sandboxes(), [1], "a worker has it");
    const { stdout, meta, duration } = await sandbox.execute("print(6 * 7)");
    assert.deepEqual([stdout, meta.runtime], ["42\n", "daemon"]);
    assert.ok(duration > 0);
  });

  test("Scenario: Daemon availability check", jailed, async () => {
    assert.deepEqual(await backendStatus("daemon"), { available: true });
    await daemon?.[Symbol.asyncDispose]();
    daemon = undefined;
    const status = await backendStatus("daemon");
    assert.ok(!status.available && status.reason.includes("none runs"), JSON.stringify(status));
  });
});

describe("Requirement: Sandbox Factory", () => {
  test("Scenario: Create with config", async () => {
    await using sandbox = await session({ policy: { stdout_max_bytes: 123_456 }, language: "javascript" }, "ctx");
    const { result, meta } = await sandbox.execute("context");
    assert.equal(result?.json, "ctx");
    assert.deepEqual([meta.language, meta.resource_limits.stdout_max_bytes], ["javascript", 123_456]);
  });

  test("Scenario: Config backend option", async () => {
    await using sandbox = await createSandbox({ backend: "wasm" });
    const { meta } = await sandbox.execute("print('wasm')");
    assert.deepEqual([meta.runtime, meta.isolation[0]], ["wasm", "wasm"]);
    await assert.rejects(createSandbox({ backend: "daemon" }), BackendUnavailableError, "none runs, and no other stands in");
  });

  test("Scenario: Shared interface", async () => {
    const calls: string[] = [];
    const onLLMQuery = (prompt: string) => {
      calls.push(prompt);
      return prompt;
    };
    const backends: REPLConfig[] = native.available ? [{}, { backend: "native" }, PYODIDE] : [{}];
    for (const config of backends) {
      const sandbox: ISandbox = await createSandbox({ ...config, onLLMQuery });
      await sandbox.initialize(41);
      assert.equal((await sandbox.execute("x = llm_query(str(context + 1))")).meta.state, "kept");
      await sandbox.cancel();
      assert.equal(await sandbox.getVariable("x"), "42");
      await sandbox.destroy();
    }
    assert.equal(calls.length, backends.length);
  });
});
