"""Sandboxes for programs with an event loop."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Optional, TypeVar, Union

from typing_extensions import Self, Unpack

from .calls import Event, LoopCall
from .connection import Connection
from .errors import CallbackError, ConnectionLostError, InvalidRequestError, SandboxError
from .guest import MAX_IN_FLIGHT, STOPPING_SECONDS, Ask, Guest, Options, PathLike, Steps
from .logger import SandboxLogger
from .models import FileEntry, GuestError, RuntimeType, SandboxResult, ToolCall
from .options import SandboxOptions, host_of, read_options
from .policy import ExecutionPolicy
from .snapshot import Snapshot
from .stream import OutputLine
from .tools import describe

T = TypeVar("T")


class AsyncSandbox:
    """The same as `Sandbox`, to be awaited.

    Tools and listeners may be coroutine functions; they run in the event loop. A task that is
    cancelled while it waits for an execution cancels the code.
    """

    def __init__(
        self,
        runtime: Union[RuntimeType, str] = RuntimeType.PYTHON,
        policy: Union[ExecutionPolicy, Mapping[str, Any], None] = None,
        workspace: Optional[PathLike] = None,
        logger: Optional[SandboxLogger] = None,
        **options: Unpack[SandboxOptions],
    ) -> None:
        read = read_options(runtime, policy, workspace, logger, options)
        self._given = options
        self._begin(read)

    def _begin(self, options: Options) -> None:
        self.runtime = options.runtime
        self.policy = options.policy
        self.logger = options.logger
        self._guest = Guest(options, host_of(options, self._given))
        self._here: Optional[_InLoop] = None

    @property
    def session_id(self) -> Optional[str]:
        """The name under which its state is kept, if it has one."""
        return self._guest.options.session_id

    @property
    def tool_descriptions(self) -> str:
        """Signatures and docstrings of its tools, for a prompt."""
        return describe(self._guest.options.tools)

    async def workspace(self) -> Path:
        """The directory that the code sees read-write."""
        await self._open()
        assert self._guest.workspace is not None  # an open one has one
        return self._guest.workspace

    async def execute(self, code: str, *, inject_setup: bool = True) -> SandboxResult:
        """Runs untrusted code. Whatever the code does, the answer is a result."""
        result = await self._ask(self._guest.execute(code, inject_setup))
        self.logger.log_execution_complete(result)
        return result

    def stream(self, code: str) -> AsyncExecutionStream:
        """Runs code and gives its output line by line; `result()` is there at the end.

        Needs a sandbox that was made with `stream=True`. Leaving early cancels the code.
        """
        if not self._guest.options.stream:
            raise InvalidRequestError(
                "this sandbox does not tell its output while code runs; nothing was run",
                hint="make it with stream=True",
            )
        return AsyncExecutionStream(self, self._guest.execute(code))

    async def validate_code(self, code: str) -> bool:
        """Whether the code compiles. Executes nothing."""
        return await self._ask(self._guest.validate(code))

    async def check_code(self, code: str) -> Optional[GuestError]:
        """The interpreter's complaint about code that does not compile. Executes nothing."""
        return await self._ask(self._guest.check(code))

    async def initialize(self, context: Any = None) -> None:
        """Begins a session, in which the variable `context` holds what is given here."""
        await self._ask(self._guest.initialize(context))

    async def get_variable(self, name: str, default: Any = None) -> Any:
        """A variable of the session; `default` when there is none."""
        return await self._ask(self._guest.get_variable(name, default))

    async def complete(self, code: str, cursor: Optional[int] = None) -> list[str]:
        """What could stand at the cursor, or at the end of the code."""
        return await self._ask(self._guest.complete(code, cursor))

    async def pending_calls(self) -> list[ToolCall]:
        """The calls that a suspended execution waits for."""
        return await self._ask(self._guest.pending_calls())

    async def resume(self, answers: Mapping[int, Any]) -> SandboxResult:
        """Goes on with a suspended execution; answers are values or `ToolError`s."""
        result = await self._ask(self._guest.resume(answers))
        self.logger.log_execution_complete(result)
        return result

    async def cancel(self) -> None:
        """Stops what runs; does nothing when nothing runs. Returns when it has ended."""
        connection, number = self._guest.connection, self._guest.number
        if connection is not None:
            running = connection.running(number)
            if running:
                await _in_thread(connection.stop, number, running)

    async def fork(self) -> Self:
        """A second session that goes on from here, in a copy of the workspace."""
        twin = object.__new__(type(self))
        twin._given = self._given
        twin._begin(replace(self._guest.options, session_id=None, workspace=None))
        await self._ask(self._guest.fork(twin._guest))
        return twin

    async def snapshot(self, files: bool = True) -> Snapshot:
        """The session as a value, with the files of the workspace unless they are not wanted."""
        return await self._ask(self._guest.snapshot(files))

    async def restore(self, snapshot: Snapshot) -> None:
        """Becomes the session that a snapshot holds."""
        await self._ask(self._guest.restore(snapshot))

    async def list_files(self) -> list[FileEntry]:
        """Everything in the workspace."""
        return await self._ask(self._guest.list_files())

    async def read_file(self, path: PathLike) -> bytes:
        """What a file of the workspace holds."""
        return await self._ask(self._guest.read_file(path))

    async def write_file(self, path: PathLike, data: Union[bytes, str]) -> None:
        """Makes a file of the workspace hold these bytes, or this text as UTF-8."""
        await self._ask(self._guest.write_file(path, data))

    async def remove_file(self, path: PathLike) -> None:
        """Removes a file, or a directory with everything in it."""
        await self._ask(self._guest.remove_file(path))

    async def destroy(self) -> None:
        """Ends the sandbox and what runs in it. May be called again."""
        guest = self._guest
        async with self._in_loop().opening:
            connection = guest.connection
            if guest.is_gone or connection is None:
                guest.mark_destroyed()
                return
        await self.cancel()
        try:
            await _converse(self, connection, guest.destroy())
        except ConnectionLostError:
            return

    async def __aenter__(self) -> Self:
        await self._open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.destroy()

    async def _ask(self, steps: Steps[T]) -> T:
        return await _converse(self, await self._open(), steps)

    async def _open(self) -> Connection:
        guest = self._guest
        guest.host.loop = asyncio.get_running_loop()
        ready = guest.ready
        if ready is not None:
            return ready
        async with self._in_loop().opening:
            if not guest.is_open:
                engine = guest.options.engine
                connection = engine.current or await _in_thread(engine.connect)
                making = asyncio.ensure_future(
                    _converse(self, connection, guest.create(connection))
                )
                # Whoever gives up now would not know the number of what is made.
                await asyncio.shield(making)
            assert guest.connection is not None  # it has just been made
            return guest.connection

    def _in_loop(self) -> _InLoop:
        """Locks belong to an event loop; a sandbox may outlive one."""
        loop = asyncio.get_running_loop()
        if self._here is None or self._here.loop is not loop:
            self._here = _InLoop(loop)
        return self._here

    async def _listen(self, stream: str, text: str) -> None:
        given = self._given
        listener = given.get("on_stdout") if stream == "stdout" else given.get("on_stderr")
        if listener is not None:
            told = listener(text)
            if inspect.isawaitable(told):
                await told


class AsyncExecutionStream(AsyncIterator[OutputLine]):
    """The output of running code, line by line; then its `result()`."""

    def __init__(self, sandbox: AsyncSandbox, steps: Steps[SandboxResult]) -> None:
        self._sandbox = sandbox
        self._result: Optional[SandboxResult] = None
        self._lines = self._follow(steps)

    async def __anext__(self) -> OutputLine:
        return await self._lines.__anext__()

    async def result(self) -> SandboxResult:
        """What the execution gave. Waits for its end."""
        async for _ in self:
            pass
        if self._result is None:
            raise InvalidRequestError("the execution was left before its end, and has no result")
        return self._result

    async def close(self) -> None:
        """Leaves. Code that still runs is cancelled."""
        await self._lines.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _follow(self, steps: Steps[SandboxResult]) -> AsyncGenerator[OutputLine, None]:
        connection = await self._sandbox._open()
        call = await _sent(self._sandbox, connection, next(steps))
        try:
            while True:
                stream, what = await call.next_event()
                if stream is None:
                    break
                yield OutputLine(stream, what)
        finally:
            connection.stop_soon(call)
        try:
            steps.send(_checked(self._sandbox, what))
        except StopIteration as ended:
            self._result = ended.value
            self._sandbox.logger.log_execution_complete(ended.value)


class _InLoop:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.opening = asyncio.Lock()
        self.turns = asyncio.Semaphore(MAX_IN_FLIGHT)


async def _in_thread(work: Any, *arguments: Any) -> Any:
    return await asyncio.get_running_loop().run_in_executor(None, work, *arguments)


async def _converse(sandbox: AsyncSandbox, connection: Connection, steps: Steps[T]) -> T:
    """Asks what the steps want to know, until they have come to an end."""
    try:
        ask = next(steps)
        while True:
            try:
                answer = await _answer(sandbox, connection, ask)
            except SandboxError as error:
                ask = steps.throw(error)
            else:
                ask = steps.send(answer)
    except StopIteration as ended:
        value: T = ended.value
        return value


async def _answer(sandbox: AsyncSandbox, connection: Connection, ask: Ask) -> Any:
    async with sandbox._in_loop().turns:
        call = await _sent(sandbox, connection, ask)
        try:
            outcome = await _waited(sandbox, connection, call)
        except BaseException:
            # The task was cancelled, most likely: nobody waits for the code any more.
            connection.stop_soon(call)
            raise
    return _checked(sandbox, outcome)


async def _sent(sandbox: AsyncSandbox, connection: Connection, ask: Ask) -> LoopCall:
    while connection.is_stopping(sandbox._guest.number):  # noqa: ASYNC110, a thread ends it
        await asyncio.sleep(STOPPING_SECONDS)
    call = LoopCall()
    runs_in = sandbox._guest.number if ask.runs else None
    connection.send(call, ask.method, ask.params, runs_in=runs_in)
    return call


async def _waited(sandbox: AsyncSandbox, connection: Connection, call: LoopCall) -> Any:
    failed: Optional[Exception] = None
    event: Event = await call.next_event()
    while event[0] is not None:
        if failed is None:
            try:
                await sandbox._listen(event[0], event[1])
            except Exception as error:  # noqa: BLE001, it is passed on below
                failed = error
                connection.stop_soon(call)
        event = await call.next_event()
    if failed is not None:
        raise CallbackError(f"a listener failed, so the code was cancelled: {failed}") from failed
    return event[1]


def _checked(sandbox: AsyncSandbox, outcome: Any) -> Any:
    if isinstance(outcome, BaseException):
        if isinstance(outcome, ConnectionLostError):
            sandbox._guest.lost_while_waiting()
        raise outcome
    return outcome
