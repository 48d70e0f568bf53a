"""Runs the common path many times before the interpreter is frozen, so that its caches are in the image."""

from . import __builtins__

import tempfile

from . import interrupts, sources
from .driver import handle
from .wire import encode_own

# Enough for the interpreter to settle on specialised instructions, which are faster and, unlike
# the counters that lead to them, are not written to by every sandbox.
ROUNDS = 100

CELLS = (
    "print('warm')",
    "x = [i * 2 for i in range(3)]\nf'{x!r}'",
    "import json\njson.loads(json.dumps({'a': [1, 2.5, None]}))",
    "def f(n):\n    return n + 1\nclass C:\n    def m(self):\n        return f(1)\nC().m()",
    "1 / 0",
    "import asyncio\nasync def g(n):\n    await asyncio.sleep(0)\n    return n\nawait asyncio.gather(g(1), g(2))",
)


def run():
    import __main__

    before = dict(__main__.__dict__)
    surroundings = {"env": {}, "workspace": "/app", "path": [], "argv": [""], "tools": [], "renewed": False}
    requests = [
        {"op": "execute", "code": code, "filename": "<warm-up>", "value": True, "surroundings": surroundings}
        for code in CELLS
    ]
    requests.append({"op": "define", "variables": {"context": "text"}})
    requests.append({"op": "inspect", "name": "context"})
    for request in requests * ROUNDS:
        handle(encode_own(request).encode())
    __main__.__dict__.clear()
    __main__.__dict__.update(before)
    tempfile.tempdir = None
    sources.clear()
    interrupts.forget()
