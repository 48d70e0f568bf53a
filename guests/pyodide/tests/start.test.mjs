// Where Pyodide is loaded from, snapshots, the memory cap, and lines that are no requests.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { cpSync, mkdtempSync, readFileSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { after, test } from "node:test";

import { command, Interpreter, PYODIDE } from "./harness.mjs";

const scratch = mkdtempSync(join(tmpdir(), "belljar-start-"));
after(() => rmSync(scratch, { recursive: true }));

async function errorOf(...args) {
  const python = new Interpreter(args);
  const { error } = await python.request("initialize", { surroundings: { workspace: python.workspace } });
  assert.equal(await python.close(), 0);
  return error;
}

test("a folder that is not there, is a file, or is not complete is said", async () => {
  const missing = join(scratch, "missing");
  assert.deepEqual(await errorOf("--index-url", missing), {
    code: -32000,
    message: `cannot load Pyodide from ${missing}: there is no such folder`,
  });
  const file = join(scratch, "file");
  writeFileSync(file, "");
  assert.equal((await errorOf("--index-url", file)).message, `cannot load Pyodide from ${file}: it is no folder`);
  const partial = join(scratch, "partial");
  cpSync(PYODIDE, partial, { recursive: true });
  rmSync(join(partial, "python_stdlib.zip"));
  assert.equal(
    (await errorOf("--index-url", partial)).message,
    `cannot load Pyodide from ${partial}: the folder is not complete, python_stdlib.zip is missing`,
  );
});

test("a broken Pyodide is said", async () => {
  const broken = join(scratch, "broken");
  cpSync(PYODIDE, broken, { recursive: true });
  truncateSync(join(broken, "pyodide.asm.wasm"), 100_000);
  const { message } = await errorOf("--index-url", broken);
  assert.ok(message.startsWith(`cannot load Pyodide from ${broken}: `), message);
});

test("an address that does not answer is said, and the next place is tried", async () => {
  const nobody = "http://127.0.0.1:9/";
  const { message } = await errorOf("--index-url", nobody, "--index-url", join(scratch, "missing"));
  assert.match(message, /^cannot load Pyodide from http:\/\/127\.0\.0\.1:9\/: 127\.0\.0\.1:9 does not answer \(.+\); cannot load Pyodide from .*missing: there is no such folder$/);
  const python = new Interpreter(["--index-url", nobody, "--index-url", PYODIDE]);
  await python.initialize();
  assert.equal((await python.execute("1 + 1")).value.text, "2");
  await python.close();
});

test("an address that answers is loaded from", async () => {
  const server = createServer((request, response) => response.end(readFileSync(join(PYODIDE, basename(request.url)))));
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const python = new Interpreter(["--index-url", `http://127.0.0.1:${server.address().port}/full`]);
  await python.initialize();
  assert.equal((await python.execute("1 + 1")).value.text, "2");
  await python.close();
  server.close();
});

test("a snapshot is made and used; what does not fit is passed over", async () => {
  const file = join(scratch, "snapshot");
  const made = spawnSync(command[0], [...command.slice(1), "--index-url", PYODIDE, "--make-snapshot", file], { encoding: "utf8" });
  assert.deepEqual([made.status, made.stdout, made.stderr], [0, "", ""]);
  const drawn = new Set();
  for (let round = 0; round < 2; round++) {
    const python = new Interpreter(["--index-url", PYODIDE, "--snapshot", file]);
    await python.initialize({ tools: ["echo"], env: { A: "b" } });
    python.handlers.echo = ({ args }) => ({ result: args[0] });
    const code = "import json, os, sys, random\nprint('out')\nopen('f', 'w').write('x')\n[echo(1), await echo(2), dict(os.environ), os.listdir(), 'decimal' in sys.modules]";
    const answer = await python.execute(code);
    assert.deepEqual(answer.value?.json.slice(0, 3), [1, 2, { A: "b" }]);
    assert.equal(answer.value.json[4], true);
    drawn.add((await python.execute("random.random()")).value.text);
    await python.close();
  }
  assert.equal(drawn.size, 2);
  writeFileSync(file, "nonsense\n");
  const python = new Interpreter(["--index-url", PYODIDE, "--snapshot", file]);
  await python.initialize();
  await python.close();
});

test("a memory bomb is MemoryError under a cap, and what is below the cap is not", async () => {
  const python = new Interpreter(["--index-url", PYODIDE, "--memory", `${128 * 1024 * 1024}`]);
  await python.initialize();
  const answer = await python.execute("x = bytearray(1 << 30)");
  assert.deepEqual([answer.end, answer.error.name], ["out_of_memory", "MemoryError"]);
  assert.equal((await python.execute("len(bytearray(30 << 20))")).value.text, "31457280");
  await python.close();
});

test("lines that are no requests get a proper error and the session lives on", async () => {
  const python = new Interpreter();
  const early = await python.request("execute", { code: "1", filename: "a", value: true });
  assert.deepEqual(early.error, { code: -32600, message: "`initialize` comes first" });
  await python.initialize();
  const again = await python.request("initialize", {});
  assert.deepEqual(again.error, { code: -32600, message: "`initialize` comes only once" });
  for (const [line, code] of [["{", -32700], ["[1]", -32600], ['"text"', -32600], ['{"id": 1}', -32600], ["[".repeat(1000), -32700], ["\xff\0", -32700]]) {
    const reply = python.reply(null);
    python.sendLine(line);
    assert.equal((await reply).error.code, code, line.slice(0, 20));
  }
  assert.equal((await python.request("explode", {})).error.code, -32601);
  assert.equal((await python.request("execute", { code: 5 })).error.code, -32602);
  assert.equal((await python.request("execute", [])).error.code, -32602);
  python.sendLine('{"jsonrpc": "2.0", "method": "notification"}');
  python.sendLine('{"jsonrpc": "2.0", "id": 99, "result": "nobody asked"}');
  python.sendLine("");
  assert.equal((await python.execute("1 + 1")).value.text, "2");
  await python.close();
});

test("a workspace that is not there is said", async () => {
  const python = new Interpreter();
  const { error } = await python.request("initialize", { surroundings: { workspace: "/no/such/folder" } });
  assert.deepEqual(error, { code: -32000, message: "the workspace /no/such/folder is no folder" });
  await python.close();
});

test("options that make no sense end the process", () => {
  for (const args of [["--nonsense"], ["--index-url"], ["--memory", "much"]]) {
    const { status, stderr } = spawnSync(command[0], [...command.slice(1), ...args], { encoding: "utf8" });
    assert.equal(status, 64);
    assert.match(stderr, /usage: main\.mjs/);
  }
});
