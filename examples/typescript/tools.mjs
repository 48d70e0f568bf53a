// Functions of this program that the code may call, one by one or several at once; and one whose
// answer comes later.

import { createSandbox } from "belljar";

/** @type {Record<string, number>} */
const prices = { apple: 3, pear: 4 };

const sandbox = await createSandbox({
  deferredTools: ["approve"],
  tools: {
    price: async (/** @type {string} */ name) => {
      const price = prices[name];
      // What a tool throws is an exception in the code.
      if (price === undefined) throw new Error(`no price for ${name}`);
      return price;
    },
  },
});

const { stdout } = await sandbox.execute(`
import asyncio
print(await asyncio.gather(price("apple"), price("pear")))
try:
    price("plum")
except Exception as error:
    print(error)
`);
process.stdout.write(stdout);

const waiting = await sandbox.execute("print('bought' if await approve('apple', 100) else 'not bought')");
const [call] = waiting.pendingCalls;
console.log(waiting.status, call?.name, call?.args);
// A person answers, perhaps tomorrow and in another process.
if (call !== undefined) process.stdout.write((await sandbox.resume([{ call: call.id, result: true }])).stdout);
await sandbox.destroy();
