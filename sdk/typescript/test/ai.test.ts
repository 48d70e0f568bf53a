// With the AI SDK itself, and a model that says what it was told to say.

import assert from "node:assert/strict";
import { after, test } from "node:test";

import { generateText, stepCountIs, type LanguageModel } from "ai";
import { MockLanguageModelV3 } from "ai/test";
import { shutdown } from "belljar";
import { answerOf, codeTool } from "belljar/ai";

import { session } from "./support.js";

after(shutdown);

type Generate = Extract<ConstructorParameters<typeof MockLanguageModelV3>[0], object>["doGenerate"];

/** Calls the tool with each piece of code, then says something. */
function scripted(inputs: unknown[], seen: unknown[] = []): LanguageModel {
  let step = 0;
  const doGenerate: Extract<Generate, (...args: never[]) => unknown> = (options) => {
    const input = inputs[step++];
    seen.push(options);
    const usage = {
      inputTokens: { total: 1, noCache: 1, cacheRead: 0, cacheWrite: 0 },
      outputTokens: { total: 1, text: 1, reasoning: 0 },
    };
    const ended = (unified: "stop" | "tool-calls") => ({ unified, raw: undefined });
    return Promise.resolve(
      input === undefined
        ? { content: [{ type: "text", text: "done" }], finishReason: ended("stop"), usage, warnings: [] }
        : {
            content: [
              { type: "tool-call", toolCallId: `${step}`, toolName: "python", input: JSON.stringify(input) },
            ],
            finishReason: ended("tool-calls"),
            usage,
            warnings: [],
          },
    );
  };
  return new MockLanguageModelV3({ doGenerate });
}

test("a model runs code, step after step, in a session", async () => {
  await using sandbox = await session({}, [1, 2, 3]);
  const seen: { prompt: unknown; tools?: unknown }[] = [];
  const { text, steps } = await generateText({
    model: scripted([{ code: "total = sum(context)" }, { code: "print(total * 7)" }, { code: "1 / 0" }], seen),
    tools: { python: codeTool({ sandbox }) },
    stopWhen: stepCountIs(5),
    prompt: "go",
  });
  assert.equal(text, "done");
  const results = steps.flatMap((step) => step.toolResults.map((result) => result.output as { status: string }));
  assert.deepEqual(results.map(({ status }) => status), ["ok", "ok", "error"]);
  const told = JSON.stringify(seen.at(-1)?.prompt);
  assert.ok(told.includes('"value":"(no output)"') && told.includes('"value":"42"'), told);
  assert.ok(told.includes("ZeroDivisionError: division by zero"), told);
  assert.match(JSON.stringify(seen[0]?.tools), /"required":\["code"\]/);
  assert.match(JSON.stringify(seen[0]?.tools), /Runs Python code in a sandbox without network/);
});

test("without a sandbox every call starts from nothing", async () => {
  const seen: { prompt: unknown }[] = [];
  await generateText({
    model: scripted([{ code: "let x = 1" }, { code: "typeof x" }], seen),
    tools: { python: codeTool({ config: { language: "javascript" } }) },
    stopWhen: stepCountIs(4),
    prompt: "go",
  });
  assert.ok(JSON.stringify(seen.at(-1)?.prompt).includes("undefined"));
});

test("what a model gives that is no code is an error it can read", async () => {
  const { steps } = await generateText({
    model: scripted([{ wishful: 1 }]),
    tools: { python: codeTool() },
    stopWhen: stepCountIs(2),
    prompt: "go",
  });
  const errors = steps.flatMap((step) => step.content).filter((part) => part.type === "tool-error");
  assert.match(String(errors[0]?.error), /code: must be text/);
});

test("a signal reaches the code", async () => {
  await using sandbox = await session();
  const running = codeTool({ sandbox }).execute({ code: "while True: pass" }, { abortSignal: AbortSignal.timeout(100) });
  await assert.rejects(running, { name: "AbortError" });
});

test("long answers keep their beginning and their end", async () => {
  await using sandbox = await session();
  const execution = await sandbox.execute("print('start', 'x' * 5000)\nopen('f', 'w').close()\nraise ValueError('the end')");
  const answer = answerOf(execution, 1000);
  assert.ok(answer.startsWith("start xxx") && answer.endsWith("files written: f") && answer.length < 1010, answer);
  assert.ok(answer.includes("ValueError: the end"));
});
