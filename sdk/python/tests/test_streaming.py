"""Output while code runs."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest
from helpers import Make

from belljar import AsyncSandbox, CallbackError, ExecutionPolicy, InvalidRequestError, OutputLine

TWO_LINES = "import sys\nprint('one')\nprint('two', file=sys.stderr)\nprint('rest', end='')"


def test_listeners_are_told_each_line_on_the_calling_thread(make: Make) -> None:
    told: list[tuple[str, str, bool]] = []
    here = threading.current_thread()
    sandbox = make(
        on_stdout=lambda text: told.append(("out", text, threading.current_thread() is here)),
        on_stderr=lambda text: told.append(("err", text, threading.current_thread() is here)),
    )
    result = sandbox.execute(TWO_LINES)
    assert sorted(told) == [("err", "two\n", True), ("out", "one\n", True), ("out", "rest", True)]
    assert (result.stdout, result.stderr) == ("one\nrest", "two\n")


def test_output_is_told_before_the_code_ends(make: Make) -> None:
    times: list[float] = []
    sandbox = make(on_stdout=lambda _: times.append(time.monotonic()))
    sandbox.execute("import time\nprint('now')\ntime.sleep(0.5)")
    assert time.monotonic() - times[0] >= 0.4


def test_a_listener_that_raises_cancels_the_code(make: Make) -> None:
    def broken(text: str) -> None:
        raise ValueError("cannot take it")

    sandbox = make(on_stdout=broken, policy=ExecutionPolicy.agent())
    started = time.monotonic()
    with pytest.raises(CallbackError, match="cannot take it") as failed:
        sandbox.execute("print(1)\nwhile True: pass")
    assert isinstance(failed.value.__cause__, ValueError)
    assert time.monotonic() - started < 15
    assert sandbox.execute("x = 1").success


def test_a_listener_may_use_its_sandbox(make: Make) -> None:
    def stop(text: str) -> None:
        if text == "3\n":
            sandbox.cancel()

    sandbox = make(on_stdout=stop, policy=ExecutionPolicy.agent())
    result = sandbox.execute("import itertools\nfor i in itertools.count(): print(i)")
    assert result.status.value == "cancelled"


def test_lines_can_be_iterated(make: Make) -> None:
    sandbox = make(stream=True)
    stream = sandbox.stream(TWO_LINES)
    lines = list(stream)
    assert OutputLine("stdout", "one\n") in lines
    assert OutputLine("stderr", "two\n") in lines
    assert stream.result.stdout == "one\nrest"
    assert sandbox.stream("print(1)\n6 * 7").result.value == 42


def test_leaving_a_stream_cancels_the_code(make: Make) -> None:
    sandbox = make(stream=True, policy=ExecutionPolicy.agent())
    started = time.monotonic()
    with sandbox.stream("while True: print('again')") as stream:
        assert next(stream).text == "again\n"
    with pytest.raises(InvalidRequestError, match="left before its end"):
        _ = stream.result
    assert sandbox.execute("print('alive')").stdout == "alive\n"
    assert time.monotonic() - started < 15


def test_a_sandbox_that_does_not_stream_says_so(make: Make) -> None:
    with pytest.raises(InvalidRequestError, match="stream=True"):
        make().stream("print(1)")


def test_the_same_with_asyncio() -> None:
    async def use() -> None:
        told: list[str] = []

        async def listen(text: str) -> None:
            await asyncio.sleep(0)
            told.append(text)

        async with AsyncSandbox(on_stdout=listen) as sandbox:
            await sandbox.execute("print('a')\nprint('b')")
            assert told == ["a\n", "b\n"]
            stream = sandbox.stream("print('c')\n1 + 1")
            assert [line async for line in stream] == [OutputLine("stdout", "c\n")]
            assert (await stream.result()).value == 2

        def broken(text: str) -> None:
            raise ValueError("cannot take it")

        async with AsyncSandbox(on_stdout=broken, policy=ExecutionPolicy.agent()) as sandbox:
            with pytest.raises(CallbackError):
                await sandbox.execute("print(1)\nwhile True: pass")

        async with AsyncSandbox(stream=True, policy=ExecutionPolicy.agent()) as sandbox:
            async with sandbox.stream("while True: print('again')") as left:
                async for line in left:
                    assert line.text == "again\n"
                    break
            assert (await sandbox.execute("1")).value == 1

    asyncio.run(use())
