"""Functions of this program that guests call."""

from __future__ import annotations

import asyncio
import math
import os
import threading
import time
from functools import partial
from typing import Any, Optional

import pytest
from helpers import Make

from belljar import (
    AsyncSandbox,
    ExecutionPolicy,
    InvalidRequestError,
    SandboxExecutionError,
    Status,
    ToolError,
    create_sandbox,
)


def add(a: int, b: int = 0, *, note: Optional[str] = None) -> int:
    """Adds two numbers.

    The note is for nobody.
    """
    return a + b


def test_tools_are_functions_in_the_guest(make: Make) -> None:
    sandbox = make(tools=[add, math.sqrt])
    assert (
        sandbox.execute("print(add(1, 2), add(1, b=5, note='x'), sqrt(16))").stdout == "3 6 4.0\n"
    )
    code = "import asyncio\nprint(await asyncio.gather(add.aio(1, 1), add.aio(2, 2)))"
    assert sandbox.execute(code).stdout == "[2, 4]\n"
    assert sandbox.execute("add(1)").meta.tools.calls == 1


def test_tools_are_functions_in_javascript(make: Make) -> None:
    sandbox = make(runtime="javascript", tools={"add": add})
    assert sandbox.execute("console.log(await add(1, 2), add.sync(3, 4))").stdout == "3 7\n"


SHOW = "import inspect\nprint(inspect.signature(add))\nprint(inspect.getdoc(add))"
SHOWN = (
    "(a: int, b: int = 0, *, note: Optional[str] = None) -> int\n"
    "Adds two numbers.\n\nThe note is for nobody.\n"
)


def test_signatures_and_docstrings_are_visible_in_every_execution(make: Make) -> None:
    sandbox = make(tools=[add])
    assert sandbox.execute(SHOW).stdout == SHOWN
    sandbox.initialize()
    result = sandbox.execute(SHOW)
    assert result.stdout == SHOWN
    fork = sandbox.fork()
    assert fork.execute(SHOW).stdout == SHOWN
    other = make(tools=[add])
    other.restore(sandbox.snapshot())
    assert other.execute(SHOW).stdout == SHOWN
    # Nothing was run to bring them there, and nothing is left behind.
    names = "print(sorted(n for n in dir() if not n.startswith('__')))"
    assert (
        sandbox.execute(names).stdout
        == "['add', 'chunk_text', 'context', 'inspect', 'search_context']\n"
    )
    assert sandbox.tool_descriptions == (
        "add(a: int, b: int = 0, *, note: Optional[str] = None) -> int\n"
        "    Adds two numbers.\n    \n    The note is for nobody."
    )


def test_help_knows_a_tool(make: Make) -> None:
    shown = make(tools=[add]).execute("help(add)").stdout
    assert shown.endswith(
        "add(a: int, b: int = 0, *, note: Optional[str] = None) -> int\n"
        "    Adds two numbers.\n\n    The note is for nobody.\n\n"
    )


def test_signatures_and_docstrings_are_visible_in_javascript(make: Make) -> None:
    sandbox = make(runtime="javascript", tools=[add])
    code = "console.log(add.signature); console.log(add.doc); console.log(Object.keys(add))"
    shown = SHOWN + "[]\n"
    assert sandbox.execute(code).stdout == shown
    sandbox.initialize()
    assert sandbox.execute(code).stdout == shown


def test_signatures_and_docstrings_are_visible_in_a_named_session() -> None:
    session_name = f"test-{os.getpid()}-{time.monotonic_ns()}"
    for _ in range(2):
        with create_sandbox(session_id=session_name, tools=[add]) as sandbox:
            assert sandbox.execute(SHOW).stdout == SHOWN
    with create_sandbox(session_id=session_name, tools={"add": lambda: 1}) as sandbox:
        assert sandbox.execute("str(inspect.signature(add))").value == "()"


class Odd:
    """Does not like to be shown."""

    def __repr__(self) -> str:
        raise RuntimeError("no")


def test_whatever_a_tool_looks_like_it_can_be_offered(make: Make) -> None:
    def odd(a: Any, b: Any, c: Any, *, d: Any = len) -> None:
        """Has \x1b[31mcolours\x00 and half a \ud800 character."""

    odd.__defaults__ = (Odd(), object(), "\0")
    odd.__annotations__ = {"a": Odd(), "b": "not a type", "c": "x\0y", "return": Odd()}

    def endless() -> None: ...

    endless.__doc__ = "é" * 20_000
    many = eval(f"lambda {', '.join(f'parameter_{n}=0' for n in range(500))}: 1")
    tools = {"odd": odd, "endless": endless, "many": many, "cls": Odd, "partial": partial(add, 1)}
    sandbox = make(tools=tools)
    signature = "import inspect\nstr(inspect.signature({}))"
    shown = sandbox.execute(signature.format("odd")).value
    assert shown == r"(a=..., b=..., c='\x00', *, d=...)"
    doc = sandbox.execute("odd.__doc__").value
    assert doc == "Has \ufffd[31mcolours\ufffd and half a ? character."
    doc = sandbox.execute("endless.__doc__").value
    assert len(doc.encode()) <= 16 * 1024
    assert doc.endswith("é\n(the rest was left out)")
    assert sandbox.execute(signature.format("many")).value == "(*args, **kwargs)"
    assert sandbox.execute("many()").value == 1
    assert sandbox.execute(signature.format("partial")).value == (
        "(b: int = 0, *, note: Optional[str] = None) -> int"
    )
    assert sandbox.execute("partial(b=2)").value == 3


def test_too_much_documentation_is_refused_and_much_is_not(make: Make) -> None:
    def documented(count: int) -> dict[str, Any]:
        def tool() -> int:
            return 1

        tool.__doc__ = "x" * 16_000
        return {f"tool_{number}": tool for number in range(count)}

    assert make(tools=documented(60)).execute("tool_59()").value == 1
    with pytest.raises(SandboxExecutionError, match="all tools together is longer than 1 MiB"):
        make(tools=documented(70))


def test_a_tool_that_raises_is_an_exception_in_the_guest(make: Make) -> None:
    def fails(how: str) -> None:
        if how == "plain":
            raise KeyError("no such thing")
        if how == "chosen":
            raise ToolError("in these words")
        raise SystemExit(3)

    sandbox = make(tools=[fails])
    code = (
        "from belljar import ToolError\n"
        "for how in 'plain', 'chosen', 'exit':\n"
        "    try: fails(how)\n"
        "    except ToolError as error: print(error)"
    )
    assert (
        sandbox.execute(code).stdout == "KeyError: 'no such thing'\nin these words\nSystemExit: 3\n"
    )
    wrong = sandbox.execute("fails()")
    assert wrong.error is not None
    assert wrong.error.name == "ToolError"
    assert "missing 1 required positional argument: 'how'" in wrong.error.message


def test_results_that_json_cannot_carry_are_errors_in_the_guest(make: Make) -> None:
    circular: list[Any] = []
    circular.append(circular)
    deep: Any = 0
    for _ in range(70):
        deep = [deep]
    results: list[Any] = [{1, 2}, object(), math.nan, b"bytes", circular, deep, "\ud800", add]
    sandbox = make(tools={"give": lambda number: results[number]})
    for number in range(len(results)):
        started = time.monotonic()
        result = sandbox.execute(f"give({number})")
        assert result.error is not None
        assert result.error.name == "ToolError"
        assert "the tool give gave something else than JSON" in result.error.message
        assert time.monotonic() - started < 10
    assert sandbox.execute("print('alive')").stdout == "alive\n"


def test_coroutine_functions_are_tools_too(make: Make) -> None:
    async def slowly(value: int) -> int:
        await asyncio.sleep(0.05)
        return value * 2

    assert make(tools=[slowly]).execute("print(slowly(21))").stdout == "42\n"

    async def use() -> str:
        here = threading.current_thread()
        seen = []

        async def where(value: int) -> int:
            seen.append(threading.current_thread() is here)
            return await slowly(value)

        async with AsyncSandbox(tools=[where]) as sandbox:
            code = "import asyncio\nprint(await asyncio.gather(*(where.aio(i) for i in range(5))))"
            result = await sandbox.execute(code)
        assert seen == [True] * 5
        return result.stdout

    assert asyncio.run(use()) == "[0, 2, 4, 6, 8]\n"


def test_a_coroutine_is_cancelled_when_nobody_waits_for_it() -> None:
    async def use() -> bool:
        ended = asyncio.Event()

        async def forever() -> None:
            try:
                await asyncio.sleep(1000)
            finally:
                ended.set()

        policy = ExecutionPolicy.agent(timeout_seconds=0.5)
        async with AsyncSandbox(tools=[forever], policy=policy) as sandbox:
            assert (await sandbox.execute("forever()")).status is Status.TIMEOUT
            await asyncio.wait_for(ended.wait(), 10)
        return ended.is_set()

    assert asyncio.run(use())


def test_a_tool_may_use_its_own_sandbox_and_others(make: Make) -> None:
    def compute(code: str) -> Any:
        with create_sandbox() as inner:
            return inner.execute(code).value

    sandbox = make(tools=[compute], policy=ExecutionPolicy.agent())
    assert sandbox.execute("print(compute('6 * 7'))").stdout == "42\n"


def test_sandboxes_in_rlm_query_are_one_deeper(make: Make) -> None:
    def rlm_query(task: str, ctx: Any = None) -> Any:
        with create_sandbox(tools=[rlm_query], policy=ExecutionPolicy.agent()) as inner:
            result = inner.execute(f"rlm_query({task!r})" if task == "deeper" else task)
            return [result.meta.tools.depth, result.error and result.error.name]

    sandbox = make(tools=[rlm_query], policy=ExecutionPolicy.agent())
    assert sandbox.execute("print(rlm_query('1'))").stdout == "[1, None]\n"
    sandbox.initialize("a long text")
    result = sandbox.execute("rlm_query('deeper')")
    # Each level asks the next one, until the policy's three are used up.
    assert result.value == [1, None]


def test_deferred_tools_are_answered_later(make: Make) -> None:
    sandbox = make(deferred_tools=["approve"])
    sandbox.initialize()
    result = sandbox.execute("ok = await approve('pay', amount=100); print(ok)")
    assert result.status is Status.SUSPENDED
    (call,) = result.pending_calls
    assert (call.name, call.args, call.kwargs) == ("approve", ["pay"], {"amount": 100})
    assert sandbox.pending_calls() == [call]
    with pytest.raises(SandboxExecutionError, match="waits for the answer to call"):
        sandbox.execute("1")
    snapshot = sandbox.snapshot()
    assert sandbox.resume({call.id: True}).stdout == "True\n"
    other = make(deferred_tools=["approve"])
    other.restore(snapshot)
    refused = other.resume({call.id: ToolError("nobody is in charge")})
    assert refused.error is not None
    assert refused.error.message == "nobody is in charge"


def test_input_is_answered(make: Make) -> None:
    lines = iter(["Ann", None])
    asked: list[str] = []

    def answer(prompt: str) -> Optional[str]:
        asked.append(prompt)
        return next(lines)

    sandbox = make(on_input=answer)
    assert sandbox.execute("print(input('name? '))").stdout.endswith("Ann\n")
    assert asked == ["name? "]
    ended = sandbox.execute("input()")
    assert ended.error is not None
    assert ended.error.name == "EOFError"


def test_names_that_cannot_be_tools_are_refused(make: Make) -> None:
    with pytest.raises(SandboxExecutionError, match="cannot be offered"):
        make(tools={"not a name": add})
    with pytest.raises(InvalidRequestError, match="two tools of the name 'add'"):
        make(tools=[add, add])


def test_a_tool_that_never_returns_ends_with_the_execution(make: Make) -> None:
    go_on = threading.Event()
    sandbox = make(tools={"hang": lambda: go_on.wait(30) and None}, policy={"timeout_seconds": 0.5})
    assert sandbox.execute("hang()").status is Status.TIMEOUT
    assert sandbox.execute("print('alive')").stdout == "alive\n"
    go_on.set()
