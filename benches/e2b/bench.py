"""What E2B's own Python package sees of a Belljar daemon: python bench.py URL KEY [TIMES]

Prints the median of a create with its first run_code, sandboxes made and ended a second, and the
median of a fork of a sandbox with state.
"""

import statistics
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from e2b_code_interpreter import Sandbox

URL, KEY = sys.argv[1:3]
TIMES = int(sys.argv[3]) if len(sys.argv) > 3 else 100
OPTIONS = {"api_key": KEY, "api_url": URL, "sandbox_url": URL}


def milliseconds(call):
    begun = time.perf_counter()
    given = call()
    return (time.perf_counter() - begun) * 1000, given


def first_run():
    sandbox = Sandbox.create(**OPTIONS)
    assert sandbox.run_code("print('hello')").logs.stdout == ["hello\n"]
    return sandbox


def main():
    first_run().kill()
    times = []
    for _ in range(TIMES):
        spent, sandbox = milliseconds(first_run)
        times.append(spent)
        sandbox.kill()
    print(f"create and first run_code, p50: {statistics.median(times):.1f} ms")

    with ThreadPoolExecutor(8) as threads:
        begun = time.perf_counter()
        list(threads.map(lambda _: Sandbox.create(**OPTIONS).kill(), range(TIMES * 4)))
        print(f"sandboxes made and ended a second, 8 at once: {TIMES * 4 / (time.perf_counter() - begun):.0f}")

    parent = Sandbox.create(**OPTIONS)
    parent.run_code("data = list(range(100_000))")
    times = []
    for _ in range(TIMES):
        spent, (fork,) = milliseconds(parent.fork)
        times.append(spent)
        fork.kill()
    print(f"fork of a sandbox with state, p50: {statistics.median(times):.1f} ms")
    parent.kill()


main()
