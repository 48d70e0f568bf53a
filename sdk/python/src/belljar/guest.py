"""A sandbox as the protocol has it: what to ask for, and what the answers mean.

Written once for both faces, the blocking one and asyncio's: every operation is a generator that
yields what is to be asked and is sent the answer.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import (
    Any,
    NamedTuple,
    Optional,
    TypeVar,
    Union,
)
from weakref import finalize

from . import tools as tool_box
from . import wire
from .connection import Connection
from .engine import Engine, default_engine
from .errors import ClosedError, InvalidRequestError
from .logger import SandboxLogger
from .models import FileEntry, GuestError, OpaqueValue, RuntimeType, SandboxResult, ToolCall
from .policy import ExecutionPolicy
from .snapshot import Snapshot

T = TypeVar("T")

PathLike = Union[str, os.PathLike[str]]

#: Requests of one sandbox that wait at the server; it takes 64. More wait here.
MAX_IN_FLIGHT = 48

#: How often whoever has something to ask looks whether a cancel is over that was not meant for it.
STOPPING_SECONDS = 0.002


class Ask(NamedTuple):
    """A request to be made."""

    method: str
    params: dict[str, Any]
    #: Whether it runs code, which may print and can be cancelled.
    runs: bool = False


#: Something to talk about with the server until there is an answer.
Steps = Generator[Ask, Any, T]


@dataclass
class Options:
    """What a sandbox is made of."""

    runtime: RuntimeType
    policy: ExecutionPolicy
    logger: SandboxLogger
    workspace: Optional[Path] = None
    backend: Optional[str] = None
    session_id: Optional[str] = None
    tools: dict[str, tool_box.Tool] = field(default_factory=dict)
    deferred_tools: Sequence[str] = ()
    stream: bool = False
    answers_input: bool = False
    code_name: Optional[str] = None
    wasm_binary_path: Optional[str] = None
    python: Optional[str] = None
    index_url: Sequence[str] = ()
    use_worker: Optional[bool] = None
    depth: int = 0
    engine: Engine = field(default_factory=default_engine)

    def params(self) -> dict[str, Any]:
        """What `create` is told. What is not set is not mentioned."""
        params: dict[str, Any] = {
            "language": self.runtime.value,
            "preset": self.policy.preset,
            "policy": self.policy.explicit(),
            "backend": self.backend or os.environ.get("SANDBOX_TYPE") or None,
            "workspace": None if self.workspace is None else str(self.workspace.absolute()),
            "session": self.session_id,
            "tools": list(self.tools),
            "tool_docs": tool_box.docs(self.tools),
            "deferred_tools": list(self.deferred_tools),
            "stream": self.stream,
            "input": self.answers_input,
            "code_name": self.code_name,
            "wasm_binary_path": self.wasm_binary_path,
            "python": self.python,
            "index_url": list(self.index_url),
            "use_worker": self.use_worker,
            "depth": self.depth,
        }
        return {name: value for name, value in params.items() if value not in (None, [], {}, 0)}


class Guest:
    """One sandbox at the server, from `create` to `destroy`."""

    def __init__(self, options: Options, host: tool_box.Host) -> None:
        self.options = options
        self.host = host
        self.connection: Optional[Connection] = None
        self.number = 0
        self.workspace = options.workspace
        #: Whether it holds variables that would be lost with the process.
        self._is_session = False
        self._destroyed = False
        self._told_of_loss: Optional[Connection] = None
        self._forget: Optional[finalize[Any, Any]] = None

    @property
    def is_open(self) -> bool:
        """Whether it is there; raises when it was, and is no more."""
        if self._destroyed:
            raise ClosedError("the sandbox was destroyed", hint="make a new one")
        if self.connection is None:
            return False
        if self.connection.is_alive:
            return True
        if self._is_session or self._told_of_loss is not self.connection:
            self._told_of_loss = self.connection
            raise self.connection.lost_error()
        # It was told, and nothing is left that could be missed: it begins anew.
        self.connection = None
        return False

    @property
    def ready(self) -> Optional[Connection]:
        """Where it is, if nothing has to be done before it can be used."""
        connection = self.connection
        usable = connection is not None and connection.is_alive and not self._destroyed
        return connection if usable else None

    @property
    def is_gone(self) -> bool:
        """Whether there is nothing at a server that could be ended."""
        return self._destroyed or self.connection is None or not self.connection.is_alive

    def lost_while_waiting(self) -> None:
        """Whoever waited was told that the process is gone."""
        self._told_of_loss = self.connection

    def create(self, connection: Connection) -> Steps[None]:
        """Makes it. Must come first."""
        made = yield Ask("create", self.options.params())
        self._live_at(connection, made)

    def execute(self, code: str, inject_setup: bool = True) -> Steps[SandboxResult]:
        """Runs code."""
        _check_text(code, "code")
        options = self.options
        options.logger.log_execution_start(options.runtime, options.policy, code)
        params: dict[str, Any] = {"sandbox": self.number, "code": code}
        if not inject_setup:
            params["inject_setup"] = False
        answer = yield Ask("execute", params, runs=True)
        return SandboxResult.model_validate(answer)

    def check(self, code: str) -> Steps[Optional[GuestError]]:
        """The compiler's complaint about code, if any."""
        _check_text(code, "code")
        answer = yield Ask("validate", {"sandbox": self.number, "code": code})
        error = answer["error"]
        return None if error is None else GuestError.model_validate(error)

    def validate(self, code: str) -> Steps[bool]:
        """Whether code compiles."""
        return (yield from self.check(code)) is None

    def initialize(self, context: Any) -> Steps[None]:
        """Begins a session."""
        wire.check_value(context, "the context")
        yield Ask("initialize", {"sandbox": self.number, "context": context})
        self._is_session = True

    def get_variable(self, name: str, default: Any) -> Steps[Any]:
        """A variable of the session."""
        _check_text(name, "name")
        answer = yield Ask("get_variable", {"sandbox": self.number, "name": name})
        found = answer["variable"]
        if found is None:
            return default
        if found["has_json"]:
            return found["json"]
        return OpaqueValue.model_validate(found)

    def complete(self, code: str, cursor: Optional[int]) -> Steps[list[str]]:
        """What could stand at the cursor."""
        _check_text(code, "code")
        at = len(code) if cursor is None else cursor
        params = {"sandbox": self.number, "code": code, "cursor": at}
        answer = yield Ask("complete", params)
        return [str(match) for match in answer["matches"]]

    def pending_calls(self) -> Steps[list[ToolCall]]:
        """The calls that a suspended execution waits for."""
        answer = yield Ask("pending_calls", {"sandbox": self.number})
        return [ToolCall.model_validate(call) for call in answer]

    def resume(self, answers: Mapping[int, Any]) -> Steps[SandboxResult]:
        """Goes on with a suspended execution."""
        given = [tool_box.answer_form(call, answer) for call, answer in answers.items()]
        answer = yield Ask("resume", {"sandbox": self.number, "answers": given}, runs=True)
        return SandboxResult.model_validate(answer)

    def fork(self, twin: Guest) -> Steps[None]:
        """Makes `twin` a session that goes on from here."""
        made = yield Ask("fork", {"sandbox": self.number})
        assert self.connection is not None  # it has just answered
        twin._live_at(self.connection, made)
        twin._is_session = True

    def snapshot(self, files: bool) -> Steps[Snapshot]:
        """The session as a value."""
        made = yield Ask("snapshot", {"sandbox": self.number, "files": files})
        data = bytearray()
        number = made["snapshot"]
        while len(data) < made["bytes"]:
            place = {"snapshot": number, "offset": len(data), "length": wire.CHUNK_BYTES}
            chunk = yield Ask("snapshot.read", place)
            data += base64.b64decode(chunk["data"])
        yield Ask("snapshot.drop", {"snapshot": number})
        return Snapshot(bytes(data))

    def restore(self, snapshot: Snapshot) -> Steps[None]:
        """Becomes the session that a snapshot holds."""
        if not isinstance(snapshot, Snapshot):
            raise TypeError(f"a Snapshot can be restored, not {type(snapshot).__name__}")
        number: Optional[int] = None
        for part in _parts(snapshot.data):
            there = {} if number is None else {"snapshot": number}
            made = yield Ask("snapshot.write", {**there, "data": part})
            number = made["snapshot"]
        yield Ask("restore", {"sandbox": self.number, "snapshot": number})
        self._is_session = True
        yield Ask("snapshot.drop", {"snapshot": number})

    def list_files(self) -> Steps[list[FileEntry]]:
        """Everything in the workspace."""
        answer = yield Ask("files.list", {"sandbox": self.number})
        return [FileEntry.model_validate(entry) for entry in answer]

    def read_file(self, path: PathLike) -> Steps[bytes]:
        """What a file holds."""
        data = bytearray()
        while True:
            place = {"sandbox": self.number, "path": _path(path), "offset": len(data)}
            chunk = yield Ask("files.read", place)
            part = base64.b64decode(chunk["data"])
            data += part
            if not part or len(data) >= chunk["bytes"]:
                return bytes(data)

    def write_file(self, path: PathLike, data: Union[bytes, str]) -> Steps[None]:
        """Makes a file hold these bytes, or this text as UTF-8."""
        if not isinstance(data, (bytes, bytearray, memoryview, str)):
            raise TypeError(f"a file holds bytes or text, not {type(data).__name__}")
        content = data.encode("utf-8") if isinstance(data, str) else bytes(data)
        for index, part in enumerate(_parts(content)):
            place = {"sandbox": self.number, "path": _path(path), "data": part}
            yield Ask("files.write", {**place, "append": True} if index else place)

    def remove_file(self, path: PathLike) -> Steps[None]:
        """Removes a file, or a directory with everything in it."""
        yield Ask("files.remove", {"sandbox": self.number, "path": _path(path)})

    def destroy(self) -> Steps[None]:
        """Ends it."""
        number, self._destroyed = self.number, True
        if self._forget is not None:
            self._forget.detach()
        try:
            yield Ask("destroy", {"sandbox": number})
        except InvalidRequestError:
            # It has ended by itself.
            return

    def mark_destroyed(self) -> None:
        """There is nothing at a server that could be ended."""
        self._destroyed = True

    def _live_at(self, connection: Connection, made: Any) -> None:
        self.connection, self.number = connection, made["sandbox"]
        self.workspace = Path(made["workspace"])
        connection.hosts[self.number] = self.host
        self._forget = finalize(self, connection.abandoned.append, self.number)
        self._forget.atexit = False


def _check_text(value: Any, what: str) -> None:
    if not isinstance(value, str):
        raise TypeError(f"{what} is text, not {type(value).__name__}")


def _path(path: Any) -> str:
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"a path is text, not {type(path).__name__}")
    return str(os.fspath(path))


def _parts(data: bytes) -> list[str]:
    """Base64 in pieces that fit into messages; one piece when there is nothing."""
    size = wire.CHUNK_BYTES
    cut = [data[at : at + size] for at in range(0, len(data), size)] or [b""]
    return [base64.b64encode(part).decode("ascii") for part in cut]
