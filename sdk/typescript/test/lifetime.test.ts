// Who ends when: the caller's process is not kept alive, and leaves no process behind.

import assert from "node:assert/strict";
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { after, describe, test } from "node:test";

import { createSandbox, shutdown } from "belljar";

import { isAlive, server, session, until } from "./support.js";

after(shutdown);

/** A program of a caller's. It prints the server's number and its sandbox's workspace first. */
function program(rest: string, stderr: "inherit" | "ignore"): ChildProcess {
  const start = `
    import { createSandbox } from "belljar";
    import { readdirSync, readFileSync } from "node:fs";
    const sandbox = await createSandbox();
    await sandbox.execute("x = 1");
    const own = (pid) => { try { return readFileSync("/proc/" + pid + "/status", "utf8").includes("PPid:\\t" + process.pid + "\\n"); } catch { return false; } };
    console.log(JSON.stringify([readdirSync("/proc").filter(Number).find(own), sandbox.workspace]));
  `;
  return spawn(process.execPath, ["--input-type=module", "--eval", start + rest], { stdio: ["ignore", "pipe", stderr] });
}

async function told(caller: ChildProcess): Promise<{ pid: number; workspace: string }> {
  assert.ok(caller.stdout);
  const [line] = (await once(caller.stdout, "data")) as [Buffer];
  const [pid, workspace] = JSON.parse(line.toString()) as [string, string];
  return { pid: Number(pid), workspace };
}

describe("a caller's process", () => {
  const ends: [string, string, number | NodeJS.Signals | null][] = [
    ["ends by itself with a live sandbox", "", 0],
    ["exits with a live sandbox", "process.exit(3);", 3],
    ["exits while code runs", 'void sandbox.execute("while True: pass"); setTimeout(() => process.exit(4), 100);', 4],
    ["dies of an error", 'throw new Error("its own");', 1],
    ["is killed while code runs", 'void sandbox.execute("while True: pass"); setTimeout(() => process.kill(process.pid, "SIGKILL"), 100);', "SIGKILL"],
    ["is interrupted", 'process.kill(process.pid, "SIGINT"); setTimeout(() => {}, 60000);', "SIGINT"],
    ["waits for a result, and for nothing else", 'console.log((await sandbox.execute("import time; time.sleep(0.5); 7")).result.json);', 0],
  ];
  for (const [what, rest, end] of ends) {
    test(`that ${what} leaves nothing behind`, async () => {
      const caller = program(rest, what === "dies of an error" ? "ignore" : "inherit");
      const { pid, workspace } = await told(caller);
      assert.ok(isAlive(pid) || caller.exitCode !== null);
      const [code, signal] = (await once(caller, "close")) as [number | null, NodeJS.Signals | null];
      assert.equal(signal ?? code, end);
      await until("its server has ended", () => !isAlive(pid));
      await until("its workspace is gone", () => !existsSync(workspace));
    });
  }
});

test("an interrupt for the whole group is the caller's to handle, and sandboxes live on", async () => {
  const caller = spawn(
    process.execPath,
    [
      "--input-type=module",
      "--eval",
      `import { createSandbox } from "belljar";
       const sandbox = await createSandbox();
       process.on("SIGINT", async () => { console.log((await sandbox.execute("x")).result.json); process.exit(0); });
       await sandbox.execute("x = 42");
       console.log("ready");
       setTimeout(() => {}, 60000);`,
    ],
    { stdio: ["ignore", "pipe", "inherit"], detached: true },
  );
  let output = "";
  caller.stdout.on("data", (chunk: Buffer) => (output += chunk.toString()));
  await until("it is ready", () => output.includes("ready"));
  assert.ok(caller.pid);
  process.kill(-caller.pid, "SIGINT");
  await once(caller, "close");
  assert.equal(output, "ready\n42\n");
});

test("shutdown ends the server, also while code runs, and the next sandbox starts another", async () => {
  const sandbox = await session();
  const pid = server();
  const running = sandbox.execute("while True: pass");
  await new Promise((resolve) => setTimeout(resolve, 50));
  await shutdown();
  assert.equal((await running).status, "cancelled");
  assert.ok(!isAlive(pid));
  await assert.rejects(sandbox.execute("1"), { name: "ConnectionLostError", message: /it was told to end; nothing was run/ });
  await using next = await createSandbox();
  assert.equal((await next.execute("6 * 7")).result?.json, 42);
});

test("sandboxes that are made at the same time share one server", async () => {
  await shutdown();
  const sandboxes = await Promise.all(Array.from({ length: 20 }, () => createSandbox()));
  assert.ok(server() > 0);
  await Promise.all(sandboxes.map((sandbox) => sandbox.destroy()));
});
