"""What calling from Python costs, and whether many calls at once give the right answers.

`python bench.py` prints times in milliseconds. The same requests are also made without this
package, by writing lines to `belljar serve` and reading its answers: the difference is the package.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import time
from statistics import median, quantiles
from typing import Any, Callable

from belljar import AsyncSandbox, SandboxResult, create_sandbox, find_binary

ROUNDS = 2000
CONCURRENT = 1000
CODE = "1 + 1"

#: What a call from Python may take longer than the execution itself, in milliseconds.
TARGET_MS = 0.3


def main() -> None:
    """Measures everything and prints it."""
    with create_sandbox() as sandbox, create_sandbox() as fresh:
        sandbox.initialize()
        plain, blocking, fresh_calls = measured(
            plain_calls(),
            lambda: _overhead(sandbox.execute),
            lambda: _overhead(fresh.execute),
        )
    waiting = asyncio.run(async_calls())
    print(f"over duration_ms, {ROUNDS} calls of {CODE!r}        p50      p99")
    for what, (middle, late) in {
        "live session, lines to `belljar serve` by hand": plain,
        "live session, Sandbox.execute": blocking,
        "live session, await AsyncSandbox.execute": waiting,
        "fresh interpreter, Sandbox.execute": fresh_calls,
    }.items():
        print(f"  {what:48} {middle:.3f}    {late:.3f}")
    added = blocking[0] - plain[0]
    print(f"Sandbox.execute over the bare protocol: {added:.3f} ms (target: {TARGET_MS} ms)")
    took = asyncio.run(many())
    print(f"{CONCURRENT} concurrent executions, all right: {took:.2f} s")


def measured(*ways: Callable[[], float]) -> list[tuple[float, float]]:
    """Median and 99th percentile of each, taken in turns: what disturbs one disturbs all."""
    rounds = [[once() for once in ways] for _ in range(ROUNDS)]
    return [_summary(list(times)) for times in zip(*rounds)]


def plain_calls() -> Callable[[], float]:
    """The protocol without this package: a line out, a line in."""
    server = subprocess.Popen(
        [str(find_binary()), "serve", "--stdio"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert server.stdin is not None
    assert server.stdout is not None
    output, answers = server.stdin, server.stdout

    def ask(method: str, params: dict[str, Any]) -> bytes:
        request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        output.write(json.dumps(request).encode() + b"\n")
        output.flush()
        return answers.readline()

    number = json.loads(ask("create", {}))["result"]["sandbox"]
    ask("initialize", {"sandbox": number})

    def once() -> float:
        started = time.perf_counter()
        answer = ask("execute", {"sandbox": number, "code": CODE})
        elapsed = (time.perf_counter() - started) * 1000
        return elapsed - float(json.loads(answer)["result"]["duration_ms"])

    return once


async def async_calls() -> tuple[float, float]:
    """The same as `measured`, awaited."""
    async with AsyncSandbox() as sandbox:
        await sandbox.initialize()
        times = []
        for _ in range(ROUNDS):
            started = time.perf_counter()
            result = await sandbox.execute(CODE)
            times.append((time.perf_counter() - started) * 1000 - result.duration_ms)
    return _summary(times)


async def many() -> float:
    """Seconds for many executions at once; fails when one of the answers is wrong."""
    sandboxes = [AsyncSandbox() for _ in range(20)]
    started = time.perf_counter()
    results = await asyncio.gather(
        *(sandboxes[n % len(sandboxes)].execute(f"print({n} ** 2)") for n in range(CONCURRENT))
    )
    elapsed = time.perf_counter() - started
    assert [result.stdout for result in results] == [f"{n**2}\n" for n in range(CONCURRENT)]
    await asyncio.gather(*(sandbox.destroy() for sandbox in sandboxes))
    return elapsed


def _overhead(execute: Callable[[str], SandboxResult]) -> float:
    started = time.perf_counter()
    result = execute(CODE)
    return (time.perf_counter() - started) * 1000 - result.duration_ms


def _summary(times: list[float]) -> tuple[float, float]:
    return median(times), quantiles(times, n=100)[98]


if __name__ == "__main__":
    main()
