"""A recursive language model: a text too long for a prompt is a variable that code works on.

The code asks a model about pieces of it with `llm_query`, and gives whole tasks away with
`rlm_query`, each to a model with a sandbox of its own.
"""

from __future__ import annotations

from typing import Any

from _model import Message, Model, code_of

from belljar import ExecutionPolicy, create_sandbox

TEXT = "\n".join(
    f"Entry {number}: the lamp was {'out' if number % 97 == 0 else 'lit'}."
    for number in range(1, 2001)
)
RULES = (
    "The variable context holds a long text. Reply with one block of Python code, whose output "
    "you will be shown. llm_query(prompt) asks a model, rlm_query(task, text) gives a task away. "
    "When you know the answer, reply with FINAL: and the answer."
)
SCRIPT = [
    # The outer model cuts the text into pieces and gives each of them away.
    "```python\n"
    "pieces = chunk_text(context, 40_000, 0)\n"
    "found = [rlm_query('Which entries say that the lamp was out?', piece) for piece in pieces]\n"
    "print(found)\n```",
    # The inner ones look at theirs.
    "```python\nimport re\nprint(re.findall(r'Entry (\\d+): the lamp was out', context))\n```",
    "FINAL: 97 194 291 388 485 582 679 776 873",
    "```python\nimport re\nprint(re.findall(r'Entry (\\d+): the lamp was out', context))\n```",
    "FINAL: 970 1067 1164 1261 1358 1455 1552 1649 1746 1843 1940",
    "FINAL: the lamp was out 20 times",
]
model = Model(SCRIPT)


def llm_query(prompt: str) -> str:
    """Asks a model one question."""
    return model.reply([{"role": "user", "content": prompt}])


def rlm_query(task: str, ctx: Any = None) -> str:
    """Gives a task and its text to a model that works on it with code."""
    return solve(task, ctx)


def solve(task: str, text: Any) -> str:
    """Lets a model write code about a text until it has an answer."""
    messages: list[Message] = [
        {"role": "system", "content": RULES},
        {"role": "user", "content": task},
    ]
    policy = ExecutionPolicy.agent(timeout_seconds=600)
    with create_sandbox(policy=policy, tools=[llm_query, rlm_query]) as sandbox:
        sandbox.initialize(text)
        for _ in range(10):
            reply = model.reply(messages)
            code = code_of(reply)
            if code is None:
                return reply.removeprefix("FINAL:").strip()
            shown = sandbox.execute(code).text
            messages += [
                {"role": "assistant", "content": reply},
                {"role": "user", "content": shown[:2000]},
            ]
    return "no answer"


print(solve("How often was the lamp out?", TEXT))
