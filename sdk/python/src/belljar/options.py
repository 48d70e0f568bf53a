"""What a sandbox can be made with, checked before anything is started."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Callable, Optional, Union

from typing_extensions import TypedDict

from . import tools as tool_box
from .engine import Engine, default_engine
from .errors import InvalidRequestError
from .guest import Options, PathLike
from .logger import SandboxLogger
from .models import RuntimeType
from .policy import ExecutionPolicy

#: Told each line of output while code runs. With `AsyncSandbox` it may be a coroutine function.
OnLine = Callable[[str], Any]


class SandboxOptions(TypedDict, total=False):
    """What can be said about a sandbox besides language, policy, workspace and logger."""

    backend: Optional[str]
    """`wasm` (default), `native`, `pyodide`, `docker`, `daemon` or `auto`."""
    session_id: Optional[str]
    """A name: the state is kept after every execution, and is there again under it."""
    tools: Optional[tool_box.Tools]
    """Functions the code may call, by name or as a list."""
    deferred_tools: Sequence[str]
    """Names of tools whose answers come later, with `resume`."""
    on_stdout: Optional[OnLine]
    on_stderr: Optional[OnLine]
    on_input: Optional[Callable[[str], Any]]
    """Answers `input(prompt)`: a line, or None when there are no more."""
    stream: bool
    """Whether output can be followed with `stream()`; on with `on_stdout` or `on_stderr`."""
    code_name: Optional[str]
    """The name the code has in tracebacks."""
    wasm_binary_path: Optional[PathLike]
    """A WASI interpreter to use instead of the embedded one."""
    python: Optional[PathLike]
    """The Python of the native backend."""
    index_url: Union[str, Sequence[str], None]
    """Where the pyodide backend loads Pyodide from."""
    use_worker: Optional[bool]
    """Whether Pyodide runs in a worker thread."""
    depth: Optional[int]
    """How deep the sandbox is nested in `rlm_query`; known by itself in the tool of that name."""
    engine: Optional[Engine]
    """The process to live in, if not the one that all sandboxes share."""


_KNOWN = frozenset(SandboxOptions.__annotations__)


def read_options(
    runtime: Union[RuntimeType, str],
    policy: Union[ExecutionPolicy, Mapping[str, Any], None],
    workspace: Optional[PathLike],
    logger: Optional[SandboxLogger],
    given: SandboxOptions,
) -> Options:
    """Everything as the protocol wants it. Raises `TypeError` for what has the wrong type."""
    unknown = sorted(set(given) - _KNOWN)
    if unknown:
        known = ", ".join(sorted(_KNOWN))
        raise TypeError(f"there is no option {', '.join(unknown)}; there are: {known}")
    if logger is not None and not isinstance(logger, SandboxLogger):
        raise TypeError(f"logger is a SandboxLogger, not {type(logger).__name__}")
    for name in ("on_stdout", "on_stderr", "on_input"):
        if given.get(name) is not None and not callable(given.get(name)):
            raise TypeError(f"{name} is a function, not {type(given.get(name)).__name__}")
    listens = given.get("on_stdout") is not None or given.get("on_stderr") is not None
    index_url = given.get("index_url")
    depth = given.get("depth")
    return Options(
        runtime=_runtime(runtime),
        policy=_policy(policy),
        logger=logger or SandboxLogger(),
        workspace=None if workspace is None else Path(_path(workspace, "workspace")),
        backend=_text(given.get("backend"), "backend"),
        session_id=_text(given.get("session_id"), "session_id"),
        tools=tool_box.named(given.get("tools")),
        deferred_tools=_texts(given.get("deferred_tools"), "deferred_tools"),
        stream=bool(given.get("stream")) or listens,
        answers_input=given.get("on_input") is not None,
        code_name=_text(given.get("code_name"), "code_name"),
        wasm_binary_path=_optional_path(given.get("wasm_binary_path"), "wasm_binary_path"),
        python=_optional_path(given.get("python"), "python"),
        index_url=[index_url] if isinstance(index_url, str) else _texts(index_url, "index_url"),
        use_worker=given.get("use_worker"),
        depth=tool_box.next_depth() if depth is None else depth,
        engine=given.get("engine") or default_engine(),
    )


def host_of(
    options: Options, given: SandboxOptions, loop: Optional[asyncio.AbstractEventLoop] = None
) -> tool_box.Host:
    """Who answers the guest."""
    return tool_box.Host(options.tools, given.get("on_input"), loop)


def _runtime(runtime: Union[RuntimeType, str]) -> RuntimeType:
    try:
        return RuntimeType(runtime)
    except ValueError:
        known = ", ".join(kind.value for kind in RuntimeType)
        raise InvalidRequestError(f"there is no runtime {runtime!r}; there are: {known}") from None


def _policy(policy: Union[ExecutionPolicy, Mapping[str, Any], None]) -> ExecutionPolicy:
    if policy is None:
        return ExecutionPolicy()
    if isinstance(policy, ExecutionPolicy):
        return policy
    if isinstance(policy, Mapping):
        return ExecutionPolicy(**policy)
    raise TypeError(f"policy is an ExecutionPolicy or a mapping, not {type(policy).__name__}")


def _text(value: Any, name: str) -> Optional[str]:
    if value is not None and not isinstance(value, str):
        raise TypeError(f"{name} is text, not {type(value).__name__}")
    return value


def _texts(value: Any, name: str) -> list[str]:
    if value is None:
        return []
    if isinstance(value, str) or not all(isinstance(item, str) for item in value):
        raise TypeError(f"{name} is a list of texts")
    return list(value)


def _path(value: Any, name: str) -> str:
    if not isinstance(value, (str, os.PathLike)):
        raise TypeError(f"{name} is a path, not {type(value).__name__}")
    return str(os.fspath(value))


def _optional_path(value: Any, name: str) -> Optional[str]:
    # The server may run elsewhere than where a relative path was meant.
    return None if value is None else os.path.abspath(_path(value, name))
