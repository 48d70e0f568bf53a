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

// Every form that a value can have.
const rich = `
class Rich:
    def __repr__(self): return "Rich()"
    def _repr_html_(self): return "<b>ř</b>"
    def _repr_markdown_(self): return "**b**"
    def _repr_svg_(self): return "<svg/>"
    def _repr_png_(self): return b"\\x89PNG"
    def _repr_jpeg_(self): return b"\\xff\\xd8"
    def _repr_latex_(self): return "$x$"
    def _repr_json_(self): return {"a": [1]}
    def _repr_mimebundle_(self, include=None, exclude=None):
        return {"application/pdf": "JVBERg==", "application/javascript": "1", "text/x-own": "own"}
Rich()
`;

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

  async rich() {
    await withSandbox({}, async (sandbox) => {
      const [shown] = (await sandbox.runCode(rich)).results;
      assert(shown.isMainResult);
      assert.deepEqual([shown.text, shown.html, shown.markdown, shown.svg], ["Rich()", "<b>ř</b>", "**b**", "<svg/>"]);
      assert.deepEqual([shown.png, shown.jpeg, shown.pdf], ["iVBORw==", "/9g=", "JVBERg=="]);
      assert.deepEqual([shown.latex, shown.json, shown.javascript], ["$x$", { a: [1] }, "1"]);
      assert.deepEqual(shown.raw.extra, { "text/x-own": "own" });
      const heard = [];
      await sandbox.runCode("import sys\nprint('e', file=sys.stderr)\n7", {
        onStderr: (it) => void heard.push(it.line),
        onResult: (it) => void heard.push(it.text),
      });
      await sandbox.runCode("raise KeyError('k')", { onError: (it) => void heard.push(`${it.name} ${it.value}`) });
      assert.deepEqual(heard, ["e\n", "7", "KeyError 'k'"]);
    });
  },

  async pages() {
    const made = [];
    for (let left = 3; left; left--) made.push(await Sandbox.create({ ...options, metadata: { page: "ts" } }));
    const pager = Sandbox.list({ ...options, limit: 2, query: { metadata: { page: "ts" } } });
    const found = [];
    while (pager.hasNext) found.push(...(await pager.nextItems()).map((it) => it.sandboxId));
    assert.deepEqual(found, made.map((it) => it.sandboxId).reverse());
    for (const sandbox of made) await sandbox.kill();
  },

  async expiry() {
    const ending = await Sandbox.create({ ...options, timeoutMs: 1000 });
    const pausing = await Sandbox.create({ ...options, timeoutMs: 1000, lifecycle: { onTimeout: "pause" } });
    await pausing.runCode("x = 5");
    for (let left = 100; left && ((await ending.isRunning()) || (await pausing.isRunning())); left--) await sleep(100);
    await assert.rejects(Sandbox.connect(ending.sandboxId, options), /not found/);
    const again = await Sandbox.connect(pausing.sandboxId, { ...options, timeoutMs: 60_000 });
    assert.equal((await again.runCode("x")).text, "5");
    await again.kill();
  },

  async tokens() {
    await withSandbox({}, async (sandbox) => {
      await sandbox.files.write("s.txt", "secret");
      const ask = (path, more) => fetch(url + path, { headers: { "E2b-Sandbox-Id": sandbox.sandboxId, ...more } });
      assert.equal((await ask("/files?path=s.txt", {})).status, 401);
      assert.equal((await ask("/files?path=s.txt", { "X-Access-Token": "ea_wrong" })).status, 401);
      const old = await sandbox.downloadUrl("s.txt", { useSignatureExpiration: 60_000 });
      assert.equal((await fetch(old)).status, 200);
      assert.equal((await fetch(old.replace("s.txt", "t.txt"))).status, 401);
      assert.equal((await fetch(old, { method: "POST", body: new FormData() })).status, 401);
    });
  },

  async contexts() {
    await withSandbox({}, async (sandbox) => {
      const one = await sandbox.createCodeContext({ language: "python" });
      const two = await sandbox.createCodeContext({ language: "javascript" });
      await sandbox.runCode("b = 2", { context: one });
      assert.equal((await sandbox.runCode("b")).error.name, "NameError");
      await sandbox.runCode("let n = 1", { context: two });
      assert.equal((await sandbox.runCode("n + 1", { context: two })).text, "2");
      await sandbox.restartCodeContext(two);
      assert.equal((await sandbox.runCode("typeof n", { context: two })).text, "undefined");
      assert.equal((await sandbox.listCodeContexts()).length, 3);
      await sandbox.files.makeDir("sub");
      const three = await sandbox.createCodeContext({ cwd: "/home/user/sub" });
      assert.equal((await sandbox.runCode("import os; os.getcwd()", { context: three })).text, "/home/user/sub");
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
      await sandbox.files.write("zipped", "z".repeat(100_000), { gzip: true });
      assert.equal(await sandbox.files.read("zipped"), "z".repeat(100_000));
      const parts = [];
      for await (const part of await sandbox.files.read("/tmp/blob", { format: "stream" })) parts.push(part);
      assert.deepEqual(new Uint8Array(Buffer.concat(parts)), data);
      assert.equal((await (await sandbox.files.read("m/1", { format: "blob" })).text()), "1");
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
      await sandbox.files.makeDir("w/deep");
      const deep = [];
      const all = await sandbox.files.watchDir("w", (event) => void deep.push(`${event.type} ${event.name}`), {
        recursive: true,
      });
      await sandbox.runCode("open('w/deep/three', 'w').write('3')");
      for (let left = 50; left && !deep.includes("write deep/three"); left--) await sleep(100);
      assert(deep.includes("write deep/three"), `${deep}`);
      await all.stop();
      await assert.rejects(sandbox.files.watchDir("none", () => {}), named(/NotFoundError$/));
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
      const where = await sandbox.commands.run("echo $A; pwd", { envs: { A: "b" }, cwd: "/tmp" });
      assert.equal(where.stdout, "b\n/tmp\n");
      const lines = [];
      await sandbox.commands.run("echo 1; echo 2 >&2", {
        onStdout: (text) => void lines.push(`out ${text}`),
        onStderr: (text) => void lines.push(`err ${text}`),
      });
      assert.deepEqual(lines.sort(), ["err 2\n", "out 1\n"]);
      const cat = await sandbox.commands.run("cat", { background: true, stdin: true });
      await sandbox.commands.sendStdin(cat.pid, "to the end");
      const again = await sandbox.commands.connect(cat.pid);
      await sandbox.commands.closeStdin(cat.pid);
      assert.equal((await cat.wait()).stdout, "to the end");
      assert.equal((await again.wait()).exitCode, 0);
      await assert.rejects(sandbox.commands.run("sleep 30", { timeoutMs: 1000 }), named(/TimeoutError$/));
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
      const another = await sandbox.pty.create({ cols: 80, rows: 24, onData: () => {} });
      assert(await sandbox.pty.kill(another.pid));
      assert(!(await sandbox.pty.kill(another.pid + 1000)));
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
      const listed = await Sandbox.listSnapshots(options).nextItems();
      assert.deepEqual(listed.map((it) => it.snapshotId), [snapshot.snapshotId]);
      const forks = await again.fork({ count: 2, timeoutMs: 60_000 });
      assert.equal(forks.length, 2);
      await forks[0].runCode("state.append(4)");
      assert.equal((await forks[0].runCode("state")).text, "[1, 2, 3, 4]");
      assert.equal((await forks[1].runCode("state")).text, "[1, 2, 3]");
      assert.equal((await again.runCode("state")).text, "[1, 2, 3]");
      assert.equal(await forks[1].files.read("kept"), "kept");
      for (const fork of forks) assert(await fork.kill());
      const [metrics] = await again.getMetrics();
      assert(metrics.diskUsed > 0 && metrics.memTotal > 0);
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
