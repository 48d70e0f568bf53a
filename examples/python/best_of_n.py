"""Best of N: one session is forked for each candidate; the first that passes a check is kept.

Setting the session up is paid for once; a fork costs a fraction of a millisecond.
"""

from __future__ import annotations

from _model import Model, code_of

from belljar import ExecutionPolicy, Sandbox, create_sandbox

TASK = "Write a function slug(title) that makes a title fit for an address."
SETUP = "cases = {'Hello, World!': 'hello-world', '  A  b ': 'a-b', 'Ünïcode': 'unicode'}"
CHECK = "[title for title, wanted in cases.items() if slug(title) != wanted]"
SCRIPT = [
    "```python\ndef slug(title):\n    return title.lower().replace(' ', '-')\n```",
    "```python\ndef slug(title):\n    return title.lower(\n```",
    "```python\nimport re, unicodedata\n"
    "def slug(title):\n"
    "    plain = unicodedata.normalize('NFKD', title).encode('ascii', 'ignore').decode()\n"
    "    return '-'.join(re.findall(r'[a-z0-9]+', plain.lower()))\n```",
]


def first_that_passes(session: Sandbox, model: Model, attempts: int) -> Sandbox | None:
    """A fork in which a candidate was defined and passes the check."""
    for attempt in range(1, attempts + 1):
        code = code_of(model.reply([{"role": "user", "content": TASK}])) or ""
        fork = session.fork()
        defined = fork.execute(code)
        failures = fork.execute(CHECK).value if defined.success else defined.status.value
        print(f"candidate {attempt}: {failures or 'passes'}")
        if failures == []:
            return fork
        fork.destroy()
    return None


with create_sandbox(policy=ExecutionPolicy.agent(timeout_seconds=5)) as session:
    session.initialize()
    session.execute(SETUP)
    kept = first_that_passes(session, Model(SCRIPT), attempts=3)
    if kept is not None:
        print(kept.execute("slug('Belljar: a sandbox')").value)
        kept.destroy()
