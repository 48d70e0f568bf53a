// Best of N: one prepared session is forked for every candidate, and the first that passes is kept.

import { createSandbox } from "belljar";
import { codeIn, model } from "./model.mjs";

const ask = model([
  "```python\ndef slug(text): return text.lower()\n```",
  "```python\ndef slug(text): return text.lower().replace(' ', '-')\n```",
  "```python\nimport re\ndef slug(text): return re.sub(r'[^a-z0-9]+', '-', text.lower()).strip('-')\n```",
]);
const CHECK = "[slug(text) for text in ('Hello World', '  A  b!  ')] == ['hello-world', 'a-b']";

const base = await createSandbox({ timeout: 2000 });
await base.execute("import re, json  # and whatever else takes long to prepare");

let kept = null;
for (let candidate = 1; candidate <= 5 && kept === null; candidate++) {
  const said = await ask([{ role: "user", content: `Write a Python function slug(text) for which ${CHECK}.` }]);
  const fork = await base.fork();
  await fork.execute(codeIn(said) ?? said);
  const { result, error } = await fork.execute(CHECK);
  const passed = result?.json === true;
  console.log(`candidate ${candidate}: ${passed ? "passed" : (error ?? "failed")}`);
  if (passed) kept = fork;
  else await fork.destroy();
}
if (kept === null) throw new Error("no candidate passed");
console.log((await kept.execute("slug('Belljar keeps this one')")).result?.json);
await kept.destroy();
await base.destroy();
