// A model for the examples: an endpoint that speaks OpenAI's chat completions where MODEL_URL names
// one (with MODEL_NAME and MODEL_API_KEY), else a stand-in that says what an example has written down.

/** @typedef {{ role: "system" | "user" | "assistant", content: string }} Message */

/**
 * @param {string[]} script what the stand-in says, one answer after the other
 * @returns {(messages: Message[]) => Promise<string>}
 */
export function model(script) {
  const { MODEL_URL, MODEL_NAME = "default", MODEL_API_KEY } = process.env;
  if (MODEL_URL === undefined) {
    let said = 0;
    return () => Promise.resolve(script[said++] ?? "DONE");
  }
  return async (messages) => {
    const headers = { "content-type": "application/json", authorization: `Bearer ${MODEL_API_KEY ?? ""}` };
    const body = JSON.stringify({ model: MODEL_NAME, messages });
    const response = await fetch(`${MODEL_URL}/chat/completions`, { method: "POST", headers, body });
    if (!response.ok) throw new Error(`the model answers ${response.status}: ${await response.text()}`);
    /** @type {any} */
    const answer = await response.json();
    return answer.choices[0].message.content;
  };
}

/**
 * The code between the first pair of fences, or null.
 *
 * @param {string} text
 */
export function codeIn(text) {
  return /```(?:python)?\n([^]*?)```/.exec(text)?.[1] ?? null;
}
