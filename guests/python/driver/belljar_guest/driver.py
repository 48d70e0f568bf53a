"""Answers the host's requests: JSON in, JSON out, one at a time."""

import linecache
import logging
import os
import sys
import tempfile
from json import dumps, loads
from time import time_ns

from . import cells


def handle(request):
    request = loads(request)
    answer = _operations[request["op"]](request)
    # What JSON cannot carry (a lone half of a surrogate pair) becomes a question mark.
    return dumps(answer, ensure_ascii=False).encode("utf-8", "replace")


def _execute(request):
    surroundings = request.get("surroundings")
    if surroundings is not None:
        _settle_in(surroundings)
    outcome = cells.run(request["code"], request["filename"], request["value"])
    return {
        "end": outcome.end,
        "exit_code": outcome.exit_code,
        "error": outcome.error,
        "value": outcome.value,
    }


def _validate(request):
    error = cells.check(request["code"], request["filename"])
    return {"end": "finished" if error is None else "raised", "error": error}


def _settle_in(surroundings):
    """What a frozen interpreter cannot know: where and when it woke up, and for whom."""
    os.environ.update(surroundings["env"])
    workspace = surroundings["workspace"]
    tempfile.tempdir = workspace
    if workspace != "/app":
        os.chdir(workspace)
    sys.path += surroundings["path"]
    sys.argv[:] = surroundings["argv"]
    logging._startTime = time_ns()


_operations = {"execute": _execute, "validate": _validate}


# Enough for the interpreter to settle on specialised instructions, which are faster and, unlike
# the counters that lead to them, are not written to by every sandbox.
WARM_UP_ROUNDS = 100

WARM_UP_CELLS = (
    "print('warm')",
    "x = [i * 2 for i in range(3)]\nf'{x!r}'",
    "import json\njson.loads(json.dumps({'a': [1, 2.5, None]}))",
    "def f(n):\n    return n + 1\nclass C:\n    def m(self):\n        return f(1)\nC().m()",
    "1 / 0",
)


def warm_up():
    """Runs the common path many times, so that its caches are part of the image."""
    import __main__

    before = dict(__main__.__dict__)
    surroundings = {"env": {}, "workspace": "/app", "path": [], "argv": [""]}
    for code in WARM_UP_CELLS * WARM_UP_ROUNDS:
        request = {"op": "execute", "code": code, "filename": "<warm-up>", "value": True, "surroundings": surroundings}
        handle(dumps(request).encode())
    __main__.__dict__.clear()
    __main__.__dict__.update(before)
    tempfile.tempdir = None
    linecache.clearcache()
