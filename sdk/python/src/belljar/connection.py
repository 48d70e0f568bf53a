"""A `belljar serve` process, and the conversation with it.

Whoever asks writes by itself, and a thread that waits for its answer reads by itself, for all
others too: handing a line from thread to thread costs more than everything else. Where nobody does,
because coroutines wait or somebody has left, a thread of our own reads. Whoever reads never writes
meanwhile, never waits for somebody who does, and never runs anything of the caller's.
"""

from __future__ import annotations

import itertools
import json
import os
import select
import subprocess
import tempfile
import threading
import time
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from pathlib import Path
from queue import Empty
from typing import Any, Callable, Optional
from weakref import WeakSet, WeakValueDictionary

from . import wire
from .calls import BlockingCall, Call, Event, Forgotten, LoopCall
from .errors import (
    BinaryNotFoundError,
    ClosedError,
    ConnectionLostError,
    SandboxError,
    SandboxExecutionError,
    VersionMismatchError,
    from_wire,
)
from .tools import Host

#: How long a program may take to say who it is.
_HELLO_SECONDS = 30.0

#: How long a process may take to end what it has when its input has ended.
_FAREWELL_SECONDS = 5.0

#: What is about to begin does not hear a cancel, so it is said again after this time.
_CANCEL_AGAIN_SECONDS = 0.02

#: After this long whoever cancels stops waiting for the end of the code.
_CANCEL_SECONDS = 10.0

#: How long what a dead process has said may take to be read.
_LAST_LINES_SECONDS = 1.0

_READ_BYTES = 256 * 1024

#: How much of what the process said on its standard error is shown when it has ended.
_LAST_WORDS_BYTES = 2000

LOST = (
    "its sandboxes are gone with their variables and temporary workspaces; sessions with a name "
    "are as after their last execution, and the next new sandbox starts another process"
)


class Connection:
    """One child process and everything that was asked of it."""

    def __init__(self, binary: Path, env: Optional[Mapping[str, str]]) -> None:
        self._binary = binary
        self._words = tempfile.TemporaryFile()  # noqa: SIM115, closed with the connection
        try:
            self._process = subprocess.Popen(
                [str(binary), "serve", "--stdio"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._words,
                bufsize=0,
                # No session of its own: it would be scheduled apart from this program, and every
                # call would wait on a busy machine. Ctrl-C does not reach it, for it leaves our
                # process group by itself.
                env=None if env is None else dict(env),
            )
        except OSError as error:
            self._words.close()
            raise BinaryNotFoundError(
                f"{binary} cannot be started: {error}; nothing was run",
                hint="set BELLJAR_BIN to the belljar program",
            ) from error
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._input, self._output = self._process.stdin, self._process.stdout
        self._numbers = itertools.count(1)
        #: Held by whoever writes a line.
        self._pen = threading.Lock()
        #: Held for a moment by whoever looks at what follows; never while writing.
        self._books = threading.Lock()
        self._calls: dict[int, Call] = {}
        self._running: dict[int, deque[Call]] = {}
        #: How many are about to cancel what runs in a sandbox.
        self._stopping: Counter[int] = Counter()
        #: Whom the tools of a sandbox belong to.
        self.hosts: WeakValueDictionary[int, Host] = WeakValueDictionary()
        #: Sandboxes that were forgotten without being destroyed.
        self.abandoned: deque[int] = deque()
        self._lost: Optional[SandboxError] = None
        #: Held by whoever reads.
        self._reading = threading.Lock()
        #: Set when nobody may be there to read what is expected.
        self._reader_wanted = threading.Event()
        self._arrival = select.poll()
        self._arrival.register(self._output, select.POLLIN)
        #: From then on our own thread stays: they want to know at once when a tool is not wanted.
        self._has_coroutines = False
        self._begun: list[bytes] = []
        self._has_ended = False
        _connections.add(self)
        threading.Thread(target=self._read_for_others, name="belljar-reader", daemon=True).start()
        self._introduce()

    @property
    def is_alive(self) -> bool:
        """Whether something can be asked of it."""
        if self._lost is None and self._process.poll() is not None:
            self._collect()
        return self._lost is None

    @property
    def pid(self) -> int:
        """The child's process."""
        return self._process.pid

    def send(
        self, call: Call, method: str, params: dict[str, Any], *, runs_in: Optional[int] = None
    ) -> None:
        """Asks. The call is told what comes of it, whatever that is."""
        number = next(self._numbers)
        line = wire.request(number, method, params)
        with self._pen:
            self._destroy_abandoned()
            self._expect(number, call, runs_in)
            self._write(line)
        if not isinstance(call, BlockingCall):
            self._has_coroutines = self._has_coroutines or isinstance(call, LoopCall)
            self._reader_wanted.set()

    def wait(self, call: BlockingCall) -> Event:
        """The next thing that happens to a call; reads, unless somebody else does."""
        if not self._reading.acquire(blocking=False):
            return call.next_event()
        try:
            while call.is_silent:
                # Takes nothing yet: this is where Ctrl-C is harmless.
                self._arrival.poll()
                self._take()
        finally:
            self._leave_reading()
        return call.next_event()

    def reply(self, line: bytes) -> None:
        """Answers something the server has asked."""
        with self._pen:
            if self._lost is None:
                self._write(line)

    def running(self, sandbox: int) -> list[Call]:
        """What was asked to run in a sandbox and has not ended."""
        with self._books:
            return list(self._running.get(sandbox, ()))

    def is_stopping(self, sandbox: int) -> bool:
        """Whether a cancel may be on its way, which would hit what is asked for next."""
        return sandbox in self._stopping

    def stop(self, sandbox: int, calls: Iterable[Call]) -> None:
        """Cancels until these have ended."""
        with self._books:
            self._stopping[sandbox] += 1
        self._insist(sandbox, list(calls))

    def stop_soon(self, call: Call) -> None:
        """The same without waiting for it."""
        sandbox = call.runs_in
        if sandbox is not None and not call.ended:
            with self._books:
                self._stopping[sandbox] += 1
            _in_background(lambda: self._insist(sandbox, [call]))

    def _insist(self, sandbox: int, calls: list[Call]) -> None:
        deadline = time.monotonic() + _CANCEL_SECONDS
        try:
            while not all(call.ended for call in calls) and time.monotonic() < deadline:
                self.send(Forgotten(), "cancel", {"sandbox": sandbox})
                time.sleep(_CANCEL_AGAIN_SECONDS)
        except SandboxError:
            # The process is gone, and with it what was to be stopped.
            return
        finally:
            with self._books:
                self._stopping -= Counter([sandbox])

    def close(self) -> None:
        """Ends the process and waits until it has ended. What runs is cancelled."""
        with self._books:
            if self._lost is None:
                self._lost = ClosedError("the engine was closed; its sandboxes are gone")
        self._hang_up()
        try:
            self._process.wait(_FAREWELL_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._collect()

    def close_soon(self) -> None:
        """The same without waiting for it."""
        _in_background(self.close)

    def leave_to_parent(self) -> None:
        """After a fork: the process is the parent's, and ends when the parent's pipe does."""
        # The threads that may have held these do not exist here.
        self._pen, self._books = threading.Lock(), threading.Lock()
        self._reading, self._reader_wanted = threading.Lock(), threading.Event()
        self._has_ended = True
        self._lost = ClosedError(
            "this sandbox belongs to the process that this one was forked from; it lives on there",
            hint="make a new sandbox in the forked process",
        )
        # Whoever else holds the pipe would keep the process alive.
        self._input.close()
        self._output.close()
        self._words.close()
        # It is not ours to wait for.
        self._process.returncode = 0

    def lost_error(self) -> SandboxError:
        """A new error that says what became of this connection."""
        lost = self._lost
        if lost is None:
            return ConnectionLostError("the connection is being closed")
        return type(lost)(lost.message, kind=lost.kind, hint=lost.hint)

    def _introduce(self) -> None:
        try:
            hello = self._hello()
        except SandboxError as error:
            self.close()
            raise SandboxExecutionError(
                f"{self._binary} does not serve sandboxes: {error.message}", kind="protocol"
            ) from error
        if hello.get("protocol") != wire.PROTOCOL_VERSION:
            self.close()
            raise VersionMismatchError(
                f"{self._binary} is belljar {hello.get('belljar')} and speaks version "
                f"{hello.get('protocol')} of the protocol, but this package speaks version "
                f"{wire.PROTOCOL_VERSION}; nothing was run",
                hint="install package and program of the same version, or unset BELLJAR_BIN",
            )

    def _hello(self) -> dict[str, Any]:
        call = BlockingCall()
        self.send(call, "hello", {})
        self._reader_wanted.set()
        try:
            _, outcome = call.next_event(timeout=_HELLO_SECONDS)
        except Empty:
            raise ConnectionLostError(f"it says nothing for {_HELLO_SECONDS:.0f} s") from None
        if isinstance(outcome, SandboxError):
            raise outcome
        return outcome if isinstance(outcome, dict) else {}

    def _expect(self, number: int, call: Call, runs_in: Optional[int]) -> None:
        with self._books:
            if self._lost is not None:
                raise self.lost_error()
            self._calls[number] = call
            if runs_in is not None:
                call.runs_in = runs_in
                self._running.setdefault(runs_in, deque()).append(call)

    def _write(self, line: bytes) -> None:
        """Writes all of a line. The pen is held."""
        rest = memoryview(line)
        try:
            while rest:
                rest = rest[os.write(self._input.fileno(), rest) :]
        except (OSError, ValueError):
            # It does not read any more. The thread that reads finds out and tells everybody.
            self._process.kill()
        except BaseException:
            if len(rest) != len(line):
                # Half a line cannot be taken back.
                self._process.kill()
            raise

    def _destroy_abandoned(self) -> None:
        """Not by whoever forgot it: that is the garbage collector, at any moment."""
        while self.abandoned:
            sandbox = self.abandoned.popleft()
            number = next(self._numbers)
            self._expect(number, Forgotten(), None)
            self._write(wire.request(number, "destroy", {"sandbox": sandbox}))

    def _read_for_others(self) -> None:
        while not self._has_ended:
            self._reader_wanted.wait()
            self._reader_wanted.clear()
            self._reading.acquire()
            while not self._leave_reading(if_idle=True):
                self._take()

    def _leave_reading(self, if_idle: bool = False) -> bool:
        """Lets others read; with `if_idle` only when nothing is expected, else `False`.

        Whoever asks is in the books before it looks for somebody who reads: nobody is missed.
        """
        with self._books:
            is_idle = not self._calls and not self._has_coroutines
            if if_idle and not is_idle and not self._has_ended:
                return False
            self._reading.release()
        if not is_idle:
            self._reader_wanted.set()
        return True

    def _collect(self) -> None:
        """Reads what a process that has ended has left, if nobody else does."""
        if not self._reading.acquire(blocking=False):
            return
        try:
            while not self._has_ended:
                if not self._arrival.poll(_LAST_LINES_SECONDS * 1000):
                    self._end(None)
                    return
                self._take()
        finally:
            self._leave_reading()

    def _take(self) -> None:
        """Reads what is there, or waits for it, and tells whom it concerns."""
        try:
            part = os.read(self._output.fileno(), _READ_BYTES)
            if part:
                self._begun.append(part)
                if b"\n" in part:
                    lines = b"".join(self._begun).split(b"\n")
                    self._begun = [lines.pop()]
                    for line in lines:
                        if line:
                            self._hear(json.loads(line))
                return
            problem = None
        except (OSError, ValueError) as error:
            problem = f"its answer makes no sense: {error}"
        except BaseException:
            # Ctrl-C in the middle: nobody knows what was told, and what was not.
            self._process.kill()
            raise
        self._process.kill()
        self._end(problem)

    def _hear(self, message: Any) -> None:
        if not isinstance(message, dict):
            raise ValueError("a message that is no object")  # noqa: TRY004, as other nonsense
        if "method" in message:
            self._asked(message)
            return
        with self._books:
            call = self._calls.pop(message.get("id", 0), None)
            if call is None:
                # Whoever waits for the answer to that line would wait forever.
                raise ValueError(f"it does not say what it is about: {message}")
            if call.runs_in is not None:
                queue = self._running[call.runs_in]
                queue.remove(call)
                if not queue:
                    del self._running[call.runs_in]
        error = message.get("error")
        call.end(message.get("result") if error is None else from_wire(error))

    def _asked(self, message: dict[str, Any]) -> None:
        method, params = message["method"], message.get("params") or {}
        sandbox = int(params.get("sandbox", 0))
        if method in ("stdout", "stderr"):
            for call in self.running(sandbox)[:1]:
                # Requests of one sandbox are served in their order: it is the oldest that talks.
                call.tell((method, params.get("text", "")))
            return
        if method == "tool.drop":
            for each in list(self.hosts.values()):
                each.drop(params.get("id"))
            return
        host = self.hosts.get(sandbox)
        number = message.get("id")
        if host is None:
            _in_background(lambda: self.reply(wire.refusal(number, "the sandbox is gone")))
        else:
            host.serve(number, method, params, self.reply)

    def _end(self, problem: Optional[str]) -> None:
        code = self._process.wait()
        if problem is None:
            how = f"killed by signal {-code}" if code < 0 else f"with exit code {code}"
            problem = f"it ended, {how}"
        message = f"the belljar process {self.pid} was lost: {problem}{self._last_words()}; {LOST}"
        with self._books:
            if self._lost is None:
                self._lost = ConnectionLostError(message)
            waiting, self._calls = list(self._calls.values()), {}
            self._running.clear()
        for call in waiting:
            call.end(self.lost_error())
        self._has_ended = True
        self._reader_wanted.set()
        self._hang_up()
        self._output.close()
        self._words.close()

    def _hang_up(self) -> None:
        """No more lines. Somebody may be writing one, to a process that has stopped reading."""
        if not self._pen.acquire(timeout=_FAREWELL_SECONDS):
            self._process.kill()
            self._pen.acquire()
        self._input.close()
        self._pen.release()

    def _last_words(self) -> str:
        size = self._words.seek(0, os.SEEK_END)
        self._words.seek(max(0, size - _LAST_WORDS_BYTES))
        words = self._words.read().decode("utf-8", "replace").strip()
        return f" ({words})" if words else ""


def _in_background(work: Callable[[], None]) -> None:
    try:
        threading.Thread(target=work, daemon=True).start()
    except RuntimeError:
        # The interpreter is ending, and the process with it.
        return


_connections: WeakSet[Connection] = WeakSet()


def all_connections() -> tuple[Connection, ...]:
    """Those of this process."""
    return tuple(_connections)
