// The common path, run a few times before the image is made: what it allocates and looks up at first
// is part of the image then, and not of every sandbox.

import { forgetConsole } from "./console.js";
import { forgetSources } from "./stack.js";

const CELLS = [
  "console.log('warm')",
  "1 + 1",
  "[1, 2, 3].map((x) => x * 2)",
  "const warm = { a: 1, b: [1, 2], c: 'text' }; warm",
  "function warmly(n) { return n + 1 } warmly(1)",
  "await new Promise((done) => setTimeout(done, 0))",
  "JSON.stringify(JSON.parse('{\"a\": [1, 2.5, null]}'))",
  "null.warm",
  "let warm = (",
];

const ROUNDS = 5;

export function warmUp(handle) {
  const surroundings = { env: {}, workspace: "/app", path: [], argv: [""], tools: [] };
  for (let round = 0; round < ROUNDS; round++)
    for (const code of CELLS) {
      const request = { op: "execute", code, filename: "<warm-up>", value: true, drain: false, surroundings };
      handle(host.parse(JSON.stringify(request)));
    }
  for (const name of ["warm", "warmly"]) host.forgetVariable(name);
  forgetConsole();
  forgetSources();
}
