// An agent: the model writes code, sees what came of it, and goes on until it is done.

import { createSandbox } from "belljar";
import { answerOf } from "belljar/ai";
import { codeIn, model } from "./model.mjs";

const TASK = "What is the sum of the first 100 primes?";
const ask = model([
  "```python\ndef primes(n):\n    found = []\n    k = 2\n    while len(found) < n:\n        if all(k % p for p in found): found.append(k)\n        k += 1\n    return found\nprint(summ(primes(100)))\n```",
  "A typing error. ```python\nprint(sum(primes(100)))\n```",
  "DONE: the sum is 24133",
]);

const sandbox = await createSandbox({ timeout: 5000 });
/** @type {import("./model.mjs").Message[]} */
const messages = [
  { role: "system", content: "Solve the task by writing Python between ``` fences. State stays. End with DONE: answer." },
  { role: "user", content: TASK },
];
for (let step = 0; step < 8; step++) {
  const said = await ask(messages);
  const code = codeIn(said);
  if (code === null) {
    console.log(said);
    break;
  }
  const answer = answerOf(await sandbox.execute(code), 2000);
  console.log(`step ${step + 1}: ${answer.split("\n").at(-1)}`);
  messages.push({ role: "assistant", content: said }, { role: "user", content: `It printed:\n${answer}` });
}
await sandbox.destroy();
