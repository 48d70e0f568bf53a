"""What E2B's own Python package sees of a Belljar daemon: python bench.py URL KEY [TIMES [--json]]

Tells the median of a create with its first run_code, sandboxes made and ended a second, and the
median of a fork of a sandbox with state. `belljar bench` runs it and compares.
"""

import json
import statistics
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from e2b_code_interpreter import Sandbox

URL, KEY = sys.argv[1:3]
TIMES = int(sys.argv[3]) if len(sys.argv) > 3 else 100
OPTIONS = {"api_key": KEY, "api_url": URL, "sandbox_url": URL}
AT_ONCE = 8


def milliseconds(call):
    begun = time.perf_counter()
    given = call()
    return (time.perf_counter() - begun) * 1000, given


def first_run():
    sandbox = Sandbox.create(**OPTIONS)
    assert sandbox.run_code("print('hello')").logs.stdout == ["hello\n"]
    return sandbox


def first_runs():
    first_run().kill()
    for _ in range(TIMES):
        spent, sandbox = milliseconds(first_run)
        yield spent
        sandbox.kill()


def rate():
    with ThreadPoolExecutor(AT_ONCE) as threads:
        begun = time.perf_counter()
        list(threads.map(lambda _: Sandbox.create(**OPTIONS).kill(), range(TIMES * 4)))
        return TIMES * 4 / (time.perf_counter() - begun)


def forks():
    with Sandbox.create(**OPTIONS) as parent:
        parent.run_code("data = list(range(100_000))")
        for _ in range(TIMES):
            spent, (fork,) = milliseconds(parent.fork)
            yield spent
            fork.kill()


def main():
    told = {
        "first_run_ms": statistics.median(first_runs()),
        "sandboxes_per_second": rate(),
        "fork_ms": statistics.median(forks()),
    }
    if "--json" in sys.argv:
        print(json.dumps(told))
        return
    print(f"create and first run_code, p50: {told['first_run_ms']:.1f} ms")
    print(f"sandboxes made and ended a second, {AT_ONCE} at once: {told['sandboxes_per_second']:.0f}")
    print(f"fork of a sandbox with state, p50: {told['fork_ms']:.1f} ms")


main()
