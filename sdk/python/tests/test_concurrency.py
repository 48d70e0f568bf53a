"""Many threads, many tasks, cancelling."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from helpers import Make

from belljar import AsyncSandbox, ExecutionPolicy, Status

AGENT = ExecutionPolicy.agent()


def test_thousands_of_concurrent_calls_of_one_sandbox(make: Make) -> None:
    async def many() -> list[str]:
        async with AsyncSandbox() as sandbox:
            results = await asyncio.gather(
                *(sandbox.execute(f"print({number})") for number in range(2000))
            )
        return [result.stdout for result in results]

    assert asyncio.run(many()) == [f"{number}\n" for number in range(2000)]


def test_a_thousand_concurrent_executions_in_many_sandboxes() -> None:
    async def many() -> list[str]:
        sandboxes = [AsyncSandbox() for _ in range(50)]
        results = await asyncio.gather(
            *(sandboxes[number % 50].execute(f"print({number} ** 2)") for number in range(1000))
        )
        await asyncio.gather(*(sandbox.destroy() for sandbox in sandboxes))
        return [result.stdout for result in results]

    assert asyncio.run(many()) == [f"{number**2}\n" for number in range(1000)]


def test_many_threads_use_one_session(make: Make) -> None:
    sandbox = make()
    sandbox.initialize()
    sandbox.execute("total = 0")
    with ThreadPoolExecutor(100) as pool:
        list(pool.map(lambda number: sandbox.execute(f"total += {number}"), range(500)))
    assert sandbox.get_variable("total") == sum(range(500))


def test_cells_of_a_session_run_in_the_order_they_were_asked_for() -> None:
    async def ordered() -> object:
        async with AsyncSandbox() as sandbox:
            await sandbox.initialize()
            await sandbox.execute("seen = []")
            await asyncio.gather(*(sandbox.execute(f"seen.append({n})") for n in range(200)))
            return await sandbox.get_variable("seen")

    assert asyncio.run(ordered()) == list(range(200))


def test_cancel_before_start_and_after_end_does_nothing(make: Make) -> None:
    sandbox = make()
    sandbox.cancel()
    assert sandbox.execute("print(1)").stdout == "1\n"
    sandbox.cancel()
    assert sandbox.execute("print(2)").stdout == "2\n"


def test_cancel_stops_what_runs_and_keeps_the_session(make: Make) -> None:
    sandbox = make(policy=AGENT)
    sandbox.initialize()
    sandbox.execute("kept = 1")
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(sandbox.execute, "while True: pass")
        time.sleep(0.2)
        sandbox.cancel()
        result = running.result(10)
    assert (result.status, result.exit_code) == (Status.CANCELLED, -1)
    assert sandbox.get_variable("kept") == 1


@pytest.mark.parametrize("attempt", range(5))
def test_a_cancel_that_comes_at_the_very_beginning_is_not_lost(make: Make, attempt: int) -> None:
    sandbox = make(policy=AGENT)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(sandbox.execute, "while True: pass")
        while not running.done():
            sandbox.cancel()
        assert running.result(10).status is Status.CANCELLED


def test_a_cancelled_task_cancels_its_code() -> None:
    async def cancelled() -> float:
        async with AsyncSandbox(policy=AGENT) as sandbox:
            await sandbox.initialize()
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(sandbox.execute("while True: pass"), 0.2)
            started = time.monotonic()
            assert (await sandbox.execute("1 + 1")).value == 2
            return time.monotonic() - started

    assert asyncio.run(cancelled()) < 10


def test_a_cancel_does_not_hit_what_is_asked_for_next(make: Make) -> None:
    sandbox = make(stream=True, policy=AGENT)
    for number in range(100):
        # It ends at about the moment when the cancel arrives.
        with sandbox.stream(f"import time\nprint(1)\ntime.sleep({number} / 50_000)") as stream:
            next(stream)
        assert sandbox.execute(f"import time\ntime.sleep(0.01)\n{number}").value == number


def test_destroy_ends_what_runs(make: Make) -> None:
    sandbox = make(policy=AGENT)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(sandbox.execute, "while True: pass")
        time.sleep(0.2)
        sandbox.destroy()
        assert running.result(10).status is Status.CANCELLED


def test_a_tool_may_cancel_the_code_that_calls_it(make: Make) -> None:
    def stop() -> None:
        sandbox.cancel()

    sandbox = make(policy=AGENT, tools=[stop])
    assert sandbox.execute("stop()\nprint('on')").status is Status.CANCELLED
    assert sandbox.execute("print('alive')").stdout == "alive\n"


def test_an_async_sandbox_can_be_used_in_one_loop_after_another() -> None:
    sandbox = AsyncSandbox()
    asyncio.run(sandbox.initialize([1]))
    assert asyncio.run(sandbox.get_variable("context")) == [1]
    asyncio.run(sandbox.destroy())


def test_no_thread_is_left_behind(make: Make) -> None:
    sandbox = make(tools={"add": lambda a, b: a + b})
    sandbox.execute("for i in range(20): add(i, i)")
    before = threading.active_count()
    sandbox.execute("for i in range(20): add(i, i)")
    time.sleep(0.2)
    assert threading.active_count() <= before
