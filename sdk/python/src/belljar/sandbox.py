"""Sandboxes for programs that wait for their answers."""

from __future__ import annotations

import threading
import time
from collections.abc import Generator, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Optional, TypeVar, Union

from typing_extensions import Self, Unpack

from .base import BaseSandbox
from .calls import BlockingCall, Event
from .connection import Connection
from .errors import CallbackError, ConnectionLostError, InvalidRequestError, SandboxError
from .guest import MAX_IN_FLIGHT, STOPPING_SECONDS, Ask, Guest, Options, PathLike, Steps
from .logger import SandboxLogger
from .models import FileEntry, GuestError, RuntimeType, SandboxResult, ToolCall
from .options import SandboxOptions, host_of, read_options
from .policy import ExecutionPolicy
from .snapshot import Snapshot
from .stream import OutputLine
from .tools import Host, describe

T = TypeVar("T")


class Sandbox(BaseSandbox):
    """One isolated interpreter. `PythonSandbox` and `JavaScriptSandbox` are of this kind.

    Every execution has a fresh interpreter, until a session begins with `initialize`, `restore` or
    a `session_id`; from then on variables live from one execution to the next. It is made at the
    server when it is used for the first time, may be used by several threads, and ends with
    `destroy` or `with`.
    """

    runtime: ClassVar[RuntimeType]

    def __init__(
        self,
        policy: Union[ExecutionPolicy, Mapping[str, Any], None] = None,
        workspace: Optional[PathLike] = None,
        logger: Optional[SandboxLogger] = None,
        **options: Unpack[SandboxOptions],
    ) -> None:
        read = read_options(self.runtime, policy, workspace, logger, options)
        super().__init__(read.policy, read.workspace, read.logger)
        self._given = options
        self._begin(read, host_of(read, options))

    def _begin(self, options: Options, host: Host) -> None:
        self._guest = Guest(options, host)
        self._opening = threading.Lock()
        self._turns = threading.BoundedSemaphore(MAX_IN_FLIGHT)

    @property
    def workspace(self) -> Path:
        """The directory that the code sees read-write."""
        if self._workspace is None:
            self._open()
            assert self._guest.workspace is not None  # an open one has one
            return self._guest.workspace
        return self._workspace

    @property
    def session_id(self) -> Optional[str]:
        """The name under which its state is kept, if it has one."""
        return self._guest.options.session_id

    @property
    def tool_descriptions(self) -> str:
        """Signatures and docstrings of its tools, for a prompt."""
        return describe(self._guest.options.tools)

    def execute(self, code: str, *, inject_setup: bool = True) -> SandboxResult:
        """Runs untrusted code. Whatever the code does, the answer is a result.

        Without `inject_setup` it runs in a fresh interpreter that has neither the workspace nor
        added packages on its search path. Raises only when Belljar or the caller failed.
        """
        result = self._ask(self._guest.execute(code, inject_setup))
        self._log_execution_metrics(result)
        return result

    def stream(self, code: str) -> ExecutionStream:
        """Runs code and gives its output line by line; `result` is there at the end.

        Needs a sandbox that was made with `stream=True`. Leaving early cancels the code.
        """
        if not self._guest.options.stream:
            raise InvalidRequestError(
                "this sandbox does not tell its output while code runs; nothing was run",
                hint="make it with stream=True",
            )
        return ExecutionStream(self, self._guest.execute(code))

    def validate_code(self, code: str) -> bool:
        """Whether the code compiles, by the interpreter's own judgement. Executes nothing."""
        return self._ask(self._guest.validate(code))

    def check_code(self, code: str) -> Optional[GuestError]:
        """The interpreter's complaint about code that does not compile. Executes nothing."""
        return self._ask(self._guest.check(code))

    def initialize(self, context: Any = None) -> None:
        """Begins a session, in which the variable `context` holds what is given here."""
        self._ask(self._guest.initialize(context))

    def get_variable(self, name: str, default: Any = None) -> Any:
        """A variable of the session; `default` when there is none.

        A value that JSON cannot carry comes as an `OpaqueValue`.
        """
        return self._ask(self._guest.get_variable(name, default))

    def complete(self, code: str, cursor: Optional[int] = None) -> list[str]:
        """What could stand at the cursor, or at the end of the code."""
        return self._ask(self._guest.complete(code, cursor))

    def pending_calls(self) -> list[ToolCall]:
        """The calls that a suspended execution waits for."""
        return self._ask(self._guest.pending_calls())

    def resume(self, answers: Mapping[int, Any]) -> SandboxResult:
        """Goes on with a suspended execution; answers are values or `ToolError`s."""
        result = self._ask(self._guest.resume(answers))
        self._log_execution_metrics(result)
        return result

    def cancel(self) -> None:
        """Stops what runs, from another thread or a tool; does nothing when nothing runs.

        Returns when it has ended. The session lives on.
        """
        connection = self._guest.connection
        if connection is not None:
            connection.stop(self._guest.number, connection.running(self._guest.number))

    def fork(self) -> Self:
        """A second session that goes on from here, in a copy of the workspace."""
        twin = object.__new__(type(self))
        BaseSandbox.__init__(twin, self.policy, None, self.logger)
        twin._given = self._given
        options = replace(self._guest.options, session_id=None, workspace=None)
        twin._begin(options, host_of(options, self._given))
        self._ask(self._guest.fork(twin._guest))
        return twin

    def snapshot(self, files: bool = True) -> Snapshot:
        """The session as a value, with the files of the workspace unless they are not wanted."""
        return self._ask(self._guest.snapshot(files))

    def restore(self, snapshot: Snapshot) -> None:
        """Becomes the session that a snapshot holds."""
        self._ask(self._guest.restore(snapshot))

    def list_files(self) -> list[FileEntry]:
        """Everything in the workspace."""
        return self._ask(self._guest.list_files())

    def read_file(self, path: PathLike) -> bytes:
        """What a file of the workspace holds."""
        return self._ask(self._guest.read_file(path))

    def write_file(self, path: PathLike, data: Union[bytes, str]) -> None:
        """Makes a file of the workspace hold these bytes, or this text as UTF-8."""
        self._ask(self._guest.write_file(path, data))

    def remove_file(self, path: PathLike) -> None:
        """Removes a file, or a directory with everything in it."""
        self._ask(self._guest.remove_file(path))

    def destroy(self) -> None:
        """Ends the sandbox and what runs in it. May be called again."""
        guest = self._guest
        with self._opening:
            connection = guest.connection
            if guest.is_gone or connection is None:
                guest.mark_destroyed()
                return
        self.cancel()
        try:
            _converse(self, connection, guest.destroy())
        except ConnectionLostError:
            return

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.destroy()

    def _ask(self, steps: Steps[T]) -> T:
        return _converse(self, self._open(), steps)

    def _open(self) -> Connection:
        guest = self._guest
        ready = guest.ready
        if ready is not None:
            return ready
        with self._opening:
            if not guest.is_open:
                connection = guest.options.engine.connect()
                _converse(self, connection, guest.create(connection))
            assert guest.connection is not None  # it has just been made
            return guest.connection

    def _listen(self, stream: str, text: str) -> None:
        given = self._given
        listener = given.get("on_stdout") if stream == "stdout" else given.get("on_stderr")
        if listener is not None:
            listener(text)


class PythonSandbox(Sandbox):
    """Runs Python: CPython compiled to WebAssembly, or what another backend has."""

    runtime = RuntimeType.PYTHON


class JavaScriptSandbox(Sandbox):
    """Runs JavaScript: QuickJS compiled to WebAssembly, or what another backend has."""

    runtime = RuntimeType.JAVASCRIPT


def create_sandbox(
    runtime: Union[RuntimeType, str] = RuntimeType.PYTHON,
    policy: Union[ExecutionPolicy, Mapping[str, Any], None] = None,
    workspace: Optional[PathLike] = None,
    logger: Optional[SandboxLogger] = None,
    **options: Unpack[SandboxOptions],
) -> Sandbox:
    """Makes a sandbox and starts it, so that what is wrong with it is told here.

    `SandboxOptions` lists everything that can be said about it.
    """
    # Checked first: an unknown runtime has no class.
    kind = read_options(runtime, policy, workspace, logger, options).runtime
    made = PythonSandbox if kind is RuntimeType.PYTHON else JavaScriptSandbox
    sandbox = made(policy, workspace, logger, **options)
    sandbox._open()
    return sandbox


class ExecutionStream(Iterator[OutputLine]):
    """The output of running code, line by line; then its `result`."""

    def __init__(self, sandbox: Sandbox, steps: Steps[SandboxResult]) -> None:
        self._sandbox = sandbox
        self._result: Optional[SandboxResult] = None
        self._lines = self._follow(sandbox._open(), steps)

    def __next__(self) -> OutputLine:
        return next(self._lines)

    @property
    def result(self) -> SandboxResult:
        """What the execution gave. Waits for its end."""
        for _ in self:
            pass
        if self._result is None:
            raise InvalidRequestError("the execution was left before its end, and has no result")
        return self._result

    def close(self) -> None:
        """Leaves. Code that still runs is cancelled."""
        self._lines.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _follow(
        self, connection: Connection, steps: Steps[SandboxResult]
    ) -> Generator[OutputLine, None, None]:
        call = _sent(self._sandbox, connection, next(steps))
        try:
            while True:
                stream, what = connection.wait(call)
                if stream is None:
                    break
                yield OutputLine(stream, what)
        finally:
            connection.stop_soon(call)
        try:
            steps.send(_checked(self._sandbox, what))
        except StopIteration as ended:
            self._result = ended.value
            self._sandbox._log_execution_metrics(ended.value)


def _converse(sandbox: Sandbox, connection: Connection, steps: Steps[T]) -> T:
    """Asks what the steps want to know, until they have come to an end."""
    try:
        ask = next(steps)
        while True:
            try:
                answer = _answer(sandbox, connection, ask)
            except SandboxError as error:
                ask = steps.throw(error)
            else:
                ask = steps.send(answer)
    except StopIteration as ended:
        value: T = ended.value
        return value


def _answer(sandbox: Sandbox, connection: Connection, ask: Ask) -> Any:
    with sandbox._turns:
        call = _sent(sandbox, connection, ask)
        try:
            outcome = _waited(sandbox, connection, call)
        except BaseException:
            # Ctrl-C, most likely: nobody waits for the code any more.
            connection.stop_soon(call)
            raise
    return _checked(sandbox, outcome)


def _sent(sandbox: Sandbox, connection: Connection, ask: Ask) -> BlockingCall:
    while connection.is_stopping(sandbox._guest.number):
        time.sleep(STOPPING_SECONDS)
    call = BlockingCall()
    runs_in = sandbox._guest.number if ask.runs else None
    connection.send(call, ask.method, ask.params, runs_in=runs_in)
    return call


def _waited(sandbox: Sandbox, connection: Connection, call: BlockingCall) -> Any:
    """The outcome. Listeners are told on this thread, where they may do as they like."""
    failed: Optional[Exception] = None
    event: Event = connection.wait(call)
    while event[0] is not None:
        if failed is None:
            try:
                sandbox._listen(event[0], event[1])
            except Exception as error:  # noqa: BLE001, it is passed on below
                failed = error
                connection.stop_soon(call)
        event = connection.wait(call)
    if failed is not None:
        raise CallbackError(f"a listener failed, so the code was cancelled: {failed}") from failed
    return event[1]


def _checked(sandbox: Sandbox, outcome: Any) -> Any:
    if isinstance(outcome, BaseException):
        if isinstance(outcome, ConnectionLostError):
            sandbox._guest.lost_while_waiting()
        raise outcome
    return outcome
