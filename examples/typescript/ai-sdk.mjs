// The AI SDK: a sandbox as a tool of a model. Here a scripted model; with a provider's package it is
// `model: openai("…")` and nothing else changes.

import { generateText, stepCountIs } from "ai";
import { MockLanguageModelV3 } from "ai/test";
import { createSandbox } from "belljar";
import { codeTool } from "belljar/ai";

const script = ["data = [3, 1, 2]", "sorted(data)"];
const usage = {
  inputTokens: { total: 0, noCache: 0, cacheRead: 0, cacheWrite: 0 },
  outputTokens: { total: 0, text: 0, reasoning: 0 },
};
const model = new MockLanguageModelV3({
  doGenerate: async ({ prompt }) => {
    const code = script.shift();
    if (code !== undefined) {
      const input = JSON.stringify({ code });
      return {
        content: [{ type: "tool-call", toolCallId: code, toolName: "python", input }],
        finishReason: { unified: "tool-calls", raw: undefined },
        usage,
        warnings: [],
      };
    }
    const last = JSON.stringify(prompt.at(-1)?.content);
    return {
      content: [{ type: "text", text: `The tool said ${/"value":"(.*?)"/.exec(last)?.[1]}` }],
      finishReason: { unified: "stop", raw: undefined },
      usage,
      warnings: [],
    };
  },
});

const sandbox = await createSandbox();
const { text } = await generateText({
  model,
  tools: { python: codeTool({ sandbox }) },
  stopWhen: stepCountIs(5),
  prompt: "Sort the data.",
});
console.log(text);
await sandbox.destroy();
