"""A model writes code, is shown what it did, and goes on until it has an answer."""

from __future__ import annotations

from _model import Message, Model, code_of

from belljar import ExecutionPolicy, create_sandbox
from belljar.adapters import CodeTool

TASK = "Which year between 1900 and 2000 has the largest sum of digits?"
RULES = (
    "Solve the task with Python. Reply with one block of code, whose output you will be shown; "
    "variables live on. When you know the answer, reply with FINAL: and the answer."
)
SCRIPT = [
    "```python\nsums = {year: sum(map(int, str(yeer))) for year in range(1900, 2001)}\n```",
    "A typing error.\n"
    "```python\nsums = {year: sum(map(int, str(year))) for year in range(1900, 2001)}\n"
    "max(sums, key=sums.get)\n```",
    "FINAL: 1999",
]

model = Model(SCRIPT)
messages: list[Message] = [
    {"role": "system", "content": RULES},
    {"role": "user", "content": TASK},
]
with create_sandbox(policy=ExecutionPolicy.agent(timeout_seconds=10)) as sandbox:
    sandbox.initialize()
    tool = CodeTool(sandbox)
    for _ in range(10):
        reply = model.reply(messages)
        messages.append({"role": "assistant", "content": reply})
        code = code_of(reply)
        if code is None:
            break
        shown = tool.run(code)
        print(f"--- the code\n{code}--- gives\n{shown}")
        messages.append({"role": "user", "content": shown})
print(messages[-1]["content"])
