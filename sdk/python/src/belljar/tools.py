"""Functions of this program that guests may call."""

from __future__ import annotations

import ast
import asyncio
import contextvars
import inspect
import threading
import unicodedata
from collections.abc import Awaitable, Coroutine, Mapping, Sequence
from concurrent.futures import Future
from typing import (
    Any,
    Callable,
    Optional,
    Union,
)

from . import wire
from .errors import InvalidRequestError, SandboxError

Tool = Callable[..., Any]
Tools = Union[Mapping[str, Tool], Sequence[Tool]]

#: What a server takes as the docstring of a tool, and as its signature.
MAX_DOC_BYTES = 16 * 1024
MAX_SIGNATURE_BYTES = 4 * 1024

#: How deep the sandbox is nested in `rlm_query` that asked for what this thread or task does.
_depth: contextvars.ContextVar[Optional[int]] = contextvars.ContextVar("depth", default=None)


class ToolError(Exception):
    """Raise it in a tool, or give it as an answer, to choose the words the guest gets to see.

    Any other exception is told with the name of its class.
    """


def named(tools: Optional[Tools]) -> dict[str, Tool]:
    """Tools by name. Those of a list have the names they were defined with."""
    if tools is None:
        return {}
    if isinstance(tools, Mapping):
        found = dict(tools)
    elif isinstance(tools, (list, tuple)):
        found = {}
        for tool in tools:
            name = str(getattr(tool, "__name__", type(tool).__name__))
            if name in found:
                raise InvalidRequestError(f"there are two tools of the name {name!r}")
            found[name] = tool
    else:
        raise TypeError(f"tools is a mapping or a list of functions, not {type(tools).__name__}")
    for name, tool in found.items():
        if not isinstance(name, str):
            raise TypeError(f"a tool's name is text, not {name!r}")
        if not callable(tool):
            raise TypeError(f"the tool {name!r} is no function but {type(tool).__name__}")
    return found


def next_depth() -> int:
    """How deep a sandbox is nested that is made here: one deeper in whoever answers `rlm_query`."""
    depth = _depth.get()
    return 0 if depth is None else depth + 1


def describe(tools: Mapping[str, Tool]) -> str:
    """Signatures and docstrings, for a person or for a prompt."""
    return "\n\n".join(_described(name, tool) for name, tool in tools.items())


def _described(name: str, tool: Tool) -> str:
    head = f"{name}{_signature(tool) or '(...)'}"
    doc = _doc(tool)
    return head if not doc else head + "\n" + "\n".join(f"    {line}" for line in doc.splitlines())


def docs(tools: Mapping[str, Tool]) -> dict[str, dict[str, str]]:
    """What the guest is told about tools: their docstrings, and their signatures as text."""
    said = {name: _said(tool) for name, tool in tools.items()}
    return {name: about for name, about in said.items() if about}


def _said(tool: Tool) -> dict[str, str]:
    doc, signature = _doc(tool), _signature(tool)
    said = {"doc": _short(doc)} if doc else {}
    if signature and len(signature.encode("utf-8", "replace")) <= MAX_SIGNATURE_BYTES:
        said["signature"] = _plain(signature)
    return said


def _doc(tool: Tool) -> Optional[str]:
    # An object of a class has the docstring of its class, which is not about calling it.
    own = inspect.isroutine(tool) or "__doc__" in getattr(tool, "__dict__", {})
    doc = inspect.getdoc(tool) if own else None
    return doc if isinstance(doc, str) else None


def _short(doc: str) -> str:
    """Nobody asked for a docstring to be told, so one that is too long is no reason to fail."""
    data = _plain(doc).encode("utf-8")
    if len(data) <= MAX_DOC_BYTES:
        return data.decode("utf-8")
    end = "\n(the rest was left out)"
    return data[: MAX_DOC_BYTES - len(end)].decode("utf-8", "ignore") + end


def _plain(text: str) -> str:
    """Without what the server refuses: control characters, and halves of characters."""
    text = text.encode("utf-8", "replace").decode("utf-8")
    return "".join(
        char if char in "\n\t" or unicodedata.category(char) != "Cc" else "\ufffd" for char in text
    )


class _Text(str):
    """Shows itself without quotes."""

    __repr__ = str.__str__


def _signature(tool: Tool) -> Optional[str]:
    """As it is written in Python; what has no such form is left out."""
    try:
        signature = inspect.signature(tool)
    except (TypeError, ValueError):
        return None
    parameters = [
        parameter.replace(
            default=_written(parameter.default, repr, "..."),
            annotation=_written(parameter.annotation, _annotation, None),
        )
        for parameter in signature.parameters.values()
    ]
    returns = _written(signature.return_annotation, _annotation, None)
    return str(signature.replace(parameters=parameters, return_annotation=returns))


def _annotation(annotation: Any) -> str:
    return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)


def _written(value: Any, write: Callable[[Any], str], otherwise: Optional[str]) -> Any:
    """A default or a type as text, which in a guest is all that is left of it."""
    if value is inspect.Signature.empty:
        return value
    try:
        text = " ".join(write(value).split())
        ast.parse(text, mode="eval")
    except Exception:  # noqa: BLE001, it is code of others that writes it
        return inspect.Signature.empty if otherwise is None else _Text(otherwise)
    return _Text(text)


class Host:
    """What a guest may ask of this program: its tools, and lines for `input()`."""

    def __init__(
        self,
        tools: Mapping[str, Tool],
        on_input: Optional[Callable[[str], Any]] = None,
        loop: Optional[asyncio.AbstractEventLoop] = None,
    ) -> None:
        self._tools = dict(tools)
        self._on_input = on_input
        #: Where coroutines run; without, each has a loop of its own.
        self.loop = loop
        self._begun: dict[Any, Future[Any]] = {}

    def serve(
        self, number: Any, method: str, params: dict[str, Any], reply: Callable[[bytes], None]
    ) -> None:
        """Runs what was asked for on a thread of its own, and answers."""
        thread = threading.Thread(
            target=self._answer, args=(number, method, params, reply), daemon=True
        )
        try:
            thread.start()
        except RuntimeError:
            # The interpreter is ending; so does whoever has asked.
            return

    def drop(self, number: Any) -> None:
        """Nobody waits for that answer any more. A function cannot be stopped, a coroutine can."""
        begun = self._begun.pop(number, None)
        if begun is not None:
            begun.cancel()

    def _answer(
        self, number: Any, method: str, params: dict[str, Any], reply: Callable[[bytes], None]
    ) -> None:
        name = str(params.get("name", method))
        try:
            value = self._value(number, method, params)
            wire.check_value(value, "it")
            line = wire.answer(number, value)
        except InvalidRequestError as error:
            line = wire.refusal(number, f"the tool {name} gave something else than JSON: {error}")
        except ToolError as error:
            line = wire.refusal(number, str(error))
        except BaseException as error:  # noqa: BLE001, whatever it is, the guest is told
            line = wire.refusal(number, f"{type(error).__name__}: {error}")
        reply(line)

    def _value(self, number: Any, method: str, params: dict[str, Any]) -> Any:
        if method == "input":
            if self._on_input is None:
                raise ToolError("nobody answers input()")
            value = self._on_input(params.get("prompt", ""))
        elif method == "tool.call":
            name = params.get("name", "")
            tool = self._tools.get(name)
            if tool is None:
                raise ToolError(f"there is no tool {name!r}")
            if name == "rlm_query":
                _depth.set(params.get("depth", 0))
            value = tool(*params.get("args", ()), **params.get("kwargs", {}))
        else:
            raise ToolError(f"there is nothing like {method!r} here")
        return self._awaited(number, value) if inspect.isawaitable(value) else value

    def _awaited(self, number: Any, value: Awaitable[Any]) -> Any:
        loop = self.loop
        if loop is None or loop.is_closed():
            return asyncio.run(_coroutine(value))
        begun = asyncio.run_coroutine_threadsafe(_coroutine(value), loop)
        self._begun[number] = begun
        try:
            return begun.result()
        finally:
            self._begun.pop(number, None)


def _coroutine(value: Awaitable[Any]) -> Coroutine[Any, Any, Any]:
    async def wait() -> Any:
        return await value

    return wait()


def answer_form(call: int, answer: Any) -> dict[str, Any]:
    """The answer to a call that waits, as the protocol has it."""
    if isinstance(answer, ToolError):
        return {"call": call, "error": {"name": "ToolError", "message": str(answer)}}
    if isinstance(answer, SandboxError):
        raise TypeError("an answer is a value or a ToolError")
    wire.check_value(answer, f"the answer to call {call}")
    return {"call": call, "result": answer}
