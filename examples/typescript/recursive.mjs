// A recursive language model: a text too long for a prompt is a variable; code looks for the parts
// that matter and asks the model about those, and gives larger tasks to sandboxes of their own.

import { createSandbox } from "belljar";
import { codeIn, model } from "./model.mjs";

const chapters = Array.from({ length: 200 }, (_, n) => `Chapter ${n}. ${"It rained. ".repeat(50)}${n % 50 === 7 ? `The key is number ${n}. ` : ""}`);
const book = chapters.join("\n");

const ask = model([
  "```python\nfound = search_context(r'key is number (\\d+)', window=20)\nnotes = llm_query_batched([f['context'] for f in found])\nprint(rlm_query('add the numbers up', notes))\n```",
  "The key is 7.", "The key is 57.", "The key is 107.", "The key is 157.",
  "```python\nimport re\nprint(sum(int(re.search(r'\\d+', note)[0]) for note in context))\n```",
]);

/**
 * @param {string} task
 * @param {import("belljar").JsonValue} context
 * @param {number} depth
 * @returns {Promise<string>}
 */
async function solve(task, context, depth) {
  const sandbox = await createSandbox({
    depth,
    onLLMQuery: (prompt) => ask([{ role: "user", content: prompt }]),
    onRLMQuery: (part, ctx) => solve(part, ctx, depth + 1),
  });
  await sandbox.initialize(context);
  const said = await ask([
    { role: "system", content: "Write Python between ``` fences that prints the answer. The text is the variable context; there are search_context(pattern, window), llm_query_batched(prompts) and rlm_query(task, ctx)." },
    { role: "user", content: task },
  ]);
  const { stdout, error } = await sandbox.execute(codeIn(said) ?? said);
  await sandbox.destroy();
  return error ?? stdout.trim();
}

console.log(`${book.length} characters; the keys add up to`, await solve("Which keys are in the book? Add them up.", book, 0));
