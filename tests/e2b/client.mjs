// E2B's own TypeScript packages against a Belljar daemon: node client.mjs MODULES URL KEY OTHER_KEY [PART...]
// Prints a line for every part that held, and ends with 1 when one did not.
import assert from "node:assert/strict";
import { pathToFileURL } from "node:url";

const [modules, url, key, otherKey, ...wanted] = process.argv.slice(2);
const load = (path) => import(pathToFileURL(`${modules}/${path}`).href);
const { Sandbox } = await load("@e2b/code-interpreter/dist/index.mjs");

const options = { apiKey: key, apiUrl: url, sandboxUrl: url };
const other = { ...options, apiKey: otherKey };
// The interpreter's package brings classes of its own: errors are known by their names.
const named = (pattern) => (error) => pattern.test(error.name);
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

async function withSandbox(more, work) {
  const sandbox = await Sandbox.create({ ...options, ...more });
  try {
    await work(sandbox);
  } finally {
    await sandbox.kill();
  }
}

const parts = {
  async lifecycle() {
    const sandbox = await Sandbox.create({ ...options, metadata: { a: "b & c" }, envs: { FOO: "bar" }, timeoutMs: 60_000 });
    assert(await sandbox.isRunning());
    const info = await sandbox.getInfo();
    assert.deepEqual(info.metadata, { a: "b & c" });
    await sandbox.setTimeout(600_000);
    assert((await sandbox.getInfo()).endAt - info.endAt > 500_000);
    const listed = await Sandbox.list({ ...options, query: { metadata: { a: "b & c" } } }).nextItems();
    assert.deepEqual(listed.map((it) => it.sandboxId), [sandbox.sandboxId]);
    const same = await Sandbox.connect(sandbox.sandboxId, options);
    assert.equal((await same.runCode("import os; os.environ['FOO']")).text, "bar");
    assert(await sandbox.kill());
    assert(!(await sandbox.isRunning()));
    assert(!(await Sandbox.kill(sandbox.sandboxId, options)));
    await assert.rejects(Sandbox.connect(sandbox.sandboxId, options), /not found/);
  },

  async keys() {
    await assert.rejects(Sandbox.create({ ...options, apiKey: `e2b_${"0".repeat(40)}` }), /401|API key|Unauthorized/i);
    await withSandbox({}, async (sandbox) => {
      await assert.rejects(Sandbox.connect(sandbox.sandboxId, other), /not found/);
      assert(!(await Sandbox.kill(sandbox.sandboxId, other)));
      assert(await sandbox.isRunning());
    });
  },

  async code() {
    await withSandbox({}, async (sandbox) => {
      const ran = await sandbox.runCode("x = 41\nprint('hi ř🎉')\nx + 1");
      assert.equal(ran.text, "42");
      assert.deepEqual(ran.logs.stdout, ["hi ř🎉\n"]);
      const failed = await sandbox.runCode("1/0");
      assert.equal(failed.error.name, "ZeroDivisionError");
      assert.match(failed.error.traceback, /line 1/);
      const seen = [];
      await sandbox.runCode("import time\nfor i in range(3):\n  print(i); time.sleep(0.2)", {
        onStdout: (it) => void seen.push([Date.now(), it.line]),
      });
      assert.deepEqual(seen.map(([, line]) => line), ["0\n", "1\n", "2\n"]);
      assert(seen[2][0] - seen[0][0] > 250, "output comes while the code runs");
      const js = await sandbox.runCode("const y = 6; console.log('js'); y * 7", { language: "js" });
      assert.equal(js.text, "42");
      assert.equal((await sandbox.runCode("import os; os.environ['E']", { envs: { E: "1" } })).text, "1");
      await assert.rejects(sandbox.runCode("while True: pass", { timeoutMs: 1000 }), named(/^TimeoutError$/));
      assert.equal((await sandbox.runCode("x")).text, "41");
    });
  },

  async contexts() {
    await withSandbox({}, async (sandbox) => {
      const one = await sandbox.createCodeContext({ language: "python" });
      const two = await sandbox.createCodeContext({ language: "javascript" });
      await sandbox.runCode("b = 2", { context: one });
      assert.equal((await sandbox.runCode("b")).error.name, "NameError");
      assert.equal((await sandbox.listCodeContexts()).length, 3);
      await sandbox.restartCodeContext(one);
      assert.equal((await sandbox.runCode("b", { context: one })).error.name, "NameError");
      await sandbox.removeCodeContext(two);
      await assert.rejects(sandbox.runCode("1", { context: two }), named(/NotFoundError$/));
    });
  },

  async files() {
    await withSandbox({}, async (sandbox) => {
      assert.equal((await sandbox.files.write("a/b ř.txt", "ahoj")).path, "/home/user/a/b ř.txt");
      assert.equal(await sandbox.files.read("a/b ř.txt"), "ahoj");
      assert.equal((await sandbox.runCode("open('a/b ř.txt').read()")).text, "ahoj");
      const data = new Uint8Array(1_000_000).map((_, at) => at % 251);
      await sandbox.files.write("/tmp/blob", data.buffer);
      assert.deepEqual(await sandbox.files.read("/tmp/blob", { format: "bytes" }), data);
      await sandbox.files.write("empty", "");
      assert.equal(await sandbox.files.read("empty"), "");
      await sandbox.files.write([{ path: "m/1", data: "1" }, { path: "m/2", data: "2" }]);
      assert.deepEqual((await sandbox.files.list("m")).map((it) => it.name).sort(), ["1", "2"]);
      assert.equal((await sandbox.files.getInfo("m/1")).size, 1);
      assert(await sandbox.files.makeDir("d"));
      assert(!(await sandbox.files.makeDir("d")));
      await sandbox.files.rename("m/1", "n/1");
      assert(!(await sandbox.files.exists("m/1")));
      await sandbox.files.remove("m");
      await assert.rejects(sandbox.files.read("none"), named(/NotFoundError$/));
      const fetched = await fetch(await sandbox.downloadUrl("n/1", { useSignatureExpiration: 60_000 }));
      assert.equal(await fetched.text(), "1");
      const form = new FormData();
      form.append("file", new Blob(["up"]), "up.txt");
      assert((await fetch(await sandbox.uploadUrl("up.txt"), { method: "POST", body: form })).ok);
      assert.equal(await sandbox.files.read("up.txt"), "up");
    });
  },

  async watch() {
    await withSandbox({}, async (sandbox) => {
      await sandbox.files.makeDir("w");
      const seen = [];
      const handle = await sandbox.files.watchDir("w", (event) => void seen.push(`${event.type} ${event.name}`));
      await sandbox.files.write("w/one", "1");
      await sandbox.commands.run("echo 2 > w/two; rm w/one");
      for (let left = 50; left && !seen.includes("remove one"); left--) await sleep(100);
      for (const event of ["create one", "write one", "create two", "remove one"]) assert(seen.includes(event), `${seen}`);
      await handle.stop();
    });
  },

  async commands() {
    await withSandbox({ envs: { FOO: "bar" } }, async (sandbox) => {
      const ran = await sandbox.commands.run("echo out; echo err >&2; echo $FOO");
      assert.equal(ran.stdout, "out\nbar\n");
      assert.equal(ran.stderr, "err\n");
      await assert.rejects(sandbox.commands.run("exit 5"), (error) => error.exitCode === 5);
      const handle = await sandbox.commands.run("read x; echo got $x", { background: true, stdin: true });
      assert.deepEqual((await sandbox.commands.list()).map((it) => it.pid), [handle.pid]);
      await sandbox.commands.sendStdin(handle.pid, "line\n");
      assert.equal((await handle.wait()).stdout, "got line\n");
      const sleeping = await sandbox.commands.run("sleep 60", { background: true });
      assert(await sandbox.commands.kill(sleeping.pid));
      assert(!(await sandbox.commands.kill(999_999)));
      await sandbox.commands.run("echo made > made.txt");
      assert.equal(await sandbox.files.read("made.txt"), "made\n");
    });
  },

  async pty() {
    await withSandbox({}, async (sandbox) => {
      let heard = "";
      const terminal = await sandbox.pty.create({ cols: 80, rows: 24, onData: (data) => void (heard += new TextDecoder().decode(data)) });
      await sandbox.pty.resize(terminal.pid, { cols: 120, rows: 33 });
      await sandbox.pty.sendInput(terminal.pid, new TextEncoder().encode("stty size\nexit\n"));
      await terminal.wait();
      assert.match(heard, /33 120/);
    });
  },

  async copies() {
    await withSandbox({}, async (sandbox) => {
      await sandbox.runCode("state = [1, 2]");
      await sandbox.files.write("kept", "kept");
      await sandbox.pause();
      assert(!(await sandbox.isRunning()));
      const again = await Sandbox.connect(sandbox.sandboxId, options);
      assert.equal((await again.runCode("state")).text, "[1, 2]");
      const snapshot = await again.createSnapshot();
      await again.runCode("state.append(3)");
      const old = await Sandbox.create(snapshot.snapshotId, options);
      assert.equal((await old.runCode("state")).text, "[1, 2]");
      assert.equal(await old.files.read("kept"), "kept");
      await old.kill();
      assert(await Sandbox.deleteSnapshot(snapshot.snapshotId, options));
    });
  },
};

let failures = 0;
for (const [name, part] of Object.entries(parts)) {
  if (wanted.length && !wanted.includes(name)) continue;
  const begun = Date.now();
  try {
    await part();
    console.log(`${name} holds (${Date.now() - begun} ms)`);
  } catch (error) {
    failures += 1;
    console.log(`${name} FAILS`);
    console.error(error);
  }
}
process.exit(failures ? 1 : 0);
