// The examples with a model behind an endpoint; with their stand-ins the test command runs all of them.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { test } from "node:test";

test("an agent asks the model that MODEL_URL names, and shows it what its code printed", async () => {
  const answers = ["```python\nprint(sum(range(5)))\n```", "DONE: it is ten"];
  const asked: { model: string; messages: { content: string }[] }[] = [];
  const server = createServer((request, response) => {
    void text(request).then((body) => {
      asked.push(JSON.parse(body) as (typeof asked)[number]);
      assert.deepEqual([request.url, request.headers.authorization], ["/v1/chat/completions", "Bearer secret"]);
      response.end(JSON.stringify({ choices: [{ message: { content: answers.shift() } }] }));
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const env = {
    ...process.env,
    MODEL_URL: `http://127.0.0.1:${port}/v1`,
    MODEL_NAME: "scripted",
    MODEL_API_KEY: "secret",
  };
  const agent = spawn(process.execPath, ["examples/agent.mjs"], { env, stdio: ["ignore", "pipe", "inherit"] });
  assert.equal(await text(agent.stdout), "step 1: 10\nDONE: it is ten\n");
  server.close();
  assert.equal(asked[1]?.model, "scripted");
  assert.equal(asked[1].messages.at(-1)?.content, "It printed:\n10");
});
