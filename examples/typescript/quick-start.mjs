// Runs code, keeps its state, and tells exactly what happened.

import { createSandbox } from "belljar";

const sandbox = await createSandbox({ timeout: 1000 });
await sandbox.initialize({ prices: [3, 4.5, 12] });

const { stdout } = await sandbox.execute("total = sum(context['prices'])\nprint(total)");
process.stdout.write(stdout);

const failed = await sandbox.execute("total / 0");
console.log(failed.status, "-", failed.error);

const stopped = await sandbox.execute("while True: pass");
console.log(stopped.status, "-", stopped.error);

console.log("total is still", await sandbox.getVariable("total"));
await sandbox.destroy();
